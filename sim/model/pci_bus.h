// SPDX-License-Identifier: Apache-2.0
// One PCI segment with two agents, the card and the host bridge. It resolves their outputs into the
// levels that both sample, and checks every clock against the rules of PCI 2.3. It is 32 or 64 bits
// wide. A 32-bit segment does not connect the lines of the 64-bit extension.
#pragma once
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace hvia {

// Shared lines. All control lines are active low.
enum PciLine : uint16_t {
  kPciFrame = 1,
  kPciIrdy = 2,
  kPciTrdy = 4,
  kPciDevsel = 8,
  kPciStop = 16,
  kPciPar = 32,
  kPciAd = 64,
  kPciCbe = 128,
  kPciReq64 = 256,
  kPciAck64 = 512,
  kPciPar64 = 1024,
  kPciPerr = 2048,
};
constexpr uint16_t kPciControl = kPciFrame | kPciIrdy | kPciTrdy | kPciDevsel | kPciStop | kPciReq64 | kPciAck64 | kPciPerr;

// PciDrive holds one agent's outputs during one clock. `high` holds the level of each line in `oe`,
// except kPciAd and kPciCbe.
struct PciDrive {
  uint64_t ad = 0;
  uint8_t cbe_n = 0;
  uint16_t oe = 0;
  uint16_t high = kPciControl;
  bool req_n = true;
  bool serr_n = true;      // open drain
  bool bad_par = false;    // PAR is wrong on purpose: no violation
  bool bad_par64 = false;  // PAR64 likewise

  void Set(uint16_t line, bool level) { high = static_cast<uint16_t>(level ? high | line : high & ~line); }
  bool operator==(const PciDrive& o) const {
    return ad == o.ad && cbe_n == o.cbe_n && oe == o.oe && high == o.high && req_n == o.req_n && serr_n == o.serr_n && bad_par == o.bad_par &&
           bad_par64 == o.bad_par64;
  }
};

// PciPins holds the levels that every agent samples at the end of that clock.
struct PciPins {
  uint64_t ad = 0;
  uint8_t cbe_n = 0;
  uint16_t high = kPciControl;
  bool gnt_n = true;  // to the card
  bool req_n = true;  // from the card
  bool serr_n = true;
  bool idsel = false;

  bool frame_n() const { return high & kPciFrame; }
  bool irdy_n() const { return high & kPciIrdy; }
  bool trdy_n() const { return high & kPciTrdy; }
  bool devsel_n() const { return high & kPciDevsel; }
  bool stop_n() const { return high & kPciStop; }
  bool par() const { return high & kPciPar; }
  bool req64_n() const { return high & kPciReq64; }
  bool ack64_n() const { return high & kPciAck64; }
  bool par64() const { return high & kPciPar64; }
  bool perr_n() const { return high & kPciPerr; }
  bool idle() const { return (high & (kPciFrame | kPciIrdy)) == (kPciFrame | kPciIrdy); }
};

// PciParity returns the even parity for PAR.
inline bool PciParity(uint64_t ad, uint8_t cbe_n) { return __builtin_parity(static_cast<uint32_t>(ad) ^ (uint32_t{cbe_n} & 15u)); }
// PciParity64 returns it for PAR64, over the upper halves.
inline bool PciParity64(uint64_t ad, uint8_t cbe_n) { return __builtin_parity(static_cast<uint32_t>(ad >> 32) ^ (uint32_t{cbe_n} >> 4)); }

// PciHas64: a Verilated top has the pins of the 64-bit extension.
template <class Top, class = void>
struct PciHas64 : std::false_type {};
template <class Top>
struct PciHas64<Top, std::void_t<decltype(std::declval<Top&>().req64_n_o)>> : std::true_type {};

// PciCardDrive reads the outputs of a Verilated top with pci_interface's pin names.
template <class Top>
PciDrive PciCardDrive(const Top& top) {
  PciDrive d;
  d.ad = top.ad_o;
  d.cbe_n = top.cbe_n_o;
  d.oe = static_cast<uint16_t>((top.frame_n_oe ? kPciFrame : 0) | (top.irdy_n_oe ? kPciIrdy : 0) | (top.trdy_n_oe ? kPciTrdy : 0) |
                              (top.devsel_n_oe ? kPciDevsel : 0) | (top.stop_n_oe ? kPciStop : 0) | (top.par_oe ? kPciPar : 0) | (top.perr_n_oe ? kPciPerr : 0) |
                              (top.ad_oe ? kPciAd : 0) | (top.cbe_n_oe ? kPciCbe : 0));
  d.high = static_cast<uint16_t>((top.frame_n_o ? kPciFrame : 0) | (top.irdy_n_o ? kPciIrdy : 0) | (top.trdy_n_o ? kPciTrdy : 0) |
                                (top.devsel_n_o ? kPciDevsel : 0) | (top.stop_n_o ? kPciStop : 0) | (top.par_o ? kPciPar : 0) |
                                (top.perr_n_o ? kPciPerr : 0));
  if constexpr (PciHas64<Top>::value) {
    d.oe = static_cast<uint16_t>(d.oe | (top.req64_n_oe ? kPciReq64 : 0) | (top.par64_oe ? kPciPar64 : 0));
    d.high = static_cast<uint16_t>(d.high | kPciAck64 | (top.req64_n_o ? kPciReq64 : 0) | (top.par64_o ? kPciPar64 : 0));
  } else {
    d.high = static_cast<uint16_t>(d.high | kPciAck64 | kPciReq64);
  }
  d.req_n = top.req_n_o;
  d.serr_n = !top.serr_n_oe;
  return d;
}

// PciCardSample sets the pins that the top samples at its next clock edge.
template <class Top>
void PciCardSample(const PciPins& p, Top* top) {
  using Data = std::remove_reference_t<decltype(top->ad_i)>;
  top->ad_i = static_cast<Data>(p.ad);
  top->cbe_n_i = sizeof(Data) == 8 ? p.cbe_n : p.cbe_n & 15;
  if constexpr (PciHas64<Top>::value) {
    top->par64_i = p.par64();
    top->ack64_n_i = p.ack64_n();
  }
  top->par_i = p.par();
  top->frame_n_i = p.frame_n();
  top->irdy_n_i = p.irdy_n();
  top->trdy_n_i = p.trdy_n();
  top->devsel_n_i = p.devsel_n();
  top->stop_n_i = p.stop_n();
  top->perr_n_i = p.perr_n();
  top->gnt_n_i = p.gnt_n;
  top->idsel_i = p.idsel;
}

struct PciStatistics {
  uint64_t clocks = 0;             // clocks seen, skipped ones included
  uint64_t busy_clocks = 0;        // FRAME# or IRDY# asserted
  uint64_t card_transactions = 0;  // as master
  uint64_t bridge_transactions = 0;
  uint64_t card_dwords = 0;  // moved by the card as master
  uint64_t bridge_dwords = 0;
  uint64_t wide_transactions = 0;    // REQ64# and ACK64#
  uint64_t narrow_transactions = 0;  // REQ64# without ACK64#
  uint64_t retries = 0;      // transactions ended by STOP# without data
  uint64_t disconnects = 0;  // ended by STOP# after data
  uint64_t master_aborts = 0;
  uint64_t target_aborts = 0;
  uint64_t bad_parity = 0;  // address phases and dwords for the card with PAR wrong on purpose
  uint64_t perr = 0;        // clocks in which the card asserted PERR#
  uint64_t serr = 0;        // likewise SERR#
  uint64_t bridge_perr = 0; // likewise the bridge PERR#
};

class PciBus {
 public:
  explicit PciBus(int bits = 32);  // 32 or 64
  // Resolves one clock. gnt_n and idsel go from the bridge to the card.
  const PciPins& Clock(const PciDrive& card, const PciDrive& bridge, bool gnt_n, bool idsel);
  // RST#: all agents release the bus. Unfinished transactions are no violation.
  void Reset();
  // Skips clocks in which neither agent changed anything.
  void Skip(uint64_t clocks) { stats_.clocks += clocks; }

  int bits() const { return bits_; }
  const PciPins& pins() const { return now_; }
  const PciStatistics& statistics() const { return stats_; }
  // Violations, with their clocks. violations() holds the texts of the first ones.
  uint64_t violation_count() const { return violation_count_; }
  const std::vector<std::string>& violations() const { return violations_; }

 private:
  enum Agent : uint8_t { kNone, kCard, kBridge };
  void Check(const PciDrive& card, const PciDrive& bridge);
  void CheckMaster(const PciDrive& master, const PciDrive& other);
  void CheckTarget();
  void CheckParity(const PciDrive& card, const PciDrive& bridge);
  void Begin(const PciDrive& card, const PciDrive& bridge);
  void Account();
  void Violation(const char* rule);
  // REQ64#, and the target has not answered with 32 bits.
  bool MaybeWide() const { return asked64_ && (wide_ || !selected_); }

  int bits_;
  uint64_t ad_mask_;                  // existing lines
  uint16_t line_mask_;
  uint8_t cbe_mask_;
  PciPins was_, now_;                 // the clock before, this clock
  PciDrive was_card_, was_bridge_;
  bool steady_ = false;               // idle, no check is due while nothing changes
  PciStatistics stats_;
  uint64_t violation_count_ = 0;
  std::vector<std::string> violations_;

  // The transaction in flight
  Agent master_ = kNone;
  uint8_t command_ = 0;
  uint32_t address_ = 0;
  bool read_ = false;
  bool address_phase_ = false;   // was_ is its address phase
  bool asked64_ = false;         // REQ64#
  bool wide_ = false;            // ACK64# came with DEVSEL#
  bool selected_ = false;        // DEVSEL# has been seen
  bool stopped_ = false;         // STOP# has been seen
  bool target_abort_ = false;
  bool master_abort_ = false;
  uint64_t begin_ = 0;           // clock of the address phase
  uint64_t phase_begin_ = 0;     // first clock of the data phase
  uint64_t moved_ = 0;           // dwords
  // Its aftereffects
  bool perr_next_ = false;       // the card received data with bad parity two clocks before
  bool backoff_next_ = false;    // the card must keep REQ# high in this clock
  int floating_ = 0;             // idle clocks in which AD floats
  int unused_grant_ = 0;
};

}  // namespace hvia

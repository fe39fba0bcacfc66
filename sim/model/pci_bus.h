// SPDX-License-Identifier: Apache-2.0
// One PCI segment with two agents, the card and the host bridge: resolves what
// they drive into what they sample, and holds every clock against the rules of
// PCI 2.2.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace hvia {

// Shared lines. All control lines are active low.
enum PciLine : uint8_t {
  kPciFrame = 1,
  kPciIrdy = 2,
  kPciTrdy = 4,
  kPciDevsel = 8,
  kPciStop = 16,
  kPciPar = 32,
  kPciAd = 64,
  kPciCbe = 128,
};
constexpr uint8_t kPciControl = kPciFrame | kPciIrdy | kPciTrdy | kPciDevsel | kPciStop;

// PciDrive is what one agent puts on the bus during one clock. `high` holds
// the level of each line in `oe` (for kPciAd and kPciCbe it has no meaning).
struct PciDrive {
  uint32_t ad = 0;
  uint8_t cbe_n = 0;
  uint8_t oe = 0;
  uint8_t high = kPciControl;
  bool req_n = true;
  bool bad_par = false;  // PAR is wrong on purpose: the bus must not call it a violation

  void Set(uint8_t line, bool level) { high = static_cast<uint8_t>(level ? high | line : high & ~line); }
  bool operator==(const PciDrive& o) const {
    return ad == o.ad && cbe_n == o.cbe_n && oe == o.oe && high == o.high && req_n == o.req_n && bad_par == o.bad_par;
  }
};

// PciPins is what every agent samples at the end of that clock.
struct PciPins {
  uint32_t ad = 0;
  uint8_t cbe_n = 0;
  uint8_t high = kPciControl;
  bool gnt_n = true;  // to the card
  bool req_n = true;  // from the card
  bool idsel = false;

  bool frame_n() const { return high & kPciFrame; }
  bool irdy_n() const { return high & kPciIrdy; }
  bool trdy_n() const { return high & kPciTrdy; }
  bool devsel_n() const { return high & kPciDevsel; }
  bool stop_n() const { return high & kPciStop; }
  bool par() const { return high & kPciPar; }
  bool idle() const { return (high & (kPciFrame | kPciIrdy)) == (kPciFrame | kPciIrdy); }
};

// PciParity is the value of PAR that makes the number of ones even.
inline bool PciParity(uint32_t ad, uint8_t cbe_n) { return __builtin_parity(ad ^ (uint32_t{cbe_n} & 15u)); }

// PciCardDrive reads the pins of a Verilated top that has pci_interface's pin names.
template <class Top>
PciDrive PciCardDrive(const Top& top) {
  PciDrive d;
  d.ad = top.ad_o;
  d.cbe_n = top.cbe_n_o;
  d.oe = static_cast<uint8_t>((top.frame_n_oe ? kPciFrame : 0) | (top.irdy_n_oe ? kPciIrdy : 0) | (top.trdy_n_oe ? kPciTrdy : 0) |
                              (top.devsel_n_oe ? kPciDevsel : 0) | (top.stop_n_oe ? kPciStop : 0) | (top.par_oe ? kPciPar : 0) |
                              (top.ad_oe ? kPciAd : 0) | (top.cbe_n_oe ? kPciCbe : 0));
  d.high = static_cast<uint8_t>((top.frame_n_o ? kPciFrame : 0) | (top.irdy_n_o ? kPciIrdy : 0) | (top.trdy_n_o ? kPciTrdy : 0) |
                                (top.devsel_n_o ? kPciDevsel : 0) | (top.stop_n_o ? kPciStop : 0) | (top.par_o ? kPciPar : 0));
  d.req_n = top.req_n_o;
  return d;
}

// PciCardSample gives such a top the pins to sample at its next clock edge.
template <class Top>
void PciCardSample(const PciPins& p, Top* top) {
  top->ad_i = p.ad;
  top->cbe_n_i = p.cbe_n;
  top->par_i = p.par();
  top->frame_n_i = p.frame_n();
  top->irdy_n_i = p.irdy_n();
  top->trdy_n_i = p.trdy_n();
  top->devsel_n_i = p.devsel_n();
  top->stop_n_i = p.stop_n();
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
  uint64_t retries = 0;      // transactions ended by STOP# without data
  uint64_t disconnects = 0;  // ended by STOP# after data
  uint64_t master_aborts = 0;
  uint64_t target_aborts = 0;
  uint64_t bad_parity = 0;  // address phases and dwords that the card received with PAR wrong on purpose
};

class PciBus {
 public:
  // Resolves one clock. gnt_n and idsel go from the bridge to the card.
  const PciPins& Clock(const PciDrive& card, const PciDrive& bridge, bool gnt_n, bool idsel);
  // The clocks of a span in which neither agent changed anything.
  void Skip(uint64_t clocks) { stats_.clocks += clocks; }

  const PciPins& pins() const { return now_; }
  const PciStatistics& statistics() const { return stats_; }
  // Broken rules, with the clock; the first ones in words.
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

  PciPins was_, now_;                 // the clock before, this clock
  PciDrive was_card_, was_bridge_;
  bool steady_ = false;               // idle, and nothing to be checked while nothing changes
  PciStatistics stats_;
  uint64_t violation_count_ = 0;
  std::vector<std::string> violations_;

  // The transaction under way
  Agent master_ = kNone;
  uint8_t command_ = 0;
  uint32_t address_ = 0;
  bool read_ = false;
  bool address_phase_ = false;   // was_ is its address phase
  bool selected_ = false;        // DEVSEL# has been seen
  bool stopped_ = false;         // STOP# has been seen
  bool target_abort_ = false;
  bool master_abort_ = false;
  uint64_t begin_ = 0;           // clock of the address phase
  uint64_t phase_begin_ = 0;     // first clock of the data phase
  uint64_t moved_ = 0;           // dwords
  // What remains of it
  bool backoff_next_ = false;    // the card must keep REQ# away in this clock
  int floating_ = 0;             // idle clocks with nobody on AD
  int unused_grant_ = 0;
};

}  // namespace hvia

// SPDX-License-Identifier: Apache-2.0
// A host's card as Verilated RTL, with the chips around it: PCI segment and host bridge, SDRAM, and
// the MAC on a second PCI bus. Drives the card's three clocks, and skips the edges of a domain at
// which nothing would change.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "sim/card/quiet_check.h"
#include "sim/card/wave.h"
#include "sim/fabric/host_memory.h"
#include "sim/fabric/node.h"
#include "sim/fabric/recorder.h"
#include "sim/model/dp83820.h"
#include "sim/model/host_bridge.h"
#include "sim/model/pci_bus.h"
#include "sim/model/pci_enumerator.h"
#include "sim/model/sdram_chip.h"

class Vcard_socket;
class VerilatedContext;

namespace hvia::fabric {

struct CardOptions {
  bool skip_quiet = true;  // skip clock edges at which nothing changes
  uint32_t strap = 0;
  std::string wave;        // FST file, empty = none; with QuietCheck, only the last levels as text
  Recorder* recorder = nullptr;
};

class CardNode : public Node {
 public:
  CardNode(const Surroundings& s, const CardOptions& options);
  ~CardNode() override;

  Time BootSpan() const override;
  void Boot(Time start) override;
  std::string NotReady() const override;
  Time NextEvent() const override;
  void Step(Time t) override;
  bool Quiescent() const override;
  Time NextVisible() const override;
  bool PassOver(Time until) override;
  void HostWrite(Time t, int slot, uint32_t address, const uint32_t* data, int count) override;
  void HostRead(Time t, int slot, uint32_t address) override;
  bool BusReset(Time t, Time span) override;
  bool InterruptLevel() const override;
  void Finish() override;
  uint64_t Clocks() const override { return clocks_; }
  void Deliver(Frame frame) override;
  void DeliverDamaged(Frame frame) override;

 private:
  // A clock: edges at origin + phase + n * period.
  struct Clock {
    Time period = 0;
    Time first = 0;     // time of edge 0
    Time next = first;  // the last requested edge
    // First edge at or after t.
    Time AtOrAfter(Time t) const {
      if (t <= first) return first;
      return first + (t - first + period - 1) / period * period;
    }
    // AtOrAfter for times that never decrease, mostly without a division.
    Time Next(Time t) {
      if (t > next) next = t <= next + period ? next + period : AtOrAfter(t);
      return next;
    }
    uint64_t Count(Time t) const { return static_cast<uint64_t>((t - first) / period); }
  };

  // The models act before the card's registers change. The bus checks follow after the edge.
  void BeforeSystemEdge(Time t);
  void AfterSystemEdge(Time t);
  // Advances the PCI models by the skipped system clocks before t.
  void CatchUp(Time t);
  void BeforeSdramEdge(Time t);
  void CountRefresh();
  void BeforeMacEdge(Time t);
  void AfterMacEdge(Time t);
  void TakeSent(Time t);
  // Drives the card's inputs from the models at the next edge. Load drives them at once, and the
  // lines of the bus lose their old levels.
  void DriveSystem();
  void DriveMac(const PciDrive& chip);
  void LoadLink(bool up);
  void LoadSystem();
  void LoadMac(const PciDrive& chip);
  // The blocks' clocks at a system edge.
  uint32_t BlockClocks() const;
  // What the registers of the system's segment take at an edge: the bridge's outputs and the lines.
  using SegmentInputs = std::tuple<PciDrive, bool, bool, uint64_t, uint8_t, uint16_t>;
  SegmentInputs BusInputs() const;
  // Evaluates the Verilated model.
  void Evaluate();
  void TakeResults(Time t);
  // True while the card claims no address: its bus is in reset, or the card has no address.
  bool Unconfigured() const;
  void TakeTrace();
  void CheckModels(Time t);
  // Checks that the Verilated model shows the lines that the PCI model computed.
  void CheckLines(Time t, const char* bus, const PciPins& shown, const PciPins& want);
  void Dump(Time t);
  // Earliest edge of each domain that must not be skipped.
  struct NextEdges {
    Time system, sdram, mac;
  };
  const NextEdges& Next() const;
  Time NextSystem() const;
  Time NextSdram() const;
  Time NextMac() const;
  // Time of the next link change at the PHY.
  Time NextLink() const { return s_.link.Connected() ? s_.link.link->NextChange(done_) : kNever; }
  Time NextEdge(Clock& c) const { return c.Next(Undone()); }
  // The next edge not before the edge with the number.
  Time NextEdge(Clock& c, uint64_t number) const {
    const Time at = c.first + static_cast<Time>(number) * c.period;
    return at >= Undone() ? at : NextEdge(c);
  }
  Time Undone() const { return now_ > done_ ? now_ : done_ + 1; }
  // Whether something would change at the domain's next edge.
  bool SystemWork() const;
  bool SdramWork() const;
  bool MacWork() const;
  // Whether the domain's next edge is evaluated.
  bool SystemActive() const { return !options_.skip_quiet || SystemWork(); }
  bool SdramActive() const { return !options_.skip_quiet || SdramWork(); }
  bool MacActive() const { return !options_.skip_quiet || MacWork(); }

  const Surroundings s_;
  const CardOptions options_;
  std::unique_ptr<VerilatedContext> context_;
  std::unique_ptr<Vcard_socket> top_;
  std::unique_ptr<Wave> wave_;
  std::unique_ptr<QuietCheck> quiet_check_;

  PciBus bus_;
  HostBridge bridge_;
  uint16_t spoil_write_ = 0;  // of the next store, as HostCommand::bad_parity
  std::unique_ptr<PciEnumerator> enumerator_;
  std::unique_ptr<SdramChip> sdram_;
  PciPins pins_;
  static constexpr uint32_t kBusClock = 1;   // of the card's PCI side and its segment
  std::optional<SegmentInputs> bus_taken_;   // at the last such clock

  mutable Clock system_, sdram_clock_, mac_;
  enum Domain : unsigned { kSystem = 1, kSdram = 2, kMac = 4 };
  unsigned high_ = 0;      // domains whose clock is high in the model
  // Cached: queried several times between two changes.
  mutable NextEdges next_ = {};
  mutable bool next_known_ = false;
  Time origin_ = 0;
  Time now_ = INT64_MIN;   // latest time seen in any call
  Time done_ = INT64_MIN;  // edges up to here are done
  Time last_system_ = 0;   // last system edge evaluated
  bool in_reset_ = true;   // the first reset, after power-up
  Time reset_end_ = 0;     // RST# rises with the first system edge at or after this time
  uint64_t edges_ = 0;     // evaluated so far, all domains
  uint64_t clocks_ = 0;    // of them those of the system
  uint64_t refresh_ = 0;   // SDRAM clock at which the next refresh is due
  Time refresh_span_ = 0;  // from the last refresh to the next
  int refreshes_ = 0;      // at such spans, since the last other event

  PciBus mac_bus_;
  Dp83820 mac_chip_;
  PciPins mac_pins_;
  bool chip_ran_ = false;  // the chip has sampled the present MAC edge
  Time last_mac_ = 0;      // last MAC edge evaluated
};

}  // namespace hvia::fabric

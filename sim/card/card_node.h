// SPDX-License-Identifier: Apache-2.0
// A host's card as Verilated RTL, with the chips around it: PCI segment and
// host bridge in front, SDRAM beside, the MAC on a PCI bus of its own behind.
// Drives the card's three clocks, and leaves out the edges of a domain in which
// nothing would change.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "sim/fabric/host_memory.h"
#include "sim/fabric/node.h"
#include "sim/fabric/recorder.h"
#include "sim/model/dp83820.h"
#include "sim/model/host_bridge.h"
#include "sim/model/pci_bus.h"
#include "sim/model/pci_enumerator.h"
#include "sim/model/sdram_chip.h"

class Vhvia_board;
class VerilatedContext;
class VerilatedFstC;

namespace hvia::fabric {

struct CardOptions {
  bool skip_quiet = true;  // leave out clock edges at which nothing changes
  uint32_t strap = 0;
  std::string wave;        // FST file, empty = none
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
  void HostWrite(Time t, int slot, uint32_t address, const uint32_t* data, int count) override;
  void HostRead(Time t, int slot, uint32_t address) override;
  bool BusReset(Time t, Time span) override;
  bool InterruptLevel() const override;
  void Deliver(Frame frame) override;

  // Clock edges evaluated so far, all domains.
  uint64_t Edges() const { return edges_; }

 private:
  // A clock: edges at origin + phase + n * period.
  struct Clock {
    Time period = 0;
    Time first = 0;  // time of edge 0
    // First edge at or after t.
    Time AtOrAfter(Time t) const {
      if (t <= first) return first;
      return first + (t - first + period - 1) / period * period;
    }
    uint64_t Count(Time t) const { return static_cast<uint64_t>((t - first) / period); }
  };

  void SystemEdge(Time t);
  // Tells the PCI models of the system clocks before t that were left out.
  void CatchUp(Time t);
  void SdramEdge(Time t);
  void MacEdge(Time t);
  void TakeSent(Time t);
  void Settle();
  void TakeResults(Time t);
  // Nobody answers at the card's addresses: its bus is in reset, or it has none yet.
  bool Unconfigured() const;
  void TakeTrace();
  void CheckModels(Time t);
  void Dump(Time t);
  // Earliest edge of each domain that must not be left out.
  Time NextSystem() const;
  Time NextSdram() const;
  Time NextMac() const;
  Time NextEdge(const Clock& c) const { return c.AtOrAfter(now_ > done_ ? now_ : done_ + 1); }
  // Something would change at the domain's next edge.
  bool SystemWork() const;
  bool SdramWork() const;
  bool MacWork() const;
  // The domain's next edge is evaluated.
  bool SystemActive() const { return !options_.skip_quiet || SystemWork(); }
  bool SdramActive() const { return !options_.skip_quiet || SdramWork(); }
  bool MacActive() const { return !options_.skip_quiet || MacWork(); }

  const Surroundings s_;
  const CardOptions options_;
  std::unique_ptr<VerilatedContext> context_;
  std::unique_ptr<Vhvia_board> top_;
  std::unique_ptr<VerilatedFstC> wave_;

  PciBus bus_;
  HostBridge bridge_;
  std::unique_ptr<PciEnumerator> enumerator_;
  std::unique_ptr<SdramChip> sdram_;
  PciPins pins_;

  Clock system_, sdram_clock_, mac_;
  Time origin_ = 0;
  Time now_ = INT64_MIN;   // latest time seen in any call
  Time done_ = INT64_MIN;  // edges up to here are done
  Time last_system_ = 0;   // last system edge evaluated
  bool in_reset_ = true;   // the first one, after power-up
  Time reset_end_ = 0;     // RST# rises with the first system edge from here on
  uint64_t edges_ = 0;

  PciBus mac_bus_;
  Dp83820 mac_chip_;
  PciPins mac_pins_;
  Time last_mac_ = 0;      // last MAC edge evaluated
};

}  // namespace hvia::fabric

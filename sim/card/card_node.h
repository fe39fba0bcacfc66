// SPDX-License-Identifier: Apache-2.0
// A host's card as Verilated RTL, with the chips around it: PCI segment and
// host bridge in front, SDRAM beside, the MAC on a second PCI bus behind.
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

class Vcard_socket;
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
  void Finish() override;
  void Deliver(Frame frame) override;
  void DeliverDamaged(Frame frame) override;

  // Clock edges evaluated so far, all domains.
  uint64_t Edges() const { return edges_; }

 private:
  // The FST waves: what was written is in the file, or OutputError.
  void FlushWave();
  [[noreturn]] void IncompleteWave();
  // A clock: edges at origin + phase + n * period.
  struct Clock {
    Time period = 0;
    Time first = 0;     // time of edge 0
    Time next = first;  // the edge that was asked for last
    // First edge at or after t.
    Time AtOrAfter(Time t) const {
      if (t <= first) return first;
      return first + (t - first + period - 1) / period * period;
    }
    // The same for times that never go back, mostly without a division.
    Time Next(Time t) {
      if (t > next) next = t <= next + period ? next + period : AtOrAfter(t);
      return next;
    }
    uint64_t Count(Time t) const { return static_cast<uint64_t>((t - first) / period); }
  };

  // The models act at an edge before the card's registers change; what they and the card drive
  // after it is checked behind it.
  void BeforeSystemEdge(Time t);
  void AfterSystemEdge(Time t);
  // Advances the PCI models by the skipped system clocks before t.
  void CatchUp(Time t);
  void BeforeSdramEdge(Time t);
  void BeforeMacEdge(Time t);
  void AfterMacEdge(Time t);
  void TakeSent(Time t);
  // Drives the card's sockets from the models, from the next edge on, or at once: then the lines of
  // the bus forget their levels.
  void DriveSystem();
  void DriveMac(const PciDrive& chip);
  void LoadSystem();
  void LoadMac(const PciDrive& chip);
  // Shows the model what stands at its inputs.
  void Evaluate();
  void TakeResults(Time t);
  // The card claims no address: its bus is in reset, or it has none yet.
  bool Unconfigured() const;
  void TakeTrace();
  void CheckModels(Time t);
  // The lines that the model shows are those that the PCI model has worked out.
  void CheckLines(Time t, const char* bus, const PciPins& shown, const PciPins& want);
  void Dump(Time t);
  // Earliest edge of each domain that must not be left out.
  struct NextEdges {
    Time system, sdram, mac;
  };
  const NextEdges& Next() const;
  Time NextSystem() const;
  Time NextSdram() const;
  Time NextMac() const;
  // The PHY gains or loses its link.
  Time NextLink() const { return s_.link.Connected() ? s_.link.link->NextChange(done_) : kNever; }
  Time NextEdge(Clock& c) const { return c.Next(now_ > done_ ? now_ : done_ + 1); }
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
  std::unique_ptr<Vcard_socket> top_;
  std::unique_ptr<VerilatedFstC> wave_;

  PciBus bus_;
  HostBridge bridge_;
  uint16_t spoil_write_ = 0;  // of the next store, as HostCommand::bad_parity
  std::unique_ptr<PciEnumerator> enumerator_;
  std::unique_ptr<SdramChip> sdram_;
  PciPins pins_;

  mutable Clock system_, sdram_clock_, mac_;
  enum Domain : unsigned { kSystem = 1, kSdram = 2, kMac = 4 };
  unsigned high_ = 0;      // domains whose clock the model has seen rise and not fall yet
  // Asked for several times between two changes of anything here.
  mutable NextEdges next_ = {};
  mutable bool next_known_ = false;
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
  bool chip_ran_ = false;  // the chip has sampled the MAC edge that comes now
  Time last_mac_ = 0;      // last MAC edge evaluated
};

}  // namespace hvia::fabric

// SPDX-License-Identifier: Apache-2.0
// The event loop of a fabric. Its one simulation thread owns simulated time, executes the commands
// of the host threads, steps the nodes and ends the threads' waits.
//
// Timed mode. The bound is the earliest clock of a running thread or end of a wait. The loop does
// everything strictly before the bound, sets the clock to the bound, and ends the waits that end
// there. So the cards are frozen while any thread runs, and nothing depends on the speed of the
// processes. Charges of one instant are assigned in the order of the threads' ranks, when nothing
// more can happen at that instant (Phase::kCharge).
//
// Free mode. There is no bound: commands are executed as they come, and waits end as soon as their
// event happens. Simulated time stops when the cards have no work, unless a wait is limited in
// simulated time.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "sim/fabric/digest.h"
#include "sim/fabric/guests.h"
#include "sim/fabric/host_memory.h"
#include "sim/fabric/mailboxes.h"
#include "sim/fabric/network.h"
#include "sim/fabric/node.h"
#include "sim/fabric/processor.h"
#include "sim/fabric/shared_pages.h"
#include "sim/fabric/slots.h"
#include "sim/fabric/time.h"

namespace hvia::fabric {

struct SchedulerOptions {
  bool timed = true;
  std::vector<ThreadName> threads;    // declared participants
  int spare_slots = 16;               // slots for threads that were not declared
  int64_t stuck_ns = 10'000'000'000;  // wall time for which a thread may run without acting or parking
  int64_t stall_ns = 30'000'000'000;  // wall time for which a guest's threads may run within kBridgeGuestSpan of simulated time
  int64_t start_ns = 60'000'000'000;  // wall time until all participants must have attached
  bool continue_on_death = false;     // a dead process's memory becomes a sink and the others continue
  bool guests = false;                // processes that may use only their grants
  bool ignore_running = false;        // breaks the protocol, so that the tests can show that they notice
};

struct DigestReport {
  uint64_t digest = 0;         // frames, wakes, and deviations from the default configuration
  uint64_t frames_digest = 0;  // each frame on a wire: its time, sender, bytes and faults
  uint64_t wakes_digest = 0;   // each wake of each thread: its time, reason, message and reply
  Time time = 0;
  uint64_t frames = 0;
  uint64_t wakes = 0;
  bool tainted = false;
  // By node: counts of its frames, of the switch's frames to it, and of its switch port.
  std::vector<WireCounts> from_node, from_switch;
  std::vector<SwitchPortCounts> ports;
};

class Scheduler : public Fabric, public MemoryObserver {
 public:
  // The control pages are laid out and published here.
  Scheduler(SchedulerOptions options, std::vector<std::string> node_names, uint64_t memory_bytes);

  // Call it once, before Run.
  void SetNodes(std::vector<Node*> nodes, std::vector<HostMemory*> memories, Network* network);
  // Adds a deviation from the default configuration to the digest, so that runs of different
  // configurations never count as the same. The digests of frames and wakes hold events only: a
  // parameter that changes no frame changes neither.
  void AddConfiguration(const std::string& name, int64_t value) {
    digest_.AddBytes(reinterpret_cast<const uint8_t*>(name.data()), name.size());
    digest_.Add(static_cast<uint64_t>(value));
  }

  // Runs until Quit.
  void Run();

  // Callable from any thread. The remaining threads receive the text, if any, as the reason.
  void Quit(std::string why = "");
  void Post(std::function<void()> job);  // the job runs on the simulation thread
  const SharedFile& HeaderFile() const { return header_; }
  const SharedFile& BellFile() const { return bell_; }
  int SlotDescriptor(int slot) const { return slots_[slot].file->Descriptor(); }

  // Simulation thread only (from jobs). The functions return an error text, or an empty one. Claims
  // a slot. Sets *violation when a guest requests more than its grants.
  std::string Attach(const Owner& owner, int node, int rank, const std::string& name, int* slot, bool* violation);
  void ConnectionClosed(const Owner& owner);
  // Creates a guest and its bank of zeroed memory. Calls on_end once, when the guest's connection
  // has ended or must end.
  std::string NewGuest(const GuestConfig& config, std::function<void(const GuestEnd&)> on_end, uint32_t* id, std::shared_ptr<SealedFile>* bank);
  std::string Grant(uint32_t guest, uint32_t page, bool on);
  // Ends the guest's connection. Fails, after ending it, while the card may use the guest's bank.
  std::string EndGuest(uint32_t guest);
  // A process violated the protocol. If it is a guest, its connection ends, else the run.
  void Violated(const Owner& owner, const std::string& text);
  void WhenIdle(std::function<void(const DigestReport&)> answer) { digest_requests_.push_back(std::move(answer)); }
  void Stop(uint32_t reason, const std::string& text);

  // Fabric
  void ReadComplete(int slot, uint32_t value, Time when) override;
  void Fault(int node, const std::string& text) override;
  // MemoryObserver
  void OnMemoryWrite(int node, uint64_t lo, uint64_t hi) override;
  void OnMemoryFault(int node, bool write, uint64_t address) override;

 private:
  // The next event of the cards, the network or a thread's command.
  struct Event {
    Instant at;
    int command_slot = -1;
    int node = -1;  // kNetwork: the network
  };

  // The event loop.
  void RunJobs();
  void Boot();
  bool BootComplete();
  bool Advance(uint32_t sequence);
  bool AdvanceTimed(uint32_t sequence);
  bool AdvanceFree(uint32_t sequence);
  Instant Bound();
  Event Next() const;
  void Execute(const Event& e);
  // Lets the nodes leave out housekeeping if nothing else happens for long. `next` is the time of
  // the next event, `until` the bound.
  bool PassOver(Time next, Time until);
  void ExecuteCommand(int index);
  void AfterNode(int node);
  bool AllQuiescent() const;
  bool EverythingAttached() const;
  void ReportDeadlock();
  void Sleep(uint32_t sequence);
  // Returns false if it ended a guest, so that there may be new work.
  bool CheckStuck(int64_t now_ns);

  // Threads and their waits.
  void Scan();
  void ScanSlot(int index);
  // Takes commands from the ring. all: without the limit that free mode sets to a guest's
  // unexecuted commands.
  void DrainRing(Slot& s, bool all);
  void Arm(int index);
  void FireReady(int index);
  void Disarm(Slot& s);
  void Release(Slot& s);
  std::string DescribeWait(const Slot& s) const;
  // Gives a wait a reason to end at that instant, unless it ends earlier.
  void Fire(int index, Instant at, uint32_t reason);
  void FireWatches(int node, const Range& written);
  bool Wake(int index, Time at, uint32_t reason);
  // Wakes the threads that are due at the bound, one at a time for each node.
  bool WakeDue(Instant bound);
  // Assigns processor time to all charges of the completed instant.
  void AssignCharges();
  // Delays the end of a wait whose poll is due while another thread holds the processor.
  bool Postpone(int index);
  void UpdateWatched(int node);

  // Processes.
  std::string RunIsOver() const;
  void Violated(const Slot& s, const std::string& text) { Violated(s.owner, slots_.Describe(s) + " " + text); }
  Guest* GuestOf(const Slot& s) { return guests_.Find(s.owner.guest); }
  void FinishGuest(Guest& g, uint32_t reason, const std::string& text);
  void GuestClosed(Guest& g);
  // Returns false if the guest held up simulated time for too long and has ended.
  bool CountHeld(const Slot& s, int64_t now_ns, bool parks);
  // Whether a thread may receive messages for that rank.
  bool HasRank(NodeRank rank);
  void Deliver(int index, const Command& c);
  void ArriveAtBarrier(int index, const Command& c);

  void AnswerDigests();
  DigestReport Report() const;
  void Taint();
  std::string NodeText(int node) const;
  uint8_t* Header() const { return header_.Base(); }
  void PublishNow() { Put64(Header(), kBridgeHeaderNowOffset, static_cast<uint64_t>(now_)); }
  uint32_t Sequence() const { return Load32(bell_.Base(), kBridgeBellSequenceOffset); }
  void Ring();

  const SchedulerOptions options_;
  const std::vector<std::string> node_names_;
  Slots slots_;
  Guests guests_;
  Mailboxes mailboxes_;
  Barriers barriers_;
  SharedFile header_;
  SharedFile bell_;
  Network* network_ = nullptr;
  // By node.
  std::vector<Node*> nodes_;
  std::vector<HostMemory*> memories_;
  std::vector<Processor> processors_;
  std::vector<int> interrupt_waits_;

  Time now_ = 0;
  bool started_ = false;
  bool stopped_ = false;
  bool tainted_ = false;
  Time deadline_ = kNever;      // free mode: the earliest deadline of a wait in simulated time
  bool left_in_rings_ = false;  // untaken commands of guests
  uint64_t same_time_steps_ = 0;
  int64_t begin_ns_ = 0;
  // Free mode: writes since the last scan, for waits that it has not seen.
  struct Written {
    int node;
    Range range;
  };
  std::vector<Written> recent_;
  bool recent_overflow_ = false;

  Digest digest_;  // of the configuration and the frames
  Digest frames_digest_;
  std::map<NodeRank, Digest> wake_digests_;
  uint64_t wakes_ = 0;
  std::vector<std::function<void(const DigestReport&)>> digest_requests_;

  std::mutex jobs_mutex_;
  std::vector<std::function<void()>> jobs_;
  bool quit_ = false;     // guarded by jobs_mutex_
  std::string quit_why_;  // guarded by jobs_mutex_
};

}  // namespace hvia::fabric

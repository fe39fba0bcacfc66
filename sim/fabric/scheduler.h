// SPDX-License-Identifier: Apache-2.0
// The one simulation thread of a fabric: it owns simulated time, applies the
// commands of the host threads, steps the nodes and ends the threads' waits.
//
// Timed mode. The bound is the earliest clock of a running thread or end of a
// wait; everything strictly before it is done, then the clock stands at the
// bound and the waits that end there are ended. So the cards are frozen while
// any thread runs, and nothing depends on how fast the processes are.
//
// Each node has one processor, for charges and for the looks of polling loops.
// Charges are exclusive: they are served in the order of their instants, those
// of one instant in the order of the threads' ranks, which is known when
// nothing more happens at it (Phase::kCharge). A charge is not interrupted but
// by an interrupt service, which begins at once and lets everything else that
// holds or awaits the processor end later by its span. Looks take no time, but
// one that falls into another thread's charge comes at its end; where one
// charge follows on another it comes in between.
//
// Free mode. There is no bound: commands are applied as they come and waits
// end as soon as what they wait for has happened. Simulated time stands still
// when the cards have nothing to do, unless a wait is limited in simulated time.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "sim/fabric/digest.h"
#include "sim/fabric/host_memory.h"
#include "sim/fabric/network.h"
#include "sim/fabric/node.h"
#include "sim/fabric/shared_pages.h"
#include "sim/fabric/time.h"

namespace hvia::fabric {

// ThreadName declares one participant of a timed run.
struct ThreadName {
  int node = 0;
  int rank = 0;
  std::string name;
};

struct SchedulerOptions {
  bool timed = true;
  std::vector<ThreadName> threads;    // declared participants
  int spare_slots = 16;               // for threads that were not declared
  int64_t stuck_ns = 10'000'000'000;  // wall time a thread may run without acting or parking
  int64_t stall_ns = 30'000'000'000;  // wall time for which a guest's threads may run within kBridgeGuestSpan of simulated time
  int64_t start_ns = 60'000'000'000;  // wall time until all participants must have attached
  bool continue_on_death = false;     // a dead process's memory becomes a sink and the others go on
  bool guests = false;                // processes that may do only what was granted to them (NewGuest)
  bool ignore_running = false;        // breaks the protocol on purpose, to show that the tests notice
};

// Owner is the process behind a claimed slot.
struct Owner {
  uint64_t connection = 0;
  uint32_t pid = 0;
  uint32_t node_mask = 0;
  std::string name;
  uint32_t guest = 0;  // its number, 0 = it is none
};

// GuestConfig is what the owner of the fabric says of a new guest.
struct GuestConfig {
  std::string name;
  uint32_t pid = 0;
  uint32_t node = 0;
  uint32_t first_rank = 0, ranks = 0;      // of its threads
  uint64_t first_frame = 0, frames = 0;  // of its bank
};

struct GuestEnd {
  uint32_t guest = 0;
  uint32_t reason = 0;  // BridgeGuestEnd
  Time time = 0;
  std::string text;
};

struct DigestReport {
  uint64_t digest = 0;         // frames, wakes, and what differs from the usual configuration
  uint64_t frames_digest = 0;  // each frame on a wire: its time, sender, bytes and faults
  uint64_t wakes_digest = 0;   // each wake of each thread: its time, reason, message and reply
  Time time = 0;
  uint64_t frames = 0;
  uint64_t wakes = 0;
  bool tainted = false;
  // By node: what it sent, what the switch sent to it, and the port between.
  std::vector<WireCounts> from_node, from_switch;
  std::vector<SwitchPortCounts> ports;
};

class Scheduler : public Fabric, public MemoryObserver {
 public:
  // The control pages are laid out and published here.
  Scheduler(SchedulerOptions options, std::vector<std::string> node_names, uint64_t memory_bytes);

  // Set once, before Run.
  void SetNodes(std::vector<Node*> nodes, std::vector<HostMemory*> memories, Network* network);
  // Makes something that differs from the usual configuration part of the
  // digest, so that runs of different ones never count as the same. The digests
  // of frames and wakes hold what happened and nothing else: a parameter that
  // changes no frame changes neither.
  void AddConfiguration(const std::string& name, int64_t value) {
    digest_.AddBytes(reinterpret_cast<const uint8_t*>(name.data()), name.size());
    digest_.Add(static_cast<uint64_t>(value));
  }
  void AddEndHook(std::function<void(const DigestReport&)> hook) { end_hooks_.push_back(std::move(hook)); }

  // Runs until Quit.
  void Run();

  // May be called from any thread.
  // The text, if any, is what threads that are still there are told.
  void Quit(std::string why = "");
  void Post(std::function<void()> job);  // the job runs on the simulation thread
  const SharedFile& HeaderFile() const { return header_; }
  const SharedFile& BellFile() const { return bell_; }
  int SlotDescriptor(int slot) const { return slots_[static_cast<size_t>(slot)].file->Descriptor(); }

  // Simulation thread only (from jobs).
  // Claims a slot; returns an empty text or why not. What a guest may not ask for is an offence.
  std::string Attach(const Owner& owner, int node, int rank, const std::string& name, int* slot, bool* offence);
  void ConnectionClosed(const Owner& owner);
  // Makes a guest and puts a file of fresh memory in the place of its bank. The
  // texts are as with Attach. ended is called once, when its connection has to
  // end or has ended.
  std::string NewGuest(const GuestConfig& config, std::function<void(const GuestEnd&)> ended, uint32_t* id, std::shared_ptr<SealedFile>* bank);
  std::string Grant(uint32_t guest, uint32_t page, bool on);
  // Ends the guest's connection in any case; refused while the card may use its bank.
  std::string EndGuest(uint32_t guest);
  // What may be offended against on the control socket.
  void Offend(const Owner& owner, const std::string& text);
  void WhenIdle(std::function<void(const DigestReport&)> answer) { digest_requests_.push_back(std::move(answer)); }
  void Stop(uint32_t reason, const std::string& text);

  // Fabric
  void ReadComplete(int slot, uint32_t value, Time when) override;
  void Fault(int node, const std::string& text) override;
  // MemoryObserver
  void OnMemoryWrite(int node, uint64_t lo, uint64_t hi) override;
  void OnMemoryFault(int node, bool write, uint64_t address) override;

 private:
  struct Range {
    uint64_t lo, hi;
  };
  struct Command {
    Time time;
    uint32_t opcode, count;
    uint64_t address, tag;
    uint32_t data[kBridgeMaxWriteDwords];
  };
  struct Message {
    Time time;
    uint32_t node, rank;
    std::vector<uint8_t> bytes;
    uint64_t sender;  // SenderOf its process; 0 when that has left
    uint64_t order;   // of arrival
  };
  // Guest is a process that may do only what was granted to it.
  struct Guest {
    uint32_t id = 0;
    GuestConfig config;
    std::shared_ptr<SealedFile> bank;
    std::vector<bool> pages;  // of doorbells that it may write to
    bool ended = false;
    // Timed mode: for how long its threads ran since that simulated time.
    Time held_since = 0;
    int64_t held_ns = 0;
    std::function<void(const GuestEnd&)> on_end;
    bool OwnsRank(int node, uint32_t rank) const { return config.node == static_cast<uint32_t>(node) && rank >= config.first_rank && rank - config.first_rank < config.ranks; }
    bool InBank(uint64_t address, uint64_t bytes) const;
  };
  // Hold is processor time that a charge has been given.
  struct Hold {
    int slot;
    Time begin, end;
    bool service;
  };
  // Wait is a parked thread's descriptor, copied, and how it will end as far
  // as is known by now.
  struct Wait {
    bool armed = false;
    uint32_t sequence = 0;
    Time start = 0, deadline = kNever, period = 1;
    uint32_t flags = 0;
    int watches = 0;
    Range watch[kBridgeMaxWatches];
    Instant end;
    uint32_t reason = kBridgeReasonDeadline;
  };
  struct Slot {
    ThreadName name;
    bool declared = false;
    bool claimed = false;
    Owner owner;
    // A new file for each thread: whoever had the slot before still has the old one.
    std::unique_ptr<SharedFile> file;
    uint8_t* page = nullptr;
    uint8_t* ring = nullptr;
    uint32_t head = 0;
    Time clock = 0;  // of the running thread
    std::deque<Command> commands;
    Wait wait;
    // What may arrive before the thread is seen to wait for it (free mode).
    std::deque<uint64_t> reads;  // tags of register reads under way
    uint64_t last_read = 0;
    bool reply_ready = false;
    uint32_t reply = 0;
    Time reply_time = 0;
    bool barrier_ready = false;
    bool barrier_refused = false;
    Time barrier_time = 0;
    std::vector<uint8_t> partial;  // message under assembly
    // A message of this thread was refused, which it has not been told in a wait.
    bool refusal_ready = false;
    Time refusal_time = 0;
    // Of a guest, in timed mode: what it has done since that instant.
    Time instant = -1;
    uint32_t acts = 0;
    // Watchdogs.
    int64_t acted_ns = 0;
    uint32_t acted_tail = 0;
    int64_t woken_ns = 0;
  };
  // A group without a name is a guest's own, or that of all who are no guests (0).
  struct BarrierKey {
    uint32_t guest;
    std::string group;
    uint64_t id;
    bool operator<(const BarrierKey& o) const { return std::tie(guest, group, id) < std::tie(o.guest, o.group, o.id); }
  };
  struct BarrierState {
    uint32_t parties = 0;
    std::vector<int> arrived;
  };

  bool Running(const Slot& s) const { return s.claimed && !s.wait.armed; }
  std::string Describe(const Slot& s) const;
  std::string DescribeWait(const Slot& s) const;

  void Scan();
  void ScanSlot(int index);
  // Takes what was posted. In free mode a guest has to wait when much of that is
  // still to be carried out, unless all is wanted.
  void DrainRing(Slot& s, bool all);
  void Arm(int index);
  void Disarm(Slot& s);
  void Release(int index);
  void LeaveBarriers(int index);
  void RunJobs();

  // Guests.
  Guest* FindGuest(uint32_t id);
  Guest* GuestOfRank(int node, uint32_t rank);
  std::string Describe(const Guest& g) const;
  // What is wrong with a guest's command or its wait; empty if nothing is.
  std::string Offence(const Guest& g, const Slot& s, const Command& c) const;
  std::string Offence(const Guest& g, const Slot& s, const Wait& w) const;
  // Counts what a guest's thread does at one instant; false if that is too much.
  bool Act(Slot& s);
  // Someone broke the rules: a guest is ended, any other process ends the run.
  void Offend(Slot& s, const std::string& text);
  void FinishGuest(Guest& g, uint32_t reason, const std::string& text);
  void GuestClosed(Guest& g);
  void DropCommands(Slot& s);
  // Messages to a guest.
  void DropMessages(const Guest& g);
  // Whose messages are counted together.
  static uint64_t SenderOf(const Owner& owner) { return owner.guest != 0 ? owner.guest : 1ull << 63 | owner.connection; }
  // The message is no more.
  void Uncount(const Message& m);
  // Its messages are dropped, or stay to be received as those of someone who has left.
  void SenderGone(uint64_t sender, bool keep);
  // Removes messages, but not one that a wait is about to end with.
  void RemoveMessages(const std::function<bool(const Message&)>& which);
  // Whether anybody may receive messages to that rank.
  bool HasRank(uint32_t node, uint32_t rank);
  // Counts the wall time for which a guest's thread has run. False if its process held
  // up simulated time for too long and was ended.
  bool CountHeld(const Slot& s, int64_t now_ns, bool parks);

  bool AdvanceTimed(uint32_t sequence);
  // Wakes the threads that are due at the bound, of each node one at a time.
  bool WakeDue(Instant bound);
  // Order of node and rank.
  bool Before(int a, int b) const;
  bool AdvanceFree(uint32_t sequence);
  // Free mode: the earliest deadline of a wait that is limited in simulated time.
  void FindDeadline();
  Instant Bound();
  // Earliest command or event of a device or the network.
  Instant NextInternal(int* command_slot, int* node);
  void Execute(const Instant& at, int command_slot, int node);
  void ExecuteCommand(int index);
  void AfterNode(int node);
  bool AllQuiescent() const;
  bool EverythingAttached() const;
  void ReportDeadlock();

  // A wait has a reason to end at that instant, unless it ends earlier.
  void Fire(int index, Instant at, uint32_t reason);
  void FireWatches(int node, uint64_t lo, uint64_t hi);
  bool Wake(int index, Time at, uint32_t reason);
  // Gives all charges of the instant that is over their processor time.
  void AssignCharges();
  // The latest end of the holds in whose midst t lies, those of one slot left out; t if there is none.
  Time BusyUntil(int node, Time t, int but) const;
  // The processor was held: looks that fell into it are due now.
  void LooksAfter(const Hold& held);
  // A wait whose look is due while another thread holds the processor ends later.
  bool Postpone(int index);
  void UpdateWatched(int node);
  void Deliver(int index, const Command& c);
  void ArriveAtBarrier(int index, const Command& c);

  void Sleep(uint32_t sequence);
  // False if a guest was ended, so that there may be something to do.
  bool CheckStuck(int64_t now_ns);
  void AnswerDigests();
  DigestReport Report() const;
  void Taint();
  uint8_t* Header() const { return header_.Base(); }
  uint32_t Sequence() const { return Load32(bell_.Base(), kBridgeBellSequenceOffset); }
  void Ring() { Increment32(bell_.Base(), kBridgeBellSequenceOffset); }

  const SchedulerOptions options_;
  const std::vector<std::string> node_names_;
  std::vector<Slot> slots_;
  SharedFile header_;
  SharedFile bell_;
  std::map<uint32_t, Guest> guests_;
  uint32_t last_guest_ = 0;
  std::vector<Node*> nodes_;
  std::vector<HostMemory*> memories_;
  Network* network_ = nullptr;

  Time now_ = 0;
  bool started_ = false;
  bool stopped_ = false;
  bool tainted_ = false;
  bool bound_dirty_ = true;
  Instant bound_;
  Time deadline_ = kNever;  // FindDeadline
  int pending_commands_ = 0;
  bool left_in_rings_ = false;  // commands of guests that were not taken yet
  std::vector<int> interrupt_waits_;  // by node
  std::vector<std::vector<Hold>> processors_;  // by node: the charge under way and those behind it
  uint64_t same_time_steps_ = 0;
  int64_t begin_ns_ = 0;
  std::map<std::pair<uint32_t, uint32_t>, std::deque<Message>> mailboxes_;  // none is empty
  std::map<uint64_t, uint32_t> unreceived_;                                // messages, by sender
  uint64_t last_message_ = 0;
  std::map<BarrierKey, BarrierState> barriers_;
  // Free mode: what was written since the last scan, for waits not yet seen.
  struct Written {
    int node;
    Range range;
  };
  std::vector<Written> recent_;
  bool recent_overflow_ = false;

  Digest digest_;  // of the configuration and the frames
  Digest frames_digest_;
  std::map<std::pair<int, int>, Digest> wake_digests_;  // by node and rank
  uint64_t wakes_ = 0;
  std::vector<std::function<void(const DigestReport&)>> digest_requests_;
  std::vector<std::function<void(const DigestReport&)>> end_hooks_;

  std::mutex jobs_mutex_;
  std::vector<std::function<void()>> jobs_;
  bool quit_ = false;     // guarded by jobs_mutex_
  std::string quit_why_;  // guarded by jobs_mutex_
};

}  // namespace hvia::fabric

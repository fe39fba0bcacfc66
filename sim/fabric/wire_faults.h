// SPDX-License-Identifier: Apache-2.0
// Fault injection on a wire: loses, duplicates, damages, delays and reorders frames. The faults of
// a frame depend only on its position in its direction, its content, its time and a seed.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/fabric/time.h"
#include "sim/model/splitmix.h"

namespace hvia::fabric {

struct WireFaultError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// WireWay is a direction of a node's cable.
enum class WireWay {
  kCable,       // from the node to the other node
  kToSwitch,    // from the node to the switch
  kFromSwitch,  // from the switch to the node
};

// WireFaultRule is one kind of fault in one direction, and the selection of its frames.
struct WireFaultRule {
  std::string text;   // of the rule, for messages
  uint32_t kind = 0;  // WireFault
  int node = 0;
  WireWay way = WireWay::kCable;

  // The rule applies to frames that match all given conditions.
  Time from = INT64_MIN, to = kNever;  // their preamble starts in [from, to)
  std::optional<uint32_t> type;        // EtherType
  std::optional<uint32_t> vi;          // index of the sender's VI
  std::optional<uint32_t> operation;   // FrameOperation
  std::optional<uint32_t> sequence;    // of the VIA header
  bool first = false, last = false;    // of a message
  uint64_t message = 0;                // the n-th of its VI, from 1
  uint64_t frame = 0;                  // the n-th frame of the message, if `message` is set, else of all matching frames; from 1
  uint64_t every = 0;                  // each n-th of these
  std::optional<uint32_t> share;       // of the rest, parts in kWhole

  // Parameters of the fault.
  Time least = 0, most = 0;  // Delay, Pause: the delay
  uint64_t behind = 1;       // Reorder: how many others pass
  Time within = 0;           // Reorder: latest time at which it continues
  uint32_t bits = 0;         // Corrupt: number, 0 = 1 to 8 by seed
  uint32_t bytes = 0;        // Truncate: new size, 0 = by seed

  static constexpr uint32_t kWhole = 1'000'000'000;
};

// Parses "KIND DIRECTION [NAME=NUMBER ...]", which the Go package sim writes. Names are those
// above, times are in picoseconds. A direction is N (from node N of two to the other one), N>switch
// or switch>N. Throws WireFaultError.
WireFaultRule ParseWireFault(const std::string& text);

// WireFate is the result for one frame.
struct WireFate {
  uint32_t faults = 0;  // bit n for WireFault n
  bool lost = false;
  bool damaged = false;  // Damage applies
  Time start = 0;        // start of the preamble towards the receiver
  int copies = 1;
  uint64_t overtaken_by = 0;  // frames
  Time patience = 0;
  std::vector<uint32_t> flips;  // bits of frame and FCS, in wire order
  size_t kept = SIZE_MAX;       // remaining bytes of frame and FCS
};

class WireFaults {
 public:
  static constexpr size_t kKinds = 9;  // of layout's WireFault

  // Rules of one cable, by the sending end.
  WireFaults(const std::vector<WireFaultRule>& from_0, const std::vector<WireFaultRule>& from_1, uint64_t seed);
  // Decides about a frame that an end sends: its preamble starts at `start`, its first byte at
  // `data`. Call it once for each frame, in the order of its direction.
  WireFate Judge(int end, Time start, Time data, Time byte_time, const std::vector<uint8_t>& bytes);
  // The link state at t, and the first time after t at which it may change.
  bool LinkUp(Time t) const;
  Time NextLinkChange(Time t) const;
  // Turns a frame's bytes into the damaged frame and FCS.
  static void Damage(const WireFate& fate, std::vector<uint8_t>* bytes);

 private:
  struct Rule : WireFaultRule {
    uint64_t seed = 0;
    uint64_t matched = 0;  // matching frames so far
  };
  // Talk is the progress of a VI: its present message and frame.
  struct Talk {
    uint64_t message = 0, frame = 0;
  };
  struct Direction {
    std::vector<Rule> rules;
    uint64_t frames = 0;
    bool follows_messages = false;
    std::map<uint32_t, Talk> talks;  // by the sender's VI number
  };
  struct Down {
    Time from, to;
  };
  static bool Agrees(const Rule& r, Time start, const std::vector<uint8_t>& bytes, const Talk& talk);
  static bool Chosen(Rule* r, Time start, const std::vector<uint8_t>& bytes, const Talk& talk, SplitMix* random);

  Direction directions_[2];  // by the sending end
  std::vector<Down> downs_;  // spans without a link, seen by both ends
};

}  // namespace hvia::fabric

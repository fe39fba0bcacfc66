// SPDX-License-Identifier: Apache-2.0
// Fault injection on a wire: loses, duplicates, damages, delays and reorders frames. What happens
// to a frame depends on its position in its direction, its content, its time and a seed, and on
// nothing else.
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
  kCable,       // what the node sends to the other one
  kToSwitch,    // what it sends to the switch
  kFromSwitch,  // what comes to it from the switch
};

// WireFaultRule is one kind of fault in one direction, and the frames that have it.
struct WireFaultRule {
  std::string text;   // of the rule, for messages
  uint32_t kind = 0;  // WireFault
  int node = 0;
  WireWay way = WireWay::kCable;

  // Frames that agree with all that is given.
  Time from = INT64_MIN, to = kNever;  // their preamble begins in [from, to)
  std::optional<uint32_t> type;        // EtherType
  std::optional<uint32_t> vi;          // index of the sender's VI
  std::optional<uint32_t> operation;   // FrameOperation
  std::optional<uint32_t> sequence;    // of the VIA header
  bool first = false, last = false;    // of a message
  uint64_t message = 0;                // the n-th of its VI, from 1
  uint64_t frame = 0;                  // the n-th of the message, or of the frames that agree, from 1
  uint64_t every = 0;                  // each n-th of these
  std::optional<uint32_t> share;       // of the rest, parts in kWhole

  // How.
  Time least = 0, most = 0;  // Delay, Pause: by how much
  uint64_t behind = 1;       // Reorder: how many others pass
  Time within = 0;           // Reorder: when it goes on at the latest
  uint32_t bits = 0;         // Corrupt: how many, 0 = 1 to 8 by seed
  uint32_t bytes = 0;        // Truncate: to how many, 0 = by seed

  static constexpr uint32_t kWhole = 1'000'000'000;
};

// Reads "KIND DIRECTION [NAME=NUMBER ...]" with the names above and times in
// picoseconds; a direction is N (what node N sends to the other of two), N>switch
// or switch>N: what the Go package sim makes of a specification. Throws
// WireFaultError.
WireFaultRule ParseWireFault(const std::string& text);

// WireFate is what happens to one frame.
struct WireFate {
  uint32_t faults = 0;  // bit n for WireFault n
  bool lost = false;
  bool damaged = false;  // Damage does it
  Time start = 0;        // when it begins on the way to the receiver
  int copies = 1;
  uint64_t overtaken_by = 0;  // frames
  Time patience = 0;
  std::vector<uint32_t> flips;  // bits of frame and FCS, in the order of the wire
  size_t kept = SIZE_MAX;       // bytes of frame and FCS
};

class WireFaults {
 public:
  static constexpr size_t kKinds = 9;  // of layout's WireFault

  // Rules of one cable, by the end that sends.
  WireFaults(const std::vector<WireFaultRule>& from_0, const std::vector<WireFaultRule>& from_1, uint64_t seed);
  // Decides about a frame that the sender at an end puts on the wire with its preamble at
  // `start`, its first byte at `data` and the others in their time. Called once
  // for each frame, in the order of its direction.
  WireFate Judge(int end, Time start, Time data, Time byte_time, const std::vector<uint8_t>& bytes);
  // The link at that time, and the first time after it at which that may be another.
  bool LinkUp(Time t) const;
  Time NextLinkChange(Time t) const;
  // Turns a frame's bytes into what arrives of frame and FCS.
  static void Damage(const WireFate& fate, std::vector<uint8_t>* bytes);

 private:
  struct Rule : WireFaultRule {
    uint64_t seed = 0;
    uint64_t matched = 0;  // frames so far that agree
  };
  // Talk is the progress of a VI: its present message and frame.
  struct Talk {
    uint64_t message = 0, frame = 0;
  };
  struct Direction {
    std::vector<Rule> rules;
    uint64_t frames = 0;
    bool follows_messages = false;
    std::map<uint32_t, Talk> talks;  // by the sender's number
  };
  struct Down {
    Time from, to;
  };
  static bool Agrees(const Rule& r, Time start, const std::vector<uint8_t>& bytes, const Talk& talk);
  static bool Chosen(Rule* r, Time start, const std::vector<uint8_t>& bytes, const Talk& talk, SplitMix* random);

  Direction directions_[2];  // by the end that sends
  std::vector<Down> downs_;  // spans without a link, which both ends see
};

}  // namespace hvia::fabric

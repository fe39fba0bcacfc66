// SPDX-License-Identifier: Apache-2.0
#include "sim/fabric/wire_faults.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "sim/gen/hvia_layout.h"
#include "sim/model/big_endian.h"
#include "sim/model/ethernet_fcs.h"

namespace hvia::fabric {
namespace {

constexpr uint32_t kMostBits = 64;     // limit of flipped bits
constexpr uint32_t kSeededBits = 8;    // limit when the seed chooses the number
constexpr Time kLongest = 1000'000'000'000'000;  // span: 1000 s

static_assert(sizeof(uint32_t) * 8 > WireFaults::kKinds);

// Fields of a frame. A frame is never shorter than the headers.
static_assert(kMinFrame >= kEthernetHeaderSize + kViaHeaderSize);
uint32_t Type(const std::vector<uint8_t>& f) { return static_cast<uint32_t>(GetBig(f.data() + kEthernetHeaderEtherTypeOffset, 2)); }
uint32_t Via(const std::vector<uint8_t>& f, size_t offset, size_t width) { return static_cast<uint32_t>(GetBig(f.data() + kEthernetHeaderSize + offset, width)); }
uint32_t Operation(const std::vector<uint8_t>& f) {
  return (Via(f, kViaHeaderOperationVersionOffset, 1) & kViaHeaderOperationVersionOperationMask) >> kViaHeaderOperationVersionOperationLsb;
}

uint64_t Limited(const std::string& text, const std::string& name, const std::string& value, uint64_t lo, uint64_t hi) {
  char* end = nullptr;
  errno = 0;
  const uint64_t v = std::strtoull(value.c_str(), &end, 10);
  if (value.empty() || value[0] < '0' || value[0] > '9' || *end != 0 || errno != 0 || v < lo || v > hi) {
    throw WireFaultError("--wire-fault " + text + ": " + name + "=" + value + ": must be a whole number from " + std::to_string(lo) + " to " + std::to_string(hi));
  }
  return v;
}

}  // namespace

WireFaultRule ParseWireFault(const std::string& text) {
  const auto fail = [&](const std::string& why) -> WireFaultError { return WireFaultError("--wire-fault " + text + ": " + why); };
  std::istringstream words(text);
  std::string word;
  WireFaultRule r;
  r.text = text;
  if (!(words >> word)) throw fail("want KIND DIRECTION [NAME=NUMBER ...]");
  for (; r.kind < WireFaults::kKinds && word != WireFaultName(r.kind); ++r.kind) {
  }
  if (r.kind == WireFaults::kKinds) throw fail("there is no kind of fault " + word);
  if (!(words >> word)) throw fail("the direction is missing: the node that sends, N>switch or switch>N");
  constexpr char kFrom[] = "switch>", kTo[] = ">switch";
  if (word.rfind(kFrom, 0) == 0) {
    r.way = WireWay::kFromSwitch;
    word.erase(0, sizeof kFrom - 1);
  } else if (word.size() >= sizeof kTo && word.compare(word.size() - sizeof kTo + 1, std::string::npos, kTo) == 0) {
    r.way = WireWay::kToSwitch;
    word.resize(word.size() - sizeof kTo + 1);
  }
  r.node = static_cast<int>(Limited(text, "DIRECTION", word, 0, kBridgeMaxNodes - 1));
  while (words >> word) {
    const size_t equal = word.find('=');
    if (equal == std::string::npos) throw fail(word + ": want NAME=NUMBER");
    const std::string name = word.substr(0, equal);
    const auto number = [&](uint64_t lo, uint64_t hi) { return Limited(text, name, word.substr(equal + 1), lo, hi); };
    const auto time = [&] { return static_cast<Time>(number(0, kNever)); };
    const auto narrow = [&](uint64_t lo, uint64_t hi) { return static_cast<uint32_t>(number(lo, hi)); };
    if (name == "from") r.from = time();
    else if (name == "to") r.to = time();
    else if (name == "type") r.type = narrow(0, UINT16_MAX);
    else if (name == "vi") r.vi = narrow(0, UINT8_MAX);
    else if (name == "operation") r.operation = narrow(0, kViaHeaderOperationVersionOperationMask >> kViaHeaderOperationVersionOperationLsb);
    else if (name == "sequence") r.sequence = narrow(0, UINT32_MAX);
    else if (name == "first") r.first = number(1, 1) != 0;
    else if (name == "last") r.last = number(1, 1) != 0;
    else if (name == "message") r.message = number(1, UINT32_MAX);
    else if (name == "frame") r.frame = number(1, UINT32_MAX);
    else if (name == "every") r.every = number(1, UINT32_MAX);
    else if (name == "share") r.share = narrow(0, WireFaultRule::kWhole);
    else if (name == "least") r.least = static_cast<Time>(number(0, kLongest));
    else if (name == "most") r.most = static_cast<Time>(number(0, kLongest));
    else if (name == "behind") r.behind = number(1, kBridgeMaxHeldFrames);
    else if (name == "within") r.within = static_cast<Time>(number(1, kLongest));
    else if (name == "bits") r.bits = narrow(1, kMostBits);
    else if (name == "bytes") r.bytes = narrow(1, kMaxFrame);
    else throw fail(name + ": there is no such name");
  }
  if (r.most < r.least) throw fail("most is below least");
  if (r.kind == kWireFaultReorder && r.within == 0) throw fail("within is missing: it limits the wait of a frame that no other overtakes");
  return r;
}

WireFaults::WireFaults(const std::vector<WireFaultRule>& from_0, const std::vector<WireFaultRule>& from_1, uint64_t seed) {
  static_assert(kWireFaultLink == kKinds - 1);
  for (int end = 0; end < 2; ++end) {
    Direction& d = directions_[end];
    for (const WireFaultRule& given : end == 0 ? from_0 : from_1) {
      Rule r{given, 0, 0};
      // Each direction, kind, and rule of that kind has a separate generator, so that a further
      // rule does not change the choices of the others.
      const int direction = r.node + (r.way == WireWay::kFromSwitch ? static_cast<int>(kBridgeMaxNodes) : 0);
      uint64_t alike = 0;
      for (const Rule& o : d.rules) alike += o.kind == r.kind;
      r.seed = seed;
      for (const uint64_t part : {static_cast<uint64_t>(direction), static_cast<uint64_t>(r.kind), alike}) r.seed = SplitMix(r.seed ^ SplitMix(part).Next()).Next();
      d.follows_messages = d.follows_messages || r.message != 0;
      d.rules.push_back(r);
      if (r.kind == kWireFaultLink) downs_.push_back({r.from, r.to});
    }
  }
}

bool WireFaults::Agrees(const Rule& r, Time start, const std::vector<uint8_t>& bytes, const Talk& talk) {
  if (start < r.from || start >= r.to) return false;
  const uint32_t type = Type(bytes);
  if (r.type && *r.type != type) return false;
  if (!r.vi && !r.operation && !r.sequence && !r.first && !r.last && r.message == 0) return true;
  const uint32_t flags = Via(bytes, kViaHeaderFlagsOffset, 1);
  return type == kEtherTypeVia && (!r.vi || *r.vi == (Via(bytes, kViaHeaderSourceVIOffset, 2) & UINT8_MAX)) && (!r.operation || *r.operation == Operation(bytes)) &&
         (!r.sequence || *r.sequence == Via(bytes, kViaHeaderSequenceOffset, 4)) && (!r.first || (flags & kViaHeaderFlagsFirstMask) != 0) &&
         (!r.last || (flags & kViaHeaderFlagsLastMask) != 0) && (r.message == 0 || r.message == talk.message);
}

bool WireFaults::Chosen(Rule* r, Time start, const std::vector<uint8_t>& bytes, const Talk& talk, SplitMix* random) {
  // One draw for each frame, whether or not the rule matches.
  const uint64_t lot = random->Below(WireFaultRule::kWhole);
  if (!Agrees(*r, start, bytes, talk)) return false;
  const uint64_t place = r->message != 0 ? talk.frame : ++r->matched;
  return (r->frame == 0 || place == r->frame) && (r->every == 0 || place % r->every == 0) && (!r->share || lot < *r->share);
}

bool WireFaults::LinkUp(Time t) const {
  return std::none_of(downs_.begin(), downs_.end(), [t](const Down& d) { return t >= d.from && t < d.to; });
}

Time WireFaults::NextLinkChange(Time t) const {
  Time next = kNever;
  for (const Down& d : downs_)
    for (const Time change : {d.from, d.to})
      if (change > t) next = std::min(next, change);
  return next;
}

WireFate WireFaults::Judge(int end, Time start, Time data, Time byte_time, const std::vector<uint8_t>& bytes) {
  Direction& d = directions_[end];
  const uint64_t n = d.frames++;
  Talk talk;
  if (d.follows_messages && Type(bytes) == kEtherTypeVia && Operation(bytes) != kFrameOperationAcknowledge) {
    Talk& t = d.talks[Via(bytes, kViaHeaderSourceVIOffset, 2)];
    if ((Via(bytes, kViaHeaderFlagsOffset, 1) & kViaHeaderFlagsFirstMask) != 0) {
      ++t.message;
      t.frame = 0;
    }
    ++t.frame;
    talk = t;
  }
  WireFate fate;
  fate.start = start;
  const size_t whole = bytes.size() + kFcsBytes;
  const auto shorten = [&](size_t to) { fate.kept = std::min(fate.kept, to); };
  for (Rule& r : d.rules) {
    SplitMix random(SplitMix::Mix(r.seed + n * SplitMix::kStep));
    if (r.kind == kWireFaultCut || r.kind == kWireFaultLink) {
      // A frame in flight at that time is truncated.
      if (start >= r.to || data + static_cast<Time>(whole) * byte_time <= r.from) continue;
      fate.faults |= 1u << r.kind;
      if (data + byte_time > r.from) {
        fate.lost = true;
      } else {
        fate.faults |= 1u << kWireFaultTruncate;
        shorten(static_cast<size_t>((r.from - data) / byte_time));
      }
      continue;
    }
    if (!Chosen(&r, start, bytes, talk, &random)) continue;
    fate.faults |= 1u << r.kind;
    switch (r.kind) {
      case kWireFaultDrop: fate.lost = true; break;
      case kWireFaultDuplicate: ++fate.copies; break;
      case kWireFaultReorder:
        fate.overtaken_by = std::max(fate.overtaken_by, r.behind);
        fate.patience = std::max(fate.patience, r.within);
        break;
      case kWireFaultCorrupt: {
        const size_t want = std::min(8 * whole, fate.flips.size() + (r.bits != 0 ? r.bits : 1 + random.Below(kSeededBits)));
        while (fate.flips.size() < want) {
          const auto bit = static_cast<uint32_t>(random.Below(8 * whole));
          if (std::find(fate.flips.begin(), fate.flips.end(), bit) == fate.flips.end()) fate.flips.push_back(bit);
        }
        break;
      }
      case kWireFaultTruncate: {
        // Without a given size, about half of the frames become runts.
        const size_t limit = random.OneIn(2) ? std::min(whole, kMinFrame + kFcsBytes) : whole;
        shorten(r.bytes != 0 ? r.bytes : 1 + random.Below(limit - 1));
        break;
      }
      case kWireFaultDelay: fate.start += r.least + static_cast<Time>(random.Below(static_cast<uint64_t>(r.most - r.least) + 1)); break;
      case kWireFaultPause: fate.start = std::max(fate.start, r.most != 0 ? start + r.most : r.to); break;
      default: break;
    }
  }
  // A lost frame reports no other faults.
  if (fate.lost) {
    const uint32_t cut = fate.faults & (1u << kWireFaultCut | 1u << kWireFaultLink);
    fate.faults = cut != 0 ? cut : 1u << kWireFaultDrop;
  }
  if (fate.kept >= whole && (fate.faults & 1u << kWireFaultTruncate) != 0) shorten(whole - 1);
  fate.damaged = !fate.lost && (!fate.flips.empty() || fate.kept < whole);
  return fate;
}

void WireFaults::Damage(const WireFate& fate, std::vector<uint8_t>* bytes) {
  AppendFcs(bytes);
  for (const uint32_t bit : fate.flips) (*bytes)[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
  if (fate.kept < bytes->size()) bytes->resize(fate.kept);
  // A damaged frame has a good FCS with probability 2^-32. Damage it further.
  while (HasGoodFcs(*bytes)) bytes->back() ^= 1;
}

}  // namespace hvia::fabric

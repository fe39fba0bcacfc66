// SPDX-License-Identifier: Apache-2.0
#include "sim/fabric/switch.h"

#include <algorithm>
#include <utility>

#include "sim/gen/hvia_layout.h"
#include "sim/model/big_endian.h"

namespace hvia::fabric {
namespace {

constexpr uint64_t kGroup = 1ull << 40;  // group bit of an address
// Addresses that a bridge does not forward (IEEE 802.1D, table 7-10), including PAUSE.
constexpr uint64_t kReserved = 0x0180c2000000, kReservedMask = ~0xfull;

uint64_t Address(const std::vector<uint8_t>& frame, size_t offset) { return GetBig(frame.data() + offset, 6); }

}  // namespace

Switch::Switch(const Params& params, const std::vector<LinkEnd>& plugs)
    : latency_(params.SwitchLatency),
      room_(static_cast<uint64_t>(params.SwitchQueueBytes)),
      fcs_bytes_(static_cast<uint64_t>(params.WireFcsBytes)),
      table_entries_(static_cast<size_t>(params.SwitchTableEntries)),
      ageing_(params.SwitchAgeingTime),
      ports_(plugs.size()) {
  for (size_t i = 0; i < plugs.size(); ++i) ports_[i].plug = plugs[i];
}

Time Switch::NextStart(const Port& out) { return out.queue.empty() ? kNever : std::max(out.queue.front().ready, out.plug.FreeAt()); }

Time Switch::NextEvent() const {
  Time next = kNever;
  for (const Port& p : ports_) {
    if (!p.arriving.empty()) next = std::min(next, p.arriving.front().frame.last_byte);
    next = std::min(next, NextStart(p));
  }
  return next;
}

void Switch::Step(Time t) {
  for (size_t i = 0; i < ports_.size(); ++i) {
    std::deque<Arrival>& arriving = ports_[i].arriving;
    while (!arriving.empty() && arriving.front().frame.last_byte <= t) {
      Arrival a = std::move(arriving.front());
      arriving.pop_front();
      Receive(i, t, std::move(a));
    }
  }
  for (Port& out : ports_) {
    if (NextStart(out) > t) continue;
    FreeRoom(&out, t);
    const std::vector<uint8_t>& bytes = out.queue.front().bytes;
    out.leaving = Size(bytes.size());
    out.left = out.plug.Transmit(t, bytes.data(), bytes.size());
    out.queue.pop_front();
  }
}

void Switch::FreeRoom(Port* out, Time t) {
  if (out->left > t) return;
  out->filling -= out->leaving;
  out->left = kNever;
}

void Switch::Receive(size_t port, Time t, Arrival arrival) {
  SwitchPortCounts& counts = ports_[port].counts;
  if (arrival.damaged) {
    ++counts.wrong_fcs;
    return;
  }
  ++counts.received;
  const std::vector<uint8_t>& bytes = arrival.frame.bytes;
  Age(t);
  Learn(port, t, Address(bytes, kEthernetHeaderSourceOffset));
  const uint64_t destination = Address(bytes, kEthernetHeaderDestinationOffset);
  const auto known = table_.find(destination);
  if ((destination & kReservedMask) == kReserved || (known != table_.end() && known->second->port == port)) {
    ++counts.filtered;
    return;
  }
  if (known != table_.end()) {
    Enqueue(port, &ports_[known->second->port], t, bytes);
    return;
  }
  ++counts.flooded;
  for (size_t i = 0; i < ports_.size(); ++i)
    if (i != port) Enqueue(port, &ports_[i], t, bytes);
}

void Switch::Age(Time t) {
  while (!entries_.empty() && entries_.front().heard + ageing_ <= t) {
    ++ports_[entries_.front().port].counts.aged;
    table_.erase(entries_.front().address);
    entries_.pop_front();
  }
}

void Switch::Learn(size_t port, Time t, uint64_t address) {
  if ((address & kGroup) != 0) return;  // a group address is no source
  const auto known = table_.find(address);
  if (known != table_.end()) {
    Entry& entry = *known->second;
    if (entry.port != port) ++ports_[port].counts.moved;
    entry.port = port;
    entry.heard = t;
    entries_.splice(entries_.end(), entries_, known->second);
  } else if (table_.size() < table_entries_) {
    table_[address] = entries_.insert(entries_.end(), {address, port, t});
  } else {
    ++ports_[port].counts.unlearned;
  }
}

void Switch::Enqueue(size_t from, Port* out, Time t, const std::vector<uint8_t>& bytes) {
  FreeRoom(out, t);
  if (out->filling == 0) out->starved.clear();
  const auto mine = std::find(out->starved.begin(), out->starved.end(), from);
  const uint64_t kept = static_cast<uint64_t>(mine - out->starved.begin()) * Size(kMaxFrame);
  if (out->filling + Size(bytes.size()) + kept > room_) {
    ++out->counts.no_room;
    if (mine == out->starved.end()) out->starved.push_back(from);
    return;
  }
  if (mine != out->starved.end()) out->starved.erase(mine);
  out->filling += Size(bytes.size());
  out->counts.highest_filling = std::max(out->counts.highest_filling, out->filling);
  ++out->counts.forwarded;
  out->queue.push_back({t + latency_, bytes});
}

}  // namespace hvia::fabric

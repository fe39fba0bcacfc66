// SPDX-License-Identifier: Apache-2.0
#include "sim/fabric/echo_node.h"

#include <algorithm>
#include <cstring>

#include "sim/model/big_endian.h"

namespace hvia::fabric {
namespace {

// Costs of this device, in clocks of the system bus. They model no hardware.
constexpr int kBootClocks = 1000;
constexpr int kDoorbellClocks = 8;
constexpr int kReadClocks = 12;
constexpr int kWriteClocks = 6;
constexpr int kRegisterClocks = 14;
constexpr uint32_t kBurstBytes = 512;

constexpr size_t kHeader = kEthernetHeaderSize + kEchoHeaderSize;

uint32_t GetBig32(const uint8_t* p) { return static_cast<uint32_t>(GetBig(p, 4)); }

}  // namespace

Time EchoNode::BootSpan() const { return 2 * kBootClocks * s_.params->SystemClockPeriod; }

void EchoNode::Boot(Time start) { Schedule(start + kBootClocks * s_.params->SystemClockPeriod, Kind::kBooted); }

std::string EchoNode::NotReady() const { return booted_ ? "" : "echo device has not finished its boot"; }

Time EchoNode::TakeBus(Time t, int overhead_clocks, uint32_t bytes) {
  const Time period = s_.params->SystemClockPeriod;
  const Time edge = t <= 0 ? 0 : (t + period - 1) / period * period;
  const Time start = std::max(edge, bus_free_);
  bus_free_ = start + (overhead_clocks + static_cast<Time>(bytes + 3) / 4) * period;
  return bus_free_;
}

void EchoNode::HostWrite(Time t, int, uint32_t address, const uint32_t* data, int count) {
  if (address == kEchoDoorbell && count == kDoorbellDwords) {
    requests_.push_back(data[0]);
    if (requests_.size() == 1) StartTransfer(t + kDoorbellClocks * s_.params->SystemClockPeriod);
  } else if (address == kEchoRegisterInterrupt && count == 1 && (data[0] & 1) != 0) {
    interrupt_ = false;
  }
}

void EchoNode::HostRead(Time t, int slot, uint32_t address) { Schedule(t + kRegisterClocks * s_.params->SystemClockPeriod, Kind::kRegisterRead, slot, address); }

uint32_t EchoNode::ReadRegister(uint32_t address) const {
  switch (address) {
    case kEchoRegisterID: return kEchoID;
    case kEchoRegisterReceived: return received_;
    case kEchoRegisterInterrupt: return interrupt_ ? 1 : 0;
    default: return 0xffffffffu;  // a master abort reads as all ones
  }
}

void EchoNode::Deliver(Frame frame) {
  if (frame.bytes[kEthernetHeaderDestinationOffset + 5] != s_.index) return;  // flooded
  Schedule(frame.last_byte, Kind::kArrived);
  in_flight_.push_back(std::move(frame));
}

void EchoNode::Step(Time t) {
  while (!events_.empty() && events_.top().time == t) {
    const Event e = events_.top();
    events_.pop();
    switch (e.kind) {
      case Kind::kBooted: booted_ = true; break;
      case Kind::kFetched: ReadRequest(t); break;
      case Kind::kPayloadRead: ReadBurst(t); break;
      case Kind::kFrameGone: StartFrame(t); break;
      case Kind::kStatusWritten:
        s_.memory->WriteDword(requests_.front() + kEchoRequestStatusOffset, 1, 0xf);
        s_.memory->BurstEnd();
        requests_.pop_front();
        if (!requests_.empty()) StartTransfer(t);
        break;
      case Kind::kArrived:
        arrived_.push_back(std::move(in_flight_.front().bytes));
        in_flight_.pop_front();
        if (arrived_.size() == 1) StartStore(t);
        break;
      case Kind::kStored: StoreBurst(t); break;
      case Kind::kRegisterRead: s_.fabric->ReadComplete(e.slot, ReadRegister(e.address), t); break;
    }
  }
}

void EchoNode::StartTransfer(Time t) { Schedule(TakeBus(t, kReadClocks, kEchoRequestSize), Kind::kFetched); }

void EchoNode::ReadRequest(Time t) {
  const uint32_t base = requests_.front();
  for (size_t i = 0; i < request_.size(); ++i) request_[i] = s_.memory->ReadDword(base + static_cast<uint32_t>(4 * i));
  s_.memory->BurstEnd();
  const uint32_t node = request_[kEchoRequestNodeOffset / 4];
  if (!s_.link.Connected() || node >= static_cast<uint32_t>(s_.nodes) || node == static_cast<uint32_t>(s_.index)) {
    s_.fabric->Fault(s_.index, "echo device: request at " + std::to_string(base) + " names node " + std::to_string(node) + ", which is not another one of its fabric");
    return;
  }
  sent_ = 0;
  StartFrame(t);
}

void EchoNode::StartFrame(Time t) {
  const uint32_t length = request_[kEchoRequestLengthOffset / 4];
  if (sent_ == length) {
    Schedule(TakeBus(t, kWriteClocks, 4), Kind::kStatusWritten);
    return;
  }
  const uint32_t payload = std::min<uint32_t>(length - sent_, kEchoMaxPayload - kEchoHeaderSize);
  frame_.assign(std::max<size_t>(kHeader + payload, kMinFrame), 0);
  uint8_t* ethernet = frame_.data();
  ethernet[kEthernetHeaderDestinationOffset] = 0x02;
  ethernet[kEthernetHeaderDestinationOffset + 5] = static_cast<uint8_t>(request_[kEchoRequestNodeOffset / 4]);
  ethernet[kEthernetHeaderSourceOffset] = 0x02;
  ethernet[kEthernetHeaderSourceOffset + 5] = static_cast<uint8_t>(s_.index);
  ethernet[kEthernetHeaderEtherTypeOffset] = static_cast<uint8_t>(kEchoEtherType >> 8);
  ethernet[kEthernetHeaderEtherTypeOffset + 1] = static_cast<uint8_t>(kEchoEtherType);
  uint8_t* header = ethernet + kEthernetHeaderSize;
  uint32_t flags = 0;
  if (sent_ + payload == length) {
    flags |= kEchoHeaderFlagsLastMask;
    if (request_[kEchoRequestInterruptOffset / 4] != 0) flags |= kEchoHeaderFlagsInterruptMask;
  }
  PutBig(header + kEchoHeaderTargetAddressOffset, request_[kEchoRequestTargetAddressOffset / 4] + sent_, 4);
  PutBig(header + kEchoHeaderLengthOffset, payload, 4);
  PutBig(header + kEchoHeaderFlagsOffset, flags, 4);
  read_ = 0;
  Schedule(TakeBus(t, kReadClocks, std::min(payload, kBurstBytes)), Kind::kPayloadRead);
}

void EchoNode::ReadBurst(Time t) {
  const uint32_t payload = GetBig32(frame_.data() + kEthernetHeaderSize + kEchoHeaderLengthOffset);
  const uint32_t end = std::min(payload, read_ + kBurstBytes);
  for (; read_ < end; read_ += 4) {
    const uint32_t v = s_.memory->ReadDword(request_[kEchoRequestSourceAddressOffset / 4] + sent_ + read_);
    std::memcpy(frame_.data() + kHeader + read_, &v, 4);
  }
  s_.memory->BurstEnd();
  if (read_ < payload) {
    Schedule(TakeBus(t, kReadClocks, std::min(payload - read_, kBurstBytes)), Kind::kPayloadRead);
    return;
  }
  sent_ += payload;
  Schedule(s_.link.Transmit(t, frame_.data(), frame_.size()), Kind::kFrameGone);
}

void EchoNode::StartStore(Time t) {
  stored_ = 0;
  Schedule(TakeBus(t, kWriteClocks, std::min(GetBig32(arrived_.front().data() + kEthernetHeaderSize + kEchoHeaderLengthOffset), kBurstBytes)), Kind::kStored);
}

void EchoNode::StoreBurst(Time t) {
  const uint8_t* frame = arrived_.front().data();
  const uint8_t* header = frame + kEthernetHeaderSize;
  const uint32_t payload = GetBig32(header + kEchoHeaderLengthOffset);
  const uint32_t target = GetBig32(header + kEchoHeaderTargetAddressOffset);
  const uint32_t end = std::min(payload, stored_ + kBurstBytes);
  for (; stored_ < end; stored_ += 4) {
    uint32_t v;
    std::memcpy(&v, frame + kHeader + stored_, 4);
    s_.memory->WriteDword(target + stored_, v, 0xf);
  }
  s_.memory->BurstEnd();
  if (stored_ < payload) {
    Schedule(TakeBus(t, kWriteClocks, std::min(payload - stored_, kBurstBytes)), Kind::kStored);
    return;
  }
  const uint32_t flags = GetBig32(header + kEchoHeaderFlagsOffset);
  if ((flags & kEchoHeaderFlagsLastMask) != 0) ++received_;
  if ((flags & kEchoHeaderFlagsInterruptMask) != 0) interrupt_ = true;
  arrived_.pop_front();
  if (!arrived_.empty()) StartStore(t);
}

}  // namespace hvia::fabric

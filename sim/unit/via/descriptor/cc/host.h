// SPDX-License-Identifier: Apache-2.0

// The host side of the descriptor testbench: memory in scattered pages that can be returned, the
// regions of the translation, and descriptors with every kind of defect.
#pragma once
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/unit/internal/unit/testbench.h"
#include "sim/gen/hvia_layout.h"

namespace testbench {

constexpr uint32_t kPage = hvia::kAttPageBytes;
constexpr uint32_t kBytes = hvia::kDescriptorFetchBytes;
using Image = std::array<uint8_t, kBytes>;

inline uint64_t Load(const uint8_t* p, int bytes) {
  uint64_t v = 0;
  std::memcpy(&v, p, bytes);  // the host is little-endian, as the descriptor is
  return v;
}
inline void Store(uint8_t* p, uint64_t v, int bytes) { std::memcpy(p, &v, bytes); }

// Physical memory. Only pages in use may be accessed. A returned page is never used again.
class Memory {
 public:
  explicit Memory(unit::Rng* rng) : rng_(rng) {}

  uint32_t Allocate() {
    for (;;) {
      uint32_t page = rng_->Bits(20);
      if (page == 0 || pages_.count(page)) continue;
      auto& p = pages_[page];
      p = std::make_unique<std::array<uint8_t, kPage>>();
      for (auto& b : *p) b = static_cast<uint8_t>(rng_->Bits(8));
      return page << 12;
    }
  }
  void GiveBack(uint32_t pa) { pages_[pa >> 12] = nullptr; }

  uint8_t* At(uint32_t pa, uint32_t len, const char* who) {
    auto it = pages_.find(pa >> 12);
    if (it == pages_.end()) unit::Fail("%s touches %08x, which was never memory", who, pa);
    if (!it->second) unit::Fail("%s touches %08x, which was returned", who, pa);
    if ((pa % kPage) + len > kPage) unit::Fail("%s touches %u bytes at %08x, across a page", who, len, pa);
    return it->second->data() + pa % kPage;
  }

 private:
  unit::Rng* rng_;
  std::unordered_map<uint32_t, std::unique_ptr<std::array<uint8_t, kPage>>> pages_;
};

struct Region {
  uint32_t handle = 0;
  uint64_t va = 0;
  uint16_t tag = 0;
  bool valid = false;
  bool given_back = false;
  std::vector<uint32_t> pages;
  uint32_t Physical(uint64_t at) const { return pages[(at - va) / kPage] + (at - va) % kPage; }
};

// The expected status bits of a descriptor that the card has read. Written from the descriptor
// format, not from the RTL.
inline uint32_t Check(const Image& d, bool receive, uint32_t vi_state, bool reliable) {
  const uint32_t segments = Load(&d[hvia::kDescriptorSegmentCountOffset], 2);
  const uint32_t control = Load(&d[hvia::kDescriptorControlOffset], 2);
  const uint32_t reserved = Load(&d[hvia::kDescriptorReservedOffset], 4);
  const uint64_t length = Load(&d[hvia::kDescriptorLengthOffset], 4);
  if (!receive && vi_state != hvia::kVIStateConnected) return hvia::kDescriptorStatusFlushedMask;
  const uint32_t operation = control & hvia::kDescriptorControlOperationMask;
  const bool read = operation == hvia::kDescriptorOperationRDMARead;
  const bool rdma = operation == hvia::kDescriptorOperationRDMAWrite || read;
  bool format = reserved != 0 || (control & hvia::kDescriptorControlReservedMask);
  uint32_t first_data = 0;  // number of the first data segment
  if (operation == hvia::kDescriptorOperationSend) {
    if (segments > hvia::kMaxDataSegments) format = true;
  } else if (rdma && !receive) {
    first_data = 1;
    if (segments < 1 || segments > hvia::kMaxDataSegments + 1) format = true;
    if (Load(&d[hvia::kDescriptorSize + hvia::kAddressSegmentReservedOffset], 4) != 0) format = true;
    if (read && (!reliable || (control & hvia::kDescriptorControlImmediateMask))) format = true;
  } else {
    format = true;
  }
  if (format) return hvia::kDescriptorStatusFormatErrorMask;
  if (receive || hvia::kDescriptorSize + segments * hvia::kDataSegmentSize > kBytes) return 0;
  uint64_t sum = 0;
  for (uint32_t k = first_data; k < segments; k++) {
    sum += Load(&d[hvia::kDescriptorSize + k * hvia::kDataSegmentSize + hvia::kDataSegmentLengthOffset], 4);
  }
  return sum == length ? 0 : hvia::kDescriptorStatusLengthErrorMask;
}

// Kinds of descriptors. Reserved control bits 4..15 are separate kinds. RDMA writes: the first four
// and those with Rdma in their names. Sends: names that start with Send. Reads: names with Read.
// The others are a Send on a receive queue, and either a Send or an RDMA write on a send queue.
enum Kind : int {
  kRdmaOne, kRdmaNone, kRdmaEmptyData, kRdmaLongLength, kSendNone, kSendOne, kSendTwo, kSomeSegments, kMostSegments,
  kFence, kImmediate,
  kLongLength, kShortLength, kLengthTopBit, kSendSumWraps,
  kReadShort, kReadMany, kReadLongLength,
  kReadImmediate, kReadNoAddress, kReadAddressReserved, kReadTooMany,
  kOpReserved, kTooManySegments, kReservedWord, kRdmaNoAddress, kRdmaAddressReserved,
  kReservedBit0,
  kKinds = kReservedBit0 + 12,
};
constexpr int kGoodKinds = kLongLength;

inline const char* KindName(int k) {
  static const char* const names[] = {
      "rdma_one", "rdma_none", "rdma_empty_data", "rdma_long_length", "send_none", "send_one", "send_two",
      "some_segments", "most_segments", "fence", "immediate", "long_length", "short_length", "length_top_bit",
      "send_sum_wraps", "read_short", "read_many", "read_long_length", "read_immediate", "read_no_address",
      "read_address_reserved", "read_too_many", "op_reserved", "too_many_segments", "reserved_word", "rdma_no_address",
      "rdma_address_reserved", "control_4", "control_5", "control_6", "control_7", "control_8", "control_9",
      "control_10", "control_11", "control_12", "control_13", "control_14", "control_15"};
  static_assert(sizeof(names) / sizeof(names[0]) == kKinds, "one name per kind");
  return names[k];
}

inline bool IsRead(int k) { return k >= kReadShort && k <= kReadTooMany; }
// The kind has an address segment, or lacks a required one.
inline bool IsRdma(int k) { return k <= kRdmaLongLength || k == kRdmaNoAddress || k == kRdmaAddressReserved || IsRead(k); }

// The expected status bits of a kind on a connected VI. They check Check, so that an error in
// either is found.
inline uint32_t KindStatus(int k, bool receive, bool reliable) {
  if (receive && IsRdma(k)) return hvia::kDescriptorStatusFormatErrorMask;
  if (k == kRdmaLongLength || (k >= kLongLength && k <= kSendSumWraps)) return receive ? 0 : hvia::kDescriptorStatusLengthErrorMask;
  if (IsRead(k) && reliable && k < kReadImmediate) {
    return k == kReadLongLength ? static_cast<uint32_t>(hvia::kDescriptorStatusLengthErrorMask) : 0;
  }
  return k >= kReadShort ? hvia::kDescriptorStatusFormatErrorMask : 0;
}

inline Image MakeDescriptor(unit::Rng* rng, int kind, bool receive) {
  Image d;
  for (auto& b : d) b = static_cast<uint8_t>(rng->Bits(8));
  const bool send = kind >= kSendNone && kind <= kSendTwo;
  const bool rdma = IsRdma(kind) || (!receive && !send && kind != kSendSumWraps && rng->Chance(1, 2));
  uint32_t control = IsRead(kind) ? hvia::kDescriptorOperationRDMARead :
                     rdma ? hvia::kDescriptorOperationRDMAWrite : hvia::kDescriptorOperationSend;
  uint32_t data = rng->Below(rdma ? 2 : 3);
  uint32_t lengths[2] = {};
  for (auto& l : lengths) l = rng->Chance(1, 2) ? rng->Range(1, 65536) : rng->Range(1, 0x7fffffff);
  uint32_t reserved = 0, address_reserved = 0;
  switch (kind) {
    case kRdmaOne: data = 1; break;
    case kRdmaNone: case kRdmaLongLength: case kSendNone: data = 0; break;
    case kRdmaEmptyData: data = 1; lengths[0] = 0; break;
    case kSendOne: data = 1; break;
    case kSendTwo: data = 2; break;
    case kSomeSegments: data = rng->Range(rdma ? 2 : 3, hvia::kMaxDataSegments - 1); break;
    case kMostSegments: data = hvia::kMaxDataSegments; break;
    case kReadMany: data = rng->Range(2, hvia::kMaxDataSegments); break;
    case kReadTooMany:
    case kTooManySegments:
      data = rng->Chance(1, 2) ? hvia::kMaxDataSegments + 1 : rng->Range(1, 252) | 1u << rng->Range(8, 15);
      break;
    case kSendSumWraps:
      data = 2;
      for (auto& l : lengths) l |= 0x80000000u;
      break;
    default: break;
  }
  uint32_t segments = data + (rdma ? 1 : 0);
  uint32_t length = 0;
  for (uint32_t i = 0; i < data && i < 2; i++) length += lengths[i];
  switch (kind) {
    case kFence: control |= hvia::kDescriptorControlQueueFenceMask; break;
    case kReadImmediate:
    case kImmediate: control |= hvia::kDescriptorControlImmediateMask; break;
    case kReadLongLength: length ^= 1u << rng->Below(32); break;
    case kRdmaLongLength: length = 1u << rng->Below(32); break;
    case kLongLength: length++; break;
    case kShortLength: length--; break;
    case kLengthTopBit: length ^= 0x80000000u; break;
    case kOpReserved: control = hvia::kDescriptorOperationReserved; break;
    case kReservedWord: reserved = 1u << rng->Below(32); break;
    case kReadNoAddress:
    case kRdmaNoAddress: segments = 0; length = 0; break;
    case kReadAddressReserved:
    case kRdmaAddressReserved: address_reserved = 1u << rng->Below(32); break;
    default:
      if (kind >= kReservedBit0) control |= 1u << (hvia::kDescriptorControlReservedLsb + kind - kReservedBit0);
  }
  Store(&d[hvia::kDescriptorSegmentCountOffset], segments, 2);
  Store(&d[hvia::kDescriptorControlOffset], control, 2);
  Store(&d[hvia::kDescriptorReservedOffset], reserved, 4);
  Store(&d[hvia::kDescriptorLengthOffset], length, 4);
  Store(&d[hvia::kDescriptorStatusOffset], 0, 4);
  uint8_t* segment = &d[hvia::kDescriptorSize];
  if (rdma) {
    Store(segment + hvia::kAddressSegmentReservedOffset, address_reserved, 4);
    segment += hvia::kAddressSegmentSize;
  }
  // Bytes after the segments do not form a segment.
  for (uint32_t i = 0; i < data && segment + hvia::kDataSegmentSize <= d.data() + kBytes; i++) {
    Store(segment + hvia::kDataSegmentLengthOffset, lengths[i], 4);
    segment += hvia::kDataSegmentSize;
  }
  return d;
}

}  // namespace testbench

// SPDX-License-Identifier: Apache-2.0

// The host side of the descriptor bench: memory in scattered pages that can be given back, the
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

#include "sim/bench/internal/unit/bench.h"
#include "sim/gen/hvia_layout.h"

namespace bench {

constexpr uint32_t kPage = hvia::kAttPageBytes;
constexpr uint32_t kBytes = hvia::kDescriptorFetchBytes;
using Image = std::array<uint8_t, kBytes>;

inline uint64_t Load(const uint8_t* p, int bytes) {
  uint64_t v = 0;
  std::memcpy(&v, p, bytes);  // the host is little-endian, as the descriptor is
  return v;
}
inline void Store(uint8_t* p, uint64_t v, int bytes) { std::memcpy(p, &v, bytes); }

// Physical memory. Only pages in use may be touched; a page that was given back is gone for good.
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
    if (!it->second) unit::Fail("%s touches %08x, which was given back", who, pa);
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
  std::vector<uint32_t> pages;
  uint32_t Physical(uint64_t at) const { return pages[(at - va) / kPage] + (at - va) % kPage; }
};

// What a descriptor that the card has read must turn into. Written from the rules of the
// descriptor format, not from the RTL.
struct Verdict {
  uint32_t status = 0;
  uint32_t data_len = 0;
};

inline Verdict Judge(const Image& d, uint32_t vi_state) {
  const uint32_t segments = Load(&d[hvia::kDescriptorSegmentCountOffset], 2);
  const uint32_t control = Load(&d[hvia::kDescriptorControlOffset], 2);
  const uint32_t reserved = Load(&d[hvia::kDescriptorReservedOffset], 4);
  const uint32_t length = Load(&d[hvia::kDescriptorLengthOffset], 4);
  const uint8_t* address = &d[hvia::kDescriptorSize];
  const uint8_t* data = address + hvia::kAddressSegmentSize;
  Verdict v;
  if (segments == 2) v.data_len = Load(data + hvia::kDataSegmentLengthOffset, 4);
  if (vi_state != hvia::kViStateConnected) {
    v.status = hvia::kDescriptorStatusFlushedMask;
    return v;
  }
  const uint32_t operation = control & hvia::kDescriptorControlOperationMask;
  bool format = false;
  if (operation != hvia::kDescriptorOperationRdmaWrite) format = true;
  if (control & hvia::kDescriptorControlImmediateMask) format = true;
  if (control & hvia::kDescriptorControlReservedMask) format = true;
  if (segments < 1 || segments > 2) format = true;
  if (reserved != 0) format = true;
  if (Load(address + hvia::kAddressSegmentReservedOffset, 4) != 0) format = true;
  if (format) {
    v.status = hvia::kDescriptorStatusFormatErrorMask;
  } else if (length != v.data_len) {
    v.status = hvia::kDescriptorStatusLengthErrorMask;
  }
  return v;
}

// Kinds of descriptors. Reserved control bits 4..15 are kinds of their own.
enum Kind : int {
  kTwoSegments, kOneSegment, kEmptyData, kFence,
  kOpSend, kOpRead, kOpReserved, kNoSegment, kThreeSegments, kManySegments, kImmediate,
  kReservedWord, kAddressReserved, kLongLength, kShortLength, kLengthTopBit, kLengthWithoutData,
  kReservedBit0,
  kKinds = kReservedBit0 + 12,
};

inline const char* KindName(int k) {
  static const char* const names[] = {
      "two_segments", "one_segment", "empty_data", "fence", "op_send", "op_read", "op_reserved", "no_segment",
      "three_segments", "many_segments", "immediate", "reserved_word", "address_reserved", "long_length",
      "short_length", "length_top_bit", "length_without_data", "control_4", "control_5", "control_6", "control_7",
      "control_8", "control_9", "control_10", "control_11", "control_12", "control_13", "control_14", "control_15"};
  static_assert(sizeof(names) / sizeof(names[0]) == kKinds, "one name per kind");
  return names[k];
}

// The status bits that a kind must end with on a connected VI: a second opinion beside Judge, so
// that one of the two being wrong shows.
inline uint32_t KindStatus(int k) {
  if (k <= kFence) return 0;
  if (k >= kLongLength && k <= kLengthWithoutData) return hvia::kDescriptorStatusLengthErrorMask;
  return hvia::kDescriptorStatusFormatErrorMask;
}

inline Image MakeDescriptor(unit::Rng* rng, int kind) {
  Image d;
  for (auto& b : d) b = static_cast<uint8_t>(rng->Bits(8));
  uint8_t* address = &d[hvia::kDescriptorSize];
  uint8_t* data = address + hvia::kAddressSegmentSize;
  uint32_t control = hvia::kDescriptorOperationRdmaWrite;
  uint32_t segments = 2;
  uint32_t data_len = rng->Chance(1, 2) ? rng->Range(1, 65536) : rng->Range(1, 0x7fffffff);
  uint32_t reserved = 0, address_reserved = 0;
  if (kind == kOneSegment || kind == kLengthWithoutData) segments = 1;
  if (kind == kEmptyData) data_len = 0;
  uint32_t length = segments == 2 ? data_len : 0;
  switch (kind) {
    case kFence: control |= hvia::kDescriptorControlQueueFenceMask; break;
    case kOpSend: control = hvia::kDescriptorOperationSend; break;
    case kOpRead: control = hvia::kDescriptorOperationRdmaRead; break;
    case kOpReserved: control = hvia::kDescriptorOperationReserved; break;
    case kNoSegment: segments = 0; length = 0; break;
    case kThreeSegments: segments = 3; break;
    case kManySegments: segments = 2 | 1u << rng->Range(2, 15); break;
    case kImmediate: control |= hvia::kDescriptorControlImmediateMask; break;
    case kReservedWord: reserved = 1u << rng->Below(32); break;
    case kAddressReserved: address_reserved = 1u << rng->Below(32); break;
    case kLongLength: length++; break;
    case kShortLength: length--; break;
    case kLengthTopBit: length ^= 0x80000000u; break;
    case kLengthWithoutData: length = 1u << rng->Below(32); break;
    default:
      if (kind >= kReservedBit0) control |= 1u << (hvia::kDescriptorControlReservedLsb + kind - kReservedBit0);
  }
  Store(&d[hvia::kDescriptorSegmentCountOffset], segments, 2);
  Store(&d[hvia::kDescriptorControlOffset], control, 2);
  Store(&d[hvia::kDescriptorReservedOffset], reserved, 4);
  Store(&d[hvia::kDescriptorLengthOffset], length, 4);
  Store(&d[hvia::kDescriptorStatusOffset], 0, 4);
  Store(address + hvia::kAddressSegmentReservedOffset, address_reserved, 4);
  if (segments != 1) Store(data + hvia::kDataSegmentLengthOffset, data_len, 4);
  return d;
}

}  // namespace bench

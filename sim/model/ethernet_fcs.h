// SPDX-License-Identifier: Apache-2.0

// The frame check sequence of Ethernet.
#pragma once
#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hvia {

constexpr size_t kFcsBytes = 4;

// EthernetFcs returns the CRC-32 of a frame in FCS order, first wire byte in bits 7:0.
inline uint32_t EthernetFcs(const uint8_t* data, size_t bytes) { return static_cast<uint32_t>(crc32_z(0, data, bytes)); }

inline void AppendFcs(std::vector<uint8_t>* frame) {
  const uint32_t fcs = EthernetFcs(frame->data(), frame->size());
  for (size_t i = 0; i < kFcsBytes; ++i) frame->push_back(static_cast<uint8_t>(fcs >> (8 * i)));
}

// Whether the bytes are a frame with a good FCS.
inline bool HasGoodFcs(const std::vector<uint8_t>& bytes) {
  if (bytes.size() <= kFcsBytes) return false;
  const size_t n = bytes.size() - kFcsBytes;
  const uint32_t want = EthernetFcs(bytes.data(), n);
  for (size_t i = 0; i < kFcsBytes; ++i)
    if (bytes[n + i] != static_cast<uint8_t>(want >> (8 * i))) return false;
  return true;
}

}  // namespace hvia

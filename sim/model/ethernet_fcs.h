// SPDX-License-Identifier: Apache-2.0

// The CRC-32 of Ethernet, for the model of the MAC and for a wire that damages frames.
#ifndef HVIA_SIM_MODEL_ETHERNET_FCS_H_
#define HVIA_SIM_MODEL_ETHERNET_FCS_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace hvia {

// Row k takes a byte through k further zero bytes, so that four bytes are one step.
using FcsTables = std::array<std::array<uint32_t, 256>, 4>;

inline FcsTables MakeFcsTables() {
  FcsTables t = {};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int k = 0; k < 8; ++k) c = (c & 1) ? 0xedb88320u ^ (c >> 1) : c >> 1;
    t[0][i] = c;
  }
  for (size_t k = 1; k < t.size(); ++k)
    for (size_t i = 0; i < 256; ++i) t[k][i] = t[0][t[k - 1][i] & 0xff] ^ (t[k - 1][i] >> 8);
  return t;
}

// EthernetFcs is the CRC-32 of a frame as its FCS carries it, first wire byte in bits 7:0.
inline uint32_t EthernetFcs(const uint8_t* data, size_t bytes) {
  static const FcsTables t = MakeFcsTables();
  uint32_t c = 0xffffffffu;
  size_t i = 0;
  for (; i + 4 <= bytes; i += 4) {
    c ^= uint32_t{data[i]} | uint32_t{data[i + 1]} << 8 | uint32_t{data[i + 2]} << 16 | uint32_t{data[i + 3]} << 24;
    c = t[3][c & 0xff] ^ t[2][c >> 8 & 0xff] ^ t[1][c >> 16 & 0xff] ^ t[0][c >> 24];
  }
  for (; i < bytes; ++i) c = t[0][(c ^ data[i]) & 0xff] ^ (c >> 8);
  return ~c;
}

}  // namespace hvia

#endif  // HVIA_SIM_MODEL_ETHERNET_FCS_H_

// SPDX-License-Identifier: Apache-2.0
// The interface from the host bridge to host memory.
#pragma once
#include <cstdint>

namespace hvia {

// HostMemoryPort is aligned 32-bit access to a host's memory. Addresses ascend in a burst.
class HostMemoryPort {
 public:
  virtual ~HostMemoryPort() = default;
  virtual uint32_t ReadDword(uint32_t address) = 0;
  // Bit i of byte_enables writes byte i (bits 8i+7..8i of data).
  virtual void WriteDword(uint32_t address, uint32_t data, uint8_t byte_enables) = 0;
  // A burst that wrote at least one dword has ended: its data may be published.
  virtual void BurstEnd() = 0;
};

}  // namespace hvia

// SPDX-License-Identifier: Apache-2.0
#include "sim/fabric/host_memory.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

namespace hvia::fabric {

HostMemory::HostMemory(int node, const std::string& name, uint64_t bytes, MemoryObserver* observer)
    : node_(node),
      observer_(observer),
      memory_("hvia-memory-" + name, bytes),
      use_("hvia-use-" + name, bytes / kBridgeFrameBytes * kBridgeFrameUseSize),
      frames_(bytes / kBridgeFrameBytes) {}

uint32_t HostMemory::ReadDword(uint32_t address) {
  if (sink_) return 0;
  if (!InUse(address)) {
    observer_->OnMemoryFault(node_, false, address);
    return 0xffffffffu;
  }
  return __atomic_load_n(reinterpret_cast<const uint32_t*>(memory_.Base() + (address & ~3u)), __ATOMIC_ACQUIRE);
}

// Each store is a release: a thread that sees the last dword of a burst (the status word) also sees
// the earlier ones (the data).
void HostMemory::WriteDword(uint32_t address, uint32_t data, uint8_t byte_enables) {
  byte_enables &= 0xf;
  if (sink_ || byte_enables == 0) return;
  if (!InUse(address)) {
    observer_->OnMemoryFault(node_, true, address);
    return;
  }
  const uint32_t aligned = address & ~3u;
  uint8_t* p = memory_.Base() + aligned;
  if (byte_enables == 0xf) {
    __atomic_store_n(reinterpret_cast<uint32_t*>(p), data, __ATOMIC_RELEASE);
  } else {
    for (int i = 0; i < 4; ++i) {
      if (byte_enables >> i & 1) __atomic_store_n(p + i, static_cast<uint8_t>(data >> (8 * i)), __ATOMIC_RELEASE);
    }
  }
  if (aligned < watch_hi_ && aligned + 4ull > watch_lo_) {
    // Only the enabled bytes: a watch of byte 3 must not fire for a write of byte 0.
    const int first = __builtin_ctz(byte_enables), last = 31 - __builtin_clz(byte_enables);
    observer_->OnMemoryWrite(node_, aligned + static_cast<uint64_t>(first), aligned + static_cast<uint64_t>(last) + 1);
  }
}

std::string HostMemory::MapOver(uint64_t first, uint64_t frames, int fd, uint64_t offset) {
  void* at = memory_.Base() + first * kBridgeFrameBytes;
  if (mmap(at, frames * kBridgeFrameBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, static_cast<off_t>(offset)) != MAP_FAILED) return "";
  return "map frames " + std::to_string(first) + " to " + std::to_string(first + frames - 1) + " of node " + std::to_string(node_) + ": " + std::strerror(errno);
}

std::string HostMemory::InsertBank(uint64_t first, uint64_t frames, const SealedFile& bank) {
  const std::string why = MapOver(first, frames, bank.Descriptor(), 0);
  if (!why.empty()) return why;
  // The bank hides this memory. RemoveBank uncovers it, and then it must be zero.
  if (fallocate(memory_.Descriptor(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(first * kBridgeFrameBytes), static_cast<off_t>(frames * kBridgeFrameBytes)) == 0) return "";
  const std::string what = std::strerror(errno);
  (void)RemoveBank(first, frames);
  return "give back frames " + std::to_string(first) + " to " + std::to_string(first + frames - 1) + " of node " + std::to_string(node_) + ": " + what;
}

std::string HostMemory::RemoveBank(uint64_t first, uint64_t frames) { return MapOver(first, frames, memory_.Descriptor(), first * kBridgeFrameBytes); }

uint64_t HostMemory::FramesInUse(uint64_t first, uint64_t frames, uint64_t* example) const {
  uint64_t count = 0;
  for (uint64_t f = first; f < first + frames; ++f) {
    if (Load32(use_.Base(), f * kBridgeFrameUseSize) == 0) continue;
    if (count++ == 0) *example = f;
  }
  return count;
}

}  // namespace hvia::fabric

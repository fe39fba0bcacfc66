// SPDX-License-Identifier: Apache-2.0
// One host's memory as its card sees it through the host bridge. Every access is checked against
// the frame-use table, which the driver maintains. An access to an unused frame is a bug of the
// card and stops the run.
#pragma once
#include <cstdint>
#include <string>

#include "sim/fabric/shared_pages.h"
#include "sim/gen/hvia_layout.h"
#include "sim/model/host_memory_port.h"

namespace hvia::fabric {

// MemoryObserver is notified of the card's accesses to a host's memory.
class MemoryObserver {
 public:
  virtual ~MemoryObserver() = default;
  // Bytes [lo, hi) were written.
  virtual void OnMemoryWrite(int node, uint64_t lo, uint64_t hi) = 0;
  // The card accessed a frame that is not in use. The access was not carried out.
  virtual void OnMemoryFault(int node, bool write, uint64_t address) = 0;
};

class HostMemory : public HostMemoryPort {
 public:
  HostMemory(int node, const std::string& name, uint64_t bytes, MemoryObserver* observer);

  uint32_t ReadDword(uint32_t address) override;
  void WriteDword(uint32_t address, uint32_t data, uint8_t byte_enables) override;
  void BurstEnd() override {}  // each dword was published when it was stored

  // Writes that touch none of [lo, hi) are not reported. Free mode reports all.
  void SetWatched(uint64_t lo, uint64_t hi) { watch_lo_ = lo, watch_hi_ = hi; }
  // For a dead process's memory: writes are dropped, reads return zeros, nothing faults.
  void SetSink() { sink_ = true; }

  // Maps a file over frames, so that the card sees the file's pages there. The old contents are
  // lost. Returns an error text, or an empty one.
  std::string InsertBank(uint64_t first, uint64_t frames, const SealedFile& bank);
  // Restores zeroed memory there.
  std::string RemoveBank(uint64_t first, uint64_t frames);
  // Counts the frames of a range that the card may touch. `example` receives the first.
  uint64_t FramesInUse(uint64_t first, uint64_t frames, uint64_t* example) const;
  uint64_t Frames() const { return frames_; }

  const SharedFile& Memory() const { return memory_; }
  const SharedFile& Use() const { return use_; }

 private:
  bool InUse(uint32_t address) const {
    const uint64_t frame = address / kBridgeFrameBytes;
    return frame < frames_ && Get32(use_.Base(), frame * kBridgeFrameUseSize) != 0;
  }

  std::string MapOver(uint64_t first, uint64_t frames, int fd, uint64_t offset);

  const int node_;
  MemoryObserver* const observer_;
  SharedFile memory_;
  SharedFile use_;
  const uint64_t frames_;
  uint64_t watch_lo_ = 0;
  uint64_t watch_hi_ = 0;
  bool sink_ = false;
};

}  // namespace hvia::fabric

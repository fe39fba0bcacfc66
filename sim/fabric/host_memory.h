// SPDX-License-Identifier: Apache-2.0
// One host's memory as its card sees it through the host bridge. Every access is checked against
// the frame-use table, which the driver maintains: a card that touches an unused frame has a bug,
// and the run stops.
#pragma once
#include <cstdint>
#include <string>

#include "sim/fabric/shared_pages.h"
#include "sim/gen/hvia_layout.h"
#include "sim/model/host_memory_port.h"

namespace hvia::fabric {

// MemoryObserver is notified of what the card does to a host's memory.
class MemoryObserver {
 public:
  virtual ~MemoryObserver() = default;
  // Bytes [lo, hi) were written.
  virtual void OnMemoryWrite(int node, uint64_t lo, uint64_t hi) = 0;
  // An access outside the frames in use; it was not carried out.
  virtual void OnMemoryFault(int node, bool write, uint64_t address) = 0;
};

class HostMemory : public HostMemoryPort {
 public:
  HostMemory(int node, const std::string& name, uint64_t bytes, MemoryObserver* observer);

  uint32_t ReadDword(uint32_t address) override;
  void WriteDword(uint32_t address, uint32_t data, uint8_t byte_enables) override;
  void BurstEnd() override {}  // each dword is published as it is stored, in order

  // Writes that touch none of [lo, hi) are not reported. Free mode reports all.
  void SetWatched(uint64_t lo, uint64_t hi) { watch_lo_ = lo, watch_hi_ = hi; }
  // A dead process's memory: writes vanish, reads give zeros, nothing faults.
  void SetSink() { sink_ = true; }

  // Maps a file over frames, so that the card sees its pages there; what was in
  // them is gone. Returns an empty text, or why it failed.
  std::string InsertBank(uint64_t first, uint64_t frames, const SealedFile& bank);
  // Puts fresh zero memory back there.
  std::string RemoveBank(uint64_t first, uint64_t frames);
  // Frames of a range that the card may touch, and the first of them.
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

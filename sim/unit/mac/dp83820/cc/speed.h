// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace testbench {

// Speeds in bus clocks, means over many frames.
struct Speeds {
  double read_burst = 0, write_burst = 0;        // start of a 512-byte burst to the next one's
  double transmit_frame = 0, receive_frame = 0;  // one status to the next
  int64_t descriptor_read = 0, status_write = 0; // FRAME# to the end of the idle clock
  uint64_t read_bytes = 0, write_bytes = 0;      // of frames
  uint64_t retry = 0;
};

// Measure sends frames of 1,514 bytes back to back in one direction or both. If `byte_time` (ps)
// and a frame on the wire are faster than the bus, bursts never wait for a FIFO.
Speeds Measure(int bits, bool transmit, bool receive, uint64_t frames, int64_t byte_time);

}  // namespace testbench

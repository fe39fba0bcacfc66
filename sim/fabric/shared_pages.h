// SPDX-License-Identifier: Apache-2.0
// Memory shared with the host processes, and typed access to it. Offsets come
// from the generated layout; this file only knows how to load and store.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace hvia::fabric {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the bridge's pages are little-endian and shared in place");

// SharedFile is an anonymous file, mapped here and handed to other processes
// as a descriptor. It is sealed against resizing, so that no peer can make an
// access to the mapping fail by truncating it.
class SharedFile {
 public:
  SharedFile(const std::string& name, size_t bytes);
  ~SharedFile();
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;
  uint8_t* Base() const { return base_; }
  size_t Bytes() const { return bytes_; }
  int Descriptor() const { return fd_; }

 private:
  int fd_ = -1;
  uint8_t* base_ = nullptr;
  size_t bytes_ = 0;
};

// Plain fields, ordered by a later atomic store or an earlier atomic load.
inline uint32_t Get32(const uint8_t* p, size_t offset) { return __atomic_load_n(reinterpret_cast<const uint32_t*>(p + offset), __ATOMIC_RELAXED); }
inline uint64_t Get64(const uint8_t* p, size_t offset) { return __atomic_load_n(reinterpret_cast<const uint64_t*>(p + offset), __ATOMIC_RELAXED); }
inline void Put32(uint8_t* p, size_t offset, uint32_t v) { __atomic_store_n(reinterpret_cast<uint32_t*>(p + offset), v, __ATOMIC_RELAXED); }
inline void Put64(uint8_t* p, size_t offset, uint64_t v) { __atomic_store_n(reinterpret_cast<uint64_t*>(p + offset), v, __ATOMIC_RELAXED); }

// Atomics. Sleep flags and the words they guard form Dekker pairs, which need
// one total order; so everything here is sequentially consistent, as in Go.
inline uint32_t Load32(const uint8_t* p, size_t offset) { return __atomic_load_n(reinterpret_cast<const uint32_t*>(p + offset), __ATOMIC_SEQ_CST); }
inline void Store32(uint8_t* p, size_t offset, uint32_t v) { __atomic_store_n(reinterpret_cast<uint32_t*>(p + offset), v, __ATOMIC_SEQ_CST); }
inline uint32_t Increment32(uint8_t* p, size_t offset) { return __atomic_add_fetch(reinterpret_cast<uint32_t*>(p + offset), 1, __ATOMIC_SEQ_CST); }
inline bool CompareAndSwap32(uint8_t* p, size_t offset, uint32_t from, uint32_t to) {
  return __atomic_compare_exchange_n(reinterpret_cast<uint32_t*>(p + offset), &from, to, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

// FutexWait sleeps while the word holds the value, at most so long.
void FutexWait(uint8_t* p, size_t offset, uint32_t value, int64_t timeout_ns);
// FutexWake wakes every sleeper of the word, in this process or another.
void FutexWake(uint8_t* p, size_t offset);

// MonotonicNs is wall time, for watchdogs only: it never enters a result.
int64_t MonotonicNs();

}  // namespace hvia::fabric

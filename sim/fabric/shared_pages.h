// SPDX-License-Identifier: Apache-2.0
// Memory shared with the host processes, and typed access to it. This file only loads and stores;
// the offsets come from the generated layout.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace hvia::fabric {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the bridge's pages are little-endian and shared in place");

// SealedFile is an anonymous file that other processes receive as a descriptor. It is sealed
// against resizing, so that no peer can make an access to a mapping fail by truncating the file.
class SealedFile {
 public:
  SealedFile(const std::string& name, size_t bytes) : SealedFile(name, bytes, true) {}
  ~SealedFile();
  SealedFile(const SealedFile&) = delete;
  SealedFile& operator=(const SealedFile&) = delete;
  size_t Bytes() const { return bytes_; }
  int Descriptor() const { return fd_; }

 private:
  friend class SharedFile;
  SealedFile(const std::string& name, size_t bytes, bool finished);
  // Adds the given seals, and one that forbids further seals.
  void Finish(int seals);

  const std::string name_;
  const size_t bytes_;
  int fd_ = -1;
};

// SharedFile is a sealed file that is mapped here.
class SharedFile {
 public:
  enum class Others { kWrite, kReadOnly };
  // With kReadOnly nobody can map the file for writing, or write to it, once this mapping exists.
  SharedFile(const std::string& name, size_t bytes, Others others = Others::kWrite);
  ~SharedFile();
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;
  uint8_t* Base() const { return base_; }
  size_t Bytes() const { return file_.Bytes(); }
  int Descriptor() const { return file_.Descriptor(); }

 private:
  SealedFile file_;
  uint8_t* base_ = nullptr;
};

// Plain fields. A later atomic store or an earlier atomic load orders them.
inline uint32_t Get32(const uint8_t* p, size_t offset) { return __atomic_load_n(reinterpret_cast<const uint32_t*>(p + offset), __ATOMIC_RELAXED); }
inline uint64_t Get64(const uint8_t* p, size_t offset) { return __atomic_load_n(reinterpret_cast<const uint64_t*>(p + offset), __ATOMIC_RELAXED); }
inline void Put32(uint8_t* p, size_t offset, uint32_t v) { __atomic_store_n(reinterpret_cast<uint32_t*>(p + offset), v, __ATOMIC_RELAXED); }
inline void Put64(uint8_t* p, size_t offset, uint64_t v) { __atomic_store_n(reinterpret_cast<uint64_t*>(p + offset), v, __ATOMIC_RELAXED); }

// Atomics. A sleep flag and the word that it guards form a Dekker pair, which requires one total
// order. So all accesses here are sequentially consistent, as in Go.
inline uint32_t Load32(const uint8_t* p, size_t offset) { return __atomic_load_n(reinterpret_cast<const uint32_t*>(p + offset), __ATOMIC_SEQ_CST); }
inline void Store32(uint8_t* p, size_t offset, uint32_t v) { __atomic_store_n(reinterpret_cast<uint32_t*>(p + offset), v, __ATOMIC_SEQ_CST); }
inline uint32_t Increment32(uint8_t* p, size_t offset) { return __atomic_add_fetch(reinterpret_cast<uint32_t*>(p + offset), 1, __ATOMIC_SEQ_CST); }
inline bool CompareAndSwap32(uint8_t* p, size_t offset, uint32_t from, uint32_t to) {
  return __atomic_compare_exchange_n(reinterpret_cast<uint32_t*>(p + offset), &from, to, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

// FutexWait sleeps while the word holds the value, at most timeout_ns.
void FutexWait(uint8_t* p, size_t offset, uint32_t value, int64_t timeout_ns);
// FutexWake wakes every sleeper of the word, in this process or another.
void FutexWake(uint8_t* p, size_t offset);

// MonotonicNs is wall time, for watchdogs only: it never enters a result.
int64_t MonotonicNs();

}  // namespace hvia::fabric

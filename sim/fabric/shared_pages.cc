// SPDX-License-Identifier: Apache-2.0
#include "sim/fabric/shared_pages.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <stdexcept>

namespace hvia::fabric {

namespace {

#ifndef F_SEAL_FUTURE_WRITE
constexpr int F_SEAL_FUTURE_WRITE = 0x10;  // Linux 5.1
#endif

[[noreturn]] void Fail(const std::string& name, size_t bytes, const char* what) {
  const int e = errno;
  throw std::runtime_error("shared memory " + name + " of " + std::to_string(bytes) + " bytes: " + what + ": " + std::strerror(e));
}

}  // namespace

SealedFile::SealedFile(const std::string& name, size_t bytes, bool finished) : name_(name), bytes_(bytes) {
  fd_ = memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd_ < 0) Fail(name_, bytes_, "memfd_create");
  const bool sized = ftruncate(fd_, static_cast<off_t>(bytes)) == 0;
  if (!sized || fcntl(fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | (finished ? F_SEAL_SEAL : 0)) != 0) {
    const int e = errno;
    close(fd_);
    errno = e;
    Fail(name_, bytes_, sized ? "seal against resizing" : "ftruncate");
  }
}

void SealedFile::Finish(int seals) {
  if (fcntl(fd_, F_ADD_SEALS, seals | F_SEAL_SEAL) != 0) Fail(name_, bytes_, "seal against writable mappings, which needs Linux 5.1");
}

SealedFile::~SealedFile() { close(fd_); }

SharedFile::SharedFile(const std::string& name, size_t bytes, Others others) : file_(name, bytes, false) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_.fd_, 0);
  if (p == MAP_FAILED) Fail(name, bytes, "mmap");
  file_.Finish(others == Others::kReadOnly ? F_SEAL_FUTURE_WRITE : 0);
  base_ = static_cast<uint8_t*>(p);
}

SharedFile::~SharedFile() { munmap(base_, Bytes()); }

void FutexWait(uint8_t* p, size_t offset, uint32_t value, int64_t timeout_ns) {
  timespec ts{static_cast<time_t>(timeout_ns / 1000000000), static_cast<long>(timeout_ns % 1000000000)};
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(p + offset), FUTEX_WAIT, value, &ts, nullptr, 0);
}

void FutexWake(uint8_t* p, size_t offset) { syscall(SYS_futex, reinterpret_cast<uint32_t*>(p + offset), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

int64_t MonotonicNs() {
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return static_cast<int64_t>(ts.tv_sec) * 1000000000 + ts.tv_nsec;
}

}  // namespace hvia::fabric

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

SharedFile::SharedFile(const std::string& name, size_t bytes) : bytes_(bytes) {
  auto fail = [&](const char* what) {
    int e = errno;
    if (fd_ >= 0) close(fd_);
    throw std::runtime_error("shared memory " + name + " of " + std::to_string(bytes) + " bytes: " + what + ": " + std::strerror(e));
  };
  fd_ = memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd_ < 0) fail("memfd_create");
  if (ftruncate(fd_, static_cast<off_t>(bytes)) != 0) fail("ftruncate");
  if (fcntl(fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) fail("seal against resizing");
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd_, 0);
  if (p == MAP_FAILED) fail("mmap");
  base_ = static_cast<uint8_t*>(p);
}

SharedFile::~SharedFile() {
  munmap(base_, bytes_);
  close(fd_);
}

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

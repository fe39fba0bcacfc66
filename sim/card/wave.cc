// SPDX-License-Identifier: Apache-2.0
#include "sim/card/wave.h"

#if VM_TRACE_FST

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <iostream>

#include "Vcard_socket.h"
#include "sim/fabric/node.h"
#include "sim/model/big_endian.h"
#include "verilated_fst_c.h"

namespace hvia::fabric {

namespace {

// The FST writer does not report write errors. A file is complete if its blocks (a type and a
// big-endian length each) end at the end of the file and include header, geometry and hierarchy.
bool IsComplete(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const int64_t end = file.tellg();
  enum BlockType { kHeader = 0, kGeometry = 3, kHierarchy = 4, kHierarchyLz4 = 6, kHierarchyLz4Duo = 7 };
  bool header = false, geometry = false, hierarchy = false;
  int64_t at = 0;
  while (file && at < end) {
    uint8_t block[9];
    file.seekg(at);
    if (!file.read(reinterpret_cast<char*>(block), sizeof block)) return false;
    const uint64_t length = GetBig(block + 1, 8);
    if (length < 8 || length > static_cast<uint64_t>(end - at - 1)) return false;
    header |= block[0] == kHeader;
    geometry |= block[0] == kGeometry;
    hierarchy |= block[0] == kHierarchy || block[0] == kHierarchyLz4 || block[0] == kHierarchyLz4Duo;
    at += 1 + static_cast<int64_t>(length);
  }
  return header && geometry && hierarchy && at == end;
}

// The FST writer of Verilator 5.048 aborts the process when a write fails, with a line about itself
// on std::cerr. While a Writing exists, that is an OutputError instead, reported as main() does.
class Writing {
 public:
  explicit Writing(const std::string& incomplete) : cerr_(std::cerr.rdbuf(nullptr)) { report_ = &incomplete; }
  ~Writing() {
    report_ = nullptr;
    std::cerr.rdbuf(cerr_);
  }
  static void Aborted(int) {
    if (report_ == nullptr) return;
    for (const std::string& part : {std::string("hvia-sim: "), *report_, std::string("\n")}) (void)!::write(STDERR_FILENO, part.data(), part.size());
    ::_exit(OutputError::kExit);
  }

 private:
  static inline const std::string* report_ = nullptr;
  std::streambuf* cerr_;
};

}  // namespace

Wave::Wave(Vcard_socket* model, const std::string& path)
    : path_(path), incomplete_("wave file " + path + ": cannot be written completely (is the disk full?)"), file_(std::make_unique<VerilatedFstC>()) {
  std::signal(SIGABRT, Writing::Aborted);
  file_->set_time_unit("1ps");
  file_->set_time_resolution("1ps");
  model->trace(file_.get(), 99);
  {
    Writing writing(incomplete_);
    file_->open(path.c_str());
  }
  if (!file_->isOpen()) throw OutputError("wave file " + path + ": cannot be written");
  Flush();
}

Wave::~Wave() {
  Writing writing(incomplete_);
  if (file_) file_->close();
}

void Wave::Dump(uint64_t time) {
  Writing writing(incomplete_);
  file_->dump(time);
}

void Wave::Finish() {
  Flush();
  {
    Writing writing(incomplete_);
    file_->close();
  }
  if (!IsComplete(path_)) Incomplete();
}

// The writer hides a failed write. When it closes, it maps its files, and a file that is too short
// kills this process. So it stays open after a failure.
void Wave::Flush() {
  if (std::fflush(nullptr) == 0) return;
  (void)file_.release();
  Incomplete();
}

void Wave::Incomplete() {
  std::remove((path_ + ".hier").c_str());
  throw OutputError(incomplete_);
}

}  // namespace hvia::fabric

#else

// The node never makes one: kAvailable is false.
class VerilatedFstC {};

namespace hvia::fabric {
Wave::Wave(Vcard_socket*, const std::string&) {}
Wave::~Wave() {}
void Wave::Dump(uint64_t) {}
void Wave::Finish() {}
}  // namespace hvia::fabric

#endif

// SPDX-License-Identifier: Apache-2.0
// Files that a run writes on request: trace events of the cards and the models, and the frames of
// the wire. Both hold records of `layout`, in the order of the events.
#pragma once
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "sim/fabric/time.h"

namespace hvia::fabric {

class RecordFile {
 public:
  RecordFile() = default;
  ~RecordFile() { Close(); }
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;
  // Throws std::runtime_error with the path and the reason.
  void Open(const std::string& path);
  bool IsOpen() const { return file_ != nullptr; }
  void Write(const void* data, size_t bytes);
  void Flush();
  void Close();

 private:
  std::FILE* file_ = nullptr;
  std::string path_;
};

class Recorder {
 public:
  void OpenTrace(const std::string& path) { trace_.Open(path); }
  void OpenFrames(const std::string& path) { frames_.Open(path); }
  bool Tracing() const { return trace_.IsOpen(); }
  void Event(Time t, int node, uint8_t event, uint8_t vi, uint32_t sequence);
  void Frame(Time start, int source, int destination, const std::vector<uint8_t>& bytes, uint32_t faults);
  void Flush();

 private:
  RecordFile trace_;
  RecordFile frames_;
};

}  // namespace hvia::fabric

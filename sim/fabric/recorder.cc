// SPDX-License-Identifier: Apache-2.0
#include "sim/fabric/recorder.h"

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "sim/fabric/node.h"
#include "sim/gen/hvia_layout.h"

namespace hvia::fabric {

namespace {

template <typename T>
void Put(uint8_t* record, size_t offset, T value) {
  std::memcpy(record + offset, &value, sizeof value);
}

}  // namespace

void RecordFile::Open(const std::string& path) {
  path_ = path;
  file_ = std::fopen(path.c_str(), "wb");
  if (file_ == nullptr) throw OutputError("record file " + path + ": " + std::strerror(errno));
}

void RecordFile::Write(const void* data, size_t bytes) {
  if (std::fwrite(data, 1, bytes, file_) != bytes) throw OutputError("record file " + path_ + ": " + std::strerror(errno));
}

void RecordFile::Flush() {
  if (file_ != nullptr && std::fflush(file_) != 0) throw OutputError("record file " + path_ + ": " + std::strerror(errno));
}

void RecordFile::Close() {
  if (file_ != nullptr) std::fclose(file_);
  file_ = nullptr;
}

void Recorder::Event(Time t, int node, uint8_t event, uint8_t vi, uint32_t sequence) {
  if (!trace_.IsOpen()) return;
  uint8_t record[kTraceRecordSize] = {};
  Put(record, kTraceRecordTimeOffset, static_cast<uint64_t>(t));
  Put(record, kTraceRecordSequenceOffset, sequence);
  Put(record, kTraceRecordNodeOffset, static_cast<uint8_t>(node));
  Put(record, kTraceRecordVIOffset, vi);
  Put(record, kTraceRecordEventOffset, event);
  trace_.Write(record, sizeof record);
}

void Recorder::Frame(Time start, int source, int destination, const std::vector<uint8_t>& bytes, uint32_t faults) {
  if (!frames_.IsOpen()) return;
  uint8_t record[kFrameRecordSize] = {};
  Put(record, kFrameRecordTimeOffset, static_cast<uint64_t>(start));
  Put(record, kFrameRecordSourceOffset, static_cast<uint8_t>(source));
  Put(record, kFrameRecordDestinationOffset, static_cast<uint8_t>(destination));
  Put(record, kFrameRecordLengthOffset, static_cast<uint16_t>(bytes.size()));
  Put(record, kFrameRecordFaultsOffset, static_cast<uint16_t>(faults));
  frames_.Write(record, sizeof record);
  frames_.Write(bytes.data(), bytes.size());
}

void Recorder::Flush() {
  trace_.Flush();
  frames_.Flush();
}

}  // namespace hvia::fabric

// SPDX-License-Identifier: Apache-2.0
// FST waves of a card's Verilated model. Only a simulator that was built with
// tracing can write them.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

class Vcard_socket;
class VerilatedFstC;

namespace hvia::fabric {

class Wave {
 public:
  static constexpr bool kAvailable = VM_TRACE_FST;

  // To be made before the model's first evaluation. Throws OutputError if the file cannot be
  // created.
  Wave(Vcard_socket* model, const std::string& path);
  ~Wave();
  // Writes the model's signals at a time after the last one, in ps.
  void Dump(uint64_t time);
  // Completes the file, or throws OutputError.
  void Finish();

 private:
  void Flush();
  [[noreturn]] void Incomplete();

  std::string path_;
  std::string incomplete_;  // the error
  std::unique_ptr<VerilatedFstC> file_;
};

}  // namespace hvia::fabric

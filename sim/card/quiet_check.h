// SPDX-License-Identifier: Apache-2.0
// Tests what a block's quiet output promises: its next clock changes no flip-flop in it. Only a
// simulator that was built for it has this test, because it compares the signals of the model by
// their waves.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

class Vcard_socket;
class VerilatedVcdC;

namespace hvia::fabric {

class QuietCheck {
 public:
  static constexpr bool kAvailable =
#ifdef HVIA_CHECK_QUIET
      true;
#else
      false;
#endif

  // To be made before the model's first evaluation.
  explicit QuietCheck(Vcard_socket* model);
  ~QuietCheck();
  // Clocks one block by itself, if its bit in idle is 1; turn selects it. Returns the names of the
  // signals that changed, or "". All inputs have their levels for the next clock, which is low.
  std::string Clock(uint64_t turn, uint32_t idle);
  // All signals and their levels, in lines.
  std::string Levels();

 private:
  class Changes;
  Vcard_socket* model_;
  std::unique_ptr<Changes> changes_;
  std::unique_ptr<VerilatedVcdC> waves_;
  uint64_t time_ = 0;
};

}  // namespace hvia::fabric

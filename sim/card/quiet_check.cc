// SPDX-License-Identifier: Apache-2.0
#include "sim/card/quiet_check.h"

#ifdef HVIA_CHECK_QUIET

#include <map>
#include <sstream>

#include "Vcard_socket.h"
#include "verilated_vcd_c.h"

namespace hvia::fabric {

namespace {
constexpr int kBlockBits = 32;  // of the socket's port
}

// Collects what the writer of waves writes, instead of a file.
class QuietCheck::Changes : public VerilatedVcdFile {
 public:
  bool open(const std::string&) override { return true; }
  void close() override {}
  ssize_t write(const char* text, ssize_t n) override {
    text_.append(text, static_cast<size_t>(n));
    return n;
  }
  // Reads the declarations before a first dump.
  void Names() {
    std::istringstream lines(text_);
    std::string path;
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string word, kind, width, code, name;
      words >> word;
      if (word == "$scope") {
        words >> kind >> name;
        path += name + ".";
      } else if (word == "$upscope") {
        path.erase(path.find_last_of('.', path.size() - 2) + 1);
      } else if (word == "$var") {
        words >> kind >> width >> code >> name;
        names_.emplace(code, path + name);
      }
    }
  }
  // The names of what changed since the last dump, or each with its new level in a line. Checkers
  // may change: they see inputs.
  std::string Take(bool levels) {
    std::istringstream lines(text_);
    text_.clear();
    std::string changed;
    for (std::string line; std::getline(lines, line);) {
      if (line.empty() || line[0] == '#') continue;
      const std::string code = line[0] == 'b' ? line.substr(line.find(' ') + 1) : line.substr(1);
      const auto name = names_.find(code);
      if (name == names_.end() || name->second.find(".u_checker.") != std::string::npos) continue;
      changed += " " + name->second;
      if (levels) changed += " " + line.substr(0, line.size() - code.size()) + "\n";
    }
    return changed;
  }

 private:
  std::string text_;
  std::map<std::string, std::string> names_;
};

QuietCheck::QuietCheck(Vcard_socket* model)
    : model_(model), changes_(std::make_unique<Changes>()), waves_(std::make_unique<VerilatedVcdC>(changes_.get())) {
  model->trace(waves_.get(), 99);
  waves_->open("memory");
}

QuietCheck::~QuietCheck() { waves_->close(); }

std::string QuietCheck::Clock(uint64_t turn, uint32_t idle) {
  const int block = static_cast<int>(turn % kBlockBits);
  if ((idle >> block & 1) == 0) return "";
  model_->eval();
  waves_->dump(++time_);
  waves_->flush();
  if (time_ == 1) changes_->Names();
  changes_->Take(false);
  model_->block_clk_i = 1u << block;
  model_->eval();
  model_->block_clk_i = 0;
  model_->eval();
  waves_->dump(++time_);
  waves_->flush();
  return changes_->Take(false);
}

std::string QuietCheck::Levels() {
  model_->eval();  // all clocks are low
  waves_->openNext(false);  // starts with all levels
  waves_->dump(++time_);
  waves_->flush();
  changes_->Names();
  return changes_->Take(true);
}

}  // namespace hvia::fabric

#else

class VerilatedVcdC {};

namespace hvia::fabric {
class QuietCheck::Changes {};
QuietCheck::QuietCheck(Vcard_socket* model) : model_(model) {}
QuietCheck::~QuietCheck() {}
std::string QuietCheck::Clock(uint64_t, uint32_t) { return ""; }
std::string QuietCheck::Levels() { return ""; }
}  // namespace hvia::fabric

#endif

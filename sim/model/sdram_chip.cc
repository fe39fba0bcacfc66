// SPDX-License-Identifier: Apache-2.0

#include "sim/model/sdram_chip.h"

#include <utility>

#include "sim/model/splitmix.h"

namespace hvia {

namespace {

// A time so far in the past that it satisfies every timing rule.
constexpr int64_t kNever = INT64_MIN / 4;

// Number of refreshes that a controller may postpone (JEDEC's rule for later devices; a PC100 data
// sheet only requires all rows within 64 ms).
constexpr int64_t kPostponed = 8;

constexpr int kInitRefreshes = 2;  // the minimum of the data sheet

}  // namespace

SdramChip::SdramChip(const SdramTiming& timing, uint64_t seed, int64_t power_on, Report report)
    : t_(timing),
      seed_(seed),
      report_(std::move(report)),
      banks_(size_t{1} << timing.bank_bits),
      rows_(size_t{1} << (timing.bank_bits + timing.row_bits)),
      power_on_(power_on),
      refreshed_(kNever),
      activated_(kNever),
      mode_time_(kNever),
      idle_dq_(static_cast<uint32_t>(SplitMix::Mix(seed))) {
  for (Bank& b : banks_) b.activated = b.precharged = b.written = kNever;
}

void SdramChip::ControllerReset(int64_t time) {
  power_on_ = time;
  init_precharged_ = false;
  init_refreshes_ = 0;
  mode_set_ = false;
}

uint32_t* SdramChip::Row(int bank, int row) {
  std::unique_ptr<uint32_t[]>& p = rows_[(static_cast<size_t>(bank) << t_.row_bits) + row];
  if (!p) {
    const size_t n = size_t{1} << t_.column_bits;
    p.reset(new uint32_t[n]);
    SplitMix noise(SplitMix::Mix(seed_ ^ (static_cast<uint64_t>(bank) << 32 | static_cast<uint64_t>(row))));
    for (size_t i = 0; i < n; i += 2) {
      const uint64_t v = noise.Next();
      p[i] = static_cast<uint32_t>(v);
      p[i + 1] = static_cast<uint32_t>(v >> 32);
    }
  }
  return p.get();
}

std::string SdramChip::State() const {
  std::string text = "SDRAM";
  for (const int64_t v : {refreshed_, refresh_base_, refresh_count_, activated_, mode_time_}) text += " " + std::to_string(v);
  for (const uint64_t v : {refreshes_, activates_, reads_, writes_, violations_}) text += " " + std::to_string(v);
  return text + "\n";
}

uint32_t SdramChip::Peek(int bank, int row, int column) { return Row(bank, row)[column]; }

void SdramChip::Violation(int64_t time, const char* command, const std::string& what) {
  violations_++;
  report_(time, std::string("SDRAM: ") + command + ": " + what);
}

void SdramChip::NeedAtLeast(int64_t time, const char* command, const char* rule, int64_t since,
                            int64_t least) {
  if (time - since < least) {
    Violation(time, command,
              std::string(rule) + " needs " + std::to_string(least) + " ps, got " +
                  std::to_string(time - since) + " ps");
  }
}

// Refreshes are due at a steady rate. A few may be late.
void SdramChip::NeedRefreshed(int64_t time, const char* command) {
  const int64_t owed = (time - refresh_base_) / t_.refresh;
  if (owed - refresh_count_ > kPostponed) {
    Violation(time, command,
              std::to_string(owed) + " refreshes owed since initialisation, " +
                  std::to_string(refresh_count_) + " given");
    refresh_count_ = owed;  // one report per lapse
  }
}

void SdramChip::CheckRefresh(int64_t time) {
  if (mode_set_) NeedRefreshed(time, "end of run");
}

void SdramChip::Precharge(Bank* bank, int index, int64_t time) {
  if (!bank->open) return;  // precharging a closed bank does nothing
  const std::string who = "PRECHARGE of bank " + std::to_string(index);
  NeedAtLeast(time, who.c_str(), "tRAS", bank->activated, t_.ras);
  NeedAtLeast(time, who.c_str(), "tDPL", bank->written, t_.write_clocks * t_.clock);
  bank->open = false;
  bank->precharged = time;
}

void SdramChip::Command(const SdramPins& pins, int64_t time) {
  const int code = (pins.ras_n ? 4 : 0) | (pins.cas_n ? 2 : 0) | (pins.we_n ? 1 : 0);
  const size_t b = pins.ba & (banks_.size() - 1);
  Bank& bank = banks_[b];
  static const char* const kNames[] = {"MODE REGISTER SET", "REFRESH", "PRECHARGE", "ACTIVE",
                                       "WRITE", "READ", "BURST STOP", "NOP"};
  const char* name = kNames[code];

  if (!pins.cke) Violation(time, name, "CKE is low");
  if (time - power_on_ < t_.power_up) {
    Violation(time, name, "before the end of the power-up wait of " + std::to_string(t_.power_up) + " ps");
  }
  NeedAtLeast(time, name, "tRC after REFRESH", refreshed_, t_.rc);
  NeedAtLeast(time, name, "tMRD", mode_time_, t_.mrd_clocks * t_.clock);

  switch (code) {
    case 0: {  // MODE REGISTER SET
      for (const Bank& x : banks_) {
        if (x.open) Violation(time, name, "a bank is open");
        NeedAtLeast(time, name, "tRP", x.precharged, t_.rp);
      }
      if (!init_precharged_ || init_refreshes_ < kInitRefreshes) {
        Violation(time, name, "before PRECHARGE ALL and " + std::to_string(kInitRefreshes) + " refreshes");
      }
      cas_ = (pins.a >> 4) & 7;
      if ((pins.a & 0xf8f) != 0 || cas_ < 2 || cas_ > 3 || pins.ba != 0) {
        Violation(time, name, "value " + std::to_string(pins.a) + ": the model knows burst length 1 at CL 2 and 3 only");
        cas_ = 2;
      }
      mode_set_ = true;
      mode_time_ = time;
      refresh_base_ = time;
      refresh_count_ = 0;
      break;
    }
    case 1: {  // REFRESH
      for (const Bank& x : banks_) {
        if (x.open) Violation(time, name, "a bank is open");
        NeedAtLeast(time, name, "tRP", x.precharged, t_.rp);
        NeedAtLeast(time, name, "tRC", x.activated, t_.rc);
      }
      if (!mode_set_) {
        if (!init_precharged_) Violation(time, name, "before PRECHARGE ALL");
        init_refreshes_++;
      }
      refreshed_ = time;
      refresh_count_++;
      refreshes_++;
      break;
    }
    case 2: {  // PRECHARGE
      if ((pins.a & 0x400) != 0) {
        for (size_t i = 0; i < banks_.size(); i++) Precharge(&banks_[i], static_cast<int>(i), time);
        init_precharged_ = true;
      } else {
        Precharge(&bank, static_cast<int>(b), time);
      }
      break;
    }
    case 3: {  // ACTIVE
      if (!mode_set_) Violation(time, name, "before the mode register was set");
      if (bank.open) Violation(time, name, "bank " + std::to_string(b) + " is open");
      NeedAtLeast(time, name, "tRP", bank.precharged, t_.rp);
      NeedAtLeast(time, name, "tRC", bank.activated, t_.rc);
      NeedAtLeast(time, name, "tRRD", activated_, t_.rrd);
      NeedRefreshed(time, name);
      bank.open = true;
      bank.row = pins.a & ((1 << t_.row_bits) - 1);
      bank.data = Row(static_cast<int>(b), bank.row);
      bank.activated = activated_ = time;
      activates_++;
      break;
    }
    case 4:    // WRITE
    case 5: {  // READ
      if (!mode_set_) Violation(time, name, "before the mode register was set");
      if ((pins.a & 0x400) != 0) Violation(time, name, "the model knows no auto-precharge");
      if (!bank.open) {
        Violation(time, name, "bank " + std::to_string(b) + " is closed");
        break;
      }
      NeedAtLeast(time, name, "tRCD", bank.activated, t_.rcd);
      const int column = pins.a & ((1 << t_.column_bits) - 1);
      if (code == 5) {
        reads_++;
        if (pins.dqm != 0) Violation(time, name, "the model knows no masked reads");
        // The controller samples the data one edge after it appears on the lines.
        pipe_[cas_].valid = true;
        pipe_[cas_].data = bank.data[column];
      } else {
        writes_++;
        if (!pins.dq_oe) Violation(time, name, "the data lines are not driven");
        uint32_t mask = 0;
        for (int i = 0; i < 4; i++) {
          if (((pins.dqm >> i) & 1) == 0) mask |= 0xffu << (8 * i);
        }
        bank.data[column] = (bank.data[column] & ~mask) | (pins.dq & mask);
        bank.written = time;
      }
      break;
    }
    case 6:
      Violation(time, name, "not used with burst length 1");
      break;
    default:
      break;
  }
}

uint32_t SdramChip::Work(const SdramPins& pins, int64_t time) {
  // The device drove the lines up to this edge, or is releasing them.
  if (pins.dq_oe && (driving_ || !released_)) {
    Violation(time, "data lines", "the controller drives while the device does");
  }
  const bool nop = pins.cs_n || (pins.ras_n && pins.cas_n && pins.we_n);
  if (!nop) Command(pins, time);

  released_ = !driving_;
  for (int i = 0; i + 1 < kPipe; i++) pipe_[i] = pipe_[i + 1];
  pipe_[kPipe - 1].valid = false;
  driving_ = pipe_[0].valid;
  busy_ = driving_ || !released_;
  for (const Beat& beat : pipe_) busy_ = busy_ || beat.valid;
  return driving_ ? pipe_[0].data : idle_dq_;
}

}  // namespace hvia

// SPDX-License-Identifier: Apache-2.0

// Pin-level model of the card's SDRAM: one 32-bit device of four banks. It executes commands as the
// device would and reports every violation of the data sheet: order of initialization, bank states,
// tRCD, tRP, tRAS, tRC, tRRD, tMRD, tDPL, refresh, and two drivers on the data lines.
//
// Time is in picoseconds. An idle clock costs a few nanoseconds of CPU time. While no read is in
// flight (Idle) time may jump, because all checks compare times and none counts clocks.
#ifndef HVIA_SIM_MODEL_SDRAM_CHIP_H_
#define HVIA_SIM_MODEL_SDRAM_CHIP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hvia {

// The data sheet's limits, from the parameters of a profile.
struct SdramTiming {
  int64_t bank_bits, row_bits, column_bits;
  int64_t clock;  // period
  int64_t rcd, rp, ras, rc, rrd;
  int64_t mrd_clocks, write_clocks;  // tMRD, tDPL
  int64_t refresh, power_up;

  // Copies the fields of a generated parameter structure.
  template <typename Params>
  static SdramTiming From(const Params& p) {
    return SdramTiming{p.SdramBankBits,     p.SdramRowBits,     p.SdramColumnBits, p.SdramClockPeriod,
                       p.SdramRcdTime,      p.SdramRpTime,      p.SdramRasTime,    p.SdramRcTime,
                       p.SdramRrdTime,      p.SdramMrdClocks,   p.SdramWrClocks,   p.SdramRefreshTime,
                       p.SdramPowerUpTime};
  }
};

// Pins as driven by the controller.
struct SdramPins {
  bool cke, cs_n, ras_n, cas_n, we_n;
  uint8_t ba;
  uint16_t a;
  uint8_t dqm;
  uint32_t dq;
  bool dq_oe;
};

class SdramChip {
 public:
  using Report = std::function<void(int64_t time, const std::string& what)>;

  // Unwritten memory reads as noise of `seed`. The power-up wait starts at `power_on`.
  SdramChip(const SdramTiming& timing, uint64_t seed, int64_t power_on, Report report);

  // One rising clock edge at `time`, with the pins before the edge. Returns the data lines after
  // it, which the controller samples at the next edge (noise unless a read delivers).
  uint32_t Tick(const SdramPins& pins, int64_t time) {
    const bool nop = pins.cs_n || (pins.ras_n && pins.cas_n && pins.we_n);
    if (nop && !busy_ && !pins.dq_oe) return idle_dq_;
    return Work(pins, time);
  }

  // True if no read or bus turnaround is in flight: time may jump.
  bool Idle() const { return !busy_; }

  // The controller was reset. Initialization may start again; the contents stay.
  void ControllerReset(int64_t time);

  // Passes over refreshes, a period apart, after the present one.
  void PassOver(int64_t refreshes, int64_t period) {
    refreshes_ += static_cast<uint64_t>(refreshes);
    refresh_count_ += refreshes;
    refreshed_ += refreshes * period;
  }

  // Checks refresh up to `time`. Call it at the end of a run.
  void CheckRefresh(int64_t time);

  uint64_t violations() const { return violations_; }
  uint64_t refreshes() const { return refreshes_; }
  uint64_t activates() const { return activates_; }
  uint64_t reads() const { return reads_; }
  uint64_t writes() const { return writes_; }

  // Counts and times of refreshes and commands, to compare runs.
  std::string State() const;

  // Back door for unit tests, by dword address. Bank and row are as on the pins.
  uint32_t Peek(int bank, int row, int column);

 private:
  struct Bank {
    bool open = false;
    int row = 0;
    uint32_t* data = nullptr;
    int64_t activated, precharged, written;
  };

  uint32_t Work(const SdramPins& pins, int64_t time);
  void Command(const SdramPins& pins, int64_t time);
  void Violation(int64_t time, const char* command, const std::string& what);
  void Precharge(Bank* bank, int index, int64_t time);
  uint32_t* Row(int bank, int row);
  void NeedAtLeast(int64_t time, const char* command, const char* rule, int64_t since, int64_t least);
  void NeedRefreshed(int64_t time, const char* command);

  SdramTiming t_;
  uint64_t seed_;
  Report report_;
  std::vector<Bank> banks_;
  std::vector<std::unique_ptr<uint32_t[]>> rows_;

  // Initialisation: power-up wait, precharge all, refreshes, mode register.
  int64_t power_on_;
  bool init_precharged_ = false;
  int init_refreshes_ = 0;
  bool mode_set_ = false;

  int64_t refreshed_, activated_, mode_time_;
  int64_t refresh_base_ = 0;      // time from which refreshes are due
  int64_t refresh_count_ = 0;     // refreshes since refresh_base_
  int64_t cas_ = 0;

  // Read data in flight: the output after this edge (0) and after later edges, and whether the
  // device is still releasing the lines.
  static constexpr int kPipe = 4;
  struct Beat {
    bool valid = false;
    uint32_t data = 0;
  };
  Beat pipe_[kPipe];
  bool driving_ = false, released_ = true;
  bool busy_ = false;
  uint32_t idle_dq_;

  uint64_t violations_ = 0, refreshes_ = 0, activates_ = 0, reads_ = 0, writes_ = 0;
};

}  // namespace hvia

#endif  // HVIA_SIM_MODEL_SDRAM_CHIP_H_

// SPDX-License-Identifier: Apache-2.0

// Shared by the C++ sides of the unit tests: a seeded generator, the command line, and failure
// reports.
#pragma once
#include <cinttypes>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>
#include <utility>

#include "sim/gen/hvia_params.h"
#include "sim/model/splitmix.h"
#ifdef VM_COVERAGE  // compiled by Verilator
#include "verilated.h"
#endif

namespace unit {

// The number of VIs that the RTL was built for.
#ifndef VI_COUNT_LOG2
#define VI_COUNT_LOG2 hvia::kProfiles[0].VICountLog2
#endif
constexpr unsigned kVIs = 1u << VI_COUNT_LOG2;

class Rng : public hvia::SplitMix {
 public:
  using SplitMix::SplitMix;
  uint32_t Bits(int n) { return static_cast<uint32_t>(Next() >> (64 - n)); }
  uint64_t Below(uint64_t n) { return Next() % n; }
  uint64_t Range(uint64_t lo, uint64_t hi) { return lo + Below(hi - lo + 1); }
  // True in `num` of `den` calls.
  bool Chance(unsigned num, unsigned den) { return Below(den) < num; }
};

struct Options {
  uint64_t seed = 1;
  uint64_t size = 1;  // amount of work, in the testbench's unit
  int argc = 0;
  char** argv = nullptr;
};

inline Options& options() {
  static Options o;
  return o;
}

inline uint64_t& clocks() {
  static uint64_t n = 0;
  return n;
}

[[noreturn]] inline void Fail(const char* format, ...) __attribute__((format(printf, 1, 2)));
[[noreturn]] inline void Fail(const char* format, ...) {
  va_list args;
  va_start(args, format);
  std::fprintf(stderr, "FAIL at clock %" PRIu64 ", seed %" PRIu64 ", size %" PRIu64 ": ", clocks(), options().seed,
               options().size);
  std::vfprintf(stderr, format, args);
  std::fprintf(stderr, "\n");
  va_end(args);
  std::exit(1);
}

#define CHECK(condition, ...)                  \
  do {                                         \
    if (!(condition)) unit::Fail(__VA_ARGS__); \
  } while (0)

inline void ParseOptions(int argc, char** argv) {
  options().argc = argc;
  options().argv = argv;
  for (int i = 1; i < argc; i++) {
    std::string a = argv[i];
    if (a.rfind("+", 0) == 0) continue;  // for Verilator
    auto number = [&](const char* name, uint64_t* out) {
      std::string key = std::string(name) + "=";
      if (a.rfind(key, 0) != 0) return false;
      *out = std::strtoull(a.c_str() + key.size(), nullptr, 0);
      return true;
    };
    if (number("--seed", &options().seed) || number("--size", &options().size)) continue;
    std::fprintf(stderr, "unknown argument %s: use --seed=N --size=N\n", a.c_str());
    std::exit(2);
  }
}

// Of 4 clocks, how many a neighbour wastes: `idle` when it offers, `pressure` when it accepts.
struct Traffic {
  unsigned idle, pressure;
};

constexpr Traffic kTraffic[] = {{0, 0}, {3, 0}, {0, 3}, {3, 3}, {1, 1}};

// Prints figures (name and value) as lines for the Go side.
template <class Figures>
void Print(const Figures& figures) {
  for (const auto& [name, value] : figures) std::printf("%s %" PRIu64 "\n", std::string(name).c_str(), static_cast<uint64_t>(value));
}
inline void Print(std::initializer_list<std::pair<const char*, uint64_t>> figures) {
  Print<std::initializer_list<std::pair<const char*, uint64_t>>>(figures);
}

// Prints figures; from size `enough` on none may be 0.
template <class Figures>
void PrintAll(const Figures& figures, uint64_t enough) {
  Print(figures);
  for (const auto& [name, value] : figures)
    if (value == 0 && options().size >= enough) Fail("%s is 0: the run does not reach it", name);
}

// The end of main: prints the figures and the verdict.
template <class Figures>
int Pass(const Figures& figures) {
  Print(figures);
  Print({{"clocks", clocks()}, {"passed", 1}});
  return 0;
}
inline int Pass(std::initializer_list<std::pair<const char*, uint64_t>> figures = {}) {
  return Pass<std::initializer_list<std::pair<const char*, uint64_t>>>(figures);
}

#ifdef VM_COVERAGE  // compiled by Verilator
// A separate context, with the command line for $value$plusargs.
struct Context : VerilatedContext {
  Context() { commandArgs(options().argc, options().argv); }
};

// The start of main. State without reset starts random, or as 0 if `unreset` is 0.
inline void Start(int argc, char** argv, int unreset = 2) {
  Verilated::commandArgs(argc, argv);
  ParseOptions(argc, argv);
  Verilated::randReset(unreset);
  Verilated::randSeed(static_cast<int>(options().seed | 1));
}

// An edge of each clock that no model and no check sees: with it the registers take a reset.
template <class Top>
void Edge(Top* top, std::initializer_list<CData*> clocks) {
  for (CData* clock : clocks) {
    for (CData level : {0, 1, 0}) {
      *clock = level;
      top->eval();
    }
  }
}

// Clocks a top whose inputs have settled.
template <class Top>
void Clock(Top& top) {
  top.clk_i = 1;
  top.eval();
  top.clk_i = 0;
  top.eval();
  clocks()++;
}
#endif

}  // namespace unit

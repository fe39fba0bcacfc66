// SPDX-License-Identifier: Apache-2.0
// The fabric simulator: one process, one simulation thread. The Go package sim starts it. For
// programs that attach by path it is started by hand.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/fabric/control_server.h"
#include "sim/fabric/echo_node.h"
#include "sim/fabric/host_memory.h"
#include "sim/fabric/model_params.h"
#include "sim/fabric/network.h"
#include "sim/fabric/plain_nic.h"
#include "sim/fabric/recorder.h"
#include "sim/fabric/scheduler.h"
#include "sim/fabric/wire_faults.h"
#include "sim/gen/hvia_layout.h"
#ifndef HVIA_WITHOUT_CARD
#include "sim/card/card_node.h"
#endif
#include "sim/gen/hvia_params.h"

namespace hvia::fabric {
namespace {

struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Options {
  std::string socket, profile = "hvia-ge";
  struct NodeOption {
    std::string kind, name;
  };
  std::vector<NodeOption> nodes;
  std::vector<std::string> params;
  std::vector<std::string> wire_faults;
  std::optional<uint64_t> wire_fault_seed;
  bool with_switch = false;
  uint64_t memory = 268435456, seed = 1;
  std::string trace, frames, wave, clocks;
  bool no_skip = false;
  uint32_t strap = 0;
  int owner_fd = -1;
  bool private_directory = false;
  std::string abandoned_directory, abandoned_file;
  SchedulerOptions scheduler;
};

uint64_t Number(const std::string& option, const std::string& text, uint64_t lo, uint64_t hi) {
  char* end = nullptr;
  errno = 0;
  const uint64_t v = std::strtoull(text.c_str(), &end, 0);
  if (text.empty() || *end != 0 || errno != 0 || text[0] == '-' || v < lo || v > hi) {
    throw UsageError(option + " " + text + ": must be a number from " + std::to_string(lo) + " to " + std::to_string(hi));
  }
  return v;
}

ThreadName ParseThread(const std::string& text) {
  const size_t a = text.find(','), b = a == std::string::npos ? a : text.find(',', a + 1);
  if (b == std::string::npos || b + 1 == text.size()) throw UsageError("--thread " + text + ": want NODE,RANK,NAME");
  return {static_cast<int>(Number("--thread", text.substr(0, a), 0, kBridgeMaxNodes - 1)), static_cast<int>(Number("--thread", text.substr(a + 1, b - a - 1), 0, 65535)), text.substr(b + 1)};
}

using Set = std::function<void(const std::string& option, const std::string& value)>;

struct Option {
  const char *syntax, *help;  // the syntax is the name, or the name, a space and its value
  Set set;
};

Set Into(std::string* to) {
  return [to](const std::string&, const std::string& value) { *to = value; };
}
Set Append(std::vector<std::string>* to) {
  return [to](const std::string&, const std::string& value) { to->push_back(value); };
}
Set Choice(const char* on, const char* off, bool* to) {
  return [=](const std::string& option, const std::string& value) {
    if (value != on && value != off) throw UsageError(option + " " + value + ": want " + on + " or " + off);
    *to = value == on;
  };
}
template <class T>
Set Into(T* to, uint64_t lo, uint64_t hi, int64_t unit = 1) {
  return [=](const std::string& option, const std::string& value) { *to = static_cast<T>(static_cast<T>(Number(option, value, lo, hi)) * unit); };
}
Set Milliseconds(int64_t* to) { return Into(to, 1, 86400000, 1000000); }

// The parts of VALUE before and after a colon: the first one, or the last if VALUE may contain
// several.
std::pair<std::string, std::string> Halves(const std::string& option, const std::string& value, size_t colon, const char* want) {
  if (colon == std::string::npos || colon + 1 == value.size()) throw UsageError(option + " " + value + ": want " + want);
  return {value.substr(0, colon), value.substr(colon + 1)};
}

std::vector<Option> Table(Options* o) {
  SchedulerOptions* const s = &o->scheduler;
  return {
      {"--socket PATH", "control socket", Into(&o->socket)},
      {"--private-directory yes|no", "remove the socket's directory at the end (no)", Choice("yes", "no", &o->private_directory)},
      {"--node KIND:NAME", "a node, in the order of its numbers; kinds: card (the RTL), nic (a plain NIC), echo (a test device)", [o](const std::string& option, const std::string& v) {
         const auto [kind, name] = Halves(option, v, v.find(':'), "KIND:NAME");
         o->nodes.push_back({kind, name});
       }},
      {"--switch yes|no", "yes: connect two nodes by a switch, as more nodes always are (no)", Choice("yes", "no", &o->with_switch)},
      {"--mode timed|free", "time mode (timed)", Choice("timed", "free", &s->timed)},
      {"--thread N,R,NAME", "a thread that will attach: node, rank, name; timed mode starts when all have", [s](const std::string&, const std::string& v) { s->threads.push_back(ParseThread(v)); }},
      {"--memory BYTES", "host memory of each node (268435456), a multiple of 4096, at most 1 GiB", Into(&o->memory, kBridgeFrameBytes, 1ull << 30)},
      {"--profile NAME", "set of parameters (hvia-ge)", Into(&o->profile)},
      {"--param NAME=VALUE", "replaces a parameter of class model for this run; repeatable", Append(&o->params)},
      {"--seed N", "seed of all randomness in the models (1)", Into(&o->seed, 0, UINT64_MAX)},
      {"--wire-fault FAULT", "injects a fault into the wire: KIND DIRECTION NAME=NUMBER..., see ParseWireFault; repeatable", Append(&o->wire_faults)},
      {"--wire-fault-seed N", "seed of the wire faults (that of the models)", [o](const std::string& option, const std::string& v) { o->wire_fault_seed = Number(option, v, 0, UINT64_MAX); }},
      {"--spare-slots N", "slots for threads that were not declared (16)", Into(&s->spare_slots, 0, 1024)},
      {"--stuck-ms N", "wall time for which a timed thread may run without a call (10000)", Milliseconds(&s->stuck_ns)},
      {"--stall-ms N", "wall time for which a guest's threads may run within 1 us of simulated time (30000)", Milliseconds(&s->stall_ns)},
      {"--start-ms N", "wall time until all declared threads must have attached (60000)", Milliseconds(&s->start_ns)},
      {"--guests yes|no", "yes: the first process to connect owns the fabric, the socket is removed, and other processes join as its guests (no)", Choice("yes", "no", &s->guests)},
      {"--on-death continue|stop", "effect of the death of a process on the run (stop)", Choice("continue", "stop", &s->continue_on_death)},
      {"--no-skip 1", "evaluate every clock edge, also of idle clocks", Into(&o->no_skip, 0, 1)},
      {"--strap N", "reset straps of the cards (0)", Into(&o->strap, 0, UINT32_MAX)},
      {"--trace FILE", "trace events of the cards and the wire", Into(&o->trace)},
      {"--frames FILE", "frames of the wire", Into(&o->frames)},
      {"--clocks FILE", "at the end, the core clocks simulated at each node, a line each", Into(&o->clocks)},
      {"--wave STEM", "FST waves: STEM.<node name>.fst for each card", Into(&o->wave)},
      {"--owner-fd N", "inherited descriptor: the run ends when its other end is closed", Into(&o->owner_fd, 0, 1 << 20)},
      {"--abandoned DIR:FILE", "at the end, removes FILE in DIR, DIR/lock and DIR unless a process holds DIR/lock: its owner was killed", [o](const std::string& option, const std::string& v) {
         std::tie(o->abandoned_directory, o->abandoned_file) = Halves(option, v, v.rfind(':'), "DIR:FILE");
         if (o->abandoned_directory.empty()) throw UsageError(option + " " + v + ": want DIR:FILE");
       }},
      {"--fault ignore-running", "breaks the time protocol on purpose (tests only)", [s](const std::string& option, const std::string& v) {
         if (v != "ignore-running") throw UsageError(option + " " + v + ": want ignore-running");
         s->ignore_running = true;
       }},
  };
}

std::string Usage() {
  Options o;
  std::string text = "usage: hvia-sim --socket PATH --node KIND:NAME [--node KIND:NAME ...] [options]\n";
  for (const Option& option : Table(&o)) {
    std::string syntax = option.syntax;
    syntax.resize(std::max<size_t>(syntax.size(), 20), ' ');
    text += "  " + syntax + "  " + option.help + "\n";
  }
  return text;
}

Options Parse(int argc, char** argv) {
  Options o;
  const std::vector<Option> table = Table(&o);
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--help") {
      std::fputs(Usage().c_str(), stdout);
      std::exit(0);
    }
    if (i + 1 == argc) throw UsageError(name + ": unknown option, or its value is missing");
    const auto option = std::find_if(table.begin(), table.end(), [&](const Option& x) { return std::string(x.syntax).compare(0, name.size() + 1, name + " ") == 0; });
    if (option == table.end()) throw UsageError(name + ": unknown option");
    option->set(name, argv[++i]);
  }
  if (o.socket.empty()) throw UsageError("--socket is missing");
  if (o.nodes.empty() || o.nodes.size() > kBridgeMaxNodes) throw UsageError(std::to_string(o.nodes.size()) + " nodes: want 1 to " + std::to_string(kBridgeMaxNodes));
  if (o.with_switch && o.nodes.size() == 1) throw UsageError("--switch yes: a fabric of one node requires no switch");
  if (o.memory % kBridgeFrameBytes != 0) throw UsageError("--memory " + std::to_string(o.memory) + ": must be a multiple of " + std::to_string(kBridgeFrameBytes));
  if (o.scheduler.timed && o.scheduler.threads.empty()) throw UsageError("timed mode without --thread: time 0 is when all declared threads have attached, so declare them");
  for (const ThreadName& t : o.scheduler.threads)
    if (t.node >= static_cast<int>(o.nodes.size())) throw UsageError("--thread " + std::to_string(t.node) + "," + std::to_string(t.rank) + "," + t.name + ": there are " + std::to_string(o.nodes.size()) + " nodes, counted from 0");
  return o;
}

// Writes one word to the owner when processes can attach. If the start fails, the pipe closes
// without it.
void NotifyOwner(int fd) {
  constexpr char kReady[] = "ready\n";
  if (fd >= 0 && write(fd, kReady, sizeof kReady - 1) < 0) std::fprintf(stderr, "notify the owner: %s\n", std::strerror(errno));
}

std::unique_ptr<Node> MakeNode(const std::string& kind, const Surroundings& s, const Options& o, Recorder* recorder) {
  if (kind == "echo") return std::make_unique<EchoNode>(s);
  if (kind == "nic") return std::make_unique<PlainNic>(s, recorder);
#ifndef HVIA_WITHOUT_CARD
  if (kind == "card") {
    CardOptions c;
    c.skip_quiet = !o.no_skip;
    c.strap = o.strap;
    c.recorder = recorder;
    if (!o.wave.empty() && !Wave::kAvailable && !QuietCheck::kAvailable) throw UsageError("--wave " + o.wave + ": this simulator was built without waves");
    if (!o.wave.empty()) c.wave = o.wave + "." + s.name + ".fst";
    return std::make_unique<CardNode>(s, c);
  }
  throw UsageError("--node " + kind + ":" + s.name + ": unknown kind; this simulator knows card, nic and echo");
#else
  (void)o;
  throw UsageError("--node " + kind + ":" + s.name + ": unknown kind; this simulator was built without the card and knows nic and echo");
#endif
}

void WriteClocks(const std::string& path, const std::vector<Node*>& nodes) {
  std::string text;
  for (const Node* n : nodes) text += std::to_string(n->Clocks()) + "\n";
  RecordFile file;
  file.Open(path);
  file.Write(text.data(), text.size());
  file.Flush();
}

// Removes the files of an owner that was killed. An owner that exits normally removes FILE before
// it ends this process. The lock shows whether the owner is gone, and keeps out a successor of the
// same name. Threads of a killed process may hold its locks a little longer than the first one
// lives, hence the retries.
void RemoveAbandoned(const std::string& directory, const std::string& file) {
  constexpr int kTries = 200;
  constexpr useconds_t kPauseUs = 10'000;
  const std::string lock = directory + "/lock";
  const std::string path = directory + "/" + file;
  const int fd = open(lock.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return;
  for (int i = 0; i < kTries && access(path.c_str(), F_OK) == 0; ++i) {
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      usleep(kPauseUs);
      continue;
    }
    struct stat ours {}, there {};
    if (fstat(fd, &ours) == 0 && stat(lock.c_str(), &there) == 0 && ours.st_ino == there.st_ino && ours.st_dev == there.st_dev) {
      unlink(path.c_str());
      unlink(lock.c_str());
      rmdir(directory.c_str());
    }
    break;
  }
  close(fd);
}

int Run(int argc, char** argv) {
  const Options o = Parse(argc, argv);
  const Params* profile = FindProfile(o.profile.c_str());
  if (profile == nullptr) throw UsageError("--profile " + o.profile + ": no such profile");
  std::vector<ReplacedParam> replaced;
  const Params params = ReplaceModelParams(*profile, o.params, (o.strap >> kStrapSlowSdram & 1) != 0, &replaced);
  ControlServer::BlockSignals();

  std::vector<std::string> names;
  for (const auto& n : o.nodes) names.push_back(n.name);
  Scheduler scheduler(o.scheduler, names, o.memory);
  for (const ReplacedParam& r : replaced) scheduler.AddConfiguration(r.name, r.value);
  const int node_count = static_cast<int>(o.nodes.size());
  Network network(params, node_count, o.with_switch);
  if (network.HasSwitch()) scheduler.AddConfiguration("--switch", node_count);
  if (!o.wire_faults.empty()) {
    const uint64_t seed = o.wire_fault_seed.value_or(o.seed);
    std::vector<WireFaultRule> rules;
    for (const std::string& text : o.wire_faults) {
      rules.push_back(ParseWireFault(text));
      scheduler.AddConfiguration("--wire-fault " + text, static_cast<int64_t>(seed));
    }
    network.SetFaults(rules, seed);
  }
  Recorder recorder;
  if (!o.trace.empty()) recorder.OpenTrace(o.trace);
  if (!o.frames.empty()) recorder.OpenFrames(o.frames);
  // The trace contains only events at nodes, the frame file the frames of every cable.
  const auto is_node = [](int party) { return party != static_cast<int>(kWireSwitch); };
  network.AddObserver([&](Time start, int source, int destination, const std::vector<uint8_t>& bytes, uint32_t faults) {
    if (is_node(source)) recorder.Event(start, source, kTraceEventWireStart, 0, 0);
    recorder.Frame(start, source, destination, bytes, faults);
  });
  network.AddArrivalObserver([&](Time end, int, int destination) {
    if (is_node(destination)) recorder.Event(end, destination, kTraceEventWireEnd, 0, 0);
  });
  std::vector<std::unique_ptr<HostMemory>> memories;
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<HostMemory*> memory_list;
  std::vector<Node*> node_list;
  for (size_t i = 0; i < o.nodes.size(); ++i) {
    memories.push_back(std::make_unique<HostMemory>(static_cast<int>(i), o.nodes[i].name, o.memory, &scheduler));
    memory_list.push_back(memories.back().get());
    Surroundings s;
    s.index = static_cast<int>(i);
    s.name = o.nodes[i].name;
    s.params = &params;
    s.seed = o.seed;
    s.memory = memory_list.back();
    s.fabric = &scheduler;
    s.nodes = node_count;
    s.link = network.Plug(s.index);
    nodes.push_back(MakeNode(o.nodes[i].kind, s, o, &recorder));
    node_list.push_back(nodes.back().get());
  }
  network.Connect({node_list.begin(), node_list.end()});
  scheduler.SetNodes(node_list, memory_list, &network);

  ControlServer server(o.socket, o.private_directory, o.scheduler.guests, o.owner_fd, &scheduler, memory_list);
  server.Start();
  NotifyOwner(o.owner_fd);
  scheduler.Run();
  recorder.Flush();
  for (Node* n : node_list) n->Finish();
  if (!o.clocks.empty()) WriteClocks(o.clocks, node_list);
  if (!o.abandoned_directory.empty()) RemoveAbandoned(o.abandoned_directory, o.abandoned_file);
  return 0;
}

}  // namespace
}  // namespace hvia::fabric

int main(int argc, char** argv) {
  try {
    return hvia::fabric::Run(argc, argv);
  } catch (const hvia::fabric::UsageError& e) {
    std::fprintf(stderr, "hvia-sim: %s\n%s", e.what(), hvia::fabric::Usage().c_str());
    return 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "hvia-sim: %s\n", e.what());
    if (dynamic_cast<const hvia::fabric::ParamError*>(&e) || dynamic_cast<const hvia::fabric::WireFaultError*>(&e)) return 2;
    return dynamic_cast<const hvia::fabric::OutputError*>(&e) ? hvia::fabric::OutputError::kExit : 1;
  }
}

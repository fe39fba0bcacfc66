// SPDX-License-Identifier: Apache-2.0
#include "sim/fabric/control_server.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "sim/gen/hvia_layout.h"
#include "sim/gen/hvia_params.h"

namespace hvia::fabric {
namespace {

// How long the simulation thread may take to notice that it should end before
// the process ends without it: only a card model that never returns needs it.
constexpr int kQuitGraceMs = 3000;

sigset_t EndSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

sockaddr_un Address(const std::string& path) {
  sockaddr_un a{};
  a.sun_family = AF_UNIX;
  if (path.size() >= sizeof a.sun_path) {
    throw std::runtime_error("control socket " + path + ": the path has " + std::to_string(path.size()) + " bytes, at most " + std::to_string(sizeof a.sun_path - 1) + " fit: use a shorter directory");
  }
  std::memcpy(a.sun_path, path.c_str(), path.size() + 1);
  return a;
}

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

std::string Hash(uint64_t v) {
  char b[24];
  std::snprintf(b, sizeof b, "%016" PRIx64, v);
  return b;
}

std::string FixedString(const uint8_t* p, size_t n) { return std::string(reinterpret_cast<const char*>(p), strnlen(reinterpret_cast<const char*>(p), n)); }

void PutWireCounts(const WireCounts& c, uint8_t* p) {
  static_assert(kWireCountsDropOffset + 8 * WireFaults::kKinds == kWireCountsSize && kWireCountsCutOffset - kWireCountsDropOffset == 8 * kWireFaultCut);
  Put64(p, kWireCountsSentOffset, c.sent);
  Put64(p, kWireCountsArrivedOffset, c.arrived);
  Put64(p, kWireCountsDamagedOffset, c.damaged);
  for (size_t kind = 0; kind < WireFaults::kKinds; ++kind) Put64(p, kWireCountsDropOffset + 8 * kind, c.faults[kind]);
}

void PutSwitchPort(const SwitchPortCounts& c, uint8_t* p) {
  Put64(p, kSwitchPortReceivedOffset, c.received);
  Put64(p, kSwitchPortWrongFcsOffset, c.wrong_fcs);
  Put64(p, kSwitchPortFilteredOffset, c.filtered);
  Put64(p, kSwitchPortFloodedOffset, c.flooded);
  Put64(p, kSwitchPortMovedOffset, c.moved);
  Put64(p, kSwitchPortUnlearnedOffset, c.unlearned);
  Put64(p, kSwitchPortForwardedOffset, c.forwarded);
  Put64(p, kSwitchPortNoRoomOffset, c.no_room);
  Put64(p, kSwitchPortHighestFillingOffset, c.highest_filling);
}

constexpr size_t kRequestNameBytes = kBridgeRequestSize - kBridgeRequestNameOffset;

}  // namespace

ControlServer::Connection::~Connection() {
  if (fd >= 0) close(fd);
}

void ControlServer::BlockSignals() {
  const sigset_t set = EndSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

ControlServer::ControlServer(const std::string& path, bool private_directory, int owner_fd, Scheduler* scheduler, std::vector<HostMemory*> memories)
    : path_(path), private_directory_(private_directory), owner_fd_(owner_fd), scheduler_(scheduler), memories_(std::move(memories)) {
  auto fail = [&](const std::string& what) {
    const int e = errno;
    throw std::runtime_error("control socket " + path_ + ": " + what + ": " + std::strerror(e));
  };
  const sockaddr_un address = Address(path_);
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  listen_fd_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (listen_fd_ < 0) fail("socket");
  // The directory's lock makes look-then-replace one step, and leaves no file.
  const std::string directory = DirectoryOf(path_);
  const int lock = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock < 0) fail("open directory " + directory);
  flock(lock, LOCK_EX);
  if (access(path_.c_str(), F_OK) == 0) {
    const int probe = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    const bool served = connect(probe, generic, sizeof address) == 0 || errno != ECONNREFUSED;
    close(probe);
    if (served) {
      close(lock);
      errno = EADDRINUSE;
      fail("another simulator serves it (or it is no socket): choose another path or end that one");
    }
    unlink(path_.c_str());
  }
  if (bind(listen_fd_, generic, sizeof address) != 0) {
    close(lock);
    fail("bind");
  }
  close(lock);
  if (listen(listen_fd_, 64) != 0) fail("listen");
  const sigset_t set = EndSignals();
  signal_fd_ = signalfd(-1, &set, SFD_CLOEXEC);
  wake_fd_ = eventfd(0, EFD_CLOEXEC);
  if (signal_fd_ < 0 || wake_fd_ < 0) fail("signalfd, eventfd");
}

ControlServer::~ControlServer() {
  closing_ = true;
  const uint64_t one = 1;
  if (write(wake_fd_, &one, sizeof one) != sizeof one) std::fprintf(stderr, "control socket %s: wake the control thread: %s\n", path_.c_str(), std::strerror(errno));
  if (thread_.joinable()) thread_.join();
  connections_.clear();
  RemoveFiles();
  close(listen_fd_);
  close(signal_fd_);
  close(wake_fd_);
}

void ControlServer::RemoveFiles() const {
  unlink(path_.c_str());
  if (private_directory_) rmdir(DirectoryOf(path_).c_str());
}

void ControlServer::Start() {
  thread_ = std::thread([this] { Loop(); });
}

void ControlServer::Loop() {
  bool quitting = false;
  while (!closing_) {
    std::vector<pollfd> polled;
    polled.push_back({wake_fd_, POLLIN, 0});
    if (!quitting) {
      polled.push_back({signal_fd_, POLLIN, 0});
      polled.push_back({owner_fd_, POLLIN, 0});  // a negative descriptor is ignored
      polled.push_back({listen_fd_, POLLIN, 0});
      for (const auto& [fd, c] : connections_) polled.push_back({fd, POLLIN, 0});
    }
    const int n = poll(polled.data(), polled.size(), quitting ? kQuitGraceMs : -1);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0 && quitting && !closing_) {
      std::fprintf(stderr, "the simulation thread did not end within %d ms: a card model does not return\n", kQuitGraceMs);
      RemoveFiles();
      _exit(4);
    }
    if (closing_ || quitting) continue;
    if (polled[1].revents != 0 || polled[2].revents != 0) {
      scheduler_->Quit();
      quitting = true;
      continue;
    }
    if (polled[3].revents != 0) Accept();
    for (size_t i = 4; i < polled.size(); ++i) {
      if (polled[i].revents == 0) continue;
      const ConnectionPtr c = connections_[polled[i].fd];
      if (Receive(c)) continue;
      connections_.erase(c->fd);
      if (c->greeted) scheduler_->Post([s = scheduler_, c] { s->ConnectionClosed(c->owner); });
    }
  }
}

void ControlServer::Accept() {
  const int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) return;
  auto c = std::make_shared<Connection>();
  c->fd = fd;
  c->owner.connection = next_connection_++;
  connections_[fd] = c;
}

bool ControlServer::Receive(const ConnectionPtr& c) {
  alignas(8) uint8_t request[kBridgeRequestSize];
  const ssize_t n = recv(c->fd, request, sizeof request, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (n <= 0) return false;
  if (n != static_cast<ssize_t>(sizeof request) || Get64(request, kBridgeRequestMagicOffset) != kBridgeMagic) {
    Refuse(c, 0, "a request of " + std::to_string(n) + " bytes that is none of this protocol (want " + std::to_string(sizeof request) + " bytes that begin with the magic)");
    return false;
  }
  const uint32_t opcode = Get32(request, kBridgeRequestOpcodeOffset);
  if (opcode == kBridgeControlHello) {
    Hello(c, request);
    return true;
  }
  if (!c->greeted) {
    Refuse(c, opcode, "the first request must be Hello");
    return false;
  }
  switch (opcode) {
    case kBridgeControlAttach: {
      const int node = static_cast<int>(Get32(request, kBridgeRequestNodeOffset));
      const int rank = static_cast<int>(Get32(request, kBridgeRequestRankOffset));
      const std::string name = FixedString(request + kBridgeRequestNameOffset, kRequestNameBytes);
      scheduler_->Post([s = scheduler_, c, node, rank, name] {
        int slot = -1;
        const std::string why = node < 0 || node >= 32 || !(c->owner.node_mask >> node & 1) ? "this process did not ask for the memory of node " + std::to_string(node) : s->Attach(c->owner, node, rank, name, &slot);
        if (!why.empty()) {
          Refuse(c, kBridgeControlAttach, why);
          return;
        }
        alignas(8) uint8_t reply[kBridgeReplySize] = {};
        Put32(reply, kBridgeReplyOpcodeOffset, kBridgeControlAttach);
        Put32(reply, kBridgeReplySlotOffset, static_cast<uint32_t>(slot));
        Send(c, reply, nullptr, 0);
      });
      return true;
    }
    case kBridgeControlDigest:
      scheduler_->Post([s = scheduler_, c] {
        s->WhenIdle([c](const DigestReport& r) {
          alignas(8) uint8_t reply[kBridgeReplySize] = {};
          Put32(reply, kBridgeReplyOpcodeOffset, kBridgeControlDigest);
          Put64(reply, kBridgeReplyDigestOffset, r.digest);
          Put64(reply, kBridgeReplyTimeOffset, static_cast<uint64_t>(r.time));
          Put64(reply, kBridgeReplyFramesOffset, r.frames);
          Put64(reply, kBridgeReplyWakesOffset, r.wakes);
          Put32(reply, kBridgeReplyTaintedOffset, r.tainted ? 1 : 0);
          static_assert(kBridgeReplyFromSwitchOffset - kBridgeReplyWireOffset == kBridgeMaxNodes * kWireCountsSize);
          static_assert(kBridgeReplyPortsOffset - kBridgeReplyFromSwitchOffset == kBridgeMaxNodes * kWireCountsSize);
          static_assert(kBridgeReplySize - kBridgeReplyPortsOffset >= kBridgeMaxNodes * kSwitchPortSize);
          for (size_t i = 0; i < r.ports.size(); ++i) {
            PutWireCounts(r.from_node[i], reply + kBridgeReplyWireOffset + i * kWireCountsSize);
            PutWireCounts(r.from_switch[i], reply + kBridgeReplyFromSwitchOffset + i * kWireCountsSize);
            PutSwitchPort(r.ports[i], reply + kBridgeReplyPortsOffset + i * kSwitchPortSize);
          }
          Send(c, reply, nullptr, 0);
        });
      });
      return true;
    default: Refuse(c, opcode, "unknown request " + std::to_string(opcode)); return true;
  }
}

void ControlServer::Hello(const ConnectionPtr& c, const uint8_t* request) {
  const uint32_t version = Get32(request, kBridgeRequestVersionOffset);
  const uint64_t layout = Get64(request, kBridgeRequestLayoutHashOffset);
  const uint64_t params = Get64(request, kBridgeRequestParamsHashOffset);
  const uint32_t all = (1u << memories_.size()) - 1;
  const uint32_t asked = Get32(request, kBridgeRequestNodeMaskOffset);
  const uint32_t mask = asked == UINT32_MAX ? all : asked;
  std::string why;
  if (version != kBridgeVersion) why = "bridge version " + std::to_string(version) + " of the program, " + std::to_string(kBridgeVersion) + " of the simulator: rebuild both from one checkout";
  if (layout != kLayoutHash) why = "layout hash " + Hash(layout) + " of the program, " + Hash(kLayoutHash) + " of the simulator: rebuild both from one checkout";
  else if (params != kParamsHash) why = "params hash " + Hash(params) + " of the program, " + Hash(kParamsHash) + " of the simulator: rebuild both from one checkout";
  else if ((mask & ~all) != 0) why = "node mask " + std::to_string(mask) + " names nodes that do not exist: the fabric has " + std::to_string(memories_.size());
  if (c->greeted) why = "Hello was said already";
  if (!why.empty()) {
    Refuse(c, kBridgeControlHello, why);
    return;
  }
  c->owner.pid = Get32(request, kBridgeRequestPidOffset);
  c->owner.node_mask = mask;
  c->owner.name = FixedString(request + kBridgeRequestNameOffset, kRequestNameBytes);
  c->greeted = true;
  alignas(8) uint8_t reply[kBridgeReplySize] = {};
  Put32(reply, kBridgeReplyOpcodeOffset, kBridgeControlHello);
  Put64(reply, kBridgeReplyControlBytesOffset, scheduler_->Pages().Bytes());
  Put64(reply, kBridgeReplyMemoryBytesOffset, memories_.empty() ? 0 : memories_[0]->Memory().Bytes());
  Put32(reply, kBridgeReplyNodesOffset, static_cast<uint32_t>(memories_.size()));
  int fds[1 + 2 * kBridgeMaxNodes];
  int count = 0;
  fds[count++] = scheduler_->Pages().Descriptor();
  for (size_t i = 0; i < memories_.size(); ++i) {
    if (!(mask >> i & 1)) continue;
    fds[count++] = memories_[i]->Memory().Descriptor();
    fds[count++] = memories_[i]->Use().Descriptor();
  }
  Send(c, reply, fds, count);
}

void ControlServer::Send(const ConnectionPtr& c, const uint8_t* reply, const int* fds, int count) {
  alignas(8) uint8_t packet[kBridgeReplySize];
  std::memcpy(packet, reply, sizeof packet);
  Put64(packet, kBridgeReplyMagicOffset, kBridgeMagic);
  Put64(packet, kBridgeReplyLayoutHashOffset, kLayoutHash);
  Put64(packet, kBridgeReplyParamsHashOffset, kParamsHash);
  iovec v{packet, sizeof packet};
  msghdr m{};
  m.msg_iov = &v;
  m.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * (1 + 2 * kBridgeMaxNodes))];
  if (count > 0) {
    const size_t bytes = sizeof(int) * static_cast<size_t>(count);
    m.msg_control = control;
    m.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* h = CMSG_FIRSTHDR(&m);
    h->cmsg_level = SOL_SOCKET;
    h->cmsg_type = SCM_RIGHTS;
    h->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(h), fds, bytes);
  }
  // A process that does not read its replies loses them; it cannot stop the run.
  if (sendmsg(c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) std::fprintf(stderr, "reply to process %u: %s\n", c->owner.pid, std::strerror(errno));
}

void ControlServer::Refuse(const ConnectionPtr& c, uint32_t opcode, const std::string& text) {
  alignas(8) uint8_t reply[kBridgeReplySize] = {};
  Put32(reply, kBridgeReplyOpcodeOffset, opcode);
  Put32(reply, kBridgeReplyRefusedOffset, 1);
  const size_t n = std::min<size_t>(text.size(), kBridgeReplyWireOffset - kBridgeReplyTextOffset - 1);
  std::memcpy(reply + kBridgeReplyTextOffset, text.data(), n);
  Send(c, reply, nullptr, 0);
}

}  // namespace hvia::fabric

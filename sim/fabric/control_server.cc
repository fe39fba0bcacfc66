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

// A card model that never returns blocks the simulation thread; after this time the process exits
// without it.
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

// Replaces unprintable bytes.
std::string FixedString(const uint8_t* p, size_t n) {
  std::string t(reinterpret_cast<const char*>(p), strnlen(reinterpret_cast<const char*>(p), n));
  for (char& c : t)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return t;
}

void PutWireCounts(const WireCounts& c, uint8_t* p) {
  static_assert(kWireCountsDropOffset + 8 * WireFaults::kKinds == kWireCountsSize && kWireCountsLinkOffset - kWireCountsDropOffset == 8 * kWireFaultLink);
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
  Put64(p, kSwitchPortAgedOffset, c.aged);
}

constexpr size_t kRequestNameBytes = kBridgeRequestSequenceOffset - kBridgeRequestNameOffset;
// A header and a bell, then two files for each node: memory and frame-use table.
constexpr int kMaxDescriptors = 2 + 2 * kBridgeMaxNodes;

}  // namespace

ControlServer::Connection::~Connection() {
  if (fd >= 0) close(fd);
}

void ControlServer::BlockSignals() {
  const sigset_t set = EndSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

ControlServer::ControlServer(const std::string& path, bool private_directory, bool guests, int owner_fd, Scheduler* scheduler, std::vector<HostMemory*> memories)
    : path_(path), private_directory_(private_directory), guests_(guests), owner_fd_(owner_fd), scheduler_(scheduler), memories_(std::move(memories)) {
  auto fail = [&](const std::string& what) {
    const int e = errno;
    throw std::runtime_error("control socket " + path_ + ": " + what + ": " + std::strerror(e));
  };
  const sockaddr_un address = Address(path_);
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  listen_fd_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (listen_fd_ < 0) fail("socket");
  // The lock on the directory makes check and replace atomic, and leaves no lock file.
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
  if (listen_fd_ >= 0) close(listen_fd_);
  close(signal_fd_);
  close(wake_fd_);
}

void ControlServer::RemoveFiles() const {
  if (listen_fd_ < 0) return;  // the files are gone; new ones may be another simulator's
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
      // Names to the guests the process that ended their fabric.
      scheduler_->Quit(guests_ && polled[2].revents != 0 && owner_ != nullptr ? "process " + std::to_string(owner_->owner.pid) + " ('" + owner_->owner.name + "'), which owned the fabric, ended it or died" : "");
      quitting = true;
      continue;
    }
    if (polled[3].revents != 0) Accept();
    for (size_t i = 4; i < polled.size(); ++i) {
      if (polled[i].revents == 0) continue;
      const auto found = connections_.find(polled[i].fd);
      if (found == connections_.end()) continue;  // dropped in this loop
      const ConnectionPtr c = found->second;
      if (Receive(c)) continue;
      connections_.erase(c->fd);
      const bool last = guests_ && c == owner_;
      if (!c->greeted && c->owner.guest == 0) continue;
      scheduler_->Post([s = scheduler_, c, last] {
        s->ConnectionClosed(c->owner);
        if (last) s->Quit("process " + std::to_string(c->owner.pid) + " ('" + c->owner.name + "'), which owned the fabric, left it or died");
      });
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

void ControlServer::CloseSocket(const ConnectionPtr& owner) {
  RemoveFiles();
  close(listen_fd_);
  listen_fd_ = -1;
  for (auto it = connections_.begin(); it != connections_.end();) it = it->second == owner ? std::next(it) : connections_.erase(it);
}

bool ControlServer::Receive(const ConnectionPtr& c) {
  alignas(8) uint8_t request[kBridgeRequestSize];
  const ssize_t n = recv(c->fd, request, sizeof request, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (n <= 0) return false;
  if (n != static_cast<ssize_t>(sizeof request) || Get64(request, kBridgeRequestMagicOffset) != kBridgeMagic) {
    Reject(c, {}, "a request of " + std::to_string(n) + " bytes that is none of this protocol (want " + std::to_string(sizeof request) + " bytes that begin with the magic)");
    return false;
  }
  const Asked asked{Get32(request, kBridgeRequestOpcodeOffset), Get32(request, kBridgeRequestSequenceOffset)};
  if (asked.opcode == kBridgeControlHello) {
    Hello(c, asked, request);
    return true;
  }
  if (!c->greeted) {
    Reject(c, asked, "the first request must be Hello");
    return false;
  }
  if (c->owner.guest != 0 && asked.opcode != kBridgeControlAttach) {
    Reject(c, asked, "a guest may only request Attach");
    return true;
  }
  const uint32_t guest = Get32(request, kBridgeRequestGuestOffset);
  switch (asked.opcode) {
    case kBridgeControlAttach: {
      const int node = static_cast<int>(Get32(request, kBridgeRequestNodeOffset));
      const int rank = static_cast<int>(Get32(request, kBridgeRequestRankOffset));
      const std::string name = FixedString(request + kBridgeRequestNameOffset, kRequestNameBytes);
      if (c->unanswered.fetch_add(1) >= kBridgeMaxGuestRequests && c->owner.guest != 0) {
        scheduler_->Post([s = scheduler_, c] { s->Violated(c->owner, "sent more than " + std::to_string(kBridgeMaxGuestRequests) + " requests without waiting for an answer"); });
        return false;
      }
      scheduler_->Post([s = scheduler_, c, asked, node, rank, name] {
        int slot = -1;
        bool violation = false;
        const bool known = c->owner.guest != 0 || (node >= 0 && node < 32 && (c->owner.node_mask >> node & 1) != 0);
        const std::string why = known ? s->Attach(c->owner, node, rank, name, &slot, &violation) : "this process did not ask for the memory of node " + std::to_string(node);
        --c->unanswered;
        if (!why.empty()) {
          Reject(c, asked, why);
          if (violation) s->Violated(c->owner, why);
          return;
        }
        const int fd = s->SlotDescriptor(slot);
        alignas(8) uint8_t reply[kBridgeReplySize] = {};
        Send(c, asked, reply, &fd, 1);
      });
      return true;
    }
    case kBridgeControlDigest:
      scheduler_->Post([s = scheduler_, c, asked] {
        s->WhenIdle([c, asked](const DigestReport& r) {
          alignas(8) uint8_t reply[kBridgeReplySize] = {};
          Put64(reply, kBridgeReplyDigestOffset, r.digest);
          Put64(reply, kBridgeReplyFramesDigestOffset, r.frames_digest);
          Put64(reply, kBridgeReplyWakesDigestOffset, r.wakes_digest);
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
          Send(c, asked, reply, nullptr, 0);
        });
      });
      return true;
    case kBridgeControlNewGuest:
    case kBridgeControlGrant:
    case kBridgeControlEndGuest:
      if (!guests_) {
        Reject(c, asked, "the simulator was started without --guests yes, so that anyone who finds its socket may do anything");
      } else if (c != owner_) {
        Reject(c, asked, "only the owner of the fabric, process " + std::to_string(owner_->owner.pid) + " ('" + owner_->owner.name + "'), has guests");
      } else if (asked.opcode == kBridgeControlNewGuest) {
        NewGuest(c, asked, request);
      } else if (asked.opcode == kBridgeControlGrant) {
        scheduler_->Post([s = scheduler_, c, asked, guest, page = Get32(request, kBridgeRequestPageOffset), on = Get32(request, kBridgeRequestOnOffset)] {
          Answer(c, asked, on > 1 ? "a grant of " + std::to_string(on) + ": want 1 to give the page, 0 to take it back" : s->Grant(guest, page, on == 1));
        });
      } else {
        scheduler_->Post([s = scheduler_, c, asked, guest] { Answer(c, asked, s->EndGuest(guest)); });
      }
      return true;
    default: Reject(c, asked, "unknown request " + std::to_string(asked.opcode)); return true;
  }
}

void ControlServer::NewGuest(const ConnectionPtr& c, const Asked& asked, const uint8_t* request) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
    Reject(c, asked, std::string("make a socket for the guest: ") + std::strerror(errno));
    return;
  }
  // The simulator polls its end from now on. Nothing arrives before the owner receives the other
  // end.
  auto g = std::make_shared<Connection>();
  g->fd = pair[0];
  g->owner.connection = next_connection_++;
  g->guest.name = FixedString(request + kBridgeRequestNameOffset, kRequestNameBytes);
  g->guest.pid = Get32(request, kBridgeRequestGuestPidOffset);
  g->guest.node = Get32(request, kBridgeRequestNodeOffset);
  g->guest.first_rank = Get32(request, kBridgeRequestRankOffset);
  g->guest.ranks = Get32(request, kBridgeRequestRanksOffset);
  g->guest.first_frame = Get32(request, kBridgeRequestBankFirstOffset);
  g->guest.frames = Get32(request, kBridgeRequestBankFramesOffset);
  connections_[g->fd] = g;
  scheduler_->Post([s = scheduler_, c, asked, g, other = pair[1]] {
    uint32_t id = 0;
    const auto ended = [c, g](const GuestEnd& end) {
      SendEnd(g, end);
      shutdown(g->fd, SHUT_RDWR);
      if (end.reason != kBridgeGuestEndOwner) SendEnd(c, end);
    };
    const std::string why = s->NewGuest(g->guest, ended, &id, &g->bank);
    if (!why.empty()) {
      Reject(c, asked, why);
    } else {
      g->owner.guest = id;
      g->owner.pid = g->guest.pid;
      g->owner.name = g->guest.name;
      alignas(8) uint8_t reply[kBridgeReplySize] = {};
      Put32(reply, kBridgeReplyGuestOffset, id);
      const int fds[2] = {other, g->bank->Descriptor()};
      Send(c, asked, reply, fds, 2);
    }
    // Only the owner or the guest has this end from now on. If neither does, the control thread
    // sees the connection end.
    close(other);
  });
}

void ControlServer::Hello(const ConnectionPtr& c, const Asked& asked, const uint8_t* request) {
  const uint32_t version = Get32(request, kBridgeRequestVersionOffset);
  const uint64_t layout = Get64(request, kBridgeRequestLayoutHashOffset);
  const uint64_t params = Get64(request, kBridgeRequestParamsHashOffset);
  const uint32_t all = (1u << memories_.size()) - 1;
  const uint32_t wanted = Get32(request, kBridgeRequestNodeMaskOffset);
  const bool guest = c->owner.guest != 0;
  const uint32_t mask = guest ? 0 : wanted == UINT32_MAX ? all : wanted;
  std::string why;
  if (version != kBridgeVersion) why = "bridge version " + std::to_string(version) + " of the program, " + std::to_string(kBridgeVersion) + " of the simulator: rebuild both from one checkout";
  if (layout != kLayoutHash) why = "layout hash " + Hash(layout) + " of the program, " + Hash(kLayoutHash) + " of the simulator: rebuild both from one checkout";
  else if (params != kParamsHash) why = "params hash " + Hash(params) + " of the program, " + Hash(kParamsHash) + " of the simulator: rebuild both from one checkout";
  else if ((mask & ~all) != 0) why = "node mask " + std::to_string(mask) + " names nodes that do not exist: the fabric has " + std::to_string(memories_.size());
  if (c->greeted) why = "Hello was said already";
  if (!why.empty()) {
    Reject(c, asked, why);
    return;
  }
  if (!guest) {
    // The owner has named its guests in NewGuest.
    c->owner.pid = Get32(request, kBridgeRequestPidOffset);
    c->owner.node_mask = mask;
    c->owner.name = FixedString(request + kBridgeRequestNameOffset, kRequestNameBytes);
  }
  c->greeted = true;
  if (owner_ == nullptr) {
    owner_ = c;
    if (guests_) CloseSocket(c);
  }
  alignas(8) uint8_t reply[kBridgeReplySize] = {};
  Put64(reply, kBridgeReplyControlBytesOffset, scheduler_->HeaderFile().Bytes());
  Put64(reply, kBridgeReplyMemoryBytesOffset, memories_.empty() ? 0 : memories_[0]->Memory().Bytes());
  Put32(reply, kBridgeReplyNodesOffset, static_cast<uint32_t>(memories_.size()));
  int fds[kMaxDescriptors];
  int count = 0;
  fds[count++] = scheduler_->HeaderFile().Descriptor();
  fds[count++] = scheduler_->BellFile().Descriptor();
  if (guest) {
    Put32(reply, kBridgeReplyGuestOffset, c->owner.guest);
    Put32(reply, kBridgeReplyGuestNodeOffset, c->guest.node);
    Put32(reply, kBridgeReplyFirstRankOffset, c->guest.first_rank);
    Put32(reply, kBridgeReplyRanksOffset, c->guest.ranks);
    Put32(reply, kBridgeReplyBankFirstOffset, static_cast<uint32_t>(c->guest.first_frame));
    Put32(reply, kBridgeReplyBankFramesOffset, static_cast<uint32_t>(c->guest.frames));
    fds[count++] = c->bank->Descriptor();
  }
  for (size_t i = 0; i < memories_.size(); ++i) {
    if (!(mask >> i & 1)) continue;
    fds[count++] = memories_[i]->Memory().Descriptor();
    fds[count++] = memories_[i]->Use().Descriptor();
  }
  Send(c, asked, reply, fds, count);
}

void ControlServer::Send(const ConnectionPtr& c, const Asked& asked, const uint8_t* reply, const int* fds, int count) {
  alignas(8) uint8_t packet[kBridgeReplySize];
  std::memcpy(packet, reply, sizeof packet);
  Put32(packet, kBridgeReplyOpcodeOffset, asked.opcode);
  Put32(packet, kBridgeReplySequenceOffset, asked.sequence);
  Put64(packet, kBridgeReplyMagicOffset, kBridgeMagic);
  Put64(packet, kBridgeReplyLayoutHashOffset, kLayoutHash);
  Put64(packet, kBridgeReplyParamsHashOffset, kParamsHash);
  iovec v{packet, sizeof packet};
  msghdr m{};
  m.msg_iov = &v;
  m.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxDescriptors)];
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
  // A process that does not read its replies loses them. It must not stop the run.
  if (sendmsg(c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) std::fprintf(stderr, "reply to process %u: %s\n", c->owner.pid, std::strerror(errno));
}

void ControlServer::Reject(const ConnectionPtr& c, const Asked& asked, const std::string& text) {
  alignas(8) uint8_t reply[kBridgeReplySize] = {};
  Put32(reply, kBridgeReplyRejectedOffset, 1);
  const size_t n = std::min<size_t>(text.size(), kBridgeReplyWireOffset - kBridgeReplyTextOffset - 1);
  std::memcpy(reply + kBridgeReplyTextOffset, text.data(), n);
  Send(c, asked, reply, nullptr, 0);
}

void ControlServer::Answer(const ConnectionPtr& c, const Asked& asked, const std::string& why) {
  if (!why.empty()) {
    Reject(c, asked, why);
    return;
  }
  alignas(8) uint8_t reply[kBridgeReplySize] = {};
  Send(c, asked, reply, nullptr, 0);
}

// The socket has capacity: a guest that has ended counts in kBridgeMaxGuests until the owner reads
// the reply to EndGuest, which comes after this packet.
void ControlServer::SendEnd(const ConnectionPtr& c, const GuestEnd& end) {
  alignas(8) uint8_t packet[kBridgeEndSize] = {};
  Put64(packet, kBridgeEndMagicOffset, kBridgeMagic);
  Put32(packet, kBridgeEndGuestOffset, end.guest);
  Put32(packet, kBridgeEndReasonOffset, end.reason);
  Put64(packet, kBridgeEndTimeOffset, static_cast<uint64_t>(end.time));
  const size_t n = std::min<size_t>(end.text.size(), kBridgeEndSize - kBridgeEndTextOffset - 1);
  std::memcpy(packet + kBridgeEndTextOffset, end.text.data(), n);
  // An error is ignored: the guest may be gone, or not read.
  (void)send(c->fd, packet, sizeof packet, MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace hvia::fabric

// SPDX-License-Identifier: Apache-2.0
// The control socket of a fabric. Processes connect, get the shared pages and claim slots for their
// threads; a closed connection means that its process is gone. The first that greets is the owner.
// With guests it stays the only one that joined by the socket's path; each guest has a connection
// made at the owner's request. One thread, which touches the simulation only through
// Scheduler::Post.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "sim/fabric/host_memory.h"
#include "sim/fabric/scheduler.h"

namespace hvia::fabric {

class ControlServer {
 public:
  // Binds the socket. Replaces a socket file that no process serves; throws if one does.
  // owner_fd: a connection to the owner, or -1; when it ends, so does the run.
  // private_directory: the socket's directory is removed with it, because the
  // owner may have died.
  // guests: the socket is closed when the owner is there, and the run ends with
  // the owner's connection.
  ControlServer(const std::string& path, bool private_directory, bool guests, int owner_fd, Scheduler* scheduler, std::vector<HostMemory*> memories);
  ~ControlServer();

  void Start();
  // Signals that end the run are taken by this thread: block them everywhere
  // before the first thread starts.
  static void BlockSignals();

 private:
  struct Connection {
    int fd = -1;
    bool greeted = false;
    Owner owner;
    // Of a guest.
    GuestConfig guest;
    std::shared_ptr<SealedFile> bank;
    std::atomic<uint32_t> unanswered{0};  // requests
    ~Connection();
  };
  using ConnectionPtr = std::shared_ptr<Connection>;
  // Asked is what a reply has to say of its request.
  struct Asked {
    uint32_t opcode = 0, sequence = 0;
  };

  void Loop();
  void RemoveFiles() const;
  void Accept();
  // Nobody else may come.
  void CloseSocket(const ConnectionPtr& owner);
  // Returns false when the connection has ended.
  bool Receive(const ConnectionPtr& c);
  void Hello(const ConnectionPtr& c, const Asked& asked, const uint8_t* request);
  void NewGuest(const ConnectionPtr& c, const Asked& asked, const uint8_t* request);
  static void Send(const ConnectionPtr& c, const Asked& asked, const uint8_t* reply, const int* fds, int count);
  static void Reject(const ConnectionPtr& c, const Asked& asked, const std::string& text);
  // A reply that says no more than whether it was done.
  static void Answer(const ConnectionPtr& c, const Asked& asked, const std::string& why);
  static void SendEnd(const ConnectionPtr& c, const GuestEnd& end);

  const std::string path_;
  const bool private_directory_;
  const bool guests_;
  const int owner_fd_;
  Scheduler* const scheduler_;
  const std::vector<HostMemory*> memories_;
  int listen_fd_ = -1;
  int signal_fd_ = -1;
  int wake_fd_ = -1;
  std::atomic<bool> closing_{false};
  std::thread thread_;
  std::map<int, ConnectionPtr> connections_;
  uint64_t next_connection_ = 1;
  ConnectionPtr owner_;  // the first that greeted
};

}  // namespace hvia::fabric

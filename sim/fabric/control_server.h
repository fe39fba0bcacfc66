// SPDX-License-Identifier: Apache-2.0
// The control socket of a fabric. Processes connect, receive the shared pages and claim slots for
// their threads. A closed connection means that its process is gone. The first process that sends
// Hello owns the fabric. With guests only the owner joins by the socket's path; it requests a
// connection for each guest. One thread serves the socket and touches the simulation only through
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
  // Binds the socket. Replaces a socket file that no process serves; throws if a process does.
  // owner_fd: a connection to the owner, or -1. The run ends when this connection ends.
  // private_directory: removes the socket's directory too, because a dead owner cannot. guests:
  // closes the socket when the owner has joined. The run ends with the owner's connection.
  ControlServer(const std::string& path, bool private_directory, bool guests, int owner_fd, Scheduler* scheduler, std::vector<HostMemory*> memories);
  ~ControlServer();

  void Start();
  // This thread takes the signals that end the run. Call before the first thread starts, so that
  // all threads block them.
  static void BlockSignals();

 private:
  struct Connection {
    int fd = -1;
    bool greeted = false;
    Owner owner;
    // If the process is a guest.
    GuestConfig guest;
    std::shared_ptr<SealedFile> bank;
    std::atomic<uint32_t> unanswered{0};  // requests
    ~Connection();
  };
  using ConnectionPtr = std::shared_ptr<Connection>;
  // Asked identifies the request of a reply.
  struct Asked {
    uint32_t opcode = 0, sequence = 0;
  };

  void Loop();
  void RemoveFiles() const;
  void Accept();
  // Rejects further processes.
  void CloseSocket(const ConnectionPtr& owner);
  // Returns false when the connection has ended.
  bool Receive(const ConnectionPtr& c);
  void Hello(const ConnectionPtr& c, const Asked& asked, const uint8_t* request);
  void NewGuest(const ConnectionPtr& c, const Asked& asked, const uint8_t* request);
  static void Send(const ConnectionPtr& c, const Asked& asked, const uint8_t* reply, const int* fds, int count);
  static void Reject(const ConnectionPtr& c, const Asked& asked, const std::string& text);
  // Replies without data.
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

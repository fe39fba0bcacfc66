// SPDX-License-Identifier: Apache-2.0
// The control socket of a fabric: processes come, get the shared pages, claim
// slots for their threads, and are missed when they go. One thread; it touches
// nothing of the simulation but through Scheduler::Post.
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
  // Binds the socket. A socket file that nobody serves any more is replaced; one
  // that is served is left alone, and the constructor throws.
  // owner_fd: a connection to the owner, or -1; when it ends, so does the run.
  // private_directory: the socket's directory is removed with it, because the
  // owner may have died.
  ControlServer(const std::string& path, bool private_directory, int owner_fd, Scheduler* scheduler, std::vector<HostMemory*> memories);
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
    ~Connection();
  };
  using ConnectionPtr = std::shared_ptr<Connection>;

  void Loop();
  void RemoveFiles() const;
  void Accept();
  // Returns false when the connection has ended.
  bool Receive(const ConnectionPtr& c);
  void Hello(const ConnectionPtr& c, const uint8_t* request);
  static void Send(const ConnectionPtr& c, const uint8_t* reply, const int* fds, int count);
  static void Refuse(const ConnectionPtr& c, uint32_t opcode, const std::string& text);

  const std::string path_;
  const bool private_directory_;
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
};

}  // namespace hvia::fabric

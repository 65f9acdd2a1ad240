// The client's end of a connection to a store: connecting, sending and receiving with a deadline. Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace npu::distributed::store {

using Deadline = std::chrono::steady_clock::time_point;

// The connection is over, or was never there.
struct ConnectionLost : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct TimedOut : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A connected socket, a local one where the server is on this host and gives one; tries again until the deadline. Names are looked
// up forwards only.
int connect_store(const std::string& host, uint16_t port, Deadline deadline);

class Client {
 public:
  Client(const std::string& host, uint16_t port, Deadline deadline);
  // To the proxy of process `pid` on this host.
  Client(int64_t pid, Deadline deadline);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void send(std::string_view bytes);
  void read(void* to, size_t size, Deadline deadline);
  template <class T>
  T value(Deadline deadline) {
    T out;
    read(&out, sizeof(T), deadline);
    return out;
  }
  std::string text(Deadline deadline);

 private:
  void greet(Deadline deadline);
  int fd_ = -1;
  std::string where_;
  std::string in_;
  size_t used_ = 0;
};

}  // namespace npu::distributed::store

// Owned descriptors and the few socket calls of this room: framed TCP with deadlines, and local sockets that pass descriptors.
// What it is not: a protocol (bootstrap.h and peers.h have theirs). Nothing here raises SIGPIPE or survives exec.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "softnpu/hccl/wait.h"

namespace softnpu::hccl {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd();
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// A listening socket on ip:port; port 0 lets the kernel choose. Empty when the port is taken.
std::optional<Fd> tcp_listen(const std::string& ip, uint16_t port);
uint16_t bound_port(const Fd& socket);
std::string peer_address(int socket);

// Tries again until the deadline; where the other end refuses, which a host does for a port that nobody listens at, until
// `refused`. `from`: the address to leave by.
Fd tcp_connect(const std::string& ip, uint16_t port, const std::string& from, Deadline deadline, Deadline refused);

// The same without waiting: tcp_called() is empty while it is tried, then 0 or the error's number.
Fd tcp_call(const std::string& ip, uint16_t port, const std::string& from);
std::optional<int> tcp_called(int socket);

// A frame is a type and up to 16 MiB of bytes.
constexpr size_t kLargestFrame = 16 << 20;
struct Frame {
  uint32_t type = 0;
  std::vector<std::byte> bytes;
};
std::string frame_bytes(uint32_t type, const void* data, size_t size);
void send_frame(int socket, uint32_t type, const void* data, size_t size);
Frame recv_frame(int socket, Deadline deadline);

// Takes a frame as it comes from a socket that does not block: for a thread that has others to serve. Reads no byte beyond it.
class FrameReader {
 public:
  // The frame once it is whole. Throws when the other side hung up, or announces more than `limit` bytes.
  std::optional<Frame> read(int socket, size_t limit);

 private:
  uint32_t head_[2] = {};
  size_t head_bytes_ = 0, body_bytes_ = 0;  // that are here
  Frame frame_;
};

// Local datagrams that keep their borders (SOCK_SEQPACKET) in the abstract namespace: nothing in the file system to leave behind.
Fd local_listen(const std::string& name);
Fd local_connect(const std::string& name, Patience& patience);
bool send_packet(int socket, const void* data, size_t size, int fd_to_pass = -1);
// Bytes received, 0 at hang-up, -1 when nothing is there.
ptrdiff_t recv_packet(int socket, void* data, size_t size, Fd* passed);

// An anonymous memory file of `size` bytes.
Fd make_memfd(const char* name, size_t size);

}  // namespace softnpu::hccl

#include "csrc/distributed/store/client.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include "csrc/distributed/store/local.h"
#include "csrc/distributed/store/protocol.h"

namespace npu::distributed::store {
namespace {

int left(Deadline deadline) {
  using std::chrono::milliseconds;
  const auto ms = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(ms, 0, 1 << 30));
}

// The socket's readiness for `events`; false when the time is over.
bool ready(int fd, short events, Deadline deadline) {
  for (;;) {
    pollfd item{fd, events, 0};
    const int n = poll(&item, 1, left(deadline));
    if (n > 0) return true;
    if (n == 0) return false;
    if (errno != EINTR) throw ConnectionLost(std::strerror(errno));
  }
}

// The local socket of the server at a port of this host, or -1.
int try_local(const addrinfo& address, uint16_t port) {
  if (!is_here(address)) return -1;
  const int fd = connect_local(server_name(port));
  if (fd < 0 || same_user(fd)) return fd;
  close(fd);
  return -1;
}

// One try with one address: the socket, or -1 and errno.
int try_address(const addrinfo& address, Deadline deadline) {
  const int fd = socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
  if (fd < 0) return -1;
  int error = 0;
  if (connect(fd, address.ai_addr, address.ai_addrlen)) {
    error = errno;
    if (error == EINPROGRESS) {
      error = ETIMEDOUT;
      socklen_t size = sizeof(error);
      if (ready(fd, POLLOUT, deadline)) getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    }
  }
  if (error == 0) {
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
  }
  close(fd);
  errno = error;
  return -1;
}

struct FreeAddresses {
  void operator()(addrinfo* all) const { freeaddrinfo(all); }
};

}  // namespace

int connect_store(const std::string& host, uint16_t port, Deadline deadline) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  const std::string service = std::to_string(port);
  std::string why;
  for (auto pause = std::chrono::milliseconds(10);; pause = std::min(2 * pause, std::chrono::milliseconds(500))) {
    addrinfo* found = nullptr;
    if (int code = getaddrinfo(host.c_str(), service.c_str(), &hints, &found)) {
      why = "the name does not resolve (" + std::string(gai_strerror(code)) + ")";
    } else {
      std::unique_ptr<addrinfo, FreeAddresses> all(found);
      for (const addrinfo* address = found; address; address = address->ai_next) {
        if (int fd = try_local(*address, port); fd >= 0) return fd;
        if (int fd = try_address(*address, deadline); fd >= 0) return fd;
        why = std::strerror(errno);
      }
    }
    if (std::chrono::steady_clock::now() + pause >= deadline) throw TimedOut(why);
    std::this_thread::sleep_for(pause);
  }
}

Client::Client(const std::string& host, uint16_t port, Deadline deadline) : where_(host + ":" + std::to_string(port)) {
  try {
    fd_ = connect_store(host, port, deadline);
  } catch (const TimedOut& error) {
    throw TimedOut("no connection to the store at " + where_ + ": " + error.what());
  }
  greet(deadline);
}

Client::Client(int64_t pid, Deadline deadline) : where_("the proxy of process " + std::to_string(pid)) {
  fd_ = connect_local(proxy_name(pid));
  if (fd_ < 0) throw ConnectionLost("no connection to " + where_ + ": " + std::strerror(errno));
  if (!same_user(fd_)) {
    close(fd_);
    throw ConnectionLost(where_ + " is run by another user, who would see and change what this job stores");
  }
  greet(deadline);
}

Client::~Client() { close(fd_); }

// The answer to a ping shows that a store listens there, and not something else.
void Client::greet(Deadline deadline) {
  try {
    std::string out;
    put(out, Query::kValidate);
    put(out, kMagic);
    put(out, Query::kPing);
    put(out, kMagic ^ 1U);
    send(out);
    if (value<uint32_t>(deadline) != (kMagic ^ 1U))
      throw ConnectionLost("what listens at " + where_ + " is not a store");
  } catch (...) {
    close(fd_);
    throw;
  }
}

void Client::send(std::string_view bytes) {
  // The server always reads: a store that takes nothing for so long is lost.
  const Deadline deadline = std::chrono::steady_clock::now() + std::chrono::minutes(5);
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n >= 0) {
      bytes.remove_prefix(n);
    } else if (errno == EAGAIN) {
      if (!ready(fd_, POLLOUT, deadline)) throw ConnectionLost("the store at " + where_ + " reads nothing");
    } else if (errno != EINTR) {
      throw ConnectionLost("the connection to the store at " + where_ + " is lost: " + std::strerror(errno));
    }
  }
}

void Client::read(void* to, size_t size, Deadline deadline) {
  auto* out = static_cast<char*>(to);
  for (;;) {
    const size_t n = std::min(size, in_.size() - used_);
    std::memcpy(out, in_.data() + used_, n);
    used_ += n;
    out += n;
    size -= n;
    if (size == 0) return;
    in_.resize(std::clamp<size_t>(size, 4096, 1 << 20));
    used_ = 0;
    const ssize_t got = recv(fd_, in_.data(), in_.size(), 0);
    in_.resize(std::max<ssize_t>(got, 0));
    if (got == 0) throw ConnectionLost("the store at " + where_ + " has closed the connection");
    if (got > 0 || errno == EINTR) continue;
    if (errno != EAGAIN)
      throw ConnectionLost("the connection to the store at " + where_ + " is lost: " + std::strerror(errno));
    if (!ready(fd_, POLLIN, deadline)) throw TimedOut("no answer of the store at " + where_);
  }
}

std::string Client::text(Deadline deadline) {
  std::string out(value<uint64_t>(deadline), '\0');
  read(out.data(), out.size(), deadline);
  return out;
}

}  // namespace npu::distributed::store

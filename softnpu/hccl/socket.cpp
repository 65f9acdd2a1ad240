// See socket.h.
#include "softnpu/hccl/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "softnpu/hccl/status.h"

namespace softnpu::hccl {
namespace {

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

Address address_of(const std::string& ip, uint16_t port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;  // never a name lookup: a slow resolver must not slow a job
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(ip.c_str(), std::to_string(port).c_str(), &hints, &found) != 0)
    fail(HCCL_E_PARA, "%s is not a numeric IP address", ip.c_str());
  Address a;
  a.size = found->ai_addrlen;
  memcpy(&a.storage, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  return a;
}

void read_all(int socket, void* data, size_t size, Patience& patience) {
  auto* at = static_cast<char*>(data);
  while (size) {
    wait(socket, POLLIN, patience);
    const ssize_t got = recv(socket, at, size, 0);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) fail(HCCL_E_TCP_TRANSFER, "the connection was closed by the other side");
    at += got, size -= static_cast<size_t>(got);
  }
}

// The other side reads what is sent to it.
Until reading() {
  return {Clock::now() + std::chrono::seconds(5), [] { fail(HCCL_E_TCP_TRANSFER, "the other side does not read"); }};
}

sockaddr_un local_address(const std::string& name, socklen_t* size) {
  sockaddr_un a{};
  a.sun_family = AF_UNIX;
  for (size_t i = 0; i < name.size() && i + 1 < sizeof a.sun_path; ++i) a.sun_path[i + 1] = name[i];
  *size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return a;
}

}  // namespace

Fd::~Fd() {
  if (fd_ >= 0) close(fd_);
}

std::optional<Fd> tcp_listen(const std::string& ip, uint16_t port) {
  Address a = address_of(ip, port);
  Fd fd(socket(a.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) fail(HCCL_E_SYSCALL, "socket: %s", strerror(errno));
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd.get(), a.get(), a.size) != 0 || listen(fd.get(), SOMAXCONN) != 0) {
    if (errno == EADDRINUSE || errno == EACCES) return {};
    fail(HCCL_E_TCP_CONNECT, "cannot listen on %s port %d: %s", ip.c_str(), port, strerror(errno));
  }
  return fd;
}

uint16_t bound_port(const Fd& socket) {
  Address a;
  a.size = sizeof a.storage;
  getsockname(socket.get(), a.get(), &a.size);
  return ntohs(a.storage.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(a.storage).sin6_port
                                               : reinterpret_cast<sockaddr_in&>(a.storage).sin_port);
}

std::string peer_address(int socket) {
  Address a;
  a.size = sizeof a.storage;
  char text[NI_MAXHOST] = "?";
  if (getpeername(socket, a.get(), &a.size) == 0)
    getnameinfo(a.get(), a.size, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return text;
}

Fd tcp_connect(const std::string& ip, uint16_t port, const std::string& from, Deadline deadline, Deadline refused) {
  Address to = address_of(ip, port), local = address_of(from, 0);
  int error = ETIMEDOUT;
  auto failed = [&] {
    fail(HCCL_E_TCP_CONNECT, "cannot connect to %s port %d: %s", ip.c_str(), port, strerror(error));
  };
  Until patience(deadline, failed);
  for (auto time = std::chrono::milliseconds(2);; time = std::min(time * 2, std::chrono::milliseconds(200))) {
    Fd fd(socket(to.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) fail(HCCL_E_SYSCALL, "socket: %s", strerror(errno));
    if (local.storage.ss_family == to.storage.ss_family)
      bind(fd.get(), local.get(), local.size);  // best effort: routing decides
    if (connect(fd.get(), to.get(), to.size) == 0 || errno == EINPROGRESS) {
      wait(fd.get(), POLLOUT, patience);
      socklen_t size = sizeof error;
      getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
      if (!error) {
        const int on = 1;
        setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        fcntl(fd.get(), F_SETFL, fcntl(fd.get(), F_GETFL) & ~O_NONBLOCK);
        return fd;
      }
    } else {
      error = errno;
    }
    if (Clock::now() + time > (error == ECONNREFUSED ? std::min(deadline, refused) : deadline)) failed();
    pause(time, patience);
  }
}

Fd tcp_call(const std::string& ip, uint16_t port, const std::string& from) {
  Address to = address_of(ip, port), local = address_of(from, 0);
  Fd fd(socket(to.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) fail(HCCL_E_SYSCALL, "socket: %s", strerror(errno));
  const int on = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (local.storage.ss_family == to.storage.ss_family) bind(fd.get(), local.get(), local.size);  // best effort
  if (connect(fd.get(), to.get(), to.size) != 0 && errno != EINPROGRESS)
    fail(HCCL_E_TCP_CONNECT, "cannot connect to %s port %d: %s", ip.c_str(), port, strerror(errno));
  return fd;
}

std::optional<int> tcp_called(int socket) {
  pollfd p{socket, POLLOUT, 0};
  if (poll(&p, 1, 0) <= 0) return {};
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

std::string frame_bytes(uint32_t type, const void* data, size_t size) {
  const uint32_t head[2] = {static_cast<uint32_t>(size), type};
  std::string all(reinterpret_cast<const char*>(head), sizeof head);
  return all.append(static_cast<const char*>(data), size);
}

void send_frame(int socket, uint32_t type, const void* data, size_t size) {
  const std::string all = frame_bytes(type, data, size);
  for (size_t at = 0; at < all.size();) {
    const ssize_t sent = send(socket, all.data() + at, all.size() - at, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) {
      Until patience = reading();
      wait(socket, POLLOUT, patience);
      continue;
    }
    if (sent <= 0) fail(HCCL_E_TCP_TRANSFER, "send: %s", strerror(errno));
    at += static_cast<size_t>(sent);
  }
}

Frame recv_frame(int socket, Deadline deadline) {
  Until patience(deadline, [] { fail(HCCL_E_TIMEOUT, "no answer within the time limit"); });
  uint32_t head[2];
  read_all(socket, head, sizeof head, patience);
  if (head[0] > kLargestFrame) fail(HCCL_E_TCP_TRANSFER, "the other side does not speak this protocol");
  Frame frame{head[1], std::vector<std::byte>(head[0])};
  read_all(socket, frame.bytes.data(), frame.bytes.size(), patience);
  return frame;
}

std::optional<Frame> FrameReader::read(int socket, size_t limit) {
  // True when `size` bytes are there.
  auto fill = [&](void* to, size_t& here, size_t size) {
    while (here < size) {
      const ssize_t got = recv(socket, static_cast<char*>(to) + here, size - here, MSG_DONTWAIT);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return false;
      if (got <= 0) fail(HCCL_E_TCP_TRANSFER, "the connection was closed by the other side");
      here += static_cast<size_t>(got);
    }
    return true;
  };
  if (head_bytes_ < sizeof head_) {
    if (!fill(head_, head_bytes_, sizeof head_)) return {};
    if (head_[0] > limit) fail(HCCL_E_TCP_TRANSFER, "the other side does not speak this protocol");
    frame_ = {head_[1], std::vector<std::byte>(head_[0])};
  }
  if (!fill(frame_.bytes.data(), body_bytes_, frame_.bytes.size())) return {};
  head_bytes_ = body_bytes_ = 0;
  return std::move(frame_);
}

Fd local_listen(const std::string& name) {
  Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  socklen_t size;
  sockaddr_un a = local_address(name, &size);
  if (!fd || bind(fd.get(), reinterpret_cast<sockaddr*>(&a), size) != 0 || listen(fd.get(), SOMAXCONN) != 0)
    fail(HCCL_E_SYSCALL, "cannot listen on the local socket @%s: %s", name.c_str(), strerror(errno));
  return fd;
}

Fd local_connect(const std::string& name, Patience& patience) {
  socklen_t size;
  sockaddr_un a = local_address(name, &size);
  for (;;) {
    Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (!fd) fail(HCCL_E_SYSCALL, "socket: %s", strerror(errno));
    if (connect(fd.get(), reinterpret_cast<sockaddr*>(&a), size) == 0) return fd;
    if (errno != EINTR && errno != EAGAIN)
      fail(HCCL_E_REMOTE, "cannot reach a process of the communicator on this host: %s", strerror(errno));
    pause(std::chrono::milliseconds(1), patience);  // its queue is full
  }
}

bool send_packet(int socket, const void* data, size_t size, int fd_to_pass) {
  iovec part{const_cast<void*>(data), size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd_to_pass >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd_to_pass, sizeof(int));
  }
  for (;;) {
    if (sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(size)) return true;
    if (errno == EAGAIN) {
      try {
        Until patience = reading();
        wait(socket, POLLOUT, patience);
      } catch (const Error&) {
        return false;
      }
    } else if (errno != EINTR) {
      return false;
    }
  }
}

ptrdiff_t recv_packet(int socket, void* data, size_t size, Fd* passed) {
  iovec part{data, size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  for (;;) {
    const ssize_t got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN ? -1 : 0;
    }
    for (cmsghdr* c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c))
      if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
        int fd;
        memcpy(&fd, CMSG_DATA(c), sizeof fd);
        *passed = Fd(fd);
      }
    return got;
  }
}

Fd make_memfd(const char* name, size_t size) {
  Fd fd(memfd_create(name, MFD_CLOEXEC));
  if (!fd || ftruncate(fd.get(), static_cast<off_t>(size)) != 0)
    fail(HCCL_E_MEMORY, "memfd of %zu bytes: %s", size, strerror(errno));
  return fd;
}

}  // namespace softnpu::hccl

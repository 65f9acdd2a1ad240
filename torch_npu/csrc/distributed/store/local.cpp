#include "csrc/distributed/store/local.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

namespace npu::distributed::store {
namespace {

std::string abstract(const std::string& name) { return std::string(1, '\0') + "anycend-store-" + name; }

}  // namespace

std::string proxy_name(int64_t pid) { return abstract(std::to_string(pid)); }
std::string server_name(uint16_t port) { return abstract("port-" + std::to_string(port)); }

int connect_local(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path, sizeof(address.sun_path));
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0 || connect(fd, reinterpret_cast<sockaddr*>(&address), size) == 0) return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

bool same_user(int fd) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

// The kernel is asked from where it would send there; nothing is sent.
bool is_here(const addrinfo& address) {
  const int fd = socket(address.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  sockaddr_storage from{};
  socklen_t size = sizeof(from);
  const bool known = connect(fd, address.ai_addr, address.ai_addrlen) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&from), &size) == 0;
  close(fd);
  if (!known) return false;
  if (address.ai_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(address.ai_addr)->sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in&>(from).sin_addr.s_addr;
  }
  return std::memcmp(&reinterpret_cast<const sockaddr_in6*>(address.ai_addr)->sin6_addr,
                     &reinterpret_cast<const sockaddr_in6&>(from).sin6_addr, sizeof(in6_addr)) == 0;
}

}  // namespace npu::distributed::store

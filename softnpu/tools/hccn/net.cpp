// See net.h.
#include "softnpu/tools/hccn/net.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace softnpu::hccn {
namespace {

using Clock = std::chrono::steady_clock;

sockaddr_in address_of(const std::string& text, uint16_t port = 0) {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(port);
  inet_pton(AF_INET, text.c_str(), &a.sin_addr);
  return a;
}

uint16_t checksum(const void* data, size_t bytes) {
  const auto* words = static_cast<const uint16_t*>(data);
  uint32_t sum = 0;
  for (size_t i = 0; i < bytes / 2; ++i) sum += words[i];
  sum = (sum >> 16) + (sum & 0xffff);
  return static_cast<uint16_t>(~(sum + (sum >> 16)));
}

struct Socket {
  int fd;
  ~Socket() {
    if (fd >= 0) close(fd);
  }
};

bool bind_to(int fd, const std::string& source) {
  if (source.empty()) return true;
  const sockaddr_in from = address_of(source);
  return bind(fd, reinterpret_cast<const sockaddr*>(&from), sizeof from) == 0;
}

Echo of_error(int error) {
  switch (error) {
    case 0:
    case ECONNREFUSED:
      return Echo::kSuccess;
    case ENETUNREACH:
    case EHOSTUNREACH:
      return Echo::kUnreachable;
    case ETIMEDOUT:
    case EINPROGRESS:
      return Echo::kTimeout;
    default:
      return Echo::kSocketFail;
  }
}

Echo handshake(const std::string& source, const std::string& address, int limit) {
  Socket s{socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  if (s.fd < 0 || !bind_to(s.fd, source)) return Echo::kSocketFail;
  const sockaddr_in to = address_of(address, 60000);
  if (connect(s.fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) return Echo::kSuccess;
  if (errno != EINPROGRESS) return of_error(errno);
  pollfd p{s.fd, POLLOUT, 0};
  if (poll(&p, 1, limit) <= 0) return Echo::kTimeout;
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(s.fd, SOL_SOCKET, SO_ERROR, &error, &size);
  return of_error(error);
}

// Empty: no right to use ICMP here.
std::optional<Echo> echo(const std::string& source, const std::string& address, uint16_t sequence, int limit) {
  bool raw = false;
  Socket s{socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_ICMP)};
  if (s.fd < 0) s.fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP), raw = true;
  if (s.fd < 0) return {};
  if (!bind_to(s.fd, source)) return Echo::kSocketFail;
  struct {
    icmphdr head;
    char text[24];
  } packet{};
  packet.head.type = ICMP_ECHO;
  packet.head.un.echo.id = htons(static_cast<uint16_t>(getpid()));
  packet.head.un.echo.sequence = htons(sequence);
  packet.head.checksum = checksum(&packet, sizeof packet);
  const sockaddr_in to = address_of(address);
  if (sendto(s.fd, &packet, sizeof packet, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to) < 0)
    return of_error(errno);
  const auto end = Clock::now() + std::chrono::milliseconds(limit);
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd p{s.fd, POLLIN, 0};
    if (left <= 0 || poll(&p, 1, static_cast<int>(left)) <= 0) return Echo::kTimeout;
    alignas(iphdr) char bytes[512];
    const ssize_t got = recv(s.fd, bytes, sizeof bytes, 0);
    if (got < 0) return of_error(errno);
    const size_t skip = raw ? reinterpret_cast<iphdr*>(bytes)->ihl * 4u : 0;
    if (static_cast<size_t>(got) < skip + sizeof(icmphdr)) continue;
    icmphdr head;
    memcpy(&head, bytes + skip, sizeof head);
    if (head.type == ICMP_DEST_UNREACH) return Echo::kUnreachable;
    if (head.type == ICMP_TIME_EXCEEDED) return Echo::kTimeExceeded;
    const bool ours = !raw || head.un.echo.id == packet.head.un.echo.id;
    if (head.type == ICMP_ECHOREPLY && ours && head.un.echo.sequence == packet.head.un.echo.sequence)
      return Echo::kSuccess;
  }
}

}  // namespace

bool is_address(const std::string& text) {
  in_addr a;
  return inet_pton(AF_INET, text.c_str(), &a) == 1;
}

bool is_netmask(const std::string& text) {
  in_addr a;
  if (inet_pton(AF_INET, text.c_str(), &a) != 1) return false;
  const uint32_t bits = ntohl(a.s_addr);
  return bits && std::countl_one(bits) + std::countr_zero(bits) == 32;
}

std::string interface_with(const std::string& address) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  std::string found;
  const in_addr wanted = address_of(address).sin_addr;
  for (const ifaddrs* i = list; i && found.empty(); i = i->ifa_next)
    if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET &&
        reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr.s_addr == wanted.s_addr)
      found = i->ifa_name;
  freeifaddrs(list);
  return found;
}

bool is_up(const std::string& interface) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return false;
  bool up = false;
  for (const ifaddrs* i = list; i; i = i->ifa_next)
    if (interface == i->ifa_name) up = up || ((i->ifa_flags & IFF_UP) && (i->ifa_flags & IFF_RUNNING));
  freeifaddrs(list);
  return up;
}

std::string mac_of(const std::string& interface) {
  std::string mac;
  std::getline(std::ifstream("/sys/class/net/" + interface + "/address"), mac);
  return mac;
}

uint64_t statistic(const std::string& interface, const char* name) {
  uint64_t value = 0;
  std::ifstream("/sys/class/net/" + interface + "/statistics/" + name) >> value;
  return value;
}

Answer ping(const std::string& source, const std::string& address, uint16_t sequence, std::chrono::milliseconds limit) {
  const auto began = Clock::now();
  const int ms = static_cast<int>(limit.count());
  const std::optional<Echo> icmp = echo(source, address, sequence, ms);
  const Echo result = icmp ? *icmp : handshake(source, address, ms);
  return {result, std::chrono::duration<double, std::milli>(Clock::now() - began).count()};
}

}  // namespace softnpu::hccn

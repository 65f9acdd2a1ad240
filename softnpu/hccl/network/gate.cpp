// See gate.h.
#include "softnpu/hccl/network/gate.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <linux/filter.h>
#include <sys/socket.h>

#include <cstdlib>
#include <cstring>

namespace softnpu::hccl {
namespace {

constexpr uint32_t kNet = static_cast<uint32_t>(SKF_NET_OFF);  // the packet's IP header
constexpr uint32_t kSource4 = 12, kSource6 = 8;
constexpr uint32_t kTake = 0xffffffff, kDrop = 0;
constexpr size_t kMost = BPF_MAXINSNS - 16;

}  // namespace

Gate::Ports Gate::ports() {
  Ports found;
  DIR* folder = opendir("/proc/self/fd");
  if (!folder) return found;
  while (const dirent* entry = readdir(folder)) {
    const int fd = atoi(entry->d_name);
    int listens = 0, family = 0;
    socklen_t size = sizeof listens;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || !listens) continue;
    size = sizeof family;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size) == 0 && (family == AF_INET || family == AF_INET6))
      found.insert(fd);
  }
  closedir(folder);
  return found;
}

void Gate::close(const Ports& before) {
  for (int fd : ports())
    if (!before.count(fd)) sockets_.push_back(fd);
  set();
}

void Gate::open(const Addresses& addresses) {
  if (sockets_.empty() || addresses.callers_count() == from_.size()) return;
  from_ = addresses.callers();
  set();
}

void Gate::set() const {
  std::vector<sock_filter> program;
  auto add = [&](uint16_t code, uint32_t k, uint8_t yes = 0, uint8_t no = 0) { program.push_back({code, yes, no, k}); };
  bool fits = true;
  for (const std::string& address : from_) {
    uint32_t words[4];
    const bool four = inet_pton(AF_INET, address.c_str(), words) == 1;
    if (!four && inet_pton(AF_INET6, address.c_str(), words) != 1) continue;
    const size_t count = four ? 1 : 4;
    if (program.size() + 2 * count + 4 > kMost) {  // some seven hundred hosts: more than a filter knows
      program.clear();
      fits = false;
      break;
    }
    add(BPF_LD | BPF_B | BPF_ABS, kNet);
    add(BPF_ALU | BPF_RSH | BPF_K, 4);
    add(BPF_JMP | BPF_JEQ | BPF_K, four ? 4 : 6, 0, static_cast<uint8_t>(2 * count + 1));
    for (size_t i = 0; i < count; ++i) {
      add(BPF_LD | BPF_W | BPF_ABS, kNet + (four ? kSource4 : kSource6) + 4 * static_cast<uint32_t>(i));
      add(BPF_JMP | BPF_JEQ | BPF_K, ntohl(words[i]), 0, static_cast<uint8_t>(2 * (count - i) - 1));
    }
    add(BPF_RET | BPF_K, kTake);
  }
  add(BPF_RET | BPF_K, fits ? kDrop : kTake);
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  for (int fd : sockets_) setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter);
}

}  // namespace softnpu::hccl

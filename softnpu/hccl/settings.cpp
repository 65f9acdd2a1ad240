// See settings.h.
#include "softnpu/hccl/settings.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/stat.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "softnpu/hccl/status.h"

namespace softnpu::hccl {
namespace {

const char* text_of(const char* name) {
  const char* value = getenv(name);
  return value && *value ? value : nullptr;
}

// A whole number within [low, high]; anything else is an error that names the variable.
std::optional<long> number_of(const char* name, long low, long high) {
  const char* value = text_of(name);
  if (!value) return {};
  char* end = nullptr;
  const long number = strtol(value, &end, 10);
  if (*end || number < low || number > high)
    fail(HCCL_E_PARA, "%s=%s: expected a number from %ld to %ld", name, value, low, high);
  return number;
}

struct Interface {
  std::string name, ip;
  bool loopback;
};

std::vector<Interface> interfaces() {
  std::vector<Interface> found, v6;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  for (ifaddrs* i = list; i; i = i->ifa_next) {
    if (!i->ifa_addr || !(i->ifa_flags & IFF_UP)) continue;
    const int family = i->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    char text[NI_MAXHOST];
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (getnameinfo(i->ifa_addr, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) continue;
    if (family == AF_INET6 && strchr(text, '%')) continue;  // link-local: useless without a scope
    (family == AF_INET ? found : v6).push_back({i->ifa_name, text, (i->ifa_flags & IFF_LOOPBACK) != 0});
  }
  freeifaddrs(list);
  found.insert(found.end(), v6.begin(), v6.end());  // IPv4 first: rank tables and white lists are written in it
  return found;
}

bool name_chosen(const std::string& name, const std::string& rule) {
  const bool exclude = rule[0] == '^', exact = rule[0] == '=';
  std::string rest = rule.substr(exclude || exact ? 1 : 0);
  bool listed = false;
  for (size_t from = 0; from <= rest.size();) {
    const size_t to = std::min(rest.find(',', from), rest.size());
    const std::string item = rest.substr(from, to - from);
    if (!item.empty() && (exact ? name == item : name.compare(0, item.size(), item) == 0)) listed = true;
    from = to + 1;
  }
  return listed != exclude;
}

// A job on one host needs no other address than the loopback's, and should not be reachable from elsewhere.
bool job_is_local() {
  const char* master = text_of("MASTER_ADDR");
  if (master && (!strcmp(master, "localhost") || !strncmp(master, "127.", 4) || !strcmp(master, "::1"))) return true;
  const char *world = text_of("WORLD_SIZE"), *local = text_of("LOCAL_WORLD_SIZE");
  return world && local && !strcmp(world, local);
}

// What only the job's ranks know. A file that others can read is no secret; a short one can be guessed.
std::string secret() {
  std::string found;
  const char *text = text_of("ANYCEND_HCCL_SECRET"), *file = text_of("ANYCEND_HCCL_SECRET_FILE");
  if (!text && !file) return found;
  const char* name = text ? "ANYCEND_HCCL_SECRET" : "ANYCEND_HCCL_SECRET_FILE";
  if (text) {
    found = text;
  } else {
    std::ifstream in(file, std::ios::binary);
    struct stat about{};
    if (!in || stat(file, &about) != 0) fail(HCCL_E_OPEN_FILE_FAILURE, "cannot read %s (%s)", file, name);
    if (about.st_mode & 077)
      fail(HCCL_E_PARA, "%s (%s) can be read by others than its owner: chmod 600 %s", file, name, file);
    found.assign(std::istreambuf_iterator<char>(in), {});
    while (!found.empty() && (found.back() == '\n' || found.back() == '\r')) found.pop_back();
  }
  if (found.size() < 16)
    fail(HCCL_E_PARA, "%s has %zu characters; a secret needs 16 or more (openssl rand -hex 16)", name, found.size());
  return found;
}

}  // namespace

Settings settings() {
  Settings s;
  if (auto v = number_of("HCCL_CONNECT_TIMEOUT", 1, 7200)) s.connect_timeout = std::chrono::seconds(*v);
  if (auto v = number_of("HCCL_EXEC_TIMEOUT", 0, 2147483647)) s.exec_timeout = std::chrono::seconds(*v);
  if (auto v = number_of("ANYCEND_HOST_TIMEOUT", 1, 7200)) s.host_timeout = std::chrono::seconds(*v);
  if (auto v = number_of("HCCL_IF_BASE_PORT", 1024, 65520))
    s.base_port = static_cast<uint16_t>(*v), s.base_port_named = true;
  if (const char* v = text_of("HCCL_IF_IP")) s.interface_ip = v;
  if (const char* v = text_of("HCCL_SOCKET_IFNAME")) s.interface_names = v;
  if (auto v = number_of("HCCL_WHITELIST_DISABLE", 0, 1)) s.whitelist = *v == 0;
  if (const char* v = text_of("HCCL_WHITELIST_FILE")) s.whitelist_file = v;
  s.secret = secret();
  if (auto v = number_of("ANYCEND_STRICT", 0, 1)) s.strict = *v == 1;
  return s;
}

std::string own_address(const Settings& s) {
  const std::vector<Interface> all = interfaces();
  if (s.interface_ip) {
    for (const Interface& i : all)
      if (i.ip == *s.interface_ip) return i.ip;
    // 127.0.0.0/8 is all ours though only 127.0.0.1 is listed.
    if (s.interface_ip->compare(0, 4, "127.") == 0) return *s.interface_ip;
    fail(HCCL_E_PARA, "HCCL_IF_IP=%s: no interface of this host has that address", s.interface_ip->c_str());
  }
  if (!s.interface_names.empty()) {
    for (const Interface& i : all)
      if (name_chosen(i.name, s.interface_names)) return i.ip;
    fail(HCCL_E_PARA, "HCCL_SOCKET_IFNAME=%s: no interface of this host that is up matches", s.interface_names.c_str());
  }
  if (!job_is_local())
    for (const Interface& i : all)
      if (!i.loopback && i.name.compare(0, 6, "docker") != 0) return i.ip;
  return "127.0.0.1";
}

std::string interface_of(const std::string& address) {
  for (const Interface& i : interfaces())
    if (i.ip == address || (i.loopback && address.compare(0, 4, "127.") == 0)) return i.name;
  return {};
}

std::string host_identity() {
  if (const char* forced = text_of("ANYCEND_HOST_ID")) return forced;
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  struct stat net{};
  stat("/proc/self/ns/net", &net);
  return boot + "/" + std::to_string(net.st_ino);
}

}  // namespace softnpu::hccl

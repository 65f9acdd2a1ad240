// See device_ip.h.
#include "softnpu/hccl/device_ip.h"

#include <cstdlib>
#include <fstream>

#include "softnpu/hccl/settings.h"

namespace softnpu::hccl {
namespace {

std::string configured(const char* file, int device) {
  const std::string key = "address_" + std::to_string(device) + "=";
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.compare(0, key.size(), key) == 0) return line.substr(key.size());
  return {};
}

}  // namespace

std::string device_address(int device, const std::string& table, const std::string& host) {
  if (!table.empty() && !interface_of(table).empty()) return table;
  if (const char* named = getenv("ANYCEND_HCCN_CONF"); named && *named) {
    const std::string address = configured(named, device);
    return address.empty() ? host : address;
  }
  const std::string address = configured("/etc/hccn.conf", device);
  return !address.empty() && !interface_of(address).empty() ? address : host;
}

}  // namespace softnpu::hccl

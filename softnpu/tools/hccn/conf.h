// hccn.conf: what is set about the devices' network, a line each: address_0=192.168.100.1. Who calls it: commands.cpp.
// libhccl reads the same file (softnpu/hccl/device_ip.cpp).
#pragma once

#include <map>
#include <optional>
#include <string>

namespace softnpu::hccn {

// An error for a person: one line, with the remedy.
struct Refused {
  std::string text;
};

class Conf {
 public:
  // The file that ANYCEND_HCCN_CONF names, else /etc/hccn.conf. One that does not exist is empty.
  Conf();
  std::optional<std::string> get(const std::string& stem, int device) const;
  // Changes the value and writes the file: all of it or nothing, what else stands in it stays.
  void set(std::map<std::string, std::string> values, int device);
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::map<std::string, std::string> values_;
};

}  // namespace softnpu::hccn

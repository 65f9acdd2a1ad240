// See conf.h.
#include "softnpu/tools/hccn/conf.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace softnpu::hccn {
namespace {

std::map<std::string, std::string> read(const std::string& path) {
  std::map<std::string, std::string> values;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const size_t equals = line.find('=');
    if (equals != std::string::npos && line[0] != '#') values[line.substr(0, equals)] = line.substr(equals + 1);
  }
  return values;
}

std::string key(const std::string& stem, int device) { return stem + "_" + std::to_string(device); }

}  // namespace

Conf::Conf() {
  const char* named = getenv("ANYCEND_HCCN_CONF");
  path_ = named && *named ? named : "/etc/hccn.conf";
  values_ = read(path_);
}

std::optional<std::string> Conf::get(const std::string& stem, int device) const {
  const auto found = values_.find(key(stem, device));
  if (found == values_.end() || found->second.empty()) return {};
  return found->second;
}

void Conf::set(std::map<std::string, std::string> values, int device) {
  // Several of these run at once when a script configures all devices: one after another, each on what the last one left.
  auto refuse = [&] {
    throw Refused{"cannot write " + path_ + ": " + strerror(errno) + " (ANYCEND_HCCN_CONF names another file)"};
  };
  // The lock is on the folder: the file itself is replaced.
  const std::string folder = std::filesystem::absolute(path_).parent_path();
  const int lock = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock < 0 || flock(lock, LOCK_EX) != 0) refuse();
  values_ = read(path_);
  for (auto& [stem, value] : values) values_[key(stem, device)] = value;
  const std::string fresh = path_ + ".new";
  std::ofstream out(fresh, std::ios::trunc);
  for (const auto& [name, value] : values_) out << name << '=' << value << '\n';
  out.close();
  if (!out || rename(fresh.c_str(), path_.c_str()) != 0) refuse();
  close(lock);
}

}  // namespace softnpu::hccn

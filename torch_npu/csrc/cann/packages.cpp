#include "csrc/cann/packages.h"

#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

namespace cann {
namespace {

constexpr const char* kLibrary = "/op_api/lib/libcust_opapi.so";

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) {
    if (part = trimmed(part); !part.empty()) parts.push_back(part);
  }
  return parts;
}

// The names behind `load_priority=`; none without the file.
std::vector<std::string> vendors(const std::string& folder) {
  std::ifstream file(folder + "/config.ini");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("\xef\xbb\xbf")) line.erase(0, 3);  // a byte order mark
    const size_t equals = line.find('=');
    if (equals != std::string::npos && trimmed(line.substr(0, equals)) == "load_priority") {
      return split(line.substr(equals + 1), ',');
    }
  }
  return {};
}

// Empty if all that is mapped of a library is there: of one that was cut off, what is missing would end the process.
std::string cut_off(const std::string& path, uint64_t size) {
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr head{};
  if (!file.read(reinterpret_cast<char*>(&head), sizeof head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
    return "";
  file.seekg(static_cast<std::streamoff>(head.e_phoff));
  Elf64_Phdr part{};
  for (unsigned i = 0; i < head.e_phnum && file.read(reinterpret_cast<char*>(&part), sizeof part); ++i) {
    if (part.p_type == PT_LOAD && (part.p_filesz > size || part.p_offset > size - part.p_filesz))
      return "it is cut off: it has " + std::to_string(size) + " bytes, and a part of it ends at " +
             std::to_string(part.p_offset + part.p_filesz);
  }
  return "";
}

}  // namespace

std::vector<std::string> package_libraries() {
  std::vector<std::string> paths;
  if (const char* packages = std::getenv("ASCEND_CUSTOM_OPP_PATH")) {
    for (const auto& package : split(packages, ':')) paths.push_back(package + kLibrary);
  }
  if (const char* opp = std::getenv("ASCEND_OPP_PATH"); opp && *opp) {
    const std::string folder = std::string(opp) + "/vendors";
    for (const auto& vendor : vendors(folder)) paths.push_back(folder + "/" + vendor + kLibrary);
  }
  return paths;
}

std::string obstacle_at(const std::string& path) {
  struct stat info{};
  if (stat(path.c_str(), &info) == 0) {
    if (S_ISREG(info.st_mode)) return cut_off(path, static_cast<uint64_t>(info.st_size));
    return S_ISDIR(info.st_mode) ? "it is a folder, not a library" : "it is no file that can be loaded";
  }
  const int error = errno;
  std::error_code none;
  const auto target = std::filesystem::read_symlink(path, none);
  if (!none) return "it is a link to " + target.string() + ": " + std::strerror(error);
  return error == ENOENT || error == ENOTDIR ? kNotThere : std::strerror(error);
}

std::string refusal_of(const std::string& path) {
  if (std::string obstacle = obstacle_at(path); !obstacle.empty()) return obstacle;
  struct stat info{};
  if (stat(path.c_str(), &info) != 0) return std::strerror(errno);
  if (info.st_uid != 0 && info.st_uid != geteuid()) return "it belongs to neither root nor this user: chown it";
  return "";
}

}  // namespace cann

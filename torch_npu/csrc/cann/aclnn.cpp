#include "csrc/cann/aclnn.h"

#include <dirent.h>

#include <algorithm>
#include <string>
#include <vector>

#include "csrc/cann/library.h"
#include "csrc/cann/root.h"

namespace cann {
namespace {

struct Opapi {
  std::vector<void*> libraries;  // in the order they are searched
  std::string description;
};

std::vector<std::string> neighbours(const std::string& directory) {
  std::vector<std::string> names;
  DIR* entries = opendir(directory.c_str());
  if (!entries) return names;
  while (const dirent* entry = readdir(entries)) {
    const std::string name(entry->d_name);
    const bool opapi = name.rfind("libopapi_", 0) == 0 || name == "libcust_opapi.so";
    if (opapi && name.size() > 6 && name.substr(name.size() - 3) == ".so")
      names.push_back(name.substr(3, name.size() - 6));
  }
  closedir(entries);
  std::sort(names.begin(), names.end());
  return names;
}

Opapi* load() {
  auto* opapi = new Opapi();
  for (const auto& name : neighbours(root().lib)) {
    if (void* handle = try_open_library(name)) opapi->libraries.push_back(handle);
  }
  std::string reason;
  if (void* handle = try_open_library("opapi", &reason)) {
    opapi->libraries.push_back(handle);
    opapi->description = "libopapi.so in " + root().lib;
  } else {
    opapi->description = reason;
  }
  return opapi;
}

const Opapi& opapi() {
  static const Opapi* const loaded = load();  // leaked: called until the process is gone
  return *loaded;
}

}  // namespace

void* find_opapi(const char* symbol) {
  for (void* library : opapi().libraries) {
    if (void* address = find_symbol(library, symbol)) return address;
  }
  return nullptr;
}

const char* opapi_description() { return opapi().description.c_str(); }

}  // namespace cann

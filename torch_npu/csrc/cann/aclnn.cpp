#include "csrc/cann/aclnn.h"

#include <dirent.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <string>
#include <vector>

#include "csrc/cann/library.h"
#include "csrc/cann/packages.h"
#include "csrc/cann/root.h"

namespace cann {
namespace {

struct Opapi {
  std::vector<void*> libraries;  // in the order they are searched
  std::string packages;          // of custom operators, in words
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

// What of CANN's own libraries follows libopapi, where a toolkit has it.
constexpr const char* kSplit[] = {"aclnn_ops_infer", "aclnn_ops_train", "aclnn_math",
                                  "aclnn_sparse",    "aclnn_fft",       "aclnn_rand"};

void open_packages(Opapi& opapi) {
  for (const auto& path : package_libraries()) {
    std::string reason = refusal_of(path);
    void* handle = reason.empty() ? try_open_file(path, &reason) : nullptr;
    if (handle) {
      opapi.libraries.push_back(handle);
    } else if (reason != "not there") {
      TORCH_WARN("npu: the custom operators of ", path, " are left out: ", reason);
    }
    opapi.packages += (opapi.packages.empty() ? "" : ", ") + path + (handle ? "" : " (" + reason + ")");
  }
}

Opapi* load() {
  auto* opapi = new Opapi();
  // Opened first and searched later: packages may be linked to it by its name.
  std::string reason;
  void* const own = try_open_library("opapi", &reason);
  open_packages(*opapi);
  for (const auto& name : neighbours(root().lib)) {
    if (void* handle = try_open_library(name)) opapi->libraries.push_back(handle);
  }
  if (own) {
    opapi->libraries.push_back(own);
    opapi->description = "libopapi.so in " + root().lib;
  } else {
    opapi->description = reason;
  }
  for (const char* name : kSplit) {
    if (void* handle = try_open_library(name)) opapi->libraries.push_back(handle);
  }
  if (!opapi->packages.empty()) opapi->description += " and in the packages " + opapi->packages;
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

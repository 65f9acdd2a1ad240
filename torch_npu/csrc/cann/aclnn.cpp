#include "csrc/cann/aclnn.h"

#include <dirent.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <string>
#include <vector>

#include "csrc/cann/library.h"
#include "csrc/cann/packages.h"
#include "csrc/cann/readable.h"
#include "csrc/cann/root.h"

namespace cann {
namespace {

struct Opapi {
  std::vector<void*> libraries;  // in the order they are searched
  std::string packages;          // of custom operators, in words
  std::string description;
};

// Of operators, beside libopapi.so: what somebody added, and what of CANN's own follows libopapi where a toolkit has it.
struct Neighbours {
  std::vector<std::string> before, behind;
};

constexpr const char* kSplit[] = {"libaclnn_ops_infer.so", "libaclnn_ops_train.so", "libaclnn_math.so",
                                  "libaclnn_sparse.so",    "libaclnn_fft.so",       "libaclnn_rand.so"};

Neighbours neighbours(const std::string& directory) {
  Neighbours found;
  DIR* entries = opendir(directory.c_str());
  if (!entries) return found;
  while (const dirent* entry = readdir(entries)) {
    const std::string name(entry->d_name);
    if (name == "libcust_opapi.so" || (name.starts_with("libopapi_") && name.ends_with(".so")))
      found.before.push_back(directory + "/" + name);
  }
  closedir(entries);
  std::sort(found.before.begin(), found.before.end());
  for (const char* name : kSplit) found.behind.push_back(directory + "/" + name);
  return found;
}

// Null if the library cannot be opened, with a warning unless nothing is there. `refusal`: why not to try, or empty. `why`: the reason, or empty.
void* open_or_warn(const std::string& path, std::string refusal, std::string* why = nullptr) {
  void* handle = refusal.empty() ? try_open_file(path, &refusal) : nullptr;
  if (!handle && refusal != kNotThere)
    TORCH_WARN("npu: the operators of ", readable(path), " are left out: ", readable(refusal));
  if (why) *why = refusal;
  return handle;
}

void open_packages(Opapi& opapi) {
  for (const auto& path : package_libraries()) {
    std::string reason;
    void* const handle = open_or_warn(path, refusal_of(path), &reason);
    if (handle) opapi.libraries.push_back(handle);
    opapi.packages +=
        (opapi.packages.empty() ? "" : ", ") + readable(path) + (handle ? "" : " (" + readable(reason) + ")");
  }
}

void open_neighbours(Opapi& opapi, const std::vector<std::string>& paths) {
  for (const auto& path : paths)
    if (void* handle = open_or_warn(path, obstacle_at(path))) opapi.libraries.push_back(handle);
}

Opapi* load() {
  auto* opapi = new Opapi();
  // Opened first and searched later: packages may be linked to it by its name.
  std::string reason;
  void* const own = try_open_library("opapi", &reason);
  open_packages(*opapi);
  const Neighbours beside = neighbours(root().lib);
  open_neighbours(*opapi, beside.before);
  if (own) {
    opapi->libraries.push_back(own);
    opapi->description = "libopapi.so in " + root().lib;
  } else {
    opapi->description = reason;
  }
  open_neighbours(*opapi, beside.behind);
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

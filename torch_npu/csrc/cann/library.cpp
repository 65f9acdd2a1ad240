#include "csrc/cann/library.h"

#include <c10/util/Exception.h>
#include <dlfcn.h>

#include "csrc/cann/root.h"

namespace cann {
namespace {

std::string path_of(const std::string& name) { return root().lib + "/lib" + name + ".so"; }

}  // namespace

void* try_open_file(const std::string& path, std::string* reason) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle && reason) {
    const char* text = dlerror();
    *reason = text ? text : "unknown reason";
  }
  return handle;
}

void* try_open_library(const std::string& name, std::string* reason) { return try_open_file(path_of(name), reason); }

void* open_library(const std::string& name) {
  std::string reason;
  void* handle = try_open_library(name, &reason);
  TORCH_CHECK(handle, "npu: cannot load ", path_of(name), ": ", reason, ". ",
              root().soft ? "Reinstall torch_npu"
                          : "Install this toolkit and the driver again and source its set_env.sh, or run without it: "
                            "ANYCEND_CANN=soft uses the software NPU");
  return handle;
}

void* find_symbol(void* library, const char* symbol) noexcept { return library ? dlsym(library, symbol) : nullptr; }

}  // namespace cann

// See ucx.h.
#include "softnpu/hccl/network/ucx.h"

#include <dirent.h>
#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "softnpu/hccl/status.h"

namespace softnpu::hccl {
namespace {

bool look_for_rdma() {
  DIR* folder = opendir("/sys/class/infiniband");
  if (!folder) return false;
  bool any = false;
  while (const dirent* entry = readdir(folder)) any = any || entry->d_name[0] != '.';
  closedir(folder);
  return any;
}

// While it is loaded, UCX writes over the program's munmap() and others, to keep a cache of registered memory true. Without RDMA
// there is nothing to register: it is told to leave them alone.
class MemoryLeftAlone {
 public:
  MemoryLeftAlone() : ours_(!rdma_devices() && !getenv(kName)) {
    if (ours_) setenv(kName, "n", 0);
  }
  ~MemoryLeftAlone() {
    if (ours_) unsetenv(kName);
  }

 private:
  static constexpr const char* kName = "UCX_MEM_EVENTS";
  const bool ours_;
};

Ucx load() {
  // The Python package beside ours, where this library really lies (it may be reached through links); then the loader's places.
  const MemoryLeftAlone guard;
  Dl_info here;
  void* library = nullptr;
  if (dladdr(reinterpret_cast<void*>(&ucx), &here)) {
    std::error_code none;
    const auto folder = std::filesystem::canonical(here.dli_fname, none).parent_path();
    library = dlopen((folder / HCCL_UCX_FROM_HERE "/libucp.so.0").c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (!library) library = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const std::string reason = dlerror();
    const char* const why = getenv("UCX_TLS")
                                ? "UCX_TLS is set (without it data goes by TCP where there is no RDMA card)"
                                : "this host has an RDMA card";
    fail(HCCL_E_UNAVAIL,
         "between hosts UCX is used, because %s, and it cannot be loaded: python -m pip install --no-deps libucx-cu12 "
         "(%s)",
         why, reason.c_str());
  }
  Ucx found{};
  auto resolve = [&](const char* name, auto& function) {
    void* symbol = dlsym(library, name);
    if (!symbol)
      fail(HCCL_E_UNAVAIL, "libucp.so.0 has no %s: it is too old; python -m pip install --no-deps libucx-cu12", name);
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol);
  };
#define HCCL_UCP_RESOLVE(name) resolve("ucp_" #name, found.name);
  HCCL_UCP_FUNCTIONS(HCCL_UCP_RESOLVE)
#undef HCCL_UCP_RESOLVE
  resolve("ucs_status_string", found.status_string);
  return found;
}

}  // namespace

bool rdma_devices() {
  static const bool any = look_for_rdma();
  return any;
}

bool ucx_wanted() { return getenv("UCX_TLS") || rdma_devices(); }

const Ucx& ucx() {
  static const Ucx functions = load();  // after an exception the next call tries again
  return functions;
}

}  // namespace softnpu::hccl

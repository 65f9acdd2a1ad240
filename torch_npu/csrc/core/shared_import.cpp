#include "csrc/core/shared_import.h"

#include <c10/util/Exception.h>

#include <map>
#include <mutex>

#include "csrc/cann/api.h"
#include "csrc/cann/error.h"
#include "csrc/cann/later.h"
#include "csrc/core/device.h"
#include "csrc/core/lifecycle.h"

namespace npu {
namespace {

constexpr size_t kKeyBytes = 65;

struct Imports {
  std::mutex mutex;  // held while CANN maps: two threads do not map the same region
  std::map<std::string, std::weak_ptr<SharedImport>> by_key;
};

Imports& imports() {
  static auto* const made = new Imports();
  return *made;
}

std::string name_of(const SharedRegion& region, c10::DeviceIndex reader) {
  std::string name = std::to_string(reader) + ":" + region.key;
  for (const uint64_t piece : region.pieces) name += ":" + std::to_string(piece);
  return name;
}

}  // namespace

SharedRegion export_region(const Region& region) {
  const cann::LaterApi& acl = cann::later();
  SharedRegion shared;
  shared.bytes = region.bytes;
  if (region.pieces.empty()) {
    TORCH_CHECK_NOT_IMPLEMENTED(acl.aclrtIpcMemGetExportKey, "npu: this CANN has no aclrtIpcMemGetExportKey");
    char key[kKeyBytes] = {};
    NPU_CHECK(acl.aclrtIpcMemGetExportKey(region.base, region.bytes, key, sizeof key,
                                          ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION));
    shared.key = key;
    return shared;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(acl.aclrtMemExportToShareableHandle,
                              "npu: this CANN has no aclrtMemExportToShareableHandle");
  for (aclrtDrvMemHandle piece : region.pieces) {
    uint64_t shareable = 0;
    NPU_CHECK(acl.aclrtMemExportToShareableHandle(piece, ACL_MEM_HANDLE_TYPE_NONE,
                                                  ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION, &shareable));
    shared.pieces.push_back(shareable);
  }
  return shared;
}

std::shared_ptr<SharedImport> SharedImport::of(const SharedRegion& region, c10::DeviceIndex owners_index,
                                               c10::DeviceIndex reader) {
  Imports& all = imports();
  const std::string name = name_of(region, reader);
  const std::lock_guard<std::mutex> lock(all.mutex);
  std::weak_ptr<SharedImport>& known = all.by_key[name];
  std::shared_ptr<SharedImport> import = known.lock();
  if (!import) {
    try {
      import.reset(new SharedImport(region, owners_index, reader));
    } catch (...) {
      all.by_key.erase(name);
      throw;
    }
    known = import;
  }
  std::erase_if(all.by_key, [](const auto& row) { return row.second.expired(); });
  return import;
}

SharedImport::SharedImport(const SharedRegion& region, c10::DeviceIndex owners_index, c10::DeviceIndex reader)
    : region_(region),
      device_(reader >= 0                     ? reader
              : owners_index < device_count() ? owners_index
                                              : current_device()) {
  const NPUGuard guard(device_);
  ensure_context();
  const cann::Api& acl = cann::acl();
  try {
    if (region.pieces.empty()) {
      TORCH_CHECK_NOT_IMPLEMENTED(cann::later().aclrtIpcMemImportByKey, "npu: this CANN has no aclrtIpcMemImportByKey");
      void* base = nullptr;
      const uint64_t flag =
          reader >= 0 ? ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS : ACL_RT_IPC_MEM_IMPORT_FLAG_DEFAULT;
      NPU_CHECK(cann::later().aclrtIpcMemImportByKey(&base, region.key.c_str(), flag));
      base_ = static_cast<char*>(base);
    } else {
      map_pieces();
    }
    if (reader >= 0) return;
    // The owner's index is of the devices that it sees; this process may see others.
    aclrtPtrAttributes attributes{};
    if (!acl.aclrtPointerGetAttributes) return;
    NPU_CHECK(acl.aclrtPointerGetAttributes(base_, &attributes));
    const uint32_t index = attributes.location.id;
    TORCH_CHECK(attributes.location.type == ACL_MEM_LOCATION_TYPE_DEVICE && index < uint32_t(device_count()),
                "npu: the tensor's device, npu:", static_cast<int>(owners_index),
                " in the process that shares it, is not visible in this one: see ASCEND_RT_VISIBLE_DEVICES");
    device_ = static_cast<c10::DeviceIndex>(index);
  } catch (...) {
    close();
    throw;
  }
}

void SharedImport::map_pieces() {
  const cann::Api& acl = cann::acl();
  TORCH_CHECK_NOT_IMPLEMENTED(cann::later().aclrtMemImportFromShareableHandle,
                              "npu: this CANN has no aclrtMemImportFromShareableHandle");
  const size_t piece = region_.bytes / region_.pieces.size();
  void* base = nullptr;
  NPU_CHECK(acl.aclrtReserveMemAddress(&base, region_.bytes, 0, nullptr, 1 /* huge pages */));
  base_ = static_cast<char*>(base);
  for (const uint64_t shareable : region_.pieces) {
    aclrtDrvMemHandle handle = nullptr;
    NPU_CHECK(cann::later().aclrtMemImportFromShareableHandle(shareable, device_, &handle));
    char* at = base_ + handles_.size() * piece;
    if (const int status = acl.aclrtMapMem(at, piece, 0, handle, 0); status != 0) {
      acl.aclrtFreePhysical(handle);
      cann::throw_status(status, "aclrtMapMem");
    }
    handles_.push_back(handle);
  }
}

void SharedImport::close() noexcept {
  if (!base_ || !alive()) return;
  const cann::Api& acl = cann::acl();
  try {
    const NPUGuard guard(device_);
    ensure_context();
    if (region_.pieces.empty()) {
      NPU_WARN(cann::later().aclrtIpcMemClose(region_.key.c_str()));
      return;
    }
    const size_t piece = region_.bytes / region_.pieces.size();
    for (size_t i = 0; i < handles_.size(); ++i) {
      NPU_WARN(acl.aclrtUnmapMem(base_ + i * piece));
      NPU_WARN(acl.aclrtFreePhysical(handles_[i]));
    }
    NPU_WARN(acl.aclrtReleaseMemAddress(base_));
  } catch (const c10::Error& error) {
    TORCH_WARN_ONCE("npu: another process's memory could not be unmapped: ", error.what_without_backtrace());
  }
}

SharedImport::~SharedImport() { close(); }

}  // namespace npu

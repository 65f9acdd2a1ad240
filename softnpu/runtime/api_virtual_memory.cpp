// Exports: reserved addresses, physical memory, sharing between processes, what a pointer is.
#include <unistd.h>

#include <cstring>

#include "acl/api.h"
#include "softnpu/runtime/arena.h"
#include "softnpu/runtime/context.h"
#include "softnpu/runtime/device.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/ipc.h"
#include "softnpu/runtime/pinned.h"
#include "softnpu/runtime/virtual_memory.h"
#include "softnpu/runtime/watch.h"

using namespace softnpu;

namespace {

VirtualMemory& vm() { return VirtualMemory::get(); }

constexpr size_t kKeyBytes = 65;

}  // namespace

SOFTNPU_EXPORT aclError aclrtReserveMemAddress(void** virPtr, size_t size, size_t alignment, void* expectPtr,
                                               uint64_t flags) {
  return guarded(__func__, [&] {
    need(virPtr, "virPtr");
    *virPtr = vm().reserve(size, alignment, expectPtr);
  });
}

SOFTNPU_EXPORT aclError aclrtReleaseMemAddress(void* virPtr) {
  return guarded(__func__, [&] { vm().release(virPtr); });
}

SOFTNPU_EXPORT aclError aclrtMallocPhysical(aclrtDrvMemHandle* handle, size_t size, const aclrtPhysicalMemProp* prop,
                                            uint64_t flags) {
  return guarded(__func__, [&] {
    need(handle, "handle");
    need(prop, "prop");
    if (prop->location.type != ACL_MEM_LOCATION_TYPE_DEVICE)
      fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "physical memory is made on a device (location type %d asked)",
           int(prop->location.type));
    *handle = vm().create(int(prop->location.id), size);
  });
}

SOFTNPU_EXPORT aclError aclrtFreePhysical(aclrtDrvMemHandle handle) {
  return guarded(__func__, [&] { vm().destroy(handle); });
}

SOFTNPU_EXPORT aclError aclrtMapMem(void* virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle,
                                    uint64_t flags) {
  return guarded(__func__, [&] { vm().map(virPtr, size, offset, handle); });
}

SOFTNPU_EXPORT aclError aclrtUnmapMem(void* virPtr) {
  return guarded(__func__, [&] { vm().unmap(virPtr); });
}

SOFTNPU_EXPORT aclError aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp* prop, aclrtMemGranularityOptions option,
                                                         size_t* granularity) {
  return guarded(__func__, [&] {
    need(granularity, "granularity");
    *granularity = Arena::kPage;
  });
}

// All mapped memory can be read and written by every device.
SOFTNPU_EXPORT aclError aclrtMemSetAccess(void* virPtr, size_t size, aclrtMemAccessDesc* desc, size_t count) {
  return guarded(__func__, [&] {
    need(desc, "desc");
    if (vm().device_of(virPtr, size) < 0) fail(ACL_ERROR_RT_PARAM_INVALID, "[%p, +%zu) is not mapped", virPtr, size);
  });
}

SOFTNPU_EXPORT aclError aclrtMemGetAccess(void* virPtr, aclrtMemLocation* location, uint64_t* flag) {
  return guarded(__func__, [&] {
    need(flag, "flag");
    if (vm().device_of(virPtr, 1) < 0) fail(ACL_ERROR_RT_PARAM_INVALID, "%p is not mapped", virPtr);
    *flag = ACL_RT_MEM_ACCESS_FLAGS_READWRITE;
  });
}

SOFTNPU_EXPORT aclError aclrtMemRetainAllocationHandle(void* virPtr, aclrtDrvMemHandle* handle) {
  return guarded(__func__, [&] {
    need(handle, "handle");
    *handle = vm().handle_at(virPtr);
    if (*handle == nullptr) fail(ACL_ERROR_RT_PARAM_INVALID, "%p is not mapped from a live physical handle", virPtr);
  });
}

SOFTNPU_EXPORT aclError aclrtMemGetAllocationPropertiesFromHandle(aclrtDrvMemHandle handle,
                                                                  aclrtPhysicalMemProp* prop) {
  return guarded(__func__, [&] {
    need(prop, "prop");
    Physical& p = slab<Physical>().get(handle);
    memset(prop, 0, sizeof *prop);
    prop->memAttr = ACL_HBM_MEM_HUGE;
    prop->location = {uint32_t(p.device), ACL_MEM_LOCATION_TYPE_DEVICE};
  });
}

SOFTNPU_EXPORT aclError aclrtMemGetAddressRange(void* ptr, void** pbase, size_t* psize) {
  return guarded(__func__, [&] {
    void* base = nullptr;
    size_t size = 0;
    if (Device* d = Device::holding(ptr)) {
      Arena::Block b = d->arena().find(ptr);
      if (b.taken == 0) fail(ACL_ERROR_RT_PARAM_INVALID, "%p is freed memory of device %d", ptr, d->index());
      base = d->arena().address(b.offset);
      size = b.size;
    } else if (!vm().range_of(ptr, &base, &size)) {
      fail(ACL_ERROR_RT_PARAM_INVALID, "%p is not device memory", ptr);
    }
    if (pbase) *pbase = base;
    if (psize) *psize = size;
  });
}

SOFTNPU_EXPORT aclError aclrtPointerGetAttributes(const void* ptr, aclrtPtrAttributes* attributes) {
  return guarded(__func__, [&] {
    need(ptr, "ptr");
    need(attributes, "attributes");
    memset(attributes, 0, sizeof *attributes);
    attributes->pageSize = uint32_t(sysconf(_SC_PAGESIZE));
    Device* d = Device::holding(ptr);
    int device = d ? d->index() : vm().device_of(ptr, 1);
    if (device >= 0) {
      attributes->location = {uint32_t(device), ACL_MEM_LOCATION_TYPE_DEVICE};
      attributes->pageSize = uint32_t(Arena::kPage);
    } else {
      bool pinned = Pinned::get().contains(ptr, 1);
      attributes->location = {0, pinned ? ACL_MEM_LOCATION_TYPE_HOST : ACL_MEM_LOCATION_TYPE_UNREGISTERED};
    }
  });
}

SOFTNPU_EXPORT aclError aclrtMemExportToShareableHandle(aclrtDrvMemHandle handle, aclrtMemHandleType handleType,
                                                        uint64_t flags, uint64_t* shareableHandle) {
  return guarded(__func__, [&] {
    need(shareableHandle, "shareableHandle");
    *shareableHandle = export_physical(handle);
  });
}

SOFTNPU_EXPORT aclError aclrtMemImportFromShareableHandle(uint64_t shareableHandle, int32_t deviceId,
                                                          aclrtDrvMemHandle* handle) {
  return guarded(__func__, [&] {
    need(handle, "handle");
    *handle = import_physical(shareableHandle, deviceId);
  });
}

// Which processes may import is the kernel's decision: those of the same user.
SOFTNPU_EXPORT aclError aclrtMemSetPidToShareableHandle(uint64_t shareableHandle, int32_t* pid, size_t pidNum) {
  return guarded(__func__, [&] { need(pid, "pid"); });
}

// Both share types hold the 64-bit handle in their first bytes.
SOFTNPU_EXPORT aclError aclrtMemExportToShareableHandleV2(aclrtDrvMemHandle handle, uint64_t flags,
                                                          aclrtMemSharedHandleType shareType, void* shareableHandle) {
  return guarded(__func__, [&] {
    need(shareableHandle, "shareableHandle");
    if (shareType == ACL_MEM_SHARE_HANDLE_TYPE_FABRIC) memset(shareableHandle, 0, sizeof(aclrtMemFabricHandle));
    uint64_t h = export_physical(handle);
    memcpy(shareableHandle, &h, sizeof h);
  });
}

SOFTNPU_EXPORT aclError aclrtMemImportFromShareableHandleV2(void* shareableHandle, aclrtMemSharedHandleType shareType,
                                                            uint64_t flags, aclrtDrvMemHandle* handle) {
  return guarded(__func__, [&] {
    need(shareableHandle, "shareableHandle");
    need(handle, "handle");
    uint64_t h;
    memcpy(&h, shareableHandle, sizeof h);
    *handle = import_physical(h, current_context().device());
  });
}

SOFTNPU_EXPORT aclError aclrtMemSetPidToShareableHandleV2(void* shareableHandle, aclrtMemSharedHandleType shareType,
                                                          int32_t* pid, size_t pidNum) {
  return guarded(__func__, [&] {
    need(shareableHandle, "shareableHandle");
    need(pid, "pid");
  });
}

SOFTNPU_EXPORT aclError aclrtIpcMemGetExportKey(void* devPtr, size_t size, char* key, size_t len, uint64_t flags) {
  return guarded(__func__, [&] {
    need(key, "key");
    if (len < kKeyBytes) fail(ACL_ERROR_INVALID_PARAM, "the key needs %zu bytes, %zu given", kKeyBytes, len);
    std::string text = export_key(devPtr, size);
    if (memcheck::on()) memcheck::forget(devPtr, size);  // another process writes it, too
    if (text.size() >= len) fail(ACL_ERROR_RT_IPC_ERROR, "the key does not fit");
    memset(key, 0, len);
    memcpy(key, text.c_str(), text.size());
  });
}

SOFTNPU_EXPORT aclError aclrtIpcMemImportByKey(void** devPtr, const char* key, uint64_t flags) {
  return guarded(__func__, [&] {
    need(devPtr, "devPtr");
    need(key, "key");
    *devPtr = import_key(key);
  });
}

SOFTNPU_EXPORT aclError aclrtIpcMemClose(const char* key) {
  return guarded(__func__, [&] {
    need(key, "key");
    close_key(key);
  });
}

SOFTNPU_EXPORT aclError aclrtIpcMemSetImportPid(const char* key, int32_t* pid, size_t num) {
  return guarded(__func__, [&] {
    need(key, "key");
    need(pid, "pid");
    check_key(key);
  });
}

SOFTNPU_EXPORT aclError aclrtIpcMemSetAttr(const char* key, aclrtIpcMemAttrType type, uint64_t attr) {
  return guarded(__func__, [&] {
    need(key, "key");
    check_key(key);
  });
}

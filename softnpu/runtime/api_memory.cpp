// Exports: device and host memory, copies.
#include "acl/api.h"
#include "softnpu/race/place.h"
#include "softnpu/runtime/arena.h"
#include "softnpu/runtime/capture.h"
#include "softnpu/runtime/context.h"
#include "softnpu/runtime/copy.h"
#include "softnpu/runtime/device.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/pinned.h"
#include "softnpu/runtime/stream.h"
#include "softnpu/runtime/virtual_memory.h"

using namespace softnpu;

namespace {

void allocate(void** out, size_t size, uint64_t align) {
  need(out, "devPtr");
  if (size == 0) fail(ACL_ERROR_INVALID_PARAM, "size is 0");
  *out = Device::get(current_context().device()).arena().allocate(size, align);
}

void release(void* p) {
  need(p, "devPtr");
  Device* d = Device::holding(p);
  if (d == nullptr) fail(ACL_ERROR_RT_MEMORY_FREE, "%p is not device memory", p);
  d->arena().release(p);
}

// The attributes of an allocation: whose it is (for accounting alone), whether one address serves host and devices (it always
// does here), and the device, which must be the current one.
void check(const aclrtMallocConfig* config) {
  if (config == nullptr || config->numAttrs == 0) return;
  need(config->attrs, "cfg->attrs");
  for (size_t i = 0; i < config->numAttrs; ++i) {
    const aclrtMallocAttribute& a = config->attrs[i];
    if (a.attr == ACL_RT_MEM_ATTR_MODULE_ID || a.attr == ACL_RT_MEM_ATTR_VA_FLAG) continue;
    if (a.attr != ACL_RT_MEM_ATTR_DEVICE_ID)
      fail(ACL_ERROR_FEATURE_UNSUPPORTED, "cfg->attrs[%zu]: the software NPU has no memory attribute %d", i,
           int(a.attr));
    if (int(a.value[0]) != current_context().device())
      fail(ACL_ERROR_INVALID_PARAM, "cfg->attrs[%zu]: device %d is not the current one, which is %d", i,
           int(a.value[0]), current_context().device());
  }
}

CopyRequest plain(void* dst, size_t dest_max, const void* src, size_t count) {
  if (count > dest_max) fail(ACL_ERROR_INVALID_PARAM, "count %zu is larger than destMax %zu", count, dest_max);
  return {dst, src, count, 1, count, count};
}

}  // namespace

SOFTNPU_EXPORT aclError aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
  return guarded(__func__, [&] { allocate(devPtr, size, 64); });
}

SOFTNPU_EXPORT aclError aclrtMallocAlign32(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
  return guarded(__func__, [&] { allocate(devPtr, size, 64); });
}

SOFTNPU_EXPORT aclError aclrtMallocCached(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
  return guarded(__func__, [&] { allocate(devPtr, size, 64); });
}

SOFTNPU_EXPORT aclError aclrtFree(void* devPtr) {
  return guarded(__func__, [&] { release(devPtr); });
}

SOFTNPU_EXPORT aclError aclrtFreeWithDevSync(void* devPtr) {
  return guarded(__func__, [&] {
    if (Device* d = Device::holding(devPtr)) d->synchronize(INT64_MAX);
    release(devPtr);
  });
}

SOFTNPU_EXPORT aclError aclrtMallocHost(void** hostPtr, size_t size) {
  return guarded(__func__, [&] {
    need(hostPtr, "hostPtr");
    if (size == 0) fail(ACL_ERROR_INVALID_PARAM, "size is 0");
    *hostPtr = Pinned::get().allocate(size);
  });
}

SOFTNPU_EXPORT aclError aclrtFreeHost(void* hostPtr) {
  return guarded(__func__, [&] {
    need(hostPtr, "hostPtr");
    Pinned::get().release(hostPtr);
  });
}

SOFTNPU_EXPORT aclError aclrtFreeHostWithDevSync(void* hostPtr) {
  return guarded(__func__, [&] {
    need(hostPtr, "hostPtr");
    Device::get(current_context().device()).synchronize(INT64_MAX);
    Pinned::get().release(hostPtr);
  });
}

// The calls without a stream are in no capture: a capture under way may forbid them.
SOFTNPU_EXPORT aclError aclrtMemcpy(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind) {
  return guarded(__func__, [&] {
    const race::Asked place;
    refuse_unseen();
    copy(plain(dst, destMax, src, count), kind, nullptr);
  });
}

SOFTNPU_EXPORT aclError aclrtMemcpyAsync(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind,
                                         aclrtStream stream) {
  return guarded(__func__, [&] {
    const race::Asked place;
    copy(plain(dst, destMax, src, count), kind, &stream_of(stream));
  });
}

SOFTNPU_EXPORT aclError aclrtMemcpyAsyncWithCondition(void* dst, size_t destMax, const void* src, size_t count,
                                                      aclrtMemcpyKind kind, aclrtStream stream) {
  return guarded(__func__, [&] {
    const race::Asked place;
    copy(plain(dst, destMax, src, count), kind, &stream_of(stream));
  });
}

SOFTNPU_EXPORT aclError aclrtMemcpy2d(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width,
                                      size_t height, aclrtMemcpyKind kind) {
  return guarded(__func__, [&] {
    const race::Asked place;
    refuse_unseen();
    copy({dst, src, width, height, dpitch, spitch}, kind, nullptr);
  });
}

SOFTNPU_EXPORT aclError aclrtMemcpy2dAsync(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width,
                                           size_t height, aclrtMemcpyKind kind, aclrtStream stream) {
  return guarded(__func__, [&] {
    const race::Asked place;
    copy({dst, src, width, height, dpitch, spitch}, kind, &stream_of(stream));
  });
}

SOFTNPU_EXPORT aclError aclrtMemset(void* devPtr, size_t maxCount, int32_t value, size_t count) {
  return guarded(__func__, [&] {
    const race::Asked place;
    refuse_unseen();
    fill(devPtr, maxCount, value, count, nullptr);
  });
}

SOFTNPU_EXPORT aclError aclrtMemsetAsync(void* devPtr, size_t maxCount, int32_t value, size_t count,
                                         aclrtStream stream) {
  return guarded(__func__, [&] {
    const race::Asked place;
    fill(devPtr, maxCount, value, count, &stream_of(stream));
  });
}

SOFTNPU_EXPORT aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t* free, size_t* total) {
  return guarded(__func__, [&] {
    need(free, "free");
    need(total, "total");
    Device& d = Device::get(current_context().device());
    *total = d.capacity();
    *free = d.free_bytes();
  });
}

SOFTNPU_EXPORT aclError aclrtMallocWithCfg(void** devPtr, size_t size, aclrtMemMallocPolicy policy,
                                           aclrtMallocConfig* cfg) {
  return guarded(__func__, [&] {
    check(cfg);
    allocate(devPtr, size, 64);
  });
}

SOFTNPU_EXPORT aclError aclrtMallocHostWithCfg(void** ptr, uint64_t size, aclrtMallocConfig* cfg) {
  return guarded(__func__, [&] {
    need(ptr, "ptr");
    check(cfg);
    if (size == 0) fail(ACL_ERROR_INVALID_PARAM, "size is 0");
    *ptr = Pinned::get().allocate(size);
  });
}

// Devices share the host's address space: a registered pointer is its own device pointer.
SOFTNPU_EXPORT aclError aclrtHostRegister(void* ptr, uint64_t size, aclrtHostRegisterType type, void** devPtr) {
  return guarded(__func__, [&] {
    need(ptr, "ptr");
    need(devPtr, "devPtr");
    if (size == 0) fail(ACL_ERROR_INVALID_PARAM, "size is 0");
    Pinned::get().add(ptr, size);
    *devPtr = ptr;
  });
}

SOFTNPU_EXPORT aclError aclrtHostRegisterV2(void* ptr, uint64_t size, uint32_t flag) {
  return guarded(__func__, [&] {
    need(ptr, "ptr");
    if (size == 0) fail(ACL_ERROR_INVALID_PARAM, "size is 0");
    Pinned::get().add(ptr, size);
  });
}

SOFTNPU_EXPORT aclError aclrtHostGetDevicePointer(void* pHost, void** pDevice, uint32_t flag) {
  return guarded(__func__, [&] {
    need(pDevice, "pDevice");
    if (!Pinned::get().contains(pHost, 1)) fail(ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, "%p is not registered", pHost);
    *pDevice = pHost;
  });
}

SOFTNPU_EXPORT aclError aclrtHostUnregister(void* ptr) {
  return guarded(__func__, [&] { Pinned::get().remove(ptr); });
}

// Host and devices see the same caches.
SOFTNPU_EXPORT aclError aclrtMemFlush(void* devPtr, size_t size) {
  return guarded(__func__, [&] { need(devPtr, "devPtr"); });
}
SOFTNPU_EXPORT aclError aclrtMemInvalidate(void* devPtr, size_t size) {
  return guarded(__func__, [&] { need(devPtr, "devPtr"); });
}

namespace {

// The kind of each copy follows from its pointers; the attributes only repeat it.
void batch(void** dsts, size_t* dest_maxs, void** srcs, size_t* sizes, size_t count, size_t* fail_index,
           Stream* stream) {
  need(dsts, "dsts");
  need(dest_maxs, "destMaxs");
  need(srcs, "srcs");
  need(sizes, "sizes");
  for (size_t i = 0; i < count; ++i) {
    if (fail_index) *fail_index = i;
    copy(plain(dsts[i], dest_maxs[i], srcs[i], sizes[i]), ACL_MEMCPY_DEFAULT, stream);
  }
  if (fail_index) *fail_index = SIZE_MAX;
}

}  // namespace

SOFTNPU_EXPORT aclError aclrtMemcpyBatch(void** dsts, size_t* destMaxs, void** srcs, size_t* sizes, size_t numBatches,
                                         aclrtMemcpyBatchAttr* attrs, size_t* attrsIndexes, size_t numAttrs,
                                         size_t* failIndex) {
  return guarded(__func__, [&] {
    const race::Asked place;
    batch(dsts, destMaxs, srcs, sizes, numBatches, failIndex, nullptr);
  });
}

SOFTNPU_EXPORT aclError aclrtMemcpyBatchAsync(void** dsts, size_t* destMaxs, void** srcs, size_t* sizes,
                                              size_t numBatches, aclrtMemcpyBatchAttr* attrs, size_t* attrsIndexes,
                                              size_t numAttrs, size_t* failIndex, aclrtStream stream) {
  return guarded(__func__, [&] {
    const race::Asked place;
    batch(dsts, destMaxs, srcs, sizes, numBatches, failIndex, &stream_of(stream));
  });
}

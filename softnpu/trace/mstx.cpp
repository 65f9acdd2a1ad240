// libms_tools_ext: points and ranges that a program names, and heaps that its allocator cuts up. With nobody listening a mark costs one
// relaxed load, and a range is only a number; with nobody checking memory a heap's handle is null, and the rest does nothing.
#include <atomic>
#include <mutex>
#include <unordered_map>

#include "mspti/api.h"
#include "softnpu/memcheck/heaps.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/trace.h"

using softnpu::trace::Mark;
using softnpu::trace::Point;

namespace {

std::atomic<uint64_t> g_next{1};

// Ranges with a stream that have not ended: the end has its place there, too.
struct Open {
  std::atomic<size_t> count{0};  // of streams: most ranges have none, and an end then needs no lock
  std::mutex mutex;
  std::unordered_map<uint64_t, aclrtStream> streams;
};
Open& open() {
  static Open& o = *new Open;
  return o;
}

// A domain's handle is its interned name: the same name is the same domain, and a destroyed one costs nothing.
const char* name_of(mstxDomainHandle_t domain) { return reinterpret_cast<const char*>(domain); }

void instant(const char* domain, const char* message, aclrtStream stream) noexcept {
  if (!softnpu::trace::on() || message == nullptr) return;
  softnpu::trace::mark({.id = g_next.fetch_add(1), .name = message, .domain = domain, .point = Point::kInstant},
                       stream);
}

uint64_t start(const char* domain, const char* message, aclrtStream stream) noexcept {
  if (message == nullptr) return 0;
  const uint64_t id = g_next.fetch_add(1);
  if (!softnpu::trace::on()) return id;
  if (stream) {
    try {
      Open& o = open();
      std::lock_guard lock(o.mutex);
      o.streams.emplace(id, stream);
      o.count.store(o.streams.size(), std::memory_order_relaxed);
    } catch (...) {
      return 0;
    }
  }
  softnpu::trace::mark({.id = id, .name = message, .domain = domain, .point = Point::kStart}, stream);
  return id;
}

void end(const char* domain, uint64_t id) noexcept {
  if (id == 0) return;
  aclrtStream stream = nullptr;
  Open& o = open();
  if (o.count.load(std::memory_order_relaxed) != 0) {  // also when nobody listens any more: a profile's end cuts ranges
    std::lock_guard lock(o.mutex);
    if (auto it = o.streams.find(id); it != o.streams.end()) {
      stream = it->second;
      o.streams.erase(it);
      o.count.store(o.streams.size(), std::memory_order_relaxed);
    }
  }
  if (!softnpu::trace::on()) return;
  softnpu::trace::mark({.id = id, .name = nullptr, .domain = domain, .point = Point::kEnd}, stream);
}

}  // namespace

SOFTNPU_EXPORT void mstxMarkA(const char* message, aclrtStream stream) { instant(nullptr, message, stream); }
SOFTNPU_EXPORT mstxRangeId mstxRangeStartA(const char* message, aclrtStream stream) {
  return start(nullptr, message, stream);
}
SOFTNPU_EXPORT void mstxRangeEnd(mstxRangeId id) { end(nullptr, id); }

SOFTNPU_EXPORT mstxDomainHandle_t mstxDomainCreateA(const char* name) {
  return reinterpret_cast<mstxDomainHandle_t>(const_cast<char*>(softnpu::trace::interned(name)));
}
SOFTNPU_EXPORT void mstxDomainDestroy(mstxDomainHandle_t domain) {}
SOFTNPU_EXPORT void mstxDomainMarkA(mstxDomainHandle_t domain, const char* message, aclrtStream stream) {
  instant(name_of(domain), message, stream);
}
SOFTNPU_EXPORT mstxRangeId mstxDomainRangeStartA(mstxDomainHandle_t domain, const char* message, aclrtStream stream) {
  return start(name_of(domain), message, stream);
}
SOFTNPU_EXPORT void mstxDomainRangeEnd(mstxDomainHandle_t domain, mstxRangeId id) { end(name_of(domain), id); }

SOFTNPU_EXPORT mstxMemHeapHandle_t mstxMemHeapRegister(mstxDomainHandle_t domain, mstxMemHeapDesc_t const* desc) {
  if (desc == nullptr || desc->usage != MSTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR ||
      desc->type != MSTX_MEM_TYPE_VIRTUAL_ADDRESS || desc->typeSpecificDesc == nullptr)
    return nullptr;
  const auto* range = static_cast<const mstxMemVirtualRangeDesc_t*>(desc->typeSpecificDesc);
  return reinterpret_cast<mstxMemHeapHandle_t>(softnpu::memcheck::heap_registered(range->ptr, range->size));
}
SOFTNPU_EXPORT void mstxMemHeapUnregister(mstxDomainHandle_t domain, mstxMemHeapHandle_t heap) {
  softnpu::memcheck::heap_unregistered(reinterpret_cast<uint64_t>(heap));
}
SOFTNPU_EXPORT void mstxMemRegionsRegister(mstxDomainHandle_t domain, mstxMemRegionsRegisterBatch_t const* desc) {
  // Where nobody checks a heap has no handle.
  if (desc == nullptr || desc->heap == nullptr || desc->regionDescArray == nullptr ||
      desc->regionType != MSTX_MEM_TYPE_VIRTUAL_ADDRESS)
    return;
  const auto* ranges = static_cast<const mstxMemVirtualRangeDesc_t*>(desc->regionDescArray);
  for (size_t i = 0; i < desc->regionCount; ++i) {
    const uint64_t handle =
        softnpu::memcheck::region_registered(reinterpret_cast<uint64_t>(desc->heap), ranges[i].ptr, ranges[i].size);
    if (desc->regionHandleArrayOut) desc->regionHandleArrayOut[i] = reinterpret_cast<mstxMemRegionHandle_t>(handle);
  }
}
SOFTNPU_EXPORT void mstxMemRegionsUnregister(mstxDomainHandle_t domain, mstxMemRegionsUnregisterBatch_t const* desc) {
  if (desc == nullptr || desc->refArray == nullptr) return;
  for (size_t i = 0; i < desc->refCount; ++i) {
    if (desc->refArray[i].refType == MSTX_MEM_REGION_REF_TYPE_HANDLE)
      softnpu::memcheck::region_unregistered(reinterpret_cast<uint64_t>(desc->refArray[i].handle));
    else
      softnpu::memcheck::region_unregistered_at(desc->refArray[i].pointer);
  }
}

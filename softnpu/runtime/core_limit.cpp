#include "softnpu/runtime/core_limit.h"

#include <algorithm>

#include "softnpu/runtime/config.h"
#include "softnpu/runtime/context.h"
#include "softnpu/runtime/device.h"
#include "softnpu/runtime/enqueue.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/soc.h"
#include "softnpu/runtime/stream.h"

namespace softnpu {
namespace {

std::atomic<bool> limited{false};
thread_local void* used_stream = nullptr;  // a handle, which may have been destroyed since

}  // namespace

uint32_t chip_cores(aclrtDevResLimitType type) {
  if (type == ACL_RT_DEV_RES_CUBE_CORE) return uint32_t(config().soc->cube_cores);
  if (type == ACL_RT_DEV_RES_VECTOR_CORE) return uint32_t(config().soc->vector_cores);
  fail(ACL_ERROR_INVALID_PARAM, "%d is not a kind of core", int(type));
}

uint32_t allowed_cores(int device, aclrtDevResLimitType type) {
  const uint32_t cores = chip_cores(type), most = Device::get(device).core_limit().of(type);
  return most ? most : cores;
}

uint32_t allowed_cores(const Stream& stream, aclrtDevResLimitType type) {
  chip_cores(type);  // throws for what is no kind
  const uint32_t own = stream.core_limit().of(type);
  return own ? own : allowed_cores(stream.device(), type);
}

void note_core_limit() noexcept { limited.store(true, std::memory_order_relaxed); }

void* limiting_stream() noexcept { return used_stream; }

void use_limit_of(void* stream) noexcept { used_stream = stream; }

int threads_within_limit(aclrtStream stream, bool cube, int threads) noexcept {
  if (__builtin_expect(!limited.load(std::memory_order_relaxed), 1) || threads <= 1) return threads;
  const aclrtDevResLimitType type = cube ? ACL_RT_DEV_RES_CUBE_CORE : ACL_RT_DEV_RES_VECTOR_CORE;
  try {
    const Stream& runs_on = stream_of(stream);
    const Stream* used = used_stream ? slab<Stream>().find(used_stream) : nullptr;
    const bool borrowed = used && used->core_limit().of(type) && !runs_on.core_limit().of(type);
    const Stream& asked = borrowed ? *used : runs_on;
    const uint64_t share = uint64_t(threads) * allowed_cores(asked, type) / chip_cores(type);
    return int(std::clamp<uint64_t>(share, 1, uint64_t(threads)));
  } catch (const Error&) {  // a bad handle: enqueue says so
    return threads;
  }
}

}  // namespace softnpu

#include "csrc/core/core_limit.h"

#include <c10/util/Exception.h>

#include "csrc/cann/error.h"
#include "csrc/cann/later.h"
#include "csrc/core/device.h"
#include "csrc/core/lifecycle.h"
#include "csrc/core/stream.h"

namespace npu {

std::atomic<bool> some_core_limit{false};

namespace {

const cann::LaterApi& api() {
  initialize();
  const cann::LaterApi& acl = cann::later();
  TORCH_CHECK_NOT_IMPLEMENTED(acl.aclrtGetDeviceResLimit && acl.aclrtSetDeviceResLimit && acl.aclrtGetStreamResLimit &&
                                  acl.aclrtSetStreamResLimit && acl.aclrtResetStreamResLimit,
                              "npu: this CANN has no limits on cores (aclrtSetStreamResLimit)");
  return acl;
}

// The stream's handle, with its device's context bound while `call` runs.
template <class Call>
void with_handle(c10::Stream stream, const Call& call) {
  const cann::LaterApi& acl = api();
  const NPUGuard guard(stream.device_index());
  ensure_context();
  call(acl, raw_stream(stream));
}

}  // namespace

CoreLimit device_core_limit(c10::DeviceIndex device) {
  CoreLimit limit;
  const NPUGuard guard(device);
  const cann::LaterApi& acl = api();
  ensure_context();
  NPU_CHECK(acl.aclrtGetDeviceResLimit(device, ACL_RT_DEV_RES_CUBE_CORE, &limit.cube));
  NPU_CHECK(acl.aclrtGetDeviceResLimit(device, ACL_RT_DEV_RES_VECTOR_CORE, &limit.vector));
  return limit;
}

CoreLimit stream_core_limit(c10::Stream stream) {
  CoreLimit limit;
  with_handle(stream, [&](const cann::LaterApi& acl, aclrtStream raw) {
    NPU_CHECK(acl.aclrtGetStreamResLimit(raw, ACL_RT_DEV_RES_CUBE_CORE, &limit.cube));
    NPU_CHECK(acl.aclrtGetStreamResLimit(raw, ACL_RT_DEV_RES_VECTOR_CORE, &limit.vector));
  });
  return limit;
}

void set_device_core_limit(c10::DeviceIndex device, CoreLimit limit) {
  const NPUGuard guard(device);
  const cann::LaterApi& acl = api();
  ensure_context();
  if (limit.cube) NPU_CHECK(acl.aclrtSetDeviceResLimit(device, ACL_RT_DEV_RES_CUBE_CORE, limit.cube));
  if (limit.vector) NPU_CHECK(acl.aclrtSetDeviceResLimit(device, ACL_RT_DEV_RES_VECTOR_CORE, limit.vector));
}

void set_stream_core_limit(c10::Stream stream, CoreLimit limit) {
  with_handle(stream, [&](const cann::LaterApi& acl, aclrtStream raw) {
    if (limit.cube) NPU_CHECK(acl.aclrtSetStreamResLimit(raw, ACL_RT_DEV_RES_CUBE_CORE, limit.cube));
    if (limit.vector) NPU_CHECK(acl.aclrtSetStreamResLimit(raw, ACL_RT_DEV_RES_VECTOR_CORE, limit.vector));
  });
  some_core_limit.store(true, std::memory_order_relaxed);
  if (current_stream(stream.device_index()) == stream) follow_core_limit(stream);
}

void reset_stream_core_limit(c10::Stream stream) {
  with_handle(stream, [](const cann::LaterApi& acl, aclrtStream raw) { NPU_CHECK(acl.aclrtResetStreamResLimit(raw)); });
}

void follow_core_limit(c10::Stream stream) {
  if (!alive() || !cann::later().aclrtUseStreamResInCurrentThread) return;
  try {
    const NPUGuard guard(stream.device_index());
    ensure_context();
    NPU_WARN(cann::later().aclrtUseStreamResInCurrentThread(raw_stream(stream)));
  } catch (const c10::Error& error) {  // of a lost device: the next operator there tells of it
    TORCH_WARN_ONCE("npu: a stream's limit on cores is not obeyed: ", error.what_without_backtrace());
  }
}

}  // namespace npu

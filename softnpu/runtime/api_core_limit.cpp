// Exports: how many cores operators may use, of a device and of a stream (core_limit.h).
#include "acl/api.h"
#include "softnpu/runtime/context.h"
#include "softnpu/runtime/core_limit.h"
#include "softnpu/runtime/device.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/stream.h"

using namespace softnpu;

namespace {

void set(CoreLimit& limit, aclrtDevResLimitType type, uint32_t value) {
  const uint32_t cores = chip_cores(type);
  if (value < 1 || value > cores)
    fail(ACL_ERROR_INVALID_PARAM, "%u %s cores: the chip has %u, ask for 1 to %u", value,
         type == ACL_RT_DEV_RES_CUBE_CORE ? "cube" : "vector", cores, cores);
  limit.set(type, value);
  note_core_limit();
}

}  // namespace

SOFTNPU_EXPORT aclError aclrtGetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t* value) {
  return guarded(__func__, [&] {
    need(value, "value");
    *value = allowed_cores(deviceId, type);
  });
}

SOFTNPU_EXPORT aclError aclrtSetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t value) {
  return guarded(__func__, [&] { set(Device::get(deviceId).core_limit(), type, value); });
}

SOFTNPU_EXPORT aclError aclrtResetDeviceResLimit(int32_t deviceId) {
  return guarded(__func__, [&] { Device::get(deviceId).core_limit().clear(); });
}

// Without a limit of its own a stream has its device's.
SOFTNPU_EXPORT aclError aclrtGetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type, uint32_t* value) {
  return guarded(__func__, [&] {
    need(value, "value");
    *value = allowed_cores(stream_of(stream), type);
  });
}

SOFTNPU_EXPORT aclError aclrtSetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type, uint32_t value) {
  return guarded(__func__, [&] { set(stream_of(stream).core_limit(), type, value); });
}

SOFTNPU_EXPORT aclError aclrtResetStreamResLimit(aclrtStream stream) {
  return guarded(__func__, [&] { stream_of(stream).core_limit().clear(); });
}

// From now on the thread's operators have that stream's own limit, whatever stream they are put on, unless that has one, too.
SOFTNPU_EXPORT aclError aclrtUseStreamResInCurrentThread(aclrtStream stream) {
  return guarded(__func__, [&] {
    Stream& s = stream_of(stream);
    use_limit_of(slab<Stream>().handle_of(&s));
  });
}

SOFTNPU_EXPORT aclError aclrtUnuseStreamResInCurrentThread(aclrtStream stream) {
  return guarded(__func__, [&] {
    stream_of(stream);
    use_limit_of(nullptr);
  });
}

SOFTNPU_EXPORT aclError aclrtGetResInCurrentThread(aclrtDevResLimitType type, uint32_t* value) {
  return guarded(__func__, [&] {
    need(value, "value");
    const Stream* used = limiting_stream() ? slab<Stream>().find(limiting_stream()) : nullptr;
    const Context* context = current_context_or_null();
    *value = used ? allowed_cores(*used, type) : context ? allowed_cores(context->device(), type) : chip_cores(type);
  });
}

// Exports: devices and contexts.
#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "acl/api.h"
#include "softnpu/runtime/config.h"
#include "softnpu/runtime/context.h"
#include "softnpu/runtime/device.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/futex.h"
#include "softnpu/runtime/limits.h"
#include "softnpu/runtime/stream.h"

using namespace softnpu;

namespace {

// Of CANN, and of no other function than aclrtSetDeviceTaskAbortCallback. `stage`: 0 before the abort, 1 after it.
using AbortCallback = int32_t (*)(int32_t deviceId, int32_t stage, uint32_t timeout, void* args);

// Who is told of aclrtDeviceTaskAbort, by name. Its lock is a leaf: they are called with a copy.
struct AbortCallbacks {
  struct Told {
    AbortCallback callback;
    void* args;
  };
  std::mutex mutex;
  std::map<std::string, Told> all;

  static AbortCallbacks& get() {
    static AbortCallbacks& the = *new AbortCallbacks;
    return the;
  }
  // Throws, after all were called, for one that did not return 0.
  void tell(int32_t device, int32_t stage, uint32_t timeout) {
    std::map<std::string, Told> now;
    {
      std::lock_guard lock(mutex);
      now = all;
    }
    std::string wrong;
    for (const auto& [name, told] : now)
      if (const int32_t code = told.callback(device, stage, timeout, told.args); code != 0 && wrong.empty())
        wrong = name + " returned " + std::to_string(code);
    if (!wrong.empty())
      fail(ACL_ERROR_RT_INTERNAL_ERROR, "a callback of aclrtSetDeviceTaskAbortCallback failed %s the abort: %s",
           stage == 0 ? "before" : "after", wrong.c_str());
  }
};

}  // namespace

SOFTNPU_EXPORT aclError aclrtGetDeviceCount(uint32_t* count) {
  return guarded_always(__func__, [&] {
    need(count, "count");
    *count = uint32_t(device_count());
  });
}

SOFTNPU_EXPORT aclError aclrtSetDevice(int32_t deviceId) {
  return guarded(__func__, [&] {
    Device& d = Device::get(deviceId);
    void* context = d.primary_context();
    if (current_context_handle() == context) return;
    d.add_user();
    set_current_context(context);
  });
}

SOFTNPU_EXPORT aclError aclrtGetDevice(int32_t* deviceId) {
  return guarded(__func__, [&] {
    need(deviceId, "deviceId");
    *deviceId = current_context().device();
  });
}

SOFTNPU_EXPORT aclError aclrtResetDevice(int32_t deviceId) {
  return guarded(__func__, [&] {
    Device& d = Device::get(deviceId);
    Context* mine = current_context_or_null();
    // Threads that took the device and still use it keep it alive, as in CANN.
    if (d.drop_user()) {
      try {
        d.reset(false);
        sanitize::device_reset(deviceId);
      } catch (...) {
        d.add_user();
        throw;
      }
    } else if (mine && mine->primary() && mine->device() == deviceId) {
      set_current_context(nullptr);
    }
  });
}

SOFTNPU_EXPORT aclError aclrtResetDeviceForce(int32_t deviceId) {
  return guarded(__func__, [&] {
    Device::get(deviceId).reset(true);
    sanitize::device_reset(deviceId);
  });
}

// 0: for ever. A lost device is back then (ANYCEND_FAULT): its tasks were what stood in the way.
SOFTNPU_EXPORT aclError aclrtDeviceTaskAbort(int32_t deviceId, uint32_t timeout) {
  return guarded(__func__, [&] {
    Device::get(deviceId);
    AbortCallbacks& callbacks = AbortCallbacks::get();
    callbacks.tell(deviceId, 0, timeout);
    sanitize::device_reset(deviceId);  // before who waits comes back and goes on
    Stream::abort_all(deviceId, timeout ? deadline_after_ms(timeout) : kForever);
    callbacks.tell(deviceId, 1, timeout);
  });
}

// A null callback takes the name's back.
SOFTNPU_EXPORT aclError aclrtSetDeviceTaskAbortCallback(const char* regName, AbortCallback callback, void* args) {
  return guarded(__func__, [&] {
    need(regName, "regName");
    if (*regName == 0) fail(ACL_ERROR_RT_PARAM_INVALID, "regName is empty: give the callback a name");
    AbortCallbacks& callbacks = AbortCallbacks::get();
    std::lock_guard lock(callbacks.mutex);
    if (callback == nullptr) {
      if (callbacks.all.erase(regName) == 0)
        fail(ACL_ERROR_RT_PARAM_INVALID, "no callback is registered as %s", regName);
    } else if (!callbacks.all.try_emplace(regName, AbortCallbacks::Told{callback, args}).second) {
      fail(ACL_ERROR_RT_PARAM_INVALID, "a callback is registered as %s already: take it back with a null one first",
           regName);
    }
  });
}

SOFTNPU_EXPORT aclError aclrtSynchronizeDevice() {
  return guarded(__func__, [&] { Device::get(current_context().device()).synchronize(kForever); });
}

SOFTNPU_EXPORT aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout) {
  return guarded(__func__, [&] { Device::get(current_context().device()).synchronize(deadline_of(timeout)); });
}

SOFTNPU_EXPORT aclError aclrtCreateContext(aclrtContext* context, int32_t deviceId) {
  return guarded(__func__, [&] {
    need(context, "context");
    Device& d = Device::get(deviceId);
    Context* c = slab<Context>().take();
    c->open(d.index(), false);
    *context = slab<Context>().publish(c);
    set_current_context(*context);
  });
}

SOFTNPU_EXPORT aclError aclrtDestroyContext(aclrtContext context) {
  return guarded(__func__, [&] {
    Context& c = slab<Context>().get(context);
    if (c.primary())
      fail(ACL_ERROR_INVALID_PARAM, "the context belongs to device %d: aclrtResetDevice frees it", c.device());
    destroy_streams(c);
    slab<Context>().remove(context);
    slab<Context>().recycle(&c);
  });
}

SOFTNPU_EXPORT aclError aclrtSetCurrentContext(aclrtContext context) {
  return guarded(__func__, [&] {
    slab<Context>().get(context);
    set_current_context(context);
  });
}

SOFTNPU_EXPORT aclError aclrtGetCurrentContext(aclrtContext* context) {
  return guarded(__func__, [&] {
    need(context, "context");
    current_context();
    *context = current_context_handle();
  });
}

SOFTNPU_EXPORT aclError aclrtCtxGetCurrentDefaultStream(aclrtStream* stream) {
  return guarded(__func__, [&] {
    need(stream, "stream");
    *stream = current_context().default_stream_handle();
  });
}

SOFTNPU_EXPORT aclError aclrtGetPrimaryCtxState(int32_t deviceId, uint32_t* flags, int32_t* active) {
  return guarded(__func__, [&] {
    need(active, "active");
    *active = Device::get(deviceId).primary_context_or_null() != nullptr;
    if (flags) *flags = 0;
  });
}

SOFTNPU_EXPORT aclError aclrtDeviceCanAccessPeer(int32_t* canAccessPeer, int32_t deviceId, int32_t peerDeviceId) {
  return guarded(__func__, [&] {
    need(canAccessPeer, "canAccessPeer");
    Device::get(deviceId);
    Device::get(peerDeviceId);
    *canAccessPeer = deviceId != peerDeviceId;
  });
}

SOFTNPU_EXPORT aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags) {
  return guarded(__func__, [&] {
    Device& me = Device::get(current_context().device());
    Device::get(peerDeviceId);
    if (peerDeviceId == me.index())
      fail(ACL_ERROR_INVALID_PARAM, "device %d is the current device, not a peer", peerDeviceId);
    if (flags) fail(ACL_ERROR_INVALID_PARAM, "flags must be 0");
    me.enable_peer(peerDeviceId);
  });
}

SOFTNPU_EXPORT aclError aclrtDeviceDisablePeerAccess(int32_t peerDeviceId) {
  return guarded(__func__, [&] {
    Device::get(peerDeviceId);
    Device::get(current_context().device()).disable_peer(peerDeviceId);
  });
}

SOFTNPU_EXPORT aclError aclrtDevicePeerAccessStatus(int32_t deviceId, int32_t peerDeviceId, int32_t* status) {
  return guarded(__func__, [&] {
    need(status, "status");
    Device::get(peerDeviceId);
    *status = Device::get(deviceId).peer_enabled(peerDeviceId);
  });
}

SOFTNPU_EXPORT aclError aclrtDeviceGetStreamPriorityRange(int32_t* leastPriority, int32_t* greatestPriority) {
  return guarded(__func__, [&] {
    if (leastPriority) *leastPriority = 7;
    if (greatestPriority) *greatestPriority = 0;
  });
}

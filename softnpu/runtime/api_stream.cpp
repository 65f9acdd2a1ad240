// Exports: streams.
#include <sched.h>
#include <unistd.h>

#include "acl/api.h"
#include "softnpu/race/race.h"
#include "softnpu/runtime/context.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/futex.h"
#include "softnpu/runtime/limits.h"
#include "softnpu/runtime/stream.h"
#include "softnpu/runtime/watch.h"

using namespace softnpu;

namespace {

void need_priority(uint32_t priority) {
  if (priority > 7) fail(ACL_ERROR_INVALID_PARAM, "priority %u is not in 0 to 7", priority);
}

void need_failure_mode(uint64_t mode) {
  if (mode != ACL_CONTINUE_ON_FAILURE && mode != ACL_STOP_ON_FAILURE)
    fail(ACL_ERROR_INVALID_PARAM, "mode is 0 (continue) or 1 (stop)");
}

void need_off(uint32_t value, const char* what) {
  if (value) fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s is not supported by the software NPU: leave it 0", what);
}

// How the hardware may launch, and for whom the stream is: all of them are the one kind of stream here.
constexpr size_t kKnownFlags = ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC | ACL_STREAM_PERSISTENT | ACL_STREAM_HUGE |
                               ACL_STREAM_CPU_SCHEDULE | ACL_STREAM_DEVICE_USE_ONLY;

void make(aclrtStream* stream, uint32_t priority, size_t flags) {
  need(stream, "stream");
  if (flags & ~kKnownFlags) fail(ACL_ERROR_INVALID_PARAM, "stream flags %#zx are not known", flags);
  need_priority(priority);
  *stream = create_stream(current_context(), priority, uint32_t(flags));
}

}  // namespace

SOFTNPU_EXPORT aclError aclrtCreateStream(aclrtStream* stream) {
  return guarded(__func__, [&] { make(stream, 0, 0); });
}

SOFTNPU_EXPORT aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t priority, uint32_t flag) {
  return guarded(__func__, [&] { make(stream, priority, flag); });
}

SOFTNPU_EXPORT aclError aclrtCreateStreamV2(aclrtStream* stream, const aclrtStreamConfigHandle* handle) {
  return guarded(__func__, [&] {
    need(handle, "handle");
    if (handle->workptr || handle->workSize)
      fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "a stream of the software NPU has no work memory to be given (workptr)");
    make(stream, handle->priority, handle->flag);
  });
}

SOFTNPU_EXPORT aclError aclrtDestroyStream(aclrtStream stream) {
  return guarded(__func__, [&] { destroy_stream(stream, false); });
}

SOFTNPU_EXPORT aclError aclrtDestroyStreamForce(aclrtStream stream) {
  return guarded(__func__, [&] { destroy_stream(stream, true); });
}

SOFTNPU_EXPORT aclError aclrtSynchronizeStream(aclrtStream stream) {
  return guarded(__func__, [&] { stream_of(stream).synchronize(kForever, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT); });
}

SOFTNPU_EXPORT aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout) {
  return guarded(__func__,
                 [&] { stream_of(stream).synchronize(deadline_of(timeout), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT); });
}

SOFTNPU_EXPORT aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status) {
  return guarded(__func__, [&] {
    need(status, "status");
    Stream& s = stream_of(stream);
    *status = s.idle() ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
    if (race::on() && *status == ACL_STREAM_STATUS_COMPLETE) race::host_waited(&s);
    s.throw_error(false);
  });
}

SOFTNPU_EXPORT aclError aclrtStreamGetId(aclrtStream stream, int32_t* streamId) {
  return guarded(__func__, [&] {
    need(streamId, "streamId");
    *streamId = int32_t(slab<Stream>().index_of(&stream_of(stream)));
  });
}

SOFTNPU_EXPORT aclError aclrtStreamGetPriority(aclrtStream stream, uint32_t* priority) {
  return guarded(__func__, [&] {
    need(priority, "priority");
    *priority = stream_of(stream).priority();
  });
}

SOFTNPU_EXPORT aclError aclrtStreamGetFlags(aclrtStream stream, uint32_t* flags) {
  return guarded(__func__, [&] {
    need(flags, "flags");
    *flags = stream_of(stream).flags();
  });
}

SOFTNPU_EXPORT aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode) {
  return guarded(__func__, [&] {
    need_failure_mode(mode);
    stream_of(stream).set_continue_on_failure(mode == ACL_CONTINUE_ON_FAILURE);
  });
}

SOFTNPU_EXPORT aclError aclrtGetStreamAvailableNum(uint32_t* streamCount) {
  return guarded(__func__, [&] {
    need(streamCount, "streamCount");
    *streamCount = uint32_t(Stream::kMaxCount - slab<Stream>().live_count());
  });
}

SOFTNPU_EXPORT aclError aclrtSetStreamAttribute(aclrtStream stream, aclrtStreamAttr stmAttrType,
                                                aclrtStreamAttrValue* value) {
  return guarded(__func__, [&] {
    need(value, "value");
    Stream& s = stream_of(stream);
    switch (int(stmAttrType)) {
      case ACL_STREAM_ATTR_FAILURE_MODE:
        need_failure_mode(value->failureMode);
        s.set_continue_on_failure(value->failureMode == ACL_CONTINUE_ON_FAILURE);
        break;
      case ACL_STREAM_ATTR_PRIORITY:
        need_priority(value->streamPriority);
        s.set_priority(value->streamPriority);
        break;
      case ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK:
        need_off(value->overflowSwitch, "checking a stream for overflow");
        break;
      case ACL_STREAM_ATTR_USER_CUSTOM_TAG:
        s.attribute(unsigned(stmAttrType)) = value->userCustomTag;
        break;
      case ACL_STREAM_ATTR_CACHE_OP_INFO:  // for profilers, which get nothing here; the vendor's plugin sets it in every capture
        s.attribute(unsigned(stmAttrType)) = value->cacheOpInfoSwitch;
        break;
      default:
        fail(ACL_ERROR_INVALID_PARAM, "%d is not a stream attribute", int(stmAttrType));
    }
  });
}

SOFTNPU_EXPORT aclError aclrtGetStreamAttribute(aclrtStream stream, aclrtStreamAttr stmAttrType,
                                                aclrtStreamAttrValue* value) {
  return guarded(__func__, [&] {
    need(value, "value");
    Stream& s = stream_of(stream);
    *value = {};
    switch (int(stmAttrType)) {
      case ACL_STREAM_ATTR_FAILURE_MODE:
        value->failureMode = s.continue_on_failure() ? ACL_CONTINUE_ON_FAILURE : ACL_STOP_ON_FAILURE;
        break;
      case ACL_STREAM_ATTR_PRIORITY:
        value->streamPriority = s.priority();
        break;
      case ACL_STREAM_ATTR_USER_CUSTOM_TAG:
        value->userCustomTag = s.attribute(unsigned(stmAttrType));
        break;
      case ACL_STREAM_ATTR_CACHE_OP_INFO:
        value->cacheOpInfoSwitch = s.attribute(unsigned(stmAttrType));
        break;
      case ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK:  // off
        break;
      default:
        fail(ACL_ERROR_INVALID_PARAM, "%d is not a stream attribute", int(stmAttrType));
    }
  });
}

SOFTNPU_EXPORT aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t flag) {
  return guarded(__func__, [&] {
    stream_of(stream);
    need_off(flag, "checking a stream for overflow");
  });
}

SOFTNPU_EXPORT aclError aclrtGetStreamOverflowSwitch(aclrtStream stream, uint32_t* flag) {
  return guarded(__func__, [&] {
    need(flag, "flag");
    stream_of(stream);
    *flag = 0;
  });
}

SOFTNPU_EXPORT aclError aclrtStreamAbort(aclrtStream stream) {
  return guarded(__func__, [&] {
    Stream& s = stream_of(stream);
    if (s.captured()) fail(ACL_ERROR_RT_STREAM_CAPTURED, "the stream is being captured: it cannot be aborted");
    s.refuse_in_callback();
    const uint64_t accepted = s.tail();
    s.abort();
    s.wait_for(accepted, kForever);
  });
}

namespace {

// A word of device memory that streams write and wait for. The wait is the worker's: it blocks no other stream.
struct ValueTask {
  uint64_t* word;
  uint64_t value;
  uint32_t flag;

  static int write(void* state) noexcept {
    auto* t = static_cast<ValueTask*>(state);
    __atomic_store_n(t->word, t->value, __ATOMIC_RELEASE);
    return 0;
  }

  bool met() const noexcept {
    uint64_t now = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    switch (flag) {
      case ACL_STREAM_WAIT_VALUE_GEQ:
        return int64_t(now - value) >= 0;
      case ACL_STREAM_WAIT_VALUE_EQ:
        return now == value;
      case ACL_STREAM_WAIT_VALUE_AND:
        return (now & value) != 0;
      default:
        return ~(now | value) != 0;
    }
  }

  // The writer may be a kernel or another process: there is nothing to sleep on. Yields, then sleeps 50 us at a time.
  static int wait(void* state) noexcept {
    auto* t = static_cast<ValueTask*>(state);
    for (int i = 0; !t->met(); ++i) {
      if (Stream::running_task_aborted()) return life() == Life::kRunning ? 0 : ACL_ERROR_RT_STREAM_ABORT;
      if (i < 100)
        sched_yield();
      else
        usleep(50);
    }
    return 0;
  }
};

}  // namespace

SOFTNPU_EXPORT aclError aclrtValueWrite(void* devAddr, uint64_t value, uint32_t flag, aclrtStream stream) {
  return guarded(__func__, [&] {
    need(devAddr, "devAddr");
    if (flag) fail(ACL_ERROR_INVALID_PARAM, "flag is reserved and 0, not %u", flag);
    const ValueTask task{static_cast<uint64_t*>(devAddr), value, flag};
    stream_of(stream).submit(Work({ValueTask::write, nullptr, nullptr, "aclrtValueWrite", Cost::kTiny}, task));
  });
}

SOFTNPU_EXPORT aclError aclrtValueWait(void* devAddr, uint64_t value, uint32_t flag, aclrtStream stream) {
  return guarded(__func__, [&] {
    need(devAddr, "devAddr");
    if (flag > ACL_STREAM_WAIT_VALUE_NOR) fail(ACL_ERROR_INVALID_PARAM, "%u is not a condition", flag);
    const ValueTask task{static_cast<uint64_t*>(devAddr), value, flag};
    if (race::on()) race::unknown(named(stream_of(stream)));
    stream_of(stream).submit(Work({ValueTask::wait, nullptr, nullptr, "aclrtValueWait", Cost::kBlocking}, task));
  });
}

// Nothing to prefetch: the host's caches do.
SOFTNPU_EXPORT aclError aclrtCmoAsync(void* src, size_t size, aclrtCmoType cmoType, aclrtStream stream) {
  return guarded(__func__, [&] {
    need(src, "src");
    if (unsigned(cmoType) > ACL_RT_CMO_TYPE_FLUSH)
      fail(ACL_ERROR_INVALID_PARAM, "%d is not an operation on a cache", int(cmoType));
    stream_of(stream);
  });
}

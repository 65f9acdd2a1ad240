// Pageable host memory may be reused as soon as an asynchronous call returns: it is read before that (staged, or copied at once
// on an idle stream), and written before that (the call then waits). Pinned memory is the caller's to keep until it is done.
#include "softnpu/runtime/copy.h"

#include <cstdlib>
#include <cstring>

#include "softnpu/race/race.h"
#include "softnpu/runtime/config.h"
#include "softnpu/runtime/device.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/futex.h"
#include "softnpu/runtime/limits.h"
#include "softnpu/runtime/pinned.h"
#include "softnpu/runtime/stream.h"
#include "softnpu/runtime/trace.h"
#include "softnpu/runtime/virtual_memory.h"
#include "softnpu/runtime/watch.h"
#include "softnpu/sanitize/faults.h"

namespace softnpu {
namespace {

// One thread copies about 10 bytes a nanosecond: this much is below the 20 us that a caller may spend.
constexpr size_t kTinyBytes = 128 << 10;

struct CopyTask {
  CopyRequest request;
  void* staging;  // freed by drop
  int direction;  // an aclrtMemcpyKind

  static void perform(const CopyRequest& r) noexcept {
    if (r.height == 1 || (r.width == r.dst_pitch && r.width == r.src_pitch)) {
      memmove(r.dst, r.src, r.width * r.height);
      return;
    }
    for (size_t row = 0; row < r.height; ++row)
      memmove(static_cast<char*>(r.dst) + row * r.dst_pitch, static_cast<const char*>(r.src) + row * r.src_pitch,
              r.width);
  }
  static int run(void* state) noexcept {
    perform(static_cast<CopyTask*>(state)->request);
    return 0;
  }
  static void drop(void* state) noexcept { free(static_cast<CopyTask*>(state)->staging); }
};

struct FillTask {
  void* dst;
  size_t count;
  int value;

  static int run(void* state) noexcept {
    auto* t = static_cast<FillTask*>(state);
    memset(t->dst, t->value, t->count);
    return 0;
  }
};

bool on_device(const void* p) { return Device::holding(p) || VirtualMemory::get().device_of(p, 1) >= 0; }

struct Sides {
  bool dst_device;
  bool src_device;
};

Sides sides_of(const CopyRequest& r, aclrtMemcpyKind kind) {
  switch (int(kind)) {
    case ACL_MEMCPY_HOST_TO_HOST:
      return {false, false};
    case ACL_MEMCPY_HOST_TO_DEVICE:
    case ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE:
      return {true, false};
    case ACL_MEMCPY_DEVICE_TO_HOST:
      return {false, true};
    case ACL_MEMCPY_DEVICE_TO_DEVICE:
    case ACL_MEMCPY_INNER_DEVICE_TO_DEVICE:
    case ACL_MEMCPY_INTER_DEVICE_TO_DEVICE:
      return {true, true};
    case ACL_MEMCPY_DEFAULT:
      return {on_device(r.dst), on_device(r.src)};
    default:
      fail(ACL_ERROR_INVALID_PARAM, "%d is not a kind of copy", int(kind));
  }
}

int direction(Sides s) {
  if (s.src_device) return s.dst_device ? ACL_MEMCPY_DEVICE_TO_DEVICE : ACL_MEMCPY_DEVICE_TO_HOST;
  return s.dst_device ? ACL_MEMCPY_HOST_TO_DEVICE : ACL_MEMCPY_HOST_TO_HOST;
}

void describe_copy(const void* state, trace::Description& what) {
  const auto* t = static_cast<const CopyTask*>(state);
  what.kind = trace::Kind::kCopy;
  what.bytes = t->request.width * t->request.height;
  what.detail = t->direction;
}
void describe_fill(const void* state, trace::Description& what) {
  const auto* t = static_cast<const FillTask*>(state);
  what.kind = trace::Kind::kFill;
  what.bytes = t->count;
  what.detail = t->value;
}
// Host memory counts where it is pinned: any other was read, or is waited for, before the call returns.
void tell_copy(const void* state, race::Accesses& accesses) {
  const auto* t = static_cast<const CopyTask*>(state);
  const CopyRequest& r = t->request;
  const int64_t sizes[] = {int64_t(r.height), int64_t(r.width)};
  const auto add = [&](const void* p, size_t pitch, bool device, bool write) {
    const int64_t strides[] = {int64_t(pitch), 1};
    if (device || Pinned::get().contains(p, 1)) race::Access::add(accesses, p, 2, sizes, strides, 1, write);
  };
  add(r.dst, r.dst_pitch, t->direction == ACL_MEMCPY_HOST_TO_DEVICE || t->direction == ACL_MEMCPY_DEVICE_TO_DEVICE,
      true);
  if (t->staging == nullptr)
    add(r.src, r.src_pitch, t->direction == ACL_MEMCPY_DEVICE_TO_HOST || t->direction == ACL_MEMCPY_DEVICE_TO_DEVICE,
        false);
}
void tell_fill(const void* state, race::Accesses& accesses) {
  const auto* t = static_cast<const FillTask*>(state);
  race::Access::add(accesses, t->dst, t->count, true);
}
const bool copies_told = race::tells(CopyTask::run, tell_copy) && race::tells(FillTask::run, tell_fill);
const bool described = trace::describe(CopyTask::run, describe_copy) && trace::describe(FillTask::run, describe_fill);

void check(const void* p, size_t bytes, bool device, const char* name) {
  char text[256];
  if (device) {
    if (const char* why = why_not_device_memory(p, bytes, -1, text, sizeof text))
      fail(ACL_ERROR_RT_PARAM_INVALID, "%s: %s", name, why);
  } else if (on_device(p)) {
    fail(ACL_ERROR_RT_PARAM_INVALID, "%s: %p is device memory, the kind of the copy says host", name, p);
  }
}

// Bytes from the first to the last; throws where they are more than a number holds.
size_t reach(size_t width, size_t height, size_t pitch) {
  size_t bytes;
  if (__builtin_mul_overflow(height - 1, pitch, &bytes) || __builtin_add_overflow(bytes, width, &bytes))
    fail(ACL_ERROR_RT_PARAM_INVALID, "%zu rows of pitch %zu pass the end of memory", height, pitch);
  return bytes;
}

}  // namespace

void copy(const CopyRequest& r, aclrtMemcpyKind kind, Stream* stream) {
  need(r.dst, "dst");
  need(r.src, "src");
  if (r.width == 0 || r.height == 0) return;
  if (r.height > 1 && (r.dst_pitch < r.width || r.src_pitch < r.width))
    fail(ACL_ERROR_RT_PARAM_INVALID, "a pitch is smaller than the width %zu", r.width);
  size_t dst_bytes = reach(r.width, r.height, r.dst_pitch), src_bytes = reach(r.width, r.height, r.src_pitch);
  need_range(r.dst, dst_bytes, "dst");
  need_range(r.src, src_bytes, "src");
  Sides s = sides_of(r, kind);
  if (config().check) {
    check(r.dst, dst_bytes, s.dst_device, "dst");
    check(r.src, src_bytes, s.src_device, "src");
  }
  auto now = [&](const char* name) {
    trace::immediate(name, stream, trace::Kind::kCopy, direction(s), r.width * r.height, [&] { CopyTask::perform(r); });
  };
  if (stream == nullptr) {
    if (race::watched()) watch_host("aclrtMemcpy", CopyTask{r, nullptr, direction(s)}, tell_copy);
    return now("aclrtMemcpy");
  }

  size_t bytes = r.width * r.height;
  bool captured = stream->captured();
  bool from_pageable = !s.src_device && !Pinned::get().contains(r.src, src_bytes);
  bool to_pageable = !s.dst_device && !Pinned::get().contains(r.dst, dst_bytes);
  if (to_pageable && !captured) stream->refuse_in_callback();  // the call ends when the bytes are there
  CopyTask task{r, nullptr, direction(s)};
  // Where faults are asked for, the copy is a task like others: it can fail, hang or lose its device.
  const bool may_run_now = !captured && !sanitize::faulty() && (from_pageable || to_pageable);
  if (may_run_now && stream->run_now([&] { now("aclrtMemcpyAsync"); })) {
    if (race::watched()) {
      Work work({CopyTask::run, nullptr, nullptr, "aclrtMemcpyAsync", Cost::kTiny}, task);
      watch(*stream, work);
      if (to_pageable && race::on()) race::host_waited(stream);
    }
    return;
  }
  if (from_pageable && (captured || !to_pageable)) {
    task.staging = malloc(bytes);
    if (task.staging == nullptr) fail(ACL_ERROR_BAD_ALLOC, "no host memory to stage %zu bytes", bytes);
    CopyTask::perform({task.staging, r.src, r.width, r.height, r.width, r.src_pitch});
    task.request.src = task.staging;
    task.request.src_pitch = r.width;
  }
  Cost cost = bytes <= kTinyBytes ? Cost::kTiny : Cost::kSerial;
  stream->submit(Work({CopyTask::run, CopyTask::drop, nullptr, "aclrtMemcpyAsync", cost}, task));
  if (to_pageable && !captured) stream->synchronize(kForever, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
}

void fill(void* dst, size_t limit, int value, size_t count, Stream* stream) {
  need(dst, "devPtr");
  if (count > limit) fail(ACL_ERROR_RT_PARAM_INVALID, "count %zu is larger than maxCount %zu", count, limit);
  if (count == 0) return;
  need_range(dst, count, "devPtr");
  if (config().check) {
    char text[256];
    if (on_device(dst))
      if (const char* why = why_not_device_memory(dst, count, -1, text, sizeof text))
        fail(ACL_ERROR_RT_PARAM_INVALID, "devPtr: %s", why);
  }
  FillTask task{dst, count, value};
  if (stream == nullptr) {
    if (race::watched()) watch_host("aclrtMemset", task, tell_fill);
    trace::immediate("aclrtMemset", nullptr, trace::Kind::kFill, value, count, [&] { FillTask::run(&task); });
    return;
  }
  Cost cost = count <= kTinyBytes ? Cost::kTiny : Cost::kSerial;
  stream->submit(Work({FillTask::run, nullptr, nullptr, "aclrtMemsetAsync", cost}, task));
}

}  // namespace softnpu

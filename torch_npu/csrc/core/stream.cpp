#include "csrc/core/stream.h"
#include "csrc/core/core_limit.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <vector>

#include "csrc/cann/checks.h"
#include "csrc/cann/error.h"
#include "csrc/core/lifecycle.h"
#include "csrc/core/options.h"
#include "csrc/core/pending_work.h"
#include "csrc/core/task_group.h"

namespace npu {
namespace {

// StreamId: 0 is the default stream; odd ids are of a pool: 1 | priority class << 1 | place << 2; other even ids are of a
// stream made elsewhere: 2 | place << 2 in the table of these.
constexpr int kClasses = 2;  // normal, high
constexpr int kMostPerClass = 32;

constexpr bool is_pooled(c10::StreamId id) { return (id & 1) != 0; }
constexpr bool is_external(c10::StreamId id) { return (id & 3) == 2; }
constexpr int class_of(c10::StreamId id) { return static_cast<int>((id >> 1) & 1); }
constexpr int place_of(c10::StreamId id) { return static_cast<int>(id >> 2); }

struct DeviceStreams {
  std::mutex making;  // also guards external
  std::atomic<aclrtStream> of_default{nullptr};
  std::array<std::array<std::atomic<aclrtStream>, kMostPerClass>, kClasses> pool{};
  std::array<std::atomic<uint32_t>, kClasses> next{};
  std::vector<aclrtStream> external;  // grows: an id stays valid for ever
};

DeviceStreams& streams_of(c10::DeviceIndex index) {
  static auto* const all = new std::array<DeviceStreams, kMaxDevices>();  // leaked: used until the process is gone
  return (*all)[index];
}

// CANN's numbers: the greatest priority is the smallest number.
uint32_t acl_priority(bool high) {
  int32_t least = 0;
  int32_t greatest = 0;
  const cann::Api& acl = cann::acl();
  if (acl.aclrtDeviceGetStreamPriorityRange && acl.aclrtDeviceGetStreamPriorityRange(&least, &greatest) == 0) {
    return static_cast<uint32_t>(high ? greatest : least);
  }
  return 0;
}

aclrtStream made(std::atomic<aclrtStream>& slot, std::mutex& making, bool high, c10::StreamId id) {
  if (aclrtStream stream = slot.load(std::memory_order_acquire)) return stream;
  const std::lock_guard<std::mutex> lock(making);
  aclrtStream stream = slot.load(std::memory_order_acquire);
  if (!stream) {
    NPU_CHECK(cann::acl().aclrtCreateStreamWithConfig(&stream, acl_priority(high),
                                                      ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC));
    if (const cann::Checks* checks = cann::watched.load(std::memory_order_relaxed))
      checks->stream_number(stream, static_cast<int>(id));
    slot.store(stream, std::memory_order_release);
  }
  return stream;
}

c10::Stream npu_stream(c10::DeviceIndex index, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::DeviceType::PrivateUse1, index), id);
}

c10::DeviceIndex or_current(c10::DeviceIndex index) {
  if (index == -1) return current_device();
  check_device(index);
  return index;
}

void check_stream(c10::Stream stream) {
  TORCH_CHECK(stream.device_type() == c10::DeviceType::PrivateUse1,
              "npu: expected a stream of an npu device, got one of ", stream.device());
}

}  // namespace

aclrtStream detail::resolve_current_stream() {
  ensure_context();
  ThreadState& state = thread_state;
  const aclrtStream raw = raw_stream(current_stream(current_device()));
  state.raw[state.current] = raw;
  return raw;
}

c10::Stream current_stream(c10::DeviceIndex index) {
  index = or_current(index);
  return npu_stream(index, detail::thread_state.stream[index]);
}

c10::Stream default_stream(c10::DeviceIndex index) { return npu_stream(or_current(index), 0); }

c10::Stream exchange_stream(c10::Stream stream) {
  check_stream(stream);
  const c10::Stream former = current_stream(stream.device_index());
  detail::ThreadState& state = detail::thread_state;
  state.stream[stream.device_index()] = stream.id();
  state.raw[stream.device_index()] = nullptr;
  if (__builtin_expect(core_limits_set(), 0)) follow_core_limit(stream);
  return former;
}

c10::Stream stream_from_pool(c10::DeviceIndex index, int priority) {
  index = or_current(index);
  const int cls = priority < 0 ? 1 : 0;
  const uint32_t place = streams_of(index).next[cls].fetch_add(1, std::memory_order_relaxed) %
                         static_cast<uint32_t>(options().streams_per_device);
  return npu_stream(index, static_cast<c10::StreamId>(1 | (cls << 1) | (place << 2)));
}

// One of ours gets its own id: the allocator then knows that it is the same stream.
c10::Stream external_stream(aclrtStream raw, c10::DeviceIndex index) {
  TORCH_CHECK_VALUE(raw, "npu: a null pointer is not a stream");
  index = or_current(index);
  DeviceStreams& streams = streams_of(index);
  if (streams.of_default.load(std::memory_order_acquire) == raw) return npu_stream(index, 0);
  for (int cls = 0; cls < kClasses; ++cls) {
    for (int place = 0; place < kMostPerClass; ++place) {
      if (streams.pool[cls][place].load(std::memory_order_acquire) == raw)
        return npu_stream(index, 1 | (cls << 1) | (place << 2));
    }
  }
  const std::lock_guard<std::mutex> lock(streams.making);
  const auto found = std::find(streams.external.begin(), streams.external.end(), raw);
  const auto place = static_cast<c10::StreamId>(found - streams.external.begin());
  if (found == streams.external.end()) streams.external.push_back(raw);
  return npu_stream(index, 2 | (place << 2));
}

bool is_high_priority(c10::Stream stream) noexcept { return is_pooled(stream.id()) && class_of(stream.id()) == 1; }

aclrtStream raw_stream(c10::Stream stream) {
  check_stream(stream);
  const c10::StreamId id = stream.id();
  const NPUGuard guard(stream.device_index());
  ensure_context();
  DeviceStreams& streams = streams_of(stream.device_index());
  if (id == 0) return made(streams.of_default, streams.making, false, id);
  if (is_pooled(id) && place_of(id) < kMostPerClass) {
    return made(streams.pool[class_of(id)][place_of(id)], streams.making, class_of(id) == 1, id);
  }
  const std::lock_guard<std::mutex> lock(streams.making);
  TORCH_CHECK_VALUE(is_external(id) && static_cast<size_t>(place_of(id)) < streams.external.size(),
                    "npu: there is no stream with id ", id);
  return streams.external[place_of(id)];
}

bool query_stream(c10::Stream stream) {
  const NPUGuard guard(stream.device_index());
  const aclrtStream raw = raw_stream(stream);
  TORCH_CHECK_NOT_IMPLEMENTED(cann::acl().aclrtStreamQuery, "npu: this CANN has no aclrtStreamQuery");
  aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
  NPU_CHECK(cann::acl().aclrtStreamQuery(raw, &status));
  return status == ACL_STREAM_STATUS_COMPLETE;
}

void synchronize_stream(c10::Stream stream) {
  const NPUGuard guard(stream.device_index());
  wait_for(raw_stream(stream));
}

void wait_for(aclrtStream raw) {
  const cann::Api& acl = cann::acl();
  if (options().stream_sync_timeout > 0 && acl.aclrtSynchronizeStreamWithTimeout) {
    NPU_CHECK(acl.aclrtSynchronizeStreamWithTimeout(raw, options().stream_sync_timeout));
  } else {
    NPU_CHECK(acl.aclrtSynchronizeStream(raw));
  }
}

std::vector<c10::Stream> made_streams() {
  std::vector<c10::Stream> made;
  for (c10::DeviceIndex index = 0; index < device_count(); ++index) {
    if (!has_context(index)) continue;
    DeviceStreams& streams = streams_of(index);
    if (streams.of_default.load(std::memory_order_acquire)) made.push_back(npu_stream(index, 0));
    for (int cls = 0; cls < kClasses; ++cls) {
      for (int place = 0; place < kMostPerClass; ++place) {
        if (streams.pool[cls][place].load(std::memory_order_acquire))
          made.push_back(npu_stream(index, 1 | (cls << 1) | (place << 2)));
      }
    }
  }
  return made;
}

bool is_capturing(c10::Stream stream) {
  const cann::Api& acl = cann::acl();
  if (!alive() || !acl.aclmdlRICaptureGetInfo) return false;
  if (is_updating(stream)) return true;  // recorded as well, only not for a graph of its own
  const NPUGuard guard(stream.device_index());
  aclmdlRICaptureStatus status = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
  aclmdlRI graph = nullptr;
  NPU_CHECK(acl.aclmdlRICaptureGetInfo(raw_stream(stream), &status, &graph));
  return status == ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE;
}

}  // namespace npu

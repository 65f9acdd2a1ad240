// A context: what a thread works in. It names a device and owns a default stream. Each device has one primary context, made
// at the first aclrtSetDevice; clients may make more. Threads hold a handle, so a destroyed context is noticed, not followed.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "softnpu/runtime/handle.h"

namespace softnpu {

class Stream;

class Context {
 public:
  static constexpr uint8_t kMagic = 0x52;
  static constexpr uint32_t kMaxCount = 4096;
  static constexpr const char* kNoun = "context";

  void open(int device, bool primary) noexcept;

  int device() const noexcept { return device_; }
  bool primary() const noexcept { return primary_; }
  // Made at first use.
  Stream& default_stream();
  bool is_default(const Stream& stream) const noexcept { return default_stream_.load() == &stream; }
  // The default stream's handle; makes it.
  void* default_stream_handle();
  // The stream is being destroyed with its context.
  void forget_default(Stream& stream) noexcept;

  std::atomic<int32_t>& overflow_mode() noexcept { return overflow_mode_; }

 private:
  int device_ = -1;
  bool primary_ = false;
  std::atomic<Stream*> default_stream_{nullptr};
  std::mutex mutex_;  // guards the making of the default stream
  std::atomic<int32_t> overflow_mode_{1};
};

// The calling thread's context. Throws ACL_ERROR_RT_CONTEXT_NULL where there is none.
Context& current_context();
Context* current_context_or_null() noexcept;
void* current_context_handle() noexcept;
void set_current_context(void* handle) noexcept;

// Waits for the stream's tasks, or drops them and ends its capture if `force`; then frees the handle. Throws and changes nothing
// for a stream in a capture (unless `force`), in a host callback of the stream, and for a context's default stream.
void destroy_stream(void* handle, bool force);
// The same for all of a context's or a device's, default streams, too: all of them, or none and it throws.
void destroy_streams(const Context& context);
void destroy_streams(int device, bool force);
void* create_stream(Context& context, uint32_t priority, uint32_t flags);

}  // namespace softnpu

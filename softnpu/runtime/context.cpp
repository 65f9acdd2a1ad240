#include "softnpu/runtime/context.h"

#include <vector>

#include "softnpu/race/race.h"
#include "softnpu/runtime/callback.h"
#include "softnpu/runtime/capture.h"
#include "softnpu/runtime/device.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/futex.h"
#include "softnpu/runtime/init_file.h"
#include "softnpu/runtime/stream.h"

namespace softnpu {
namespace {

thread_local void* t_current = nullptr;

void require_destroyable(const Stream& stream, bool force) {
  stream.refuse_in_callback();
  if (stream.captured() && !force)
    fail(ACL_ERROR_RT_STREAM_CAPTURED,
         "the stream is being captured into a graph: it cannot be destroyed; end the capture, or destroy it by force");
}

// Does nothing if another thread has destroyed it.
void close_stream(void* handle, bool force) {
  Stream* s = slab<Stream>().find(handle);
  if (s == nullptr) return;
  if (force) s->abort();
  s->wait_for(s->tail(), kForever);  // as long as this can throw, the stream lives
  try {
    slab<Stream>().remove(handle);
  } catch (const Error&) {
    return;
  }
  Capture::forget(*s);
  if (force) s->abort();
  s->wait_for(s->tail(), kForever);  // for calls that raced with this one
  if (race::on()) race::destroyed(s);
  forget_subscription(*s);
  s->context()->forget_default(*s);
  slab<Stream>().recycle(s);
}

template <class Which>
void close_streams(Which&& which, bool force) {
  std::vector<void*> mine;
  slab<Stream>().each([&](Stream& s) {
    if (!which(s)) return;
    require_destroyable(s, force);
    if (void* h = slab<Stream>().handle_of(&s)) mine.push_back(h);
  });
  for (void* h : mine) close_stream(h, force);
}

}  // namespace

void Context::open(int device, bool primary) noexcept {
  device_ = device;
  primary_ = primary;
  default_stream_ = nullptr;
  overflow_mode_ = 1;  // INF/NAN
}

Stream& Context::default_stream() {
  if (Stream* s = default_stream_.load(std::memory_order_acquire)) return *s;
  std::lock_guard lock(mutex_);
  if (Stream* s = default_stream_.load(std::memory_order_acquire)) return *s;
  Stream* s = slab<Stream>().find(create_stream(*this, 0, 0));
  default_stream_.store(s, std::memory_order_release);
  return *s;
}

void Context::forget_default(Stream& stream) noexcept {
  Stream* mine = &stream;
  default_stream_.compare_exchange_strong(mine, nullptr);
}

void* Context::default_stream_handle() { return slab<Stream>().handle_of(&default_stream()); }

Context* current_context_or_null() noexcept { return slab<Context>().find(t_current); }

Context& current_context() {
  if (Context* c = current_context_or_null()) return *c;
  if (int device = default_device(); device >= 0) {
    set_current_context(Device::get(device).primary_context());
    return *current_context_or_null();
  }
  fail(ACL_ERROR_RT_CONTEXT_NULL,
       "this thread has no current context: call aclrtSetDevice or aclrtSetCurrentContext first");
}

void* current_context_handle() noexcept { return slab<Context>().find(t_current) ? t_current : nullptr; }

void set_current_context(void* handle) noexcept { t_current = handle; }

void* create_stream(Context& context, uint32_t priority, uint32_t flags) {
  Stream* s = slab<Stream>().take();
  s->open(&context, context.device(), priority, flags);
  return slab<Stream>().publish(s);
}

void destroy_stream(void* handle, bool force) {
  Stream& s = slab<Stream>().get(handle);
  if (s.context()->is_default(s))
    fail(ACL_ERROR_INVALID_PARAM, "the stream is its context's default stream, and lives as long as the context");
  require_destroyable(s, force);
  close_stream(handle, force);
}

void destroy_streams(const Context& context) {
  close_streams([&](Stream& s) { return s.context() == &context; }, false);
}

void destroy_streams(int device, bool force) {
  close_streams([&](Stream& s) { return s.device() == device; }, force);
}

}  // namespace softnpu

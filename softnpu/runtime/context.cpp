#include "softnpu/runtime/context.h"

#include <vector>

#include "softnpu/runtime/device.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/futex.h"
#include "softnpu/runtime/init_file.h"
#include "softnpu/runtime/stream.h"

namespace softnpu {
namespace {

thread_local void* t_current = nullptr;

// The stream's handle is already stale: finish or drop its tasks and give the slot back.
void close_stream(Stream& stream, bool force) {
  if (force) stream.abort();
  stream.wait_for(stream.tail(), kForever);
  slab<Stream>().recycle(&stream);
}

}  // namespace

void Context::open(int device, bool primary) noexcept {
  device_ = device;
  primary_ = primary;
  default_stream_ = nullptr;
  for (auto& p : sys_params_) p = 0;
  overflow_mode_ = 1;  // INF/NAN
}

void Context::close() {
  std::vector<void*> mine;
  slab<Stream>().each([&](Stream& s) {
    if (s.context() == this)
      if (void* h = slab<Stream>().handle_of(&s)) mine.push_back(h);
  });
  for (void* h : mine) destroy_stream(h, false);
  default_stream_ = nullptr;
}

Stream& Context::default_stream() {
  if (Stream* s = default_stream_.load(std::memory_order_acquire)) return *s;
  std::lock_guard lock(mutex_);
  if (Stream* s = default_stream_.load(std::memory_order_acquire)) return *s;
  Stream* s = slab<Stream>().find(create_stream(*this, 0, 0));
  default_stream_.store(s, std::memory_order_release);
  return *s;
}

void* Context::default_stream_handle() { return slab<Stream>().handle_of(&default_stream()); }

Context* current_context_or_null() noexcept { return slab<Context>().find(t_current); }

Context& current_context() {
  if (Context* c = current_context_or_null()) return *c;
  if (int device = default_device(); device >= 0) {
    set_current_context(Device::get(device).primary_context());
    return *current_context_or_null();
  }
  fail(107002, "this thread has no current context: call aclrtSetDevice or aclrtSetCurrentContext first");
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
  if (s.capture().load() && !force) fail(107027, "the stream is being captured into a graph: it cannot be destroyed");
  close_stream(slab<Stream>().remove(handle), force);
}

}  // namespace softnpu

// What the tests of streams and events share.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "acl/types.h"
#include "softnpu/runtime/context.h"
#include "softnpu/runtime/device.h"
#include "softnpu/runtime/event.h"
#include "softnpu/runtime/futex.h"
#include "softnpu/runtime/stream.h"

namespace softnpu {

inline Context& primary() {
  void* handle = Device::get(0).primary_context();
  set_current_context(handle);
  return slab<Context>().get(handle);
}

// A stream that is destroyed with the test.
struct TestStream {
  void* handle = create_stream(primary(), 0, 0);
  Stream& stream = slab<Stream>().get(handle);
  Stream* operator->() { return &stream; }
  operator Stream&() { return stream; }
  ~TestStream() { destroy_stream(handle, false); }
};

struct TestEvent {
  Event* event = slab<Event>().take();
  void* handle;
  explicit TestEvent(uint32_t flags = ACL_EVENT_SYNC) {
    event->open(flags);
    handle = slab<Event>().publish(event);
  }
  Event* operator->() { return event; }
  ~TestEvent() {
    slab<Event>().remove(handle);
    event->open(0);
    slab<Event>().recycle(event);
  }
};

// Gives a function to a stream. The function's result is the task's status.
inline int submit(Stream& stream, Cost cost, std::function<int()> body, const char* name = "test") {
  auto* state = new std::function<int()>(std::move(body));
  stream.submit(Work({[](void* p) noexcept { return (*static_cast<std::function<int()>*>(p))(); },
                      [](void* p) noexcept { delete static_cast<std::function<int()>*>(p); }, state, name, cost}));
  return 0;
}

inline void sync(Stream& stream) { stream.synchronize(kForever, 507046); }

// Closed until opened; tasks wait at it.
class Gate {
 public:
  void open() {
    open_.store(true);
    open_.notify_all();
  }
  int pass() const {
    open_.wait(false);
    return 0;
  }

 private:
  std::atomic<bool> open_{false};
};

// A minute, far above what any thread needs that the machine lets run at all: who waits so long hangs.
template <class F>
bool eventually(F&& f) {
  for (int i = 0; i < 60'000; ++i) {
    if (f()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

}  // namespace softnpu

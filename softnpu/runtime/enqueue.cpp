// The software NPU's inside door: what nnopbase, the kernels and the collectives call.
#include "softnpu/runtime/enqueue.h"

#include <utility>

#include "softnpu/runtime/arena.h"
#include "softnpu/runtime/capture.h"
#include "softnpu/runtime/config.h"
#include "softnpu/runtime/context.h"
#include "softnpu/runtime/device.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/executor.h"
#include "softnpu/runtime/extent.h"
#include "softnpu/runtime/link.h"
#include "softnpu/runtime/stream.h"
#include "softnpu/runtime/virtual_memory.h"

namespace softnpu {

int enqueue(aclrtStream stream, const Task& task) noexcept {
  Work work(task);
  return guarded("enqueue", [&] { stream_of(stream).submit(std::move(work)); });
}

int record(aclrtStream stream, Again again, void* state, void (*drop)(void* state) noexcept,
           const char* name) noexcept {
  // Owned here until the graph takes it; dropped with the graph, or on return.
  Work work({Recorded::never, Recorded::let_go, nullptr, name, Cost::kAgain}, Recorded{again, state, drop});
  int status = 0;
  const int code = guarded("record", [&] {
    Stream& s = stream_of(stream);
    if (!s.captured() || !Capture::take(s, std::move(work))) status = again(state, stream);
  });
  return code ? code : status;
}

void* hold_stream(aclrtStream stream, int* code) noexcept {
  Stream::Hold* held = nullptr;
  *code = guarded("hold_stream", [&] { held = new Stream::Hold(stream_of(stream)); });
  return held;
}

void let_go_of_stream(void* held) noexcept { delete static_cast<Stream::Hold*>(held); }

int stream_device(aclrtStream stream) noexcept {
  if (stream == nullptr) {
    Context* c = current_context_or_null();
    return c ? c->device() : -1;
  }
  Stream* s = slab<Stream>().find(stream);
  return s ? s->device() : -1;
}

bool checked_mode() noexcept {
  static const bool on = [] {
    try {
      return config().check;
    } catch (...) {
      return false;
    }
  }();
  return on;
}

bool check_pointer(const void* pointer, size_t bytes, int device) noexcept {
  char text[256];
  const char* why = why_not_device_memory(pointer, bytes, device, text, sizeof text);
  if (why) set_error_message(why);
  return why == nullptr;
}

bool running_task_aborted() noexcept { return Stream::running_task_aborted(); }

int fault_of_call(const char* function) noexcept { return struck(function); }

int fault_of_call(const char* function, aclrtStream stream) noexcept { return struck(function, stream_device(stream)); }

bool link_is_cut() noexcept { return sanitize::faulty() && sanitize::link_is_cut(); }

void on_compute_idle(void (*hook)() noexcept) noexcept { Executor::on_compute_idle(hook); }

void before_compute(void (*hook)() noexcept) noexcept { Executor::before_compute(hook); }

bool on_compute_thread() noexcept { return Executor::on_compute(); }

uint64_t device_bytes_from(const void* pointer) noexcept {
  if (life() != Life::kRunning) return kHostMemory;
  try {
    if (Device* d = Device::holding(pointer)) {
      Arena& a = *d->arena_or_null();
      const Arena::Block b = a.find(pointer);
      const uint64_t end = b.offset + b.size, at = a.offset(pointer);
      return end > at ? end - at : 0;
    }
    return VirtualMemory::get().mapped_from(pointer).value_or(kHostMemory);
  } catch (...) {
    return kHostMemory;
  }
}

bool export_pointer(const void* pointer, size_t bytes, ArenaExport* out) noexcept {
  if (life() != Life::kRunning) return false;
  try {
    if (Device* d = Device::holding(pointer)) {
      Arena& a = *d->arena_or_null();
      uint64_t at = a.offset(pointer);
      if (bytes > a.span() - at) return false;
      *out = {a.id(), a.fd(), at, a.span()};
      return true;
    }
    int fd, device;
    uint64_t offset;
    if (!VirtualMemory::get().locate(pointer, bytes, &fd, &offset, &device)) return false;
    if (device < 0) return false;  // another process's memory: its owner exports it
    Arena& a = Device::get(device).arena();
    *out = {a.id(), fd, offset, a.span()};
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace softnpu

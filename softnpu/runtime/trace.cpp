#include "softnpu/runtime/trace.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "softnpu/runtime/arena.h"
#include "softnpu/runtime/context.h"
#include "softnpu/runtime/device.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/stream.h"

namespace softnpu::trace {
namespace {

constexpr int kMost = 4;
constinit std::atomic<const Listener*> g_listeners[kMost] = {};
constinit std::atomic<uint64_t> g_next_correlation{1};

// Tasks with a ticket that have not run yet. A ticket is an index from 1.
struct Waiting {
  uint64_t correlation;
  int64_t queued;
  const char* name;
  Description what;
};
struct Pool {
  std::mutex mutex;
  std::deque<Waiting> all;
  std::vector<uint32_t> free;
};
Pool& pool() {
  static Pool& p = *new Pool;
  return p;
}

struct Texts {
  std::mutex mutex;
  std::unordered_set<std::string> all;
};
Texts& texts() {
  static Texts& t = *new Texts;
  return t;
}

// Grows only: whoever registers stays.
struct Describer {
  int (*run)(void*) noexcept;
  Describe describe;
};
constexpr uint32_t kDescribers = 16;
Describer g_describers[kDescribers];
constinit std::atomic<uint32_t> g_described{0};
constinit std::mutex g_describing;

template <class Tell>
void each(Tell&& tell) noexcept {
  for (auto& slot : g_listeners)
    if (const Listener* listener = slot.load(std::memory_order_acquire)) tell(*listener);
}

int id_of(const Stream* stream) noexcept {
  return stream ? int(slab<Stream>().index_of(const_cast<Stream*>(stream))) : -1;
}

int device_of(const Stream* stream) noexcept {
  if (stream) return stream->device();
  const Context* context = current_context_or_null();
  return context ? context->device() : -1;
}

thread_local const Told* t_told = nullptr;

void add_told(Waiting& waiting) {
  Description& what = waiting.what;
  if (t_told == nullptr || what.kind != Kind::kKernel || !what.in.types.empty() || !what.out.types.empty()) return;
  what.in = t_told->in;
  what.out = t_told->out;
  if (t_told->name) waiting.name = t_told->name;
}

}  // namespace

bool listen(const Listener* listener) noexcept {
  for (auto& slot : g_listeners) {
    const Listener* none = nullptr;
    if (!slot.compare_exchange_strong(none, listener, std::memory_order_acq_rel)) continue;
    sanitize::watchers.word.fetch_add(sanitize::kListener, std::memory_order_release);
    return true;
  }
  return false;
}

void ignore(const Listener* listener) noexcept {
  for (auto& slot : g_listeners) {
    const Listener* it = listener;
    if (!slot.compare_exchange_strong(it, nullptr, std::memory_order_acq_rel)) continue;
    sanitize::watchers.word.fetch_sub(sanitize::kListener, std::memory_order_release);
    return;
  }
}

void forget_listeners() noexcept {
  for (auto& slot : g_listeners) slot.store(nullptr, std::memory_order_relaxed);
  sanitize::unwatch(sanitize::kListeners);
}

bool alive() noexcept { return life() == Life::kRunning; }

int64_t now() noexcept {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return int64_t{t.tv_sec} * 1000000000 + t.tv_nsec;
}

uint64_t memory_of(int device) noexcept {
  try {
    const Arena* arena = Device::get(device).arena_or_null();
    return arena ? arena->used() : 0;
  } catch (const Error&) {  // there is no such device
    return 0;
  }
}

const char* interned(const char* text) noexcept {
  if (text == nullptr) return nullptr;
  try {
    Texts& t = texts();
    std::lock_guard lock(t.mutex);
    return t.all.emplace(text).first->c_str();  // nodes of the set stay where they are
  } catch (...) {
    return "";
  }
}

bool describe(int (*run)(void*) noexcept, Describe describe) noexcept {
  std::lock_guard lock(g_describing);
  const uint32_t n = g_described.load(std::memory_order_relaxed);
  if (n == kDescribers) return false;
  g_describers[n] = {run, describe};
  g_described.store(n + 1, std::memory_order_release);
  return true;
}

Description described(int (*run)(void*) noexcept, const void* state) noexcept {
  Description what;
  const uint32_t n = g_described.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < n; ++i) {
    if (g_describers[i].run != run) continue;
    try {
      g_describers[i].describe(state, what);
    } catch (const std::exception&) {  // no memory for the shapes: the kind is known
    }
    break;
  }
  return what;
}

void tell_of_kernels(const Told* told) noexcept { t_told = told; }

Submission::Submission(Stream& stream, Work& work) noexcept
    : call_{g_next_correlation.fetch_add(1, std::memory_order_relaxed),
            interned(work.name()),
            now(),
            0,
            Kind::kOther,
            true} {
  try {
    Waiting waiting{call_.correlation, call_.began, call_.name, work.described()};
    call_.kind = waiting.what.kind;
    add_told(waiting);
    Pool& p = pool();
    std::lock_guard lock(p.mutex);
    if (p.free.empty()) {
      p.free.reserve(p.all.size() + 1);  // so that giving a ticket back needs no memory
      p.all.push_back(std::move(waiting));
      work.set_ticket(uint32_t(p.all.size()));
    } else {
      const uint32_t ticket = p.free.back();
      p.all[ticket - 1] = std::move(waiting);
      p.free.pop_back();
      work.set_ticket(ticket);
    }
  } catch (...) {  // no memory: the task runs without a record
  }
}

Submission::~Submission() {
  call_.ended = now();
  each([&](const Listener& l) { l.called(call_); });
}

namespace {

Waiting taken(uint32_t ticket) noexcept {
  Pool& p = pool();
  std::lock_guard lock(p.mutex);
  Waiting waiting = std::move(p.all[ticket - 1]);
  p.free.push_back(ticket);
  return waiting;
}

}  // namespace

void ran(uint32_t ticket, Stream& stream, uint64_t task, int64_t began, int status) noexcept {
  const int64_t ended = now();
  Waiting w = taken(ticket);
  const Record record{w.correlation,  task,   w.name, w.queued,         began, ended, stream.device(),
                      id_of(&stream), status, true,   std::move(w.what)};
  each([&](const Listener& l) { l.ran(record); });
}

void dropped(uint32_t ticket) noexcept { taken(ticket); }

Immediate::Immediate(const char* name, const Stream* stream, Kind kind, int detail, uint64_t bytes) noexcept
    : record_{g_next_correlation.fetch_add(1, std::memory_order_relaxed),
              0,
              interned(name),
              now(),
              0,
              0,
              device_of(stream),
              id_of(stream),
              0,
              false,
              {}} {
  record_.what.kind = kind;
  record_.what.detail = detail;
  record_.what.bytes = bytes;
  record_.began = record_.queued;
}

Immediate::~Immediate() {
  record_.ended = now();
  const Call call{record_.correlation, record_.name, record_.began, record_.ended, record_.what.kind, false};
  each([&](const Listener& l) { l.ran(record_), l.called(call); });
}

namespace {

struct MarkTask {
  Mark mark;
  Stream* stream;

  static int run(void* state) noexcept {
    auto* t = static_cast<MarkTask*>(state);
    Mark mark = t->mark;
    mark.at = now();
    mark.device = t->stream->device();
    mark.stream = id_of(t->stream);
    each([&](const Listener& l) { l.marked(mark); });
    return 0;
  }
  static void drop(void* state) noexcept { free(const_cast<char*>(static_cast<MarkTask*>(state)->mark.name)); }
};

}  // namespace

void mark(Mark mark, aclrtStream handle) noexcept {
  mark.at = now();
  mark.on_stream = handle != nullptr;
  mark.device = mark.stream = -1;
  mark.thread = uint32_t(syscall(SYS_gettid));
  each([&](const Listener& l) { l.marked(mark); });
  if (handle == nullptr) return;
  guarded("mstx", [&] {  // a stream that is gone, or has failed, has no such place
    Stream& stream = stream_of(handle);
    if (stream.captured()) return;                 // a graph's replays are no part of the range
    if (mark.name) mark.name = strdup(mark.name);  // the task's own; null where memory is short
    stream.submit(Work({MarkTask::run, MarkTask::drop, nullptr, "mstx", Cost::kTiny}, MarkTask{mark, &stream}));
  });
}

}  // namespace softnpu::trace

// Task records: what ran on a stream, when, and which call asked for it. Nobody listens by default, and then a task costs one relaxed
// load when it is submitted and a look at its own ticket when it runs. What it is not: a profiler's file or interface (softnpu/trace).
// Who writes records: stream.cpp (tasks), copy.cpp (copies that need no task), mark (softnpu/trace). Who describes tasks: ops, hccl
// and the runtime itself, each for the `run` functions that are its own. Its locks are leaves; listeners are called with none held.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "softnpu/runtime/enqueue.h"

namespace softnpu {
class Stream;
class Work;
}  // namespace softnpu

namespace softnpu::trace {

enum class Kind : uint8_t {
  kKernel,
  kCollective,
  kCopy,
  kFill,
  kOther
};  // kOther: callbacks, waits, the clock of an event

struct Tensors {
  std::string shapes, types, formats;  // "2,3;3", "FLOAT;FLOAT", "ND;ND": CANN's way to write them
};

// What a task is, as its owner tells it when it is submitted.
struct Description {
  Kind kind = Kind::kOther;
  uint64_t bytes = 0;           // copies, fills
  uint64_t count = 0;           // collectives: elements
  int detail = 0;               // an aclrtMemcpyKind, the byte of a fill, an HcclDataType
  const char* group = nullptr;  // a collective's communicator: interned
  int rank = -1, ranks = 0;     // this process's number in it, and how many it has
  Tensors in, out;              // of kernels
};

struct Record {
  uint64_t correlation;          // of the call that asked for it; unique in the process, never 0
  uint64_t task;                 // its number in the stream, from 1; 0 for a copy that needed no task
  const char* name;              // interned
  int64_t queued, began, ended;  // nanoseconds since 1970
  int device;                    // its index in the process
  int stream;                    // as aclrtStreamGetId tells it; -1: none
  int status;
  bool asynchronous;
  Description what;
};

// A call that submitted a task, told on its thread when it returns.
struct Call {
  uint64_t correlation;
  const char* name;
  int64_t began, ended;
  Kind kind;
  bool asynchronous;  // false: the caller stands in the copy, and a listener must not wait for its stream
};

// A point that the program named (mstx): in time, or in a stream's order.
enum class Point : uint8_t { kInstant, kStart, kEnd };
struct Mark {
  int64_t at = 0;
  uint64_t id = 0;               // of a range: its start's and its end's
  const char* name = nullptr;    // not kept: who wants it longer than the call has a copy; null at an end
  const char* domain = nullptr;  // interned; null: the default one
  Point point = Point::kInstant;
  bool on_stream = false;        // the range or instant has a place in a stream, too, of which another mark tells
  int device = -1, stream = -1;  // -1: this one is the host's
  uint32_t thread = 0;           // the host's
};

// Functions may be called from several threads at once, and for a moment after `ignore` returned: for tasks that ran meanwhile.
struct Listener {
  void (*called)(const Call&) noexcept;
  void (*ran)(const Record&) noexcept;
  void (*marked)(const Mark&) noexcept;
};
// False: there are too many already (4).
SOFTNPU_API bool listen(const Listener* listener) noexcept;
SOFTNPU_API void ignore(const Listener* listener) noexcept;

// False in a forked child, and while the process ends: then nothing here is to be called that takes a lock.
SOFTNPU_API bool alive() noexcept;
// The time of records.
SOFTNPU_API int64_t now() noexcept;
// Bytes of the device that this process has; 0 for one that it has not used.
SOFTNPU_API uint64_t memory_of(int device) noexcept;
// The same text is the same pointer, which lives as long as the process. "" when memory is short.
SOFTNPU_API const char* interned(const char* text) noexcept;

// Tasks whose `run` this is are described by `describe`, on the thread that submits them; `state` as in Task. It may throw.
using Describe = void (*)(const void* state, Description& description);
SOFTNPU_API bool describe(int (*run)(void*) noexcept, Describe describe) noexcept;
// How tasks with this `run` are described: nothing is known of those that nobody described.
Description described(int (*run)(void*) noexcept, const void* state) noexcept;

// What the calling thread tells of the kernels that it launches from now on, where their owner does not know their tensors; null: no
// more. A text that is null stays the kernel's own.
struct Told {
  const char* name = nullptr;  // interned
  Tensors in, out;
};
SOFTNPU_API void tell_of_kernels(const Told* told) noexcept;

// Tells listeners of the mark: now as the host's, and, with a stream, when that comes to it (a tiny task).
SOFTNPU_API void mark(Mark mark, aclrtStream stream) noexcept;

inline bool on() noexcept { return sanitize::watched(sanitize::kListeners); }

// --- for the runtime alone ---------------------------------------------------------------------------------------------------------

// A call that submits a task: gives the task a ticket, and tells of the call when it ends.
class Submission {
 public:
  Submission(Stream& stream, Work& work) noexcept;
  Submission(const Submission&) = delete;
  ~Submission();

 private:
  Call call_;
};

// In a forked child: nobody listens, and no lock is taken.
void forget_listeners() noexcept;

// A task with a ticket has run, or is dropped unrun.
void ran(uint32_t ticket, Stream& stream, uint64_t task, int64_t began, int status) noexcept;
void dropped(uint32_t ticket) noexcept;

// Runs `body` at once, on the calling thread, as a copy of `bytes` in no stream's queue. `stream` may be null.
class Immediate {
 public:
  Immediate(const char* name, const Stream* stream, Kind kind, int detail, uint64_t bytes) noexcept;
  Immediate(const Immediate&) = delete;
  ~Immediate();

 private:
  Record record_;
};
template <class Body>
void immediate(const char* name, const Stream* stream, Kind kind, int detail, uint64_t bytes, Body&& body) {
  if (!on()) return body();
  const Immediate record(name, stream, kind, detail, bytes);
  body();
}

}  // namespace softnpu::trace

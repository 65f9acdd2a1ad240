// Put work on a stream of the software NPU: the door of softnpu/runtime for the libraries beside it (the others: README.md).
// What it is not: the C ABI (that is acl/api.h). Who calls it: nnopbase (error messages), ops (kernels), hccl (collectives), ascendc (launches).
#pragma once

#include <cstddef>
#include <cstdint>

#include "acl/types.h"
#include "softnpu/sanitize/watched.h"

#define SOFTNPU_API __attribute__((visibility("default")))

namespace softnpu {

// What a task is like. It decides the thread, never the order: which threads may run which is the table in schedule.h.
enum class Cost : uint8_t {
  kTiny,      // at most ~20 us on one thread
  kSerial,    // single-threaded but longer
  kWide,      // uses ATen's thread pool
  kHost,      // a host callback
  kBlocking,  // waits for other processes (collectives)
  kWait,      // the runtime's own: waits for another stream
  kAgain,     // the runtime's own, in graphs only: asked for a new task at each replay (record)
};

// One unit of work, copied into the stream's ring. `run` may be called many times (graph replay), `drop` exactly once,
// after the last run. Neither may throw: `run` returns 0, or a status after calling set_error_message.
struct Task {
  int (*run)(void* state) noexcept;
  void (*drop)(void* state) noexcept;  // may be null
  void* state;
  const char* name;  // "aclnnAdd"; lives at least as long as `state`
  Cost cost;
};

// Thread-safe; several threads may feed one stream. Returns 0 or an aclError (the task is then dropped).
SOFTNPU_API int enqueue(aclrtStream stream, const Task& task) noexcept;

// In a task of cost kBlocking or kHost: true when its stream is being aborted, or the process exits. A task that blocks looks
// now and then (every 20 ms is enough) and then returns; the caller of aclrtStreamAbort waits for that.
SOFTNPU_API bool running_task_aborted() noexcept;

// Holds a stream: while it lives, other threads' tasks come before all that this thread puts on the stream, or after it. Nests.
// For work that has a place in two orders, and locks the other one: the stream is held first, always, since a replay that runs
// on it calls `again` (below) while it holds the stream. The whole order of locks is in stream.h.
SOFTNPU_API void* hold_stream(aclrtStream stream, int* code) noexcept;
SOFTNPU_API void let_go_of_stream(void* held) noexcept;
class StreamHold {
 public:
  explicit StreamHold(aclrtStream stream) noexcept : held_(hold_stream(stream, &code_)) {}
  StreamHold(const StreamHold&) = delete;
  StreamHold& operator=(const StreamHold&) = delete;
  ~StreamHold() { let_go_of_stream(held_); }
  int code() const noexcept { return code_; }  // why it is not held: an aclError

 private:
  int code_ = 0;  // before held_, whose making sets it
  void* held_;
};

// For work that has a place in an order of its own (collectives): a captured task runs again where its stream comes to it, which is
// too late to take that place. So the graph keeps `state` alone, and each replay calls `again` on the replaying thread, which puts
// a task of its own on `stream`. A stream that is not being captured: `again` is called at once. `drop` as in Task.
using Again = int (*)(void* state, aclrtStream stream) noexcept;
SOFTNPU_API int record(aclrtStream stream, Again again, void* state, void (*drop)(void* state) noexcept,
                       const char* name) noexcept;

// The calling thread's recent error message, as aclGetRecentErrMsg returns it.
SOFTNPU_API void set_error_message(const char* text) noexcept;

// True on the process's one compute thread, where kWide tasks run: elsewhere a kernel uses one thread.
SOFTNPU_API bool on_compute_thread() noexcept;

// Called on the compute thread when it has been idle for a few milliseconds: a place to give back what only work needs.
SOFTNPU_API void on_compute_idle(void (*hook)() noexcept) noexcept;

// Called on any other thread before it leaves a kWide task to the compute thread, also when it replays a graph: a place to give
// back what would hold processors meanwhile. It must cost next to nothing where there is nothing, and take no lock of a caller's.
SOFTNPU_API void before_compute(void (*hook)() noexcept) noexcept;

// The device a stream belongs to, or -1 for a bad handle. A null stream is the current context's default stream.
SOFTNPU_API int stream_device(aclrtStream stream) noexcept;

// How many of `threads` an operator on the stream may use, with the limits on cores that clients have set (core_limit.h); `cube`: it
// multiplies matrices. Costs one load while nobody has set one.
SOFTNPU_API int threads_within_limit(aclrtStream stream, bool cube, int threads) noexcept;

// True when ANYCEND_CHECK=1: pointers given to kernels are checked against the arenas.
SOFTNPU_API bool checked_mode() noexcept;

// In checked mode: is [pointer, pointer+bytes) live memory of `device`? Sets the error message if not.
SOFTNPU_API bool check_pointer(const void* pointer, size_t bytes, int device) noexcept;

// Where device memory lies in the memfd behind it, for a peer process to map (collectives, IPC).
struct ArenaExport {
  uint64_t id;      // names the memfd in this process; never used again for another one
  int fd;           // the runtime's own: it lives as long as the arena, dup() it to keep it longer
  uint64_t offset;  // of the pointer in the file
  uint64_t size;    // of the whole file: what a peer maps, sparse
};

// False when [pointer, pointer+bytes) is not one contiguous live stretch of a memfd (host memory, mapped pieces of several
// physical handles): the caller then stages through memory of its own. Thread-safe; called once or twice a collective, so
// it must cost a lookup, not a system call.
SOFTNPU_API bool export_pointer(const void* pointer, size_t bytes, ArenaExport* out) noexcept;

// ANYCEND_FAULT (softnpu/sanitize/faults.h): whether any fault is asked for; and the status, with its message set, that
// this call of an exported function is to return instead of doing anything, or 0.
inline bool faults_asked() noexcept { return sanitize::watched(sanitize::kFaults); }
SOFTNPU_API int fault_of_call(const char* function) noexcept;
// The same of a call that puts work on `stream`: it needs that one's device, on whichever the thread is.
SOFTNPU_API int fault_of_call(const char* function, aclrtStream stream) noexcept;

namespace detail {
SOFTNPU_API int64_t operator_limit_ns() noexcept;
}
// What clients have set for the whole process (settings.h): how long an operator may take, in nanoseconds, 0 for ever
// (aclrtSetOpExecuteTimeOut), and that results must not depend on which thread was faster (ACL_OPT_DETERMINISTIC).
inline int64_t operator_limit_ns() noexcept {
  return sanitize::watched(sanitize::kLimit) ? detail::operator_limit_ns() : 0;
}
SOFTNPU_API bool deterministic() noexcept;

}  // namespace softnpu

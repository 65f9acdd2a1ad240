// Graph capture: the tasks that streams would have run, in the order they were given. The order of the calls obeys every
// dependency between the captured streams, so a replay runs them one after the other on one stream (graph.h).
// Who calls it: stream.cpp (submit), abort.cpp, watch.cpp, event.cpp (fork and join), context.cpp, enqueue.cpp, graph.cpp,
// api_graph.cpp, api_memory.cpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <thread>

#include "acl/types.h"
#include "softnpu/runtime/graph.h"
#include "softnpu/runtime/work.h"

namespace softnpu {

class Stream;

// How far each captured stream has come, as one of them knows it.
using CaptureClock = std::map<Stream*, size_t>;

// An event recorded inside a capture.
struct CaptureMark {
  uint64_t capture_id;
  CaptureClock clock;
};

// It lives as long as somebody looks at it: streams name it, and who wants it asks for a share under the lock that its end
// takes, too. So a call that races with the end belongs to the capture or comes after it.
class Capture {
 public:
  // `graph`: the handle of what it becomes. The capture belongs to the calling thread. Throws if the stream is in one, or gone.
  static void begin(Stream& origin, void* graph, aclmdlRICaptureMode mode);
  // The one that the stream is in, or null.
  static std::shared_ptr<Capture> of(Stream& stream);
  // Gives a task to the capture that the stream is in. False when there is none: it is still the caller's.
  static bool take(Stream& stream, Work&& work);
  // Puts `stream` into the capture that `mark` belongs to, or orders it after the mark. False: that capture is over.
  static bool join(Stream& stream, const CaptureMark& mark);
  // The same for the tasks of an update of `group` (task_group.h), which become no graph. Any thread may end it.
  static void begin_update(Stream& stream, std::shared_ptr<TaskGroup> group);
  // What the stream is given is an update of a group, or becomes a graph. Each asks once: an update may end meanwhile.
  static bool updates(Stream& stream);
  static bool becomes_graph(Stream& stream);
  // Somebody would wait for the stream, which makes it invalid.
  [[noreturn]] static void refuse_waiting(Stream& stream);
  // The one that the stream is in, if any, is invalid from now on; `why` is a literal. The caller throws.
  static void invalidate(Stream& stream, const char* why) noexcept;
  // The stream is being destroyed: its own capture ends, without a graph; one that it has joined is invalid.
  static void forget(Stream& stream) noexcept;

  uint64_t id() const noexcept { return id_; }
  void* graph() const noexcept { return graph_; }
  // What it updates; null: it becomes a graph.
  const std::shared_ptr<TaskGroup>& updated() const noexcept { return updated_; }
  bool valid() const noexcept { return why_invalid_.load(std::memory_order_acquire) == nullptr; }

  // These two throw when the capture is invalid, and do nothing when it is over.
  // All of them, and nothing between them. False: they are still the caller's.
  bool add(Stream& stream, std::span<Work> works);
  std::shared_ptr<CaptureMark> mark(Stream& stream);
  // What the stream gives from here to the end is a task group. Throw if that does not fit; the capture stays as it was.
  void begin_group(Stream& stream);
  void* end_group(Stream& stream);
  // A call that it could not take was made: the graph would not be what the program meant. The first reason counts.
  void invalidate(const char* why) noexcept;
  // Ends it and releases the streams. Throws if the stream is not its first, if it is over, if this thread may not end it; and,
  // when it has ended, without its graph, if it is invalid, or if a stream was never joined back into the origin.
  std::shared_ptr<TaskList> finish(Stream& stream);
  // The same of an update.
  std::shared_ptr<TaskList> finish_update();

 private:
  struct Open;
  struct ThreadEnd;

  Capture(Stream& origin, void* graph, aclmdlRICaptureMode mode, std::shared_ptr<TaskGroup> updated = nullptr);
  static void begin(const std::shared_ptr<Capture>& fresh);
  void require_takes(Stream& stream, std::span<Work> works);
  static Open& open();
  friend void refuse_unseen();
  // Does its mode, and the calling thread's, forbid calls that no capture can see (refuse_unseen)?
  bool forbids(aclmdlRICaptureMode of_thread) const noexcept;
  void require_valid() const;
  // Both locks held. The caller keeps a share.
  void end(Open& open);

  const uint64_t id_;
  Stream& origin_;
  void* const graph_;
  const std::shared_ptr<TaskGroup> updated_;
  const aclmdlRICaptureMode mode_;
  const std::thread::id thread_;
  std::atomic<bool> orphaned_{false};  // its thread, which alone may end it, is gone
  std::atomic<const char*> why_invalid_{nullptr};
  std::mutex mutex_;  // after Open's; guards the rest
  bool over_ = false;
  std::shared_ptr<TaskList> list_;
  std::map<Stream*, CaptureClock> clocks_;
  std::map<Stream*, uint32_t> open_groups_;  // by their numbers
};

// Throws where a capture under way forbids a call that works on memory at once, beside every stream (aclrtMemcpy, aclrtMemset):
// it would be missing in the graph, which becomes invalid. One relaxed load while nothing is captured.
void refuse_unseen();
// Sets the calling thread's own mode and returns the former one.
aclmdlRICaptureMode exchange_capture_mode(aclmdlRICaptureMode mode) noexcept;

}  // namespace softnpu

// Graph capture: the tasks that streams would have run, in the order they were given; and the graph it becomes. The order of
// the calls obeys every dependency between the captured streams, so a replay runs them one after the other on one stream.
// Who calls it: stream.cpp (submit), event.cpp (fork and join), api_graph.cpp, api_memory.cpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "acl/types.h"
#include "softnpu/runtime/handle.h"
#include "softnpu/runtime/work.h"

namespace softnpu {

class Stream;

// The recorded tasks, which stay where they are. Each may run many times; each is dropped once, with the list.
using TaskList = std::deque<Work>;

// The payload of a task of cost kAgain: it stands in a graph and is never run.
struct Recorded {
  Again again;
  void* state;
  void (*free)(void* state) noexcept;

  static int never(void*) noexcept { return 0; }
  static void let_go(void* payload) noexcept {
    const auto* recorded = static_cast<Recorded*>(payload);
    if (recorded->free) recorded->free(recorded->state);
  }
};

// How far each captured stream has come, as one of them knows it.
using CaptureClock = std::map<Stream*, size_t>;

// An event recorded inside a capture.
struct CaptureMark {
  uint64_t capture_id;
  CaptureClock clock;
};

class Capture {
 public:
  // `graph`: the handle of what it becomes. It belongs to the calling thread.
  Capture(Stream& origin, void* graph, aclmdlRICaptureMode mode);

  uint64_t id() const noexcept { return id_; }
  Stream& origin() const noexcept { return origin_; }
  void* graph() const noexcept { return graph_; }
  // Does its mode, and the calling thread's, forbid calls that no capture can see (refuse_unseen)?
  bool forbids(aclmdlRICaptureMode of_thread) const noexcept;
  // Only a relaxed capture may be ended by another thread than the one that began it.
  void check_thread() const;

  // The next three throw when the capture is invalid.
  void add(Stream& stream, Work&& work);
  std::shared_ptr<CaptureMark> mark(Stream& stream);
  void join(Stream& stream, const CaptureMark& mark);
  // A call that it could not take was made: the graph would not be what the program meant. The first reason counts.
  void invalidate(const char* why) noexcept;
  bool valid() const noexcept { return why_invalid_.load(std::memory_order_acquire) == nullptr; }
  // Releases the streams. Throws if it is invalid, or if one of them was never joined back into the origin.
  std::shared_ptr<TaskList> finish();

 private:
  void require_valid() const;

  const uint64_t id_;
  Stream& origin_;
  void* const graph_;
  const aclmdlRICaptureMode mode_;
  const std::thread::id thread_;
  std::atomic<const char*> why_invalid_{nullptr};
  std::mutex mutex_;
  std::shared_ptr<TaskList> list_;
  std::map<Stream*, CaptureClock> clocks_;
};

// Puts `stream` into the capture that `mark` belongs to, or orders it after the mark. False: that capture is over.
bool join_capture(Stream& stream, const CaptureMark& mark);

// The capture that the stream is in, if any, is invalid from now on; `why` is a literal. The caller throws.
void invalidate_capture(Stream& stream, const char* why) noexcept;

// Throws where a capture under way forbids a call that works on memory at once, beside every stream (aclrtMemcpy, aclrtMemset):
// it would be missing in the graph, which becomes invalid. One relaxed load while nothing is captured.
void refuse_unseen();
// Sets the calling thread's own mode and returns the former one.
aclmdlRICaptureMode exchange_capture_mode(aclmdlRICaptureMode mode) noexcept;

class Graph {
 public:
  static constexpr uint8_t kMagic = 0x55;
  static constexpr uint32_t kMaxCount = 1 << 16;
  static constexpr const char* kNoun = "graph";

  std::mutex mutex;
  std::shared_ptr<TaskList> list;    // a replay in flight holds its own reference
  std::unique_ptr<Capture> capture;  // while it is being made
  std::string name;
  uint32_t id = 0;
};

// Runs the list on the stream, in order.
void replay(std::shared_ptr<TaskList> list, Stream& stream);

}  // namespace softnpu

// A graph: the tasks of a capture, and their replay on a stream. A replay is one unit: no other thread's task comes between its
// tasks on that stream; and replays of one graph follow each other in the order of the calls, whatever their streams, since
// they use the same memory. What it is not: it captures nothing (capture.h). Who calls it: api_graph.cpp; task_group.cpp has its lists.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "softnpu/runtime/handle.h"
#include "softnpu/runtime/task_group.h"
#include "softnpu/runtime/work.h"

namespace softnpu {

class Stream;

// A task that belongs to a task group: both by their numbers, and its own in the group.
struct Member {
  size_t task;
  uint32_t group;
  uint32_t at;
};

// The recorded tasks, which stay where they are. Each may run many times; each is dropped once, with the list.
struct TaskList {
  TaskList() = default;
  ~TaskList();
  // Nobody may update its groups any more. Replays in flight are not touched.
  void close_groups() noexcept;

  std::deque<Work> tasks;
  std::deque<const char*> places;  // of each, the line that captured it; null where the client has not told
  std::vector<std::shared_ptr<TaskGroup>> groups;
  std::vector<void*> group_handles;  // of those whose end was told
  std::vector<Member> members;       // in the order of the tasks
  // Replays are queued one after the other: its place is in stream.h's lock order. It guards the end of the last one.
  std::mutex replaying;
  std::atomic<Stream*> replaying_on{nullptr};
  Stream* last_stream = nullptr;
  uint64_t last_position = 0;
};

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

class Graph {
 public:
  static constexpr uint8_t kMagic = 0x55;
  static constexpr uint32_t kMaxCount = 1 << 16;
  static constexpr const char* kNoun = "graph";

  std::mutex mutex;
  std::shared_ptr<TaskList> list;  // a replay in flight holds its own reference
  bool capturing = false;
  std::string name;
  uint32_t id = 0;
};

void* new_graph();
// A graph whose capture came to nothing. Does nothing for a handle that is stale.
void drop_graph(void* handle) noexcept;

// Runs the list on the stream, in order; in a stream that is being captured it becomes a part of the new graph.
void replay(std::shared_ptr<TaskList> list, Stream& stream);

}  // namespace softnpu

#include "softnpu/runtime/graph.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <utility>
#include <vector>

#include "softnpu/race/place.h"
#include "softnpu/race/race.h"
#include "softnpu/runtime/capture.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/stream.h"
#include "softnpu/runtime/trace.h"
#include "softnpu/runtime/watch.h"
#include "softnpu/sanitize/faults.h"

namespace softnpu {

void* new_graph() {
  static std::atomic<uint32_t> next_id{1};
  Graph* g = slab<Graph>().take();
  std::lock_guard lock(g->mutex);
  g->list.reset();
  g->capturing = false;
  g->name.clear();
  g->id = next_id++;
  return slab<Graph>().publish(g);
}

void drop_graph(void* handle) noexcept {
  try {
    slab<Graph>().recycle(&slab<Graph>().remove(handle));
  } catch (const Error&) {  // another thread has destroyed it
  }
}

namespace {

// One run of a graph: keeps its tasks until the last of them is dropped, so a graph may be destroyed behind its replay.
struct Replay {
  explicit Replay(std::shared_ptr<TaskList> of) : list(std::move(of)), taken(list->groups.size()) {}

  const std::shared_ptr<TaskList> list;
  std::vector<std::shared_ptr<TaskList>> taken;  // by its groups, when it came to their first tasks; null: as captured
  std::atomic<size_t> users{1};

  void release() noexcept {
    if (users.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
};
struct Release {
  void operator()(Replay* replay) const noexcept { replay->release(); }
};
using ReplayPtr = std::unique_ptr<Replay, Release>;

// The error of a task says where it was captured: the replay's own line is nobody's mistake.
void add_place(const char* place) noexcept {
  if (place == nullptr) return;
  char text[2048];
  snprintf(text, sizeof text, "%s; captured at %s", take_recent_message(), place);
  set_error_message(text);
}

struct Replayed {
  Work* work;
  Replay* replay;
  const char* place;

  static int run(void* state) noexcept {
    const auto& self = *static_cast<Replayed*>(state);
    const int code = self.work->run();
    if (__builtin_expect(code != 0, 0)) add_place(self.place);
    return code;
  }
  static void drop(void* state) noexcept { static_cast<Replayed*>(state)->replay->release(); }
};

const bool replays_described = trace::describe(Replayed::run, [](const void* state, trace::Description& what) {
  what = static_cast<const Replayed*>(state)->work->described();
});

const bool replays_told = race::tells(Replayed::run, [](const void* state, race::Accesses& accesses) {
  static_cast<const Replayed*>(state)->work->told(accesses);
});

Work replayed(Work& work, Replay& replay, const char* place) {
  replay.users.fetch_add(1, std::memory_order_relaxed);
  return Work({Replayed::run, Replayed::drop, nullptr, work.name(), work.cost()}, Replayed{&work, &replay, place});
}

// A task of a group: which one it is, it finds out when it runs. Its name is the captured one's, which lives as long as the list.
struct Grouped {
  Work* captured;
  Replay* replay;
  const char* place;
  uint32_t group, at;

  static int run(void* state) noexcept {
    const auto& self = *static_cast<Grouped*>(state);
    std::shared_ptr<TaskList>& taken = self.replay->taken[self.group];
    if (self.at == 0) taken = self.replay->list->groups[self.group]->now();
    const int code = (taken ? &taken->tasks[self.at] : self.captured)->run();
    if (__builtin_expect(code != 0, 0)) add_place(taken ? taken->places[self.at] : self.place);
    return code;
  }
  static void drop(void* state) noexcept { static_cast<Grouped*>(state)->replay->release(); }

  // For who listens and watches when it is queued: the task as it is by then.
  template <class Look>
  void look(Look&& at_work) const {
    const std::shared_ptr<TaskList> now = replay->list->groups[group]->now();
    at_work(now ? now->tasks[at] : *captured);
  }
};

const bool groups_described = trace::describe(Grouped::run, [](const void* state, trace::Description& what) {
  static_cast<const Grouped*>(state)->look([&](const Work& work) { what = work.described(); });
});

const bool groups_told = race::tells(Grouped::run, [](const void* state, race::Accesses& accesses) {
  static_cast<const Grouped*>(state)->look([&](const Work& work) { work.told(accesses); });
});

// The tasks of a replay in their order, which its groups' tasks stand in.
class Order {
 public:
  explicit Order(Replay& run) : run_(run), member_(run.list->members.begin()) {}

  // Of the next task, which is not of cost kAgain.
  Work next(Work& work, const char* place) {
    const size_t number = number_++;
    if (__builtin_expect(member_ == run_.list->members.end() || member_->task != number, 1))
      return replayed(work, run_, place);
    const Member member = *member_++;
    run_.users.fetch_add(1, std::memory_order_relaxed);
    return Work({Grouped::run, Grouped::drop, nullptr, work.name(), run_.list->groups[member.group]->cost(member.at)},
                Grouped{&work, &run_, place, member.group, member.at});
  }
  void skip() { ++number_; }

 private:
  Replay& run_;
  std::vector<Member>::const_iterator member_;
  size_t number_ = 0;
};

// Of a task of cost kAgain in a graph that has become a part of another one.
int again_replayed(void* state, aclrtStream stream) noexcept {
  const Recorded& recorded = static_cast<Replayed*>(state)->work->payload<Recorded>();
  return recorded.again(recorded.state, stream);
}
void drop_replayed(void* state) noexcept {
  Replayed::drop(state);
  delete static_cast<Replayed*>(state);
}

// All at once: a graph within a graph is one unit, too. False: the capture is over.
bool replay_into(Capture& capture, Replay& run, Stream& stream) {
  if (capture.updated()) {  // it could hold the group itself
    capture.invalidate("a graph was to be replayed");
    fail(ACL_ERROR_RT_MODEL_UPDATE_FAILED,
         "an update of a task group has no replays of graphs: replay it before or behind");
  }
  std::vector<Work> works;
  works.reserve(run.list->tasks.size());
  Order order(run);
  auto place = run.list->places.begin();
  for (Work& work : run.list->tasks) {
    const char* const line = *place++;
    if (work.cost() != Cost::kAgain) {
      works.push_back(order.next(work, line));
      continue;
    }
    order.skip();
    auto* state = new Replayed{&work, &run, line};
    run.users.fetch_add(1, std::memory_order_relaxed);
    works.push_back(Work({Recorded::never, Recorded::let_go, nullptr, work.name(), Cost::kAgain},
                         Recorded{again_replayed, state, drop_replayed}));
  }
  return capture.add(stream, works);
}

// Locked by another thread that replays the graph, perhaps while it waits for room in its stream.
void lock(TaskList& list) {
  while (!list.replaying.try_lock()) {
    if (const Stream* other = list.replaying_on.load(std::memory_order_relaxed))
      other->give_up_if_stuck(), other->give_up_if_stuck(true);
    usleep(20);
  }
}

}  // namespace

void TaskList::close_groups() noexcept {
  for (void* handle : group_handles) drop_group_handle(handle);
}

TaskList::~TaskList() {
  close_groups();
  if (race::on()) race::forget_event(this);
}

void replay(std::shared_ptr<TaskList> list, Stream& stream) {
  TaskList& graph = *list;
  const ReplayPtr run(new Replay(std::move(list)));
  if (stream.captured())
    if (auto capture = Capture::of(stream); capture && replay_into(*capture, *run, stream)) return;

  lock(graph);
  std::unique_lock order(graph.replaying, std::adopt_lock);
  graph.replaying_on.store(&stream, std::memory_order_relaxed);
  Stream::Hold hold(stream, true);
  if (graph.last_stream && graph.last_stream != &stream) {
    if (race::on()) race::waited(&graph, named(stream), false);  // for the last replay, not for what came behind it
    stream.wait_behind(*graph.last_stream, graph.last_position, "aclmdlRIExecuteAsync");
  }
  graph.last_stream = &stream;
  struct End {  // also of a replay that fails in the middle
    TaskList& graph;
    ~End() {
      graph.last_position = graph.last_stream->tail();
      if (race::on()) race::recorded(&graph, named(*graph.last_stream));
    }
  } end{graph};
  Order tasks(*run);
  auto place = graph.places.begin();
  for (Work& work : graph.tasks) {
    const char* const line = *place++;
    const race::Asked known(line);
    if (work.cost() == Cost::kAgain) {
      tasks.skip();
      const Recorded& recorded = work.payload<Recorded>();
      const sanitize::Uncounted calls;
      if (const int code = recorded.again(recorded.state, slab<Stream>().handle_of(&stream))) {
        add_place(line);
        fail(code, "%s", take_recent_message());
      }
      continue;
    }
    stream.submit(tasks.next(work, line));
  }
}

}  // namespace softnpu

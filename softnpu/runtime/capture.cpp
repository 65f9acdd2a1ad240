#include "softnpu/runtime/capture.h"

#include <algorithm>
#include <cstring>

#include "softnpu/runtime/error.h"
#include "softnpu/runtime/stream.h"

namespace softnpu {
namespace {

std::atomic<uint64_t> g_next_id{1};

// Captures under way, by id: an event may outlive the capture it was recorded in.
struct Open {
  std::mutex mutex;  // before Capture::mutex_
  std::map<uint64_t, Capture*> captures;
};
Open& open_captures() {
  static Open& o = *new Open;
  return o;
}

void merge(CaptureClock& into, const CaptureClock& from) {
  for (auto& [stream, at] : from) into[stream] = std::max(into[stream], at);
}

}  // namespace

TaskList::~TaskList() {
  for (auto& w : tasks)
    if (w->task.drop) w->task.drop(w->state());
}

Capture::Capture(Stream& origin, aclmdlRICaptureMode mode)
    : id_(g_next_id++), origin_(origin), mode_(mode), list_(std::make_shared<TaskList>()) {
  clocks_[&origin];
  std::lock_guard lock(open_captures().mutex);
  open_captures().captures[id_] = this;
  origin.capture().store(this, std::memory_order_release);
}

void Capture::add(Stream& stream, const Task& task, const void* payload, size_t payload_bytes) {
  std::unique_ptr<Work> work;
  try {
    work = std::make_unique<Work>();
    std::lock_guard lock(mutex_);
    list_->tasks.reserve(list_->tasks.size() + 1);
    clocks_[&stream][&stream] = list_->tasks.size() + 1;
  } catch (...) {
    if (task.drop) task.drop(task.state ? task.state : const_cast<void*>(payload));
    throw;
  }
  work->task = task;
  if (payload_bytes) memcpy(work->payload, payload, payload_bytes);
  std::lock_guard lock(mutex_);
  list_->tasks.push_back(std::move(work));
}

std::shared_ptr<CaptureMark> Capture::mark(Stream& stream) {
  std::lock_guard lock(mutex_);
  return std::make_shared<CaptureMark>(CaptureMark{id_, clocks_[&stream]});
}

void Capture::join(Stream& stream, const CaptureMark& mark) {
  std::lock_guard lock(mutex_);
  merge(clocks_[&stream], mark.clock);
  stream.capture().store(this, std::memory_order_release);
}

std::shared_ptr<TaskList> Capture::finish() {
  {
    std::lock_guard lock(open_captures().mutex);
    open_captures().captures.erase(id_);
  }
  std::lock_guard lock(mutex_);
  const CaptureClock& known = clocks_[&origin_];
  bool unjoined = false;
  for (auto& [stream, clock] : clocks_) {
    auto own = clock.find(stream);
    auto seen = known.find(stream);
    if (own != clock.end() && (seen == known.end() || seen->second < own->second)) unjoined = true;
    stream->capture().store(nullptr, std::memory_order_release);
  }
  if (unjoined)
    fail(107025,
         "a stream was drawn into the capture by an event and never joined back: make the first stream wait for it");
  return std::move(list_);
}

bool join_capture(Stream& stream, const CaptureMark& mark) {
  std::lock_guard lock(open_captures().mutex);
  auto it = open_captures().captures.find(mark.capture_id);
  if (it == open_captures().captures.end()) return false;
  Capture* other = stream.capture().load(std::memory_order_acquire);
  if (other && other != it->second) fail(107032, "the stream is being captured into another graph");
  it->second->join(stream, mark);
  return true;
}

void replay(std::shared_ptr<TaskList> list, Stream& stream) {
  // The last task lets go of the list, so that a graph may be destroyed behind its replay, or behind what of it was queued.
  auto let_go = [&] {
    auto* keep = new std::shared_ptr<TaskList>(list);
    stream.submit({[](void*) noexcept { return 0; },
                   [](void* p) noexcept { delete static_cast<std::shared_ptr<TaskList>*>(p); }, keep,
                   "aclmdlRIExecuteAsync", Cost::kTiny});
  };
  try {
    for (auto& w : list->tasks) {
      if (w->task.cost == kAgain) {
        Again again;
        memcpy(&again, w->payload, sizeof again);
        if (const int code = again(w->task.state, slab<Stream>().handle_of(&stream)))
          fail(code, "%s", take_recent_message());
        continue;
      }
      // The graph's copy of the payload stays where it is: several replays may be queued.
      stream.submit({w->task.run, nullptr, w->state(), w->task.name, w->task.cost});
    }
  } catch (...) {
    try {
      let_go();
    } catch (...) {  // the stream has failed: what is queued is not run
    }
    throw;
  }
  let_go();
}

}  // namespace softnpu

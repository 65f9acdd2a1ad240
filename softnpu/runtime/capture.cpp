#include "softnpu/runtime/capture.h"

#include <algorithm>
#include <utility>

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

Capture::Capture(Stream& origin, aclmdlRICaptureMode mode)
    : id_(g_next_id++), origin_(origin), mode_(mode), list_(std::make_shared<TaskList>()) {
  clocks_[&origin];
  std::lock_guard lock(open_captures().mutex);
  open_captures().captures[id_] = this;
  origin.capture().store(this, std::memory_order_release);
}

void Capture::add(Stream& stream, Work&& work) {
  std::lock_guard lock(mutex_);
  size_t& own = clocks_[&stream][&stream];
  list_->push_back(std::move(work));
  own = list_->size();
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

namespace {

// One run of a graph: keeps its tasks until the last of them is dropped, so a graph may be destroyed behind its replay.
struct Replay {
  const std::shared_ptr<TaskList> list;
  std::atomic<size_t> users{1};

  void release() noexcept {
    if (users.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
};

struct Replayed {
  Work* work;
  Replay* replay;

  static int run(void* state) noexcept { return static_cast<Replayed*>(state)->work->run(); }
  static void drop(void* state) noexcept { static_cast<Replayed*>(state)->replay->release(); }
};

}  // namespace

void replay(std::shared_ptr<TaskList> list, Stream& stream) {
  auto release = [](Replay* r) { r->release(); };
  std::unique_ptr<Replay, decltype(release)> run(new Replay{std::move(list)}, release);
  for (Work& work : *run->list) {
    run->users.fetch_add(1, std::memory_order_relaxed);
    stream.submit(Work({Replayed::run, Replayed::drop, nullptr, work.name(), work.cost()}, Replayed{&work, run.get()}));
  }
}

}  // namespace softnpu

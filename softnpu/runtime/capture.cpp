#include "softnpu/runtime/capture.h"

#include <algorithm>
#include <utility>

#include "softnpu/runtime/error.h"
#include "softnpu/runtime/stream.h"

namespace softnpu {
namespace {

std::atomic<uint64_t> g_next_id{1};
thread_local aclmdlRICaptureMode t_mode = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;

// Captures under way, by id: an event may outlive the capture it was recorded in.
struct Open {
  std::mutex mutex;  // before Capture::mutex_
  std::map<uint64_t, Capture*> captures;
  std::atomic<size_t> count{0};  // of captures
};
Open& open_captures() {
  static Open& o = *new Open;
  return o;
}

void merge(CaptureClock& into, const CaptureClock& from) {
  for (auto& [stream, at] : from) into[stream] = std::max(into[stream], at);
}

}  // namespace

Capture::Capture(Stream& origin, void* graph, aclmdlRICaptureMode mode)
    : id_(g_next_id++),
      origin_(origin),
      graph_(graph),
      mode_(mode),
      thread_(std::this_thread::get_id()),
      list_(std::make_shared<TaskList>()) {
  clocks_[&origin];
  Open& open = open_captures();
  std::lock_guard lock(open.mutex);
  open.captures[id_] = this;
  open.count.store(open.captures.size(), std::memory_order_relaxed);
  origin.capture().store(this, std::memory_order_release);
}

// CANN's rules: a global capture forbids them to every thread, a thread-local one to its own, a relaxed one to nobody; and a
// thread that has set a weaker mode of its own is asked for no more than that.
bool Capture::forbids(aclmdlRICaptureMode of_thread) const noexcept {
  if (mode_ == ACL_MODEL_RI_CAPTURE_MODE_RELAXED || of_thread == ACL_MODEL_RI_CAPTURE_MODE_RELAXED) return false;
  if (thread_ == std::this_thread::get_id()) return true;
  return mode_ == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL && of_thread == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
}

void Capture::check_thread() const {
  if (mode_ != ACL_MODEL_RI_CAPTURE_MODE_RELAXED && thread_ != std::this_thread::get_id())
    fail(ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD,
         "the capture was begun by another thread: end it there, or begin it in the relaxed mode");
}

void refuse_unseen() {
  Open& open = open_captures();
  if (open.count.load(std::memory_order_relaxed) == 0) return;
  std::lock_guard lock(open.mutex);
  bool forbidden = false;
  for (auto& [id, capture] : open.captures) {
    if (!capture->forbids(t_mode)) continue;
    capture->invalidate("memory was copied or set beside the streams");
    forbidden = true;
  }
  if (forbidden)
    fail(ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT,
         "a graph is being captured, and the capture cannot see this call: use the asynchronous one on the captured "
         "stream, or capture in the relaxed mode");
}

void invalidate_capture(Stream& stream, const char* why) noexcept {
  Open& open = open_captures();
  std::lock_guard lock(open.mutex);
  for (auto& [id, capture] : open.captures)
    if (capture == stream.capture().load(std::memory_order_acquire)) capture->invalidate(why);
}

void Capture::invalidate(const char* why) noexcept {
  const char* none = nullptr;
  why_invalid_.compare_exchange_strong(none, why, std::memory_order_acq_rel);
}

void Capture::require_valid() const {
  if (const char* why = why_invalid_.load(std::memory_order_acquire))
    fail(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED,
         "the capture is invalid since an earlier call that it could not take: %s; end it, and capture again without "
         "that call",
         why);
}

aclmdlRICaptureMode exchange_capture_mode(aclmdlRICaptureMode mode) noexcept { return std::exchange(t_mode, mode); }

void Capture::add(Stream& stream, Work&& work) {
  require_valid();
  std::lock_guard lock(mutex_);
  size_t& own = clocks_[&stream][&stream];
  list_->push_back(std::move(work));
  own = list_->size();
}

std::shared_ptr<CaptureMark> Capture::mark(Stream& stream) {
  require_valid();
  std::lock_guard lock(mutex_);
  return std::make_shared<CaptureMark>(CaptureMark{id_, clocks_[&stream]});
}

void Capture::join(Stream& stream, const CaptureMark& mark) {
  require_valid();
  std::lock_guard lock(mutex_);
  merge(clocks_[&stream], mark.clock);
  stream.capture().store(this, std::memory_order_release);
}

std::shared_ptr<TaskList> Capture::finish() {
  {
    Open& open = open_captures();
    std::lock_guard lock(open.mutex);
    open.captures.erase(id_);
    open.count.store(open.captures.size(), std::memory_order_relaxed);
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
  require_valid();
  if (unjoined)
    fail(ACL_ERROR_RT_STREAM_UNJOINED,
         "a stream was drawn into the capture by an event and never joined back: make the first stream wait for it");
  return std::move(list_);
}

bool join_capture(Stream& stream, const CaptureMark& mark) {
  std::lock_guard lock(open_captures().mutex);
  auto it = open_captures().captures.find(mark.capture_id);
  if (it == open_captures().captures.end()) return false;
  Capture* other = stream.capture().load(std::memory_order_acquire);
  if (other && other != it->second) {
    it->second->invalidate("it was to be joined with another graph's capture");
    other->invalidate("it was to be joined with another graph's capture");
    fail(ACL_ERROR_STREAM_CAPTURE_CONFLICT, "the stream is being captured into another graph");
  }
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
    if (work.cost() == Cost::kAgain) {
      const Recorded& recorded = work.payload<Recorded>();
      if (const int code = recorded.again(recorded.state, slab<Stream>().handle_of(&stream)))
        fail(code, "%s", take_recent_message());
      continue;
    }
    run->users.fetch_add(1, std::memory_order_relaxed);
    stream.submit(Work({Replayed::run, Replayed::drop, nullptr, work.name(), work.cost()}, Replayed{&work, run.get()}));
  }
}

}  // namespace softnpu

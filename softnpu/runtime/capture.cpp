#include "softnpu/runtime/capture.h"

#include <algorithm>
#include <utility>

#include "softnpu/race/race.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/stream.h"

namespace softnpu {
namespace {

std::atomic<uint64_t> g_next_id{1};
thread_local aclmdlRICaptureMode t_mode = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;

void merge(CaptureClock& into, const CaptureClock& from) {
  for (auto& [stream, at] : from) into[stream] = std::max(into[stream], at);
}

}  // namespace

// Captures under way, by id: an event may outlive the capture it was recorded in. Who sets a stream's capture_ holds the lock.
struct Capture::Open {
  std::mutex mutex;  // before Capture::mutex_
  std::map<uint64_t, std::shared_ptr<Capture>> captures;
  std::atomic<size_t> count{0};  // of captures

  std::shared_ptr<Capture> of(Stream& stream) {
    Capture* capture = stream.capture_.load(std::memory_order_relaxed);
    return capture ? captures.at(capture->id_) : nullptr;
  }
  void counted() noexcept { count.store(captures.size(), std::memory_order_relaxed); }
};

Capture::Open& Capture::open() {
  static Open& o = *new Open;
  return o;
}

// A thread that ends leaves captures behind which nobody else may end, and which forbid calls to all threads.
struct Capture::ThreadEnd {
  bool armed = false;
  ~ThreadEnd() {
    if (!armed) return;
    std::lock_guard lock(open().mutex);
    for (auto& [id, capture] : open().captures) {
      if (capture->thread_ != std::this_thread::get_id() || capture->mode_ == ACL_MODEL_RI_CAPTURE_MODE_RELAXED)
        continue;
      capture->invalidate("the thread that began it has ended");
      capture->orphaned_ = true;
    }
  }
};

Capture::Capture(Stream& origin, void* graph, aclmdlRICaptureMode mode)
    : id_(g_next_id++),
      origin_(origin),
      graph_(graph),
      mode_(mode),
      thread_(std::this_thread::get_id()),
      list_(std::make_shared<TaskList>()) {
  clocks_[&origin];
}

void Capture::begin(Stream& origin, void* graph, aclmdlRICaptureMode mode) {
  static thread_local ThreadEnd thread_end;
  thread_end.armed = true;
  const std::shared_ptr<Capture> fresh(new Capture(origin, graph, mode));
  std::lock_guard lock(open().mutex);
  if (open().of(origin)) fail(ACL_ERROR_RT_STREAM_CAPTURED, "the stream is being captured already");
  if (slab<Stream>().handle_of(&origin) == nullptr) fail(ACL_ERROR_RT_INVALID_HANDLE, "the stream was destroyed");
  open().captures[fresh->id_] = fresh;
  open().counted();
  origin.capture_.store(fresh.get(), std::memory_order_release);
}

std::shared_ptr<Capture> Capture::of(Stream& stream) {
  std::lock_guard lock(open().mutex);
  return open().of(stream);
}

bool Capture::take(Stream& stream, Work&& work) {
  auto capture = of(stream);
  return capture && capture->add(stream, std::span(&work, 1));
}

// CANN's rules: a global capture forbids them to every thread, a thread-local one to its own, a relaxed one to nobody; and a
// thread that has set a weaker mode of its own is asked for no more than that.
bool Capture::forbids(aclmdlRICaptureMode of_thread) const noexcept {
  if (mode_ == ACL_MODEL_RI_CAPTURE_MODE_RELAXED || of_thread == ACL_MODEL_RI_CAPTURE_MODE_RELAXED) return false;
  if (orphaned_) return false;
  if (thread_ == std::this_thread::get_id()) return true;
  return mode_ == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL && of_thread == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
}

void refuse_unseen() {
  Capture::Open& open = Capture::open();
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

void Capture::invalidate(Stream& stream, const char* why) noexcept {
  if (auto capture = of(stream)) capture->invalidate(why);
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

bool Capture::add(Stream& stream, std::span<Work> works) {
  std::lock_guard lock(mutex_);
  if (over_) return false;
  require_valid();
  if (std::any_of(works.begin(), works.end(), [](const Work& w) { return w.cost() == Cost::kWait; })) {
    invalidate("the stream waited for another one when the capture began");
    require_valid();
  }
  size_t& own = clocks_[&stream][&stream];
  for (Work& work : works) {
    list_->places.push_back(race::place());
    list_->tasks.push_back(std::move(work));
  }
  own = list_->tasks.size();
  return true;
}

std::shared_ptr<CaptureMark> Capture::mark(Stream& stream) {
  std::lock_guard lock(mutex_);
  if (over_) return nullptr;
  require_valid();
  return std::make_shared<CaptureMark>(CaptureMark{id_, clocks_[&stream]});
}

bool Capture::join(Stream& stream, const CaptureMark& mark) {
  std::lock_guard lock_open(open().mutex);
  auto it = open().captures.find(mark.capture_id);
  if (it == open().captures.end()) return false;
  Capture& capture = *it->second;
  if (auto other = open().of(stream); other && other.get() != &capture) {
    capture.invalidate("it was to be joined with another graph's capture");
    other->invalidate("it was to be joined with another graph's capture");
    fail(ACL_ERROR_STREAM_CAPTURE_CONFLICT, "the stream is being captured into another graph");
  }
  capture.require_valid();
  std::lock_guard lock(capture.mutex_);
  merge(capture.clocks_[&stream], mark.clock);
  stream.capture_.store(&capture, std::memory_order_release);
  return true;
}

void Capture::end(Open& open) {
  over_ = true;
  for (auto& [stream, clock] : clocks_) {
    Capture* me = this;
    stream->capture_.compare_exchange_strong(me, nullptr, std::memory_order_acq_rel);
  }
  open.captures.erase(id_);
  race::capture_over(id_);
  open.counted();
}

std::shared_ptr<TaskList> Capture::finish(Stream& stream) {
  if (&origin_ != &stream) fail(ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED, "the capture was begun on another stream");
  if (mode_ != ACL_MODEL_RI_CAPTURE_MODE_RELAXED && thread_ != std::this_thread::get_id() && !orphaned_)
    fail(ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD,
         "the capture was begun by another thread: end it there, or begin it in the relaxed mode");
  std::lock_guard lock_open(open().mutex);
  std::lock_guard lock(mutex_);
  if (over_) fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED, "the stream is not being captured");
  end(open());
  if (!valid()) drop_graph(graph_);
  require_valid();
  const CaptureClock& known = clocks_[&origin_];
  for (auto& [other, clock] : clocks_) {
    auto own = clock.find(other);
    auto seen = known.find(other);
    if (own == clock.end() || (seen != known.end() && seen->second >= own->second)) continue;
    drop_graph(graph_);
    fail(ACL_ERROR_RT_STREAM_UNJOINED,
         "a stream was drawn into the capture by an event and never joined back: make the first stream wait for it");
  }
  return std::move(list_);
}

void Capture::forget(Stream& stream) noexcept {
  std::shared_ptr<Capture> capture;  // its tasks are dropped without the locks
  {
    std::lock_guard lock_open(open().mutex);
    capture = open().of(stream);
    if (capture == nullptr) return;
    std::lock_guard lock(capture->mutex_);
    if (&capture->origin_ == &stream) {
      capture->end(open());
    } else {
      capture->invalidate("one of its streams was destroyed");
      stream.capture_.store(nullptr, std::memory_order_release);
      capture->clocks_.erase(&stream);
      return;
    }
  }
  drop_graph(capture->graph());
}

}  // namespace softnpu

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

Capture::Capture(Stream& origin, void* graph, aclmdlRICaptureMode mode, std::shared_ptr<TaskGroup> updated)
    : id_(g_next_id++),
      origin_(origin),
      graph_(graph),
      updated_(std::move(updated)),
      mode_(mode),
      thread_(std::this_thread::get_id()),
      list_(std::make_shared<TaskList>()) {
  clocks_[&origin];
}

void Capture::begin(Stream& origin, void* graph, aclmdlRICaptureMode mode) {
  static thread_local ThreadEnd thread_end;
  thread_end.armed = true;
  begin(std::shared_ptr<Capture>(new Capture(origin, graph, mode)));
}

void Capture::begin_update(Stream& stream, std::shared_ptr<TaskGroup> group) {
  begin(std::shared_ptr<Capture>(new Capture(stream, nullptr, ACL_MODEL_RI_CAPTURE_MODE_RELAXED, std::move(group))));
}

void Capture::begin(const std::shared_ptr<Capture>& fresh) {
  Stream& origin = fresh->origin_;
  std::lock_guard lock(open().mutex);
  if (auto other = open().of(origin)) {
    if (other->updated_)
      fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS,
           "the stream updates a task group already: end that with aclmdlRICaptureTaskUpdateEnd first");
    fail(ACL_ERROR_RT_STREAM_CAPTURED, "the stream is being captured already");
  }
  if (slab<Stream>().handle_of(&origin) == nullptr) fail(ACL_ERROR_RT_INVALID_HANDLE, "the stream was destroyed");
  open().captures[fresh->id_] = fresh;
  open().counted();
  origin.capture_.store(fresh.get(), std::memory_order_release);
}

std::shared_ptr<Capture> Capture::of(Stream& stream) {
  std::lock_guard lock(open().mutex);
  return open().of(stream);
}

bool Capture::updates(Stream& stream) {
  const auto capture = of(stream);
  return capture && capture->updated_;
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

bool Capture::becomes_graph(Stream& stream) {
  const auto capture = of(stream);
  return capture && !capture->updated_;
}

void Capture::refuse_waiting(Stream& stream) {
  const bool of_an_update = updates(stream);
  invalidate(stream, "the stream was to be synchronized");
  if (of_an_update)
    fail(ACL_ERROR_RT_STREAM_CAPTURED,
         "the stream updates a task group: it can be synchronized behind the update's end");
  fail(ACL_ERROR_RT_STREAM_CAPTURED, "the stream is being captured into a graph: it cannot be synchronized");
}

void Capture::invalidate(Stream& stream, const char* why) noexcept {
  if (auto capture = of(stream)) capture->invalidate(why);
}

void Capture::invalidate(const char* why) noexcept {
  const char* none = nullptr;
  why_invalid_.compare_exchange_strong(none, why, std::memory_order_acq_rel);
}

void Capture::require_valid() const {
  const char* why = why_invalid_.load(std::memory_order_acquire);
  if (why && updated_)
    fail(
        ACL_ERROR_RT_MODEL_UPDATE_FAILED,
        "the update is invalid since an earlier call that it could not take: %s; end it, and update again without that "
        "call: the group stays as it was",
        why);
  if (why)
    fail(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED,
         "the capture is invalid since an earlier call that it could not take: %s; end it, and capture again without "
         "that call",
         why);
}

aclmdlRICaptureMode exchange_capture_mode(aclmdlRICaptureMode mode) noexcept { return std::exchange(t_mode, mode); }

void Capture::require_takes(Stream& stream, std::span<Work> works) {
  const auto any = [&](auto&& is) { return std::any_of(works.begin(), works.end(), is); };
  if (any([](const Work& w) { return w.cost() == Cost::kWait; }))
    invalidate("the stream waited for another one when the capture began");
  if (updated_ || open_groups_.contains(&stream)) {
    if (any([](const Work& w) { return w.cost() == Cost::kAgain || w.cost() == Cost::kBlocking; }))
      invalidate("a task group has no events and no collectives: they belong before it or behind it");
  }
  require_valid();
}

bool Capture::add(Stream& stream, std::span<Work> works) {
  std::lock_guard lock(mutex_);
  if (over_) return false;
  require_takes(stream, works);
  size_t& own = clocks_[&stream][&stream];
  const auto group = open_groups_.find(&stream);
  for (Work& work : works) {
    if (group != open_groups_.end()) {
      const size_t at = list_->groups[group->second]->add(work);
      list_->members.push_back({list_->tasks.size(), group->second, uint32_t(at)});
    }
    list_->places.push_back(race::place());
    list_->tasks.push_back(std::move(work));
  }
  own = list_->tasks.size();
  return true;
}

std::shared_ptr<CaptureMark> Capture::mark(Stream& stream) {
  std::lock_guard lock(mutex_);
  if (over_) return nullptr;
  if (updated_) invalidate("an event was to be recorded: record it before the update, or behind its end");
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

void Capture::begin_group(Stream& stream) {
  std::lock_guard lock(mutex_);
  if (over_) fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED, "the capture of the stream has ended");
  require_valid();
  if (updated_)
    fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS,
         "the stream updates a task group: groups are begun while a graph is captured, so end the update first");
  if (open_groups_.contains(&stream))
    fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS,
         "a task group has begun on the stream: groups do not nest, so end it with aclmdlRICaptureTaskGrpEnd first");
  list_->groups.push_back(std::make_shared<TaskGroup>(stream.device()));
  open_groups_[&stream] = uint32_t(list_->groups.size() - 1);
}

void* Capture::end_group(Stream& stream) {
  std::lock_guard lock(mutex_);
  const auto group = open_groups_.find(&stream);
  if (over_ || group == open_groups_.end())
    fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS,
         "no task group has begun on the stream: begin it with aclmdlRICaptureTaskGrpBegin first");
  void* handle = new_group_handle(list_->groups[group->second]);
  list_->group_handles.push_back(handle);
  open_groups_.erase(group);
  require_valid();
  return handle;
}

std::shared_ptr<TaskList> Capture::finish_update() {
  std::lock_guard lock_open(open().mutex);
  std::lock_guard lock(mutex_);
  if (over_) fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS, "the update of the task group has ended");
  end(open());
  require_valid();
  return std::move(list_);
}

std::shared_ptr<TaskList> Capture::finish(Stream& stream) {
  if (updated_)
    fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED,
         "the stream is not being captured: it updates a task group, which aclmdlRICaptureTaskUpdateEnd ends");
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
  if (!open_groups_.empty()) {
    drop_graph(graph_);
    fail(
        ACL_ERROR_STREAM_TASK_GROUP_STATUS,
        "a task group has not ended: end it with aclmdlRICaptureTaskGrpEnd before the capture ends, and capture again");
  }
  const CaptureClock& known = clocks_[&origin_];
  for (auto& [other, clock] : clocks_) {
    auto own = clock.find(other);
    auto seen = known.find(other);
    if (own == clock.end() || (seen != known.end() && seen->second >= own->second)) continue;
    drop_graph(graph_);
    fail(ACL_ERROR_RT_STREAM_UNJOINED,
         "a stream was drawn into the capture by an event and never joined back: make the first stream wait for it "
         "(aclrtStreamWaitEvent, wait_stream of PyTorch) before the capture ends");
  }
  for (auto& group : list_->groups) group->set_ready();
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

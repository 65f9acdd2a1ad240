#include "softnpu/runtime/callback.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "softnpu/runtime/error.h"
#include "softnpu/runtime/futex.h"
#include "softnpu/runtime/stream.h"

namespace softnpu {
namespace {

struct Subscription {
  std::shared_ptr<ReportQueue> queue;
  int streams = 0;
};

// By thread and by stream. A leaf lock.
struct Table {
  std::mutex mutex;
  std::map<uint64_t, Subscription> threads;
  std::map<Stream*, std::pair<uint64_t, std::shared_ptr<ReportQueue>>> streams;

  void erase(decltype(streams)::iterator subscribed) noexcept {
    auto thread = threads.find(subscribed->second.first);
    streams.erase(subscribed);
    if (--thread->second.streams > 0) return;
    thread->second.queue->close();
    threads.erase(thread);
  }
};
Table& table() {
  static Table& t = *new Table;
  return t;
}

struct CallbackTask {
  std::shared_ptr<ReportQueue> queue;
  aclrtCallback function;
  void* data;
  bool block;

  static int run(void* state) noexcept {
    auto* t = static_cast<CallbackTask*>(state);
    try {
      if (t->queue->put({t->function, t->data, t->block ? running_stream() : nullptr})) return 0;
    } catch (...) {
    }
    set_error_message("no thread is subscribed to the stream's callbacks any more");
    return ACL_ERROR_RT_STREAM_NO_CB_REG;
  }
  static void drop(void* state) noexcept { delete static_cast<CallbackTask*>(state); }
};

struct HostTask {
  aclrtHostFunc function;
  void* data;

  static int run(void* state) noexcept {
    auto* t = static_cast<HostTask*>(state);
    t->function(t->data);
    return 0;
  }
};

}  // namespace

bool ReportQueue::put(const Call& call) {
  std::unique_lock lock(mutex_);
  if (closed_) return false;
  const uint64_t mine = ++put_;
  calls_.push_back({call, mine});
  changed_.notify_all();
  const auto queued = [&] {
    return std::find_if(calls_.begin(), calls_.end(), [&](const Queued& q) { return q.number == mine; });
  };
  // What the thread has taken runs to its end, whoever unsubscribes or aborts meanwhile.
  const auto over = [&] { return ran_ >= mine || (closed_ && queued() != calls_.end()); };
  while (call.waits && !changed_.wait_for(lock, std::chrono::nanoseconds(schedule::kAbortNs), over)) {
    if (!Stream::running_task_aborted()) continue;
    if (const auto at = queued(); at != calls_.end()) {
      calls_.erase(at);
      return true;
    }
  }
  if (!call.waits || ran_ >= mine) return true;
  calls_.erase(queued());
  return false;
}

bool ReportQueue::process(int64_t deadline) {
  std::unique_lock lock(mutex_);
  auto ready = [&] { return !calls_.empty() || closed_; };
  if (deadline == kForever)
    changed_.wait(lock, ready);
  else
    changed_.wait_for(lock, std::chrono::nanoseconds(std::max<int64_t>(0, deadline - now_ns())), ready);
  bool any = !calls_.empty();
  while (!calls_.empty()) {
    Queued q = calls_.front();
    calls_.pop_front();
    lock.unlock();
    if (q.call.waits) {
      const Stream::Callback in(q.call.waits);
      q.call.function(q.call.data);
    } else {
      q.call.function(q.call.data);
    }
    lock.lock();
    ran_ = q.number;
    changed_.notify_all();
  }
  return any;
}

void ReportQueue::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

void subscribe(uint64_t thread, Stream& stream) {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  if (t.streams.count(&stream)) fail(ACL_ERROR_RT_STREAM_SUBSCRIBE, "the stream has a subscriber already");
  Subscription& s = t.threads[thread];
  if (!s.queue) s.queue = std::make_shared<ReportQueue>();
  ++s.streams;
  t.streams[&stream] = {thread, s.queue};
}

void unsubscribe(uint64_t thread, Stream& stream) {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  auto it = t.streams.find(&stream);
  if (it == t.streams.end() || it->second.first != thread)
    fail(ACL_ERROR_RT_STREAM_SUBSCRIBE, "that thread is not the stream's subscriber");
  t.erase(it);
}

void forget_subscription(Stream& stream) noexcept {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  if (auto it = t.streams.find(&stream); it != t.streams.end()) t.erase(it);
}

void launch_callback(Stream& stream, aclrtCallback function, void* data, bool block) {
  std::shared_ptr<ReportQueue> queue;
  {
    Table& t = table();
    std::lock_guard lock(t.mutex);
    auto it = t.streams.find(&stream);
    if (it == t.streams.end())
      fail(ACL_ERROR_RT_STREAM_NO_CB_REG, "no thread is subscribed to the stream: call aclrtSubscribeReport");
    queue = it->second.second;
  }
  auto* task = new CallbackTask{std::move(queue), function, data, block};
  stream.submit(Work({CallbackTask::run, CallbackTask::drop, task, "aclrtLaunchCallback", Cost::kHost}));
}

void launch_host_function(Stream& stream, aclrtHostFunc function, void* data) {
  stream.submit(Work({HostTask::run, nullptr, nullptr, "aclrtLaunchHostFunc", Cost::kHost}, HostTask{function, data}));
}

void process_reports(int64_t deadline) {
  std::shared_ptr<ReportQueue> queue;
  {
    Table& t = table();
    std::lock_guard lock(t.mutex);
    auto it = t.threads.find(uint64_t(pthread_self()));
    if (it == t.threads.end()) fail(ACL_ERROR_RT_THREAD_SUBSCRIBE, "this thread is not subscribed to a stream");
    queue = it->second.queue;
  }
  if (!queue->process(deadline)) fail(ACL_ERROR_RT_REPORT_TIMEOUT, "no callback came within the given time");
}

}  // namespace softnpu

// Host callbacks that a client's own thread runs: a thread subscribes to streams, then calls aclrtProcessReport in a loop.
// (aclrtLaunchHostFunc is simpler: it runs on the stream's worker and needs nothing from here.)
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "acl/types.h"

namespace softnpu {

class Stream;

// The callbacks waiting for one thread.
class ReportQueue {
 public:
  struct Call {
    aclrtCallback function;
    void* data;
    const Stream* waits;  // the stream that goes on only after it has run; null: it goes on at once
  };

  // Called on the stream's worker. Returns when queued, or, if it blocks, when run or when the
  // stream is aborted; false if the thread unsubscribed before it has begun.
  bool put(const Call& call);
  // Called on the subscribed thread: runs the callbacks that wait; false if none came before the deadline.
  bool process(int64_t deadline);
  void close();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  struct Queued {
    Call call;
    uint64_t number;
  };
  std::deque<Queued> calls_;
  uint64_t put_ = 0, ran_ = 0;  // numbers: of the last that was put, and of the last that has run
  bool closed_ = false;
};

void subscribe(uint64_t thread, Stream& stream);
void unsubscribe(uint64_t thread, Stream& stream);
// The stream is being destroyed.
void forget_subscription(Stream& stream) noexcept;
void launch_callback(Stream& stream, aclrtCallback function, void* data, bool block);
// On which the calling thread runs a task that blocks, a callback among them; of a replay it is not the one of the capture.
const Stream* running_stream() noexcept;
void launch_host_function(Stream& stream, aclrtHostFunc function, void* data);
// Runs what waits for the calling thread. Throws on timeout, or if it has not subscribed.
void process_reports(int64_t deadline);

}  // namespace softnpu

// Who goes on using pinned memory that the program has freed: a captured graph at each replay, a task group at each run. A block
// that it uses is marked (pinned.cpp); freed before the use is over, it is kept here.
// Thread safety: all of it from any thread.
#pragma once

#include <c10/core/Stream.h>

#include <mutex>
#include <vector>

namespace npu {

class PinnedUse {
 public:
  // Keeps a block that the program frees until the use is over; false if it is over.
  bool keep(void* block);
  // One more who uses it: a graph that has captured a replay of the first.
  void join();
  // One of these is gone, whose runs were on `streams`. With the last it is over: blocks that were kept are free, they and those
  // freed later behind what the streams have by then.
  void end(const std::vector<c10::Stream>& streams);
  // The streams of end(), once it is over; else null.
  const std::vector<c10::Stream>* over() const;

 private:
  mutable std::mutex mutex_;
  size_t users_ = 1;
  std::vector<c10::Stream> streams_;  // do not change once nobody uses it
  std::vector<void*> kept_;
};

}  // namespace npu

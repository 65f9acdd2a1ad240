#include "csrc/core/pinned_use.h"

#include "csrc/core/pinned.h"

namespace npu {

bool PinnedUse::keep(void* block) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (users_ != 0) kept_.push_back(block);
  return users_ != 0;
}

void PinnedUse::join() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++users_;
}

void PinnedUse::end(const std::vector<c10::Stream>& streams) {
  std::vector<void*> kept;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (users_ == 0) return;
    streams_.insert(streams_.end(), streams.begin(), streams.end());
    if (--users_ != 0) return;
    kept.swap(kept_);
  }
  for (void* block : kept) free_pinned(block);  // another graph may keep it
}

const std::vector<c10::Stream>* PinnedUse::over() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return users_ == 0 ? &streams_ : nullptr;
}

}  // namespace npu

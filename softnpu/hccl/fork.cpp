// See fork.h.
#include "softnpu/hccl/fork.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <set>

namespace softnpu::hccl {
namespace {

std::atomic<bool> in_child{false};

struct Descriptors {
  std::mutex mutex;  // held over a fork, so that the child finds the set whole; a leaf
  std::set<int> all;
};
Descriptors& descriptors() {
  static Descriptors* const the = new Descriptors;
  return *the;
}

}  // namespace

void guard_forks() {
  static const int once = pthread_atfork([] { descriptors().mutex.lock(); }, [] { descriptors().mutex.unlock(); },
                                         [] {
                                           in_child.store(true, std::memory_order_relaxed);
                                           for (const int fd : descriptors().all) close(fd);
                                           descriptors().all.clear();  // a child of the child has other files there
                                           descriptors().mutex.unlock();
                                         });
  (void)once;
}

bool forked() noexcept { return in_child.load(std::memory_order_relaxed); }

void close_in_children(int descriptor) {
  std::lock_guard lock(descriptors().mutex);
  descriptors().all.insert(descriptor);
}

void forget_descriptor(int descriptor) {
  std::lock_guard lock(descriptors().mutex);
  descriptors().all.erase(descriptor);
}

}  // namespace softnpu::hccl

#include "csrc/core/release_later.h"

#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <system_error>
#include <thread>

#include "csrc/cann/checks.h"
#include "csrc/core/lifecycle.h"

namespace npu {
namespace {

struct Item {
  PendingWork work;
  std::shared_ptr<void> kept;
};

struct Queue {
  std::mutex mutex;
  std::condition_variable some;
  std::list<Item> items;
  bool running = false;
};

Queue& queue() {
  static auto* const made = new Queue();  // leaked: its thread ends with the process
  return *made;
}

void run() {
  const cann::OwnQuestion own;
  Queue& q = queue();
  std::unique_lock<std::mutex> lock(q.mutex);
  for (;;) {
    q.some.wait(lock, [&] { return !q.items.empty(); });
    std::list<Item> taken = std::move(q.items);
    q.items.clear();
    lock.unlock();
    for (auto it = taken.begin(); it != taken.end();) it = is_done(it->work) ? taken.erase(it) : std::next(it);
    if (!taken.empty()) std::this_thread::sleep_for(std::chrono::microseconds(200));
    lock.lock();
    q.items.splice(q.items.begin(), taken);
  }
}

}  // namespace

void release_later(PendingWork work, std::shared_ptr<void> kept) {
  const cann::OwnQuestion own;
  if (is_done(work)) return;
  Queue& q = queue();
  const std::lock_guard<std::mutex> lock(q.mutex);
  q.items.push_back({std::move(work), std::move(kept)});
  if (!q.running) {
    // Where no thread can be had now, the next call tries again, and what waits is kept until then.
    try {
      std::thread(run).detach();
      q.running = true;
    } catch (const std::system_error&) {
    }
  }
  q.some.notify_one();
}

}  // namespace npu

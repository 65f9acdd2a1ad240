#include "softnpu/runtime/ring.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace softnpu {

Ring::~Ring() {
  while (front()) pop();
  free(cells_.load());
}

Ring::Cell* Ring::cells() {
  Cell* c = cells_.load(std::memory_order_acquire);
  if (__builtin_expect(c != nullptr, 1)) return c;
  void* fresh = aligned_alloc(alignof(Cell), sizeof(Cell) * kCapacity);
  if (fresh == nullptr) throw std::bad_alloc();
  memset(fresh, 0, sizeof(Cell) * kCapacity);  // published = 0 names no position + 1
  if (cells_.compare_exchange_strong(c, static_cast<Cell*>(fresh))) return static_cast<Cell*>(fresh);
  free(fresh);
  return c;
}

bool Ring::push(Work&& work, bool holder) {
  Cell* cells = this->cells();
  const uint64_t lock = holder ? kLocked : 0;
  uint64_t t = tail_.load(std::memory_order_relaxed);
  do {
    // The cell of position t - capacity is free once that task is done: its body and its drop have returned. A lock that is
    // somebody else's makes the number large, too.
    if ((t ^ lock) - progress_.done() >= kCapacity) return false;
  } while (!tail_.compare_exchange_weak(t, t + 1, std::memory_order_seq_cst, std::memory_order_relaxed));
  t ^= lock;
  Cell& cell = cells[t % kCapacity];
  new (&cell.work) Work(std::move(work));
  cell.published.store(t + 1, std::memory_order_release);
  return true;
}

bool Ring::push_beside(Work&& work, bool holder, bool of_replay) {
  if (!of_replay && replayed_beside() == 0) return false;
  cells();
  const uint64_t lock = holder ? kLocked : 0;
  const std::lock_guard guard(beside_mutex_);
  std::map<uint64_t, Beside> made;
  made.try_emplace(0, Beside{of_replay, {}});
  auto node = made.extract(made.begin());  // from here on nothing fails: a position that was taken must come
  uint64_t t = tail_.load(std::memory_order_relaxed);
  do {
    if ((t ^ lock) & kLocked) return false;
    if (!of_replay && (t ^ lock) - progress_.done() - replayed_beside() >= kCapacity) return false;
  } while (!tail_.compare_exchange_weak(t, t + 1, std::memory_order_seq_cst, std::memory_order_relaxed));
  node.key() = t ^ lock;
  node.mapped().work.emplace(std::move(work));
  beside_.insert(std::move(node));
  if (of_replay) replayed_.fetch_add(1, std::memory_order_relaxed);
  count_beside_.fetch_add(1, std::memory_order_release);
  return true;
}

bool Ring::full(bool for_replay) const noexcept {
  const std::lock_guard guard(beside_mutex_);  // a replay's task is counted in both numbers, or in none
  return for_replay ? replayed_beside() > kReplayed : tail() - done() - replayed_beside() >= kCapacity;
}

// The cell is free: the task a capacity before is done.
Work* Ring::take_in(uint64_t position, Cell& cell) noexcept {
  const std::lock_guard guard(beside_mutex_);
  const auto found = beside_.find(position);
  if (found == beside_.end()) return nullptr;
  Work* const work = new (&cell.work) Work(std::move(*found->second.work));
  if (found->second.of_replay) replayed_.fetch_sub(1, std::memory_order_relaxed);
  beside_.erase(found);
  count_beside_.fetch_sub(1, std::memory_order_relaxed);
  cell.published.store(position + 1, std::memory_order_release);
  return work;
}

Work* Ring::front() noexcept {
  uint64_t h = progress_.done();
  if ((tail_.load(std::memory_order_acquire) & ~kLocked) == h) return nullptr;
  Cell* cells = cells_.load(std::memory_order_acquire);
  if (cells == nullptr) return nullptr;
  Cell& cell = cells[h % kCapacity];
  if (__builtin_expect(cell.published.load(std::memory_order_acquire) == h + 1, 1)) return &cell.work;
  return count_beside_.load(std::memory_order_acquire) ? take_in(h, cell) : nullptr;
}

void Ring::pop() noexcept {
  uint64_t h = progress_.done();
  cells_.load(std::memory_order_relaxed)[h % kCapacity].work.~Work();
  progress_.advance(h + 1);
}

}  // namespace softnpu

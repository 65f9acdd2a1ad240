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

Work* Ring::front() noexcept {
  uint64_t h = progress_.done();
  if ((tail_.load(std::memory_order_acquire) & ~kLocked) == h) return nullptr;
  Cell* cells = cells_.load(std::memory_order_acquire);
  if (cells == nullptr) return nullptr;
  Cell& cell = cells[h % kCapacity];
  return cell.published.load(std::memory_order_acquire) == h + 1 ? &cell.work : nullptr;
}

void Ring::pop() noexcept {
  uint64_t h = progress_.done();
  cells_.load(std::memory_order_relaxed)[h % kCapacity].work.~Work();
  progress_.advance(h + 1);
}

}  // namespace softnpu

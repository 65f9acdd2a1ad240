#include "softnpu/race/accesses.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <utility>

#include "softnpu/race/meeting.h"
#include "softnpu/race/place.h"

namespace softnpu::race {
namespace {

// Grows only: whoever registers stays.
constexpr uint32_t kMostTellers = 16;
struct Teller {
  int (*run)(void*) noexcept;
  Tell tell;
};
Teller g_tellers[kMostTellers];
constinit std::atomic<uint32_t> g_count{0};
constinit std::mutex g_mutex;

constexpr int64_t kMostRuns = 1 << 20;
thread_local const char* t_place = nullptr;
thread_local std::vector<Meeting> t_meetings;
std::atomic<const char* (*)(int)> g_finder{nullptr};

int64_t runs_of(const Pattern& p) {
  int64_t n = 1;
  for (int i = 0; i < p.dims; ++i)
    if (__builtin_mul_overflow(n, p.sizes[i], &n)) return INT64_MAX;
  return n;
}

// Bytes from the first to the last of dimensions `from` and on.
int64_t reach(const Pattern& p, int from) {
  int64_t bytes = p.run;
  for (int i = from; i < p.dims; ++i) bytes += (p.sizes[i] - 1) * p.strides[i];
  return bytes;
}

// Does the pattern, which begins at `base`, touch a byte of [begin, end)? Looks only at those rows that may.
bool touches(const Pattern& p, int dim, int64_t base, int64_t begin, int64_t end) {
  if (dim == p.dims) return base < end && begin < base + p.run;
  const int64_t stride = p.strides[dim], inner = reach(p, dim + 1);
  const int64_t first = std::max<int64_t>(0, begin - inner - base >= 0 ? (begin - inner - base) / stride : 0);
  for (int64_t i = first; i < p.sizes[dim] && base + i * stride < end; ++i)
    if (touches(p, dim + 1, base + i * stride, begin, end)) return true;
  return false;
}

// By the remainder modulo the greatest common divisor of all strides: columns of one matrix differ in it.
bool surely_apart(const Access& a, const Access& b) {
  int64_t common = 0;
  for (const Pattern* p : {a.pattern.get(), b.pattern.get()})
    for (int i = 0; i < p->dims; ++i) common = std::gcd(common, p->strides[i]);
  const int64_t after = static_cast<int64_t>(b.begin - a.begin) % common;
  const int64_t behind = after < 0 ? after + common : after;  // of the first byte of b from that of a
  return behind >= a.pattern->run && behind + b.pattern->run <= common;
}

// Whether `visit` is true of any run; the first one ends the walk.
template <class Visit>
bool any_run(const Pattern& p, int dim, int64_t base, Visit&& visit) {
  if (dim == p.dims) return visit(base, base + p.run);
  for (int64_t i = 0; i < p.sizes[dim]; ++i)
    if (any_run(p, dim + 1, base + i * p.strides[dim], visit)) return true;
  return false;
}

}  // namespace

void watch_for(uint32_t by) noexcept { sanitize::watch(by); }
void stop() noexcept { sanitize::unwatch(kRaces | kMemory); }

void set_place(const char* place) noexcept { t_place = place; }
const char* place() noexcept { return t_place; }
void meets(const Meeting& meeting) noexcept {
  if (!watched(kRaces)) return;
  try {
    t_meetings.push_back(meeting);
  } catch (const std::bad_alloc&) {  // then no order is seen where there is one, once
  }
}
std::vector<Meeting> take_meetings() noexcept { return std::exchange(t_meetings, {}); }
void set_finder(const char* (*find)(int)) noexcept { g_finder.store(find, std::memory_order_release); }
void Asked::ask(bool may_wait) noexcept {
  const auto find = g_finder.load(std::memory_order_acquire);
  if (t_place != nullptr || find == nullptr) return;
  t_place = find(may_wait);
  mine_ = true;
}

void Access::add(std::vector<Access>& to, const void* address, int dims, const int64_t* sizes, const int64_t* strides,
                 int item, bool write) {
  std::pair<int64_t, int64_t> kept[64];  // stride in bytes, size
  int n = 0;
  for (int i = 0; i < dims; ++i) {
    if (sizes[i] == 0) return;
    if (sizes[i] > 1 && strides[i] != 0 && n < 64) kept[n++] = {strides[i] * item, sizes[i]};
  }
  std::sort(kept, kept + n);
  int64_t run = item;
  int inner = 0;  // dimensions that are a part of the run
  while (inner < n && kept[inner].first <= run) run += (kept[inner].second - 1) * kept[inner].first, ++inner;
  int64_t bytes = run;
  for (int i = inner; i < n; ++i) bytes += (kept[i].second - 1) * kept[i].first;
  add(to, address, static_cast<uint64_t>(bytes), write);
  const int outer = n - inner;
  if (!address || outer == 0 || outer > Pattern::kMost) return;
  auto pattern = std::make_shared<Pattern>();
  pattern->run = run;
  pattern->dims = outer;
  for (int i = 0; i < outer; ++i) {
    pattern->strides[i] = kept[n - 1 - i].first;
    pattern->sizes[i] = kept[n - 1 - i].second;
  }
  to.back().pattern = std::move(pattern);
}

bool overlap(const Access& a, const Access& b, uintptr_t begin, uintptr_t end) {
  const auto lo = static_cast<int64_t>(std::max({a.begin, b.begin, begin}));
  const auto hi = static_cast<int64_t>(std::min({a.end, b.end, end}));
  if (lo >= hi) return false;
  const auto at = [](const Access& x) { return static_cast<int64_t>(x.begin); };
  if (!a.pattern && !b.pattern) return true;
  if (!a.pattern) return touches(*b.pattern, 0, at(b), lo, hi);
  if (!b.pattern) return touches(*a.pattern, 0, at(a), lo, hi);
  if (surely_apart(a, b)) return false;
  const bool fewer = runs_of(*a.pattern) <= runs_of(*b.pattern);
  const Access &walked = fewer ? a : b, &asked = fewer ? b : a;
  if (runs_of(*walked.pattern) > kMostRuns) return false;
  return any_run(*walked.pattern, 0, at(walked), [&](int64_t from, int64_t to) {
    from = std::max(from, lo), to = std::min(to, hi);
    return from < to && touches(*asked.pattern, 0, at(asked), from, to);
  });
}

bool each_run(const Access& access, const std::function<void(uintptr_t, uintptr_t)>& run) {
  if (!access.pattern) return run(access.begin, access.end), true;
  if (runs_of(*access.pattern) > kMostRuns) return false;
  any_run(*access.pattern, 0, static_cast<int64_t>(access.begin), [&](int64_t begin, int64_t end) {
    run(static_cast<uintptr_t>(begin), static_cast<uintptr_t>(end));
    return false;
  });
  return true;
}

bool tells(int (*run)(void*) noexcept, Tell tell) noexcept {
  std::lock_guard lock(g_mutex);
  const uint32_t n = g_count.load(std::memory_order_relaxed);
  if (n == kMostTellers) return false;
  g_tellers[n] = {run, tell};
  g_count.store(n + 1, std::memory_order_release);
  return true;
}

bool told(int (*run)(void*) noexcept, const void* state, Accesses& accesses) {
  const uint32_t n = g_count.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < n; ++i) {
    if (g_tellers[i].run != run) continue;
    g_tellers[i].tell(state, accesses);
    return true;
  }
  return false;
}

}  // namespace softnpu::race

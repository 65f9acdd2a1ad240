#include "softnpu/race/shadow.h"

#include <algorithm>
#include <utility>

namespace softnpu::race {
namespace {

// Of a stretch. Where more are concurrent the oldest are forgotten: a race may be missed, none is invented.
constexpr size_t kMostTouches = 24;

bool same_bytes(const Access& a, const Access& b) {
  return a.begin == b.begin && a.end == b.end && a.pattern && b.pattern && *a.pattern == *b.pattern;
}

}  // namespace

void Shadow::split(uintptr_t at) {
  auto it = stretches_.upper_bound(at);
  if (it == stretches_.begin()) return;
  --it;
  if (it->first == at || it->second.end <= at) return;
  stretches_.emplace_hint(std::next(it), at, Stretch{it->second.end, it->second.touches});
  it->second.end = at;
}

void Shadow::touch(const Touch& now, const Clock& clock, const std::function<void(const Touch&)>& conflict) {
  const auto [begin, end] = std::pair(now.access.begin, now.access.end);
  const bool write = now.access.write, dense = !now.access.pattern;
  split(begin);
  split(end);
  bool alone = true;  // whether nothing but `now` is left of what was there
  auto it = stretches_.lower_bound(begin);
  for (uintptr_t at = begin; at < end;) {
    if (it == stretches_.end() || it->first > at) {  // never touched
      const uintptr_t gap = it == stretches_.end() ? end : std::min(end, it->first);
      it = stretches_.emplace_hint(it, at, Stretch{gap, {}});
    }
    std::vector<Touch>& touches = it->second.touches;
    std::erase_if(touches, [&](const Touch& earlier) {
      const bool ordered = clock.of(earlier.action->lane) >= earlier.action->time;
      if (!ordered && (write || earlier.access.write) && overlap(now.access, earlier.access, it->first, it->second.end))
        conflict(earlier);
      // Whoever is not ordered with `earlier` is not ordered with `now` either, which is as strong.
      return ordered && (dense || same_bytes(now.access, earlier.access)) && (write || !earlier.access.write);
    });
    if (touches.size() >= kMostTouches) touches.erase(touches.begin());
    alone = alone && touches.empty();
    touches.push_back(now);
    at = it->second.end;
    ++it;
  }
  if (!alone) return;
  auto first = stretches_.find(begin);
  stretches_.erase(std::next(first), it);
  first->second.end = end;
}

void Shadow::forget(uintptr_t begin, uintptr_t end) {
  split(begin);
  split(end);
  stretches_.erase(stretches_.lower_bound(begin), stretches_.lower_bound(end));
}

}  // namespace softnpu::race

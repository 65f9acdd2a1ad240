#include "softnpu/race/shadow.h"

#include <algorithm>
#include <utility>

namespace softnpu::race {
namespace {

bool happened(const Touch& t, const Clock& clock) { return clock.of(t.action->lane) >= t.action->time; }

// What `now`, which touches all bytes of the earlier ones, makes needless: whoever is not ordered with one of those is not ordered with
// `now` either, which is as strong.
void supersede(std::vector<Touch>& touches, const Touch& now, const Clock& clock, const Clock& host) {
  std::erase_if(touches, [&](const Touch& earlier) {
    return happened(earlier, host) || (happened(earlier, clock) && (now.access.write || !earlier.access.write));
  });
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

Shadow::Weaves::iterator Shadow::first_weave(uintptr_t begin) {
  auto it = weaves_.upper_bound(begin);
  return it != weaves_.begin() && std::prev(it)->second.end > begin ? std::prev(it) : it;
}

void Shadow::compare(const Touch& now, const Clock& clock, const std::function<void(const Touch&)>& conflict) {
  const auto [begin, end] = std::pair(now.access.begin, now.access.end);
  const auto look = [&](const Touches& touches, uintptr_t from, uintptr_t to) {
    for (const Touch& earlier : touches)
      if ((now.access.write || earlier.access.write) && !happened(earlier, clock) &&
          overlap(now.access, earlier.access, from, to))
        conflict(earlier);
  };
  auto it = stretches_.upper_bound(begin);
  if (it != stretches_.begin()) --it;
  for (; it != stretches_.end() && it->first < end; ++it) look(it->second.touches, it->first, it->second.end);
  for (auto w = first_weave(begin); w != weaves_.end() && w->first < end; ++w) {
    if (clock.covers(w->second.newest)) continue;
    for (const auto& [view, touches] : w->second.views) {
      if (view.begin >= end) break;
      look(touches, view.begin, view.end);
    }
  }
}

// A dense touch.
void Shadow::cover(const Touch& now, const Clock& clock, const Clock& host) {
  const auto [begin, end] = std::pair(now.access.begin, now.access.end);
  for (auto w = first_weave(begin); w != weaves_.end() && w->first < end;) {
    auto& views = w->second.views;
    if (end - begin >= w->second.shortest) {
      for (auto v = views.lower_bound(View{begin, 0, {}}); v != views.end() && v->first.begin < end;) {
        if (v->first.end <= end) supersede(v->second, now, clock, host);
        v = v->second.empty() ? views.erase(v) : std::next(v);
      }
    }
    w = views.empty() ? weaves_.erase(w) : std::next(w);
  }
  split(begin);
  split(end);
  bool alone = true;  // whether nothing but `now` is left of what was there
  auto it = stretches_.lower_bound(begin);
  for (uintptr_t at = begin; at < end;) {
    if (it == stretches_.end() || it->first > at) {  // never touched
      const uintptr_t gap = it == stretches_.end() ? end : std::min(end, it->first);
      it = stretches_.emplace_hint(it, at, Stretch{gap, {}});
    }
    Touches& touches = it->second.touches;
    supersede(touches, now, clock, host);
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

// A strided touch.
void Shadow::weave(const Touch& now, const Clock& clock, const Clock& host) {
  auto [begin, end] = std::pair(now.access.begin, now.access.end);
  auto w = first_weave(begin);
  if (w == weaves_.end() || w->first >= end)
    w = weaves_.emplace_hint(w, begin, Weave{end, {}});
  else if (begin < w->first) {
    auto node = weaves_.extract(w);
    node.key() = begin;
    w = weaves_.insert(std::move(node)).position;
  }
  Weave& into = w->second;
  into.end = std::max(into.end, end);
  for (auto next = std::next(w); next != weaves_.end() && next->first < into.end; next = weaves_.erase(next)) {
    into.end = std::max(into.end, next->second.end);
    into.newest.join(next->second.newest);
    into.shortest = std::min(into.shortest, next->second.shortest);
    into.views.merge(next->second.views);
  }
  into.newest.reach(now.action->lane, now.action->time);
  into.shortest = std::min(into.shortest, end - begin);
  Touches& touches = into.views[View{begin, end, *now.access.pattern}];
  supersede(touches, now, clock, host);
  touches.push_back(now);
  if (into.views.size() >= into.sweep) sweep(into, host);
}

void Shadow::sweep(Weave& weave, const Clock& host) {
  std::erase_if(weave.views, [&](const auto& view) {
    return std::ranges::all_of(view.second, [&](const Touch& t) { return happened(t, host); });
  });
  // Each second, as long as there are too many: a race may be missed, none is invented.
  for (bool odd = false; weave.views.size() >= kMostViews; lost_ = true)
    std::erase_if(weave.views, [&](const auto&) { return odd = !odd; });
  weave.sweep = std::min(kMostViews, std::max<size_t>(256, 2 * weave.views.size()));
}

void Shadow::touch(const Touch& now, const Clock& clock, const Clock& host,
                   const std::function<void(const Touch&)>& conflict) {
  if (!clock.covers(newest_)) compare(now, clock, conflict);
  if (happened(now, host)) return;
  newest_.reach(now.action->lane, now.action->time);
  now.access.pattern ? weave(now, clock, host) : cover(now, clock, host);
}

void Shadow::each(uintptr_t begin, uintptr_t end, const std::function<void(const Touch&)>& visit) {
  auto it = stretches_.upper_bound(begin);
  if (it != stretches_.begin()) --it;
  for (; it != stretches_.end() && it->first < end; ++it)
    if (it->second.end > begin)
      for (const Touch& t : it->second.touches) visit(t);
  for (auto w = first_weave(begin); w != weaves_.end() && w->first < end; ++w)
    for (const auto& [view, touches] : w->second.views)
      if (view.begin < end && view.end > begin)
        for (const Touch& t : touches) visit(t);
}

void Shadow::forget(uintptr_t begin, uintptr_t end) {
  split(begin);
  split(end);
  stretches_.erase(stretches_.lower_bound(begin), stretches_.lower_bound(end));
  for (auto w = first_weave(begin); w != weaves_.end() && w->first < end;) {
    std::erase_if(w->second.views, [&](const auto& v) { return v.first.begin < end && v.first.end > begin; });
    w = w->second.views.empty() ? weaves_.erase(w) : std::next(w);
  }
}

void Shadow::forget(uintptr_t begin, uintptr_t end, const Clock& clock) {
  const auto over = [&](const Touch& t) { return happened(t, clock); };
  split(begin);
  split(end);
  for (auto it = stretches_.lower_bound(begin); it != stretches_.end() && it->first < end;) {
    std::erase_if(it->second.touches, over);
    it = it->second.touches.empty() ? stretches_.erase(it) : std::next(it);
  }
  for (auto w = first_weave(begin); w != weaves_.end() && w->first < end;) {
    auto& views = w->second.views;
    for (auto v = views.begin(); v != views.end();) {
      if (v->first.begin >= begin && v->first.end <= end) std::erase_if(v->second, over);
      v = v->second.empty() ? views.erase(v) : std::next(v);
    }
    w = views.empty() ? weaves_.erase(w) : std::next(w);
  }
}

}  // namespace softnpu::race

#include "softnpu/memcheck/heaps.h"

#include <algorithm>
#include <iterator>

#include "softnpu/race/words.h"

namespace softnpu::memcheck {
namespace {

using race::hex;
using race::line;

// The last region that begins at or before the address, or the end.
template <class Map>
auto before(Map& regions, uintptr_t address) {
  auto it = regions.upper_bound(address);
  return it == regions.begin() ? regions.end() : std::prev(it);
}

template <class Region>
std::string described(const Region& region) {
  return "a region of " + of_bytes(region.second.end - region.first) + " at " + hex(region.first) + ", registered at " +
         line(region.second.registered);
}

}  // namespace

// A heap within a region of another is a pool that cuts up what it was given.
std::string Heaps::add(uintptr_t begin, uintptr_t end, uint64_t& handle) {
  if (end <= begin) return begin == end ? "no byte" : "more than there is behind that address";
  for (const auto& [id, heap] : heaps_) {
    if (end <= heap.begin || heap.end <= begin) continue;
    const auto it = before(heap.regions, begin);
    if (it != heap.regions.end() && it->second.live && end <= it->second.end) continue;
    return "over a heap of " + of_bytes(heap.end - heap.begin) + " at " + hex(heap.begin);
  }
  handle = next_++;
  heaps_.emplace(handle, Heap{begin, end, {}});
  return "";
}

void Heaps::remove(uint64_t heap) { heaps_.erase(heap); }

void Heaps::forget(uintptr_t begin, uintptr_t end) {
  std::erase_if(heaps_, [&](const auto& heap) { return heap.second.begin < end && begin < heap.second.end; });
}

std::string Heaps::add_region(uint64_t heap, uintptr_t begin, uintptr_t end, const char* place, uint64_t& handle) {
  const auto found = heaps_.find(heap);
  if (found == heaps_.end()) return "of a heap that is not registered";
  Heap& h = found->second;
  if (begin < h.begin || begin >= h.end) return "outside of the heap";
  if (end > h.end) return of_bytes(end - h.end) + " of them behind the end of the heap";
  if (end < begin) return "more than there is behind that address";
  auto it = before(h.regions, begin);
  if (it == h.regions.end() || it->second.end <= begin) it = h.regions.lower_bound(begin);
  for (auto over = it; over != h.regions.end() && over->first < end; ++over)
    if (over->second.live) return "over " + described(*over);
  while (it != h.regions.end() && it->first < end) it = h.regions.erase(it);
  handle = next_++;
  h.regions.emplace(begin, Region{end, handle, place});
  return "";
}

void Heaps::remove_region(uint64_t handle, const char* place) {
  for (auto& [id, heap] : heaps_)
    for (auto& [begin, region] : heap.regions)
      if (region.handle == handle && region.live) {
        region.live = false;
        region.gone = place;
      }
}

void Heaps::remove_region_at(uintptr_t begin, const char* place) {
  for (auto& [id, heap] : heaps_)
    if (const auto it = heap.regions.find(begin); it != heap.regions.end() && it->second.live)
      return remove_region(it->second.handle, place);
}

bool Heaps::touches_live(const Heap& heap, uintptr_t from, uintptr_t to) {
  for (const auto& [begin, region] : heap.regions)
    if (region.live && begin < to && from < region.end) return true;
  return false;
}

// Regions that lie side by side may be touched as one: their allocator may know why.
bool Heaps::judge_run(const Heap& heap, uintptr_t from, uintptr_t to, Wrong& wrong) {
  const uintptr_t last = std::min(to, heap.end);
  auto live = heap.regions.end();
  for (uintptr_t at = std::max(from, heap.begin); at < last; at = live->second.end) {
    const auto it = before(heap.regions, at);
    const bool inside = it != heap.regions.end() && at < it->second.end;
    if (inside && it->second.live) {
      live = it;
      continue;
    }
    if (live != heap.regions.end()) {
      wrong.what = ", " + of_bytes(to - at) + " behind the end of the region";
      wrong.memory = described(*live);
    } else if (inside) {
      wrong.freed = true;
      wrong.what = " of a region that is not registered any more";
      wrong.memory = described(*it) + ", unregistered at " + line(it->second.gone);
    } else {
      wrong.what = " of a heap, in no region of it";
      wrong.memory = "a heap of " + of_bytes(heap.end - heap.begin) + " at " + hex(heap.begin);
    }
    return true;
  }
  return false;
}

bool Heaps::judge(const race::Access& access, Wrong& wrong) const {
  for (const auto& [id, heap] : heaps_) {
    if (access.begin >= heap.end || heap.begin >= access.end) continue;
    // Only parts of it are read, and those may lie in regions.
    if (access.chosen && touches_live(heap, access.begin, access.end)) continue;
    bool found = false;
    race::each_run(access, [&](uintptr_t from, uintptr_t to) {
      found = found || (from < heap.end && heap.begin < to && judge_run(heap, from, to, wrong));
    });
    if (found) return true;
  }
  return false;
}

}  // namespace softnpu::memcheck

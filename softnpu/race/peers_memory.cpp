// Which memory is shared, and the accesses to it: told to other processes, and compared with theirs. The rest of Peers is in peers.cpp.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "softnpu/race/peers.h"

namespace softnpu::race {
namespace {

using Entry = Ledger::Entry;
constexpr uint32_t kGrowth = 64;  // entries that are given room on the disk at once
static_assert(Ledger::kEntries % kGrowth == 0);

// Of a long one the end: there is the file's name.
template <size_t size>
void put(char (&to)[size], const char* text) {
  const size_t length = text ? strlen(text) : 0;
  const char* from = length < size ? (text ? text : "") : text + (length - size + 1);
  while ((*from & 0xC0) == 0x80) ++from;  // not from within a character
  snprintf(to, size, "%s", from);
}

bool overlap(const Entry& e, uint64_t begin, uint64_t end) { return e.end && e.begin < end && begin < e.end; }

}  // namespace

void Peers::share(uintptr_t begin, uint64_t bytes, uint64_t file, uint64_t offset, bool mine) {
  const uintptr_t end = begin + bytes;
  // What was shared in part before is shared as a whole.
  auto it = shared_.upper_bound(begin);
  if (it != shared_.begin() && std::prev(it)->second.end >= end && std::prev(it)->second.file == file) return;
  if (it != shared_.begin() && std::prev(it)->second.end > begin) --it;
  uintptr_t from = begin, to = end;
  while (it != shared_.end() && it->first < end) {
    from = std::min(from, it->first);
    to = std::max(to, it->second.end);
    it = shared_.erase(it);
  }
  shared_[from] = {to, file, offset - (begin - from), mine};
}

bool Peers::shares(uintptr_t begin, uintptr_t end) const {
  const auto it = shared_.lower_bound(end);
  return it != shared_.begin() && std::prev(it)->second.end > begin;
}

bool Peers::covers(uintptr_t begin, uintptr_t end) const {
  const auto it = shared_.upper_bound(begin);
  return it != shared_.begin() && std::prev(it)->second.end >= end;
}

void Peers::forget(uintptr_t begin, uintptr_t end, bool back) {
  if (shared_.empty()) return;
  auto it = shared_.upper_bound(begin);
  if (it != shared_.begin() && std::prev(it)->second.end > begin) --it;
  while (it != shared_.end() && it->first < end) {
    const auto [from, shared] = *it;
    it = shared_.erase(it);
    const uintptr_t first = std::max(from, begin), last = std::min(shared.end, end);
    if (from < first) shared_[from] = {first, shared.file, shared.offset, shared.mine};
    if (last < shared.end) shared_[last] = {shared.end, shared.file, shared.offset + (last - from), shared.mine};
    const uint64_t at = shared.offset + (first - from);
    if (shared.mine && back) given_back(shared.file, at, at + (last - first));
  }
}

void Peers::given_back(uint64_t file, uint64_t begin, uint64_t end) {
  const Ledger::Turn turn(ledger_);
  if (!turn) return ledger_.silence();
  for (uint32_t p = 0; p < Ledger::kProcesses; ++p)
    for (uint32_t i = 0; i < ledger_.process(p).used; ++i) {
      Entry& e = ledger_.entries(p)[i];
      if (e.file == file && overlap(e, begin, end)) e.end = 0;
    }
}

void Peers::touch(const Touch& now, const Clock& clock, const Clock& host, bool guessed,
                  const std::function<void(const Stranger&, uintptr_t, uintptr_t)>& conflict) {
  if (guessed || !shares(now.access.begin, now.access.end) || !reachable()) return;
  Found found;
  look(now, clock, host, found);
  for (const auto& [stranger, begin, end] : found)
    conflict(stranger, begin, end);  // not in a turn: it may take a while
}

void Peers::look(const Touch& now, const Clock& clock, const Clock& host, Found& found) {
  const Ledger::Turn turn(ledger_);
  if (!turn) return;
  std::unique_ptr<const Known> met;
  const auto happened = [&](const Entry& e) {
    if (ledger_.known(e.lane) >= e.time) return true;
    const auto there = locals_.find(e.lane);
    if (there != locals_.end() && clock.of(there->second) >= e.time) return true;
    for (uint32_t i = 0; i < e.meetings; ++i)
      if (!finished(e.met[i].lane, e.met[i].time)) return true;  // not yet known
    if (!met) met = std::make_unique<const Known>(through_meetings(clock));
    if (met->unsure) return true;
    const auto through = met->times.find(e.lane);
    return through != met->times.end() && through->second >= e.time;
  };
  for (auto it = shared_.upper_bound(now.access.end - 1); it != shared_.begin();) {
    const auto& [begin, shared] = *--it;
    if (shared.end <= now.access.begin) break;
    const uint64_t from = shared.offset + (std::max(begin, now.access.begin) - begin);
    const uint64_t to = shared.offset + (std::min(shared.end, now.access.end) - begin);
    for (uint32_t p = 0; p < Ledger::kProcesses; ++p) {
      Ledger::Process& process = ledger_.process(p);
      if (p == ledger_.me() || process.used == 0) continue;
      bool gone = false;
      for (uint32_t i = 0; i < process.used && !gone; ++i) {
        const Entry& e = ledger_.entries(p)[i];
        if (e.file != shared.file || !overlap(e, from, to) || !(e.write || now.access.write)) continue;
        Access there{begin + (e.begin - shared.offset), begin + (e.end - shared.offset), e.write != 0, nullptr, false};
        if (e.strided) there.pattern = std::make_shared<const Pattern>(e.pattern);
        if (!race::overlap(now.access, there, begin, shared.end) || happened(e)) continue;
        gone = !ledger_.runs(p);  // what it had queued has ended with it
        if (gone) continue;
        const auto& lane = process.lanes[e.lane % Ledger::kLanes];
        found.emplace_back(Stranger{e, process.pid, process.rank, {false, lane.device, lane.stream}}, there.begin,
                           there.end);
      }
    }
  }
  if (now.action->lane != 0) publish(now, clock, host);
}

void Peers::tell(const Touch& earlier, const Clock& clock, const Clock& host) {
  if (!shares(earlier.access.begin, earlier.access.end) || !reachable()) return;
  const Ledger::Turn turn(ledger_);
  if (turn && earlier.action->lane != 0) publish(earlier, clock, host);
}

// In a turn.
void Peers::publish(const Touch& touch, const Clock& clock, const Clock& host) {
  const Name its = name(touch.action->lane, host);
  const uint64_t time = its.base + touch.action->time;
  if (!its.there || ledger_.known(its.lane) >= time) return;
  Ledger::Process& me = ledger_.process(ledger_.me());
  const uint32_t own = its.lane % Ledger::kLanes;
  me.latest[own] = std::max(me.latest[own], time);
  me.lanes[own] = {lanes_[touch.action->lane].device, lanes_[touch.action->lane].stream};
  for (auto it = shared_.upper_bound(touch.access.end - 1); it != shared_.begin();) {
    const auto& [begin, shared] = *--it;
    if (shared.end <= touch.access.begin) break;
    Entry e = {};
    e.file = shared.file;
    e.begin =
        shared.offset + (touch.access.begin - begin);  // of a view: where it begins, perhaps before what is shared
    e.end = shared.offset + (touch.access.end - begin);
    if (!touch.access.pattern) {
      e.begin = shared.offset + (std::max(begin, touch.access.begin) - begin);
      e.end = shared.offset + (std::min(shared.end, touch.access.end) - begin);
    } else {
      e.strided = 1;
      e.pattern = *touch.access.pattern;
    }
    e.time = time;
    e.lane = its.lane;
    e.write = touch.access.write;
    for (const auto& [lane, index] : locals_) {
      if (!is_meeting(lane) || clock.of(index) <= ledger_.known(lane)) continue;
      if (e.meetings == std::size(e.met)) return;  // behind too many for anybody to tell when it may be compared
      e.met[e.meetings++] = {lane, 0, clock.of(index)};
    }
    put(e.name, touch.action->name);
    put(e.place, touch.action->place);
    if (touch.block) {
      e.block_begin = touch.block->begin;
      e.block_end = touch.block->end;
      put(e.block_place, touch.block->place);
    }
    if (const uint32_t at = slot(e); at < Ledger::kEntries) ledger_.entries(ledger_.me())[at] = e;
  }
}

// Where it goes: a lane's later touch of the same bytes stands for its earlier one. kEntries: the disk is full.
uint32_t Peers::slot(const Entry& e) {
  const Key key{e.file, e.begin, e.end, e.lane, e.write, e.pattern};
  if (const auto same = index_.find(key); same != index_.end()) return same->second;
  if (index_.size() >= sweep_at_) sweep();
  Ledger::Process& me = ledger_.process(ledger_.me());
  uint32_t at;
  if (!free_.empty()) {
    at = free_.back();
    free_.pop_back();
  } else if (me.used < Ledger::kEntries &&
             (me.used % kGrowth != 0 ||
              ledger_.room(&ledger_.entries(ledger_.me())[me.used], sizeof(Entry) * kGrowth))) {
    at = me.used++;
  } else if (me.used == 0) {
    lost_ = true;
    return Ledger::kEntries;
  } else {
    lost_ = true;
    at = next_victim_++ % me.used;
    std::erase_if(index_, [at](const auto& row) { return row.second == at; });
  }
  index_[key] = at;
  return at;
}

// What hosts know done is compared with nothing any more.
void Peers::sweep() {
  Ledger::Process& me = ledger_.process(ledger_.me());
  std::erase_if(index_, [&](const auto& row) {
    Entry& e = ledger_.entries(ledger_.me())[row.second];
    if (e.end && ledger_.known(e.lane) < e.time) return false;
    e.end = 0;
    free_.push_back(row.second);
    return true;
  });
  if (index_.empty()) {
    me.used = 0;
    free_.clear();
  }
  sweep_at_ = std::clamp<size_t>(2 * index_.size(), 64, Ledger::kEntries);
}

}  // namespace softnpu::race

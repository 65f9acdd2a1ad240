#include "softnpu/race/peers.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

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

bool Peers::reachable() {
  takes_part_ = takes_part_ || !shared_.empty();
  if (takes_part_ && ledger_.silent() && !std::exchange(said_silent_, true)) {
    constexpr char kNote[] =
        "anycend: note: ANYCEND_CHECK=race no longer compares this process with others, nor others with it: an order "
        "could not be written "
        "down (docs/race.md says when); it does again once all processes that run with the check have ended\n";
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kNote, sizeof kNote - 1);
  }
  return takes_part_ && !ledger_.silent();
}

// --- names --------------------------------------------------------------------------------------------------------------

// In a turn. A lane beyond those that the ledger has room for has no name: it is neither told of nor compared.
Peers::Name& Peers::name(uint32_t lane, const Clock& host) {
  if (lane >= names_.size()) names_.resize(lane + 1);
  Name& name = names_[lane];
  if (name.there || lane == 0 || lanes_[lane].device < 0 || own_lanes_ == Ledger::kLanes) return name;
  Ledger::Process& process = ledger_.process(ledger_.me());
  name.lane = ledger_.me() * Ledger::kLanes + own_lanes_;
  name.base = std::max(process.latest[own_lanes_], ledger_.known(name.lane));
  process.lanes[own_lanes_] = {lanes_[lane].device, lanes_[lane].stream};
  ++own_lanes_;
  name.there = true;
  ledger_.raise(name.lane, name.base + host.of(lane));
  return name;
}

uint32_t Peers::local(uint32_t lane) {
  const auto [it, fresh] = locals_.try_emplace(lane, static_cast<uint32_t>(lanes_.size()));
  if (!fresh) return it->second;
  lanes_.push_back({});
  if (it->second >= names_.size()) names_.resize(it->second + 1);
  names_[it->second] = {lane, 0, true};
  return it->second;
}

// --- clocks of several processes --------------------------------------------------------------------------------------------

void Peers::write(Stamp& stamp, const Clock& clock, const Clock& host, bool guessed, bool joined) {
  takes_part_ = true;
  if (ledger_.silent()) return;
  const Ledger::Turn turn(ledger_);
  if (!turn) {
    stamp.count = 0;
    stamp.all = 1;
    return ledger_.silence();
  }
  if (!joined) stamp.count = stamp.all = 0;
  if (guessed) stamp.all = 1;
  Ledger::Process& me = ledger_.process(ledger_.me());
  for (uint32_t i = 0; i < clock.lanes(); ++i) {
    const uint64_t at = clock.of(i);
    if (at == 0 || i == 0) continue;
    const Name& its = name(i, host);
    if (!its.there) continue;
    const uint64_t time = its.base + at;
    if (ledger_.known(its.lane) >= time) continue;
    if (!is_meeting(its.lane) && its.lane / Ledger::kLanes == ledger_.me()) {
      uint64_t& latest = me.latest[its.lane % Ledger::kLanes];
      latest = std::max(latest, time);
    }
    Stamp::At* const end = stamp.at + stamp.count;
    Stamp::At* const same = std::find_if(stamp.at, end, [&](const Stamp::At& a) { return a.lane == its.lane; });
    if (same != end)
      same->time = std::max(same->time, time);
    else if (stamp.count < Stamp::kMost)
      stamp.at[stamp.count++] = {its.lane, 0, time};
    else
      stamp.all = 1;
  }
}

bool Peers::join(Clock& clock, const Stamp& stamp) {
  takes_part_ = true;
  if (ledger_.silent()) return true;
  const Ledger::Turn turn(ledger_);
  if (!turn) return true;
  const uint32_t count = std::min(stamp.count, Stamp::kMost);
  for (uint32_t i = 0; i < count; ++i) {
    const auto [lane, unused, time] = stamp.at[i];
    if (lane >= Ledger::kAllLanes) continue;
    if (is_meeting(lane) || lane / Ledger::kLanes != ledger_.me()) {
      clock.reach(local(lane), time);
      continue;
    }
    for (uint32_t own = 0; own < names_.size(); ++own)  // ours, through another
      if (names_[own].there && names_[own].lane == lane && time > names_[own].base)
        clock.reach(own, time - names_[own].base);
  }
  return !stamp.all;
}

bool Peers::meet(const Meeting& meeting, Clock& clock, const Clock& host, bool guessed) {
  takes_part_ = true;
  if (ledger_.silent()) return true;
  if (meeting.ranks > Ledger::kMembers || meeting.rank >= meeting.ranks) return false;
  uint32_t lane;
  uint64_t time;
  Stamp* stamp;
  {
    const Ledger::Turn turn(ledger_);
    if (!turn) return ledger_.silence(), true;
    lane = ledger_.meeting_of(meeting.group, meeting.ranks);
    if (!lane) return false;
    Ledger::Meeting& group = ledger_.meeting(lane);
    Ledger::Member& member = group.member[meeting.rank];
    if (!member.process) {
      member.submitted = group.first;
      met_.erase(lane * Ledger::kMembers + meeting.rank);  // of a group that had the place before
    }
    member.process = ledger_.me() + 1;
    member.pid = ledger_.process(ledger_.me()).pid;
    time = member.submitted + 1;
    stamp = &member.stamps[time % Ledger::kStamps];
  }
  Clock& before = met_[lane * Ledger::kMembers + meeting.rank];
  before.join(clock);
  write(*stamp, before, host, guessed, false);
  __atomic_store_n(&ledger_.meeting(lane).member[meeting.rank].submitted, time, __ATOMIC_RELEASE);
  clock.reach(local(lane), time);
  before.reach(local(lane), time);
  return true;
}

// In a turn. Have all ranks put it on their streams?
bool Peers::finished(uint32_t lane, uint64_t time) {
  if (ledger_.known(lane) >= time) return true;
  const Ledger::Meeting& group = ledger_.meeting(lane);
  if (time <= group.first) return true;
  return std::all_of(group.member, group.member + group.members,
                     [&](const Ledger::Member& one) { return one.process && one.submitted >= time; });
}

Peers::Known Peers::through_meetings(const Clock& clock) {
  Known known;
  std::vector<std::pair<uint32_t, uint64_t>> open;
  for (const auto& [lane, index] : locals_)
    if (is_meeting(lane) && clock.of(index) > ledger_.known(lane)) open.emplace_back(lane, clock.of(index));
  std::unordered_map<uint32_t, uint64_t> seen;
  while (!open.empty()) {
    const auto [lane, time] = open.back();
    open.pop_back();
    if (uint64_t& at = seen[lane]; at < time)
      at = time;
    else
      continue;
    const Ledger::Meeting& group = ledger_.meeting(lane);
    if (time <= group.first) continue;
    if (!finished(lane, time)) known.unsure = true;
    for (uint32_t m = 0; m < group.members; ++m) {
      const Ledger::Member& member = group.member[m];
      if (!member.process || member.submitted < time) continue;
      // The one of that number, or the oldest that is kept, which says no less; one more place may be written right now.
      const uint64_t oldest = member.submitted + 2 > Ledger::kStamps ? member.submitted + 2 - Ledger::kStamps : 0;
      const Stamp& stamp = member.stamps[std::max(time, oldest) % Ledger::kStamps];
      if (stamp.all) known.unsure = true;
      for (uint32_t i = 0; i < std::min(stamp.count, Stamp::kMost); ++i) {
        const auto [before, unused, until] = stamp.at[i];
        if (before >= Ledger::kAllLanes) continue;
        uint64_t& at = known.times[before];
        at = std::max(at, until);
        if (is_meeting(before)) open.emplace_back(before, until);
      }
    }
  }
  return known;
}

void Peers::will_say(const Clock& clock, bool guessed) {
  // Behind what we have not seen, as a callback that another process made go on: who made it has told what it knew.
  if (guessed) know_everything();
  know(clock, true);
}

void Peers::know(const Clock& host, bool later) {
  if (!takes_part_ || !ledger_.open()) return;
  bool met = false;
  for (const auto& [lane, index] : locals_) met = met || (is_meeting(lane) && host.of(index) > ledger_.known(lane));
  if (met) {
    const Ledger::Turn turn(ledger_);
    if (!turn) return ledger_.silence();
    const Known known = through_meetings(host);
    if (known.unsure) later ? ledger_.silence() : ledger_.know_everything();
    for (const auto& [lane, time] : known.times)
      if (!is_meeting(lane)) ledger_.raise(lane, time);
    for (const auto& [lane, time] : known.times)
      if (is_meeting(lane)) ledger_.raise(lane, time);
  }
  if (told_.size() < names_.size()) told_.resize(names_.size());
  for (uint32_t i = 1; i < names_.size(); ++i) {
    if (!names_[i].there || host.of(i) <= told_[i]) continue;
    told_[i] = host.of(i);
    ledger_.raise(names_[i].lane, names_[i].base + told_[i]);
  }
}

void Peers::know_everything() {
  if (!takes_part_) return;
  const Ledger::Turn turn(ledger_);
  turn ? ledger_.know_everything() : ledger_.silence();
}

// --- memory ---------------------------------------------------------------------------------------------------------------

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

void Peers::forget(uintptr_t begin, uintptr_t end) {
  if (shared_.empty()) return;
  auto it = shared_.upper_bound(begin);
  if (it != shared_.begin() && std::prev(it)->second.end > begin) --it;
  while (it != shared_.end() && it->first < end) {
    const auto [from, shared] = *it;
    it = shared_.erase(it);
    const uintptr_t first = std::max(from, begin), last = std::min(shared.end, end);
    if (from < first) shared_[from] = {first, shared.file, shared.offset, shared.mine};
    if (last < shared.end) shared_[last] = {shared.end, shared.file, shared.offset + (last - from), shared.mine};
    if (!shared.mine) continue;
    const Ledger::Turn turn(ledger_);  // who comes next begins anew
    if (!turn) {
      ledger_.silence();
      continue;
    }
    const uint64_t at = shared.offset + (first - from);
    for (uint32_t p = 0; p < Ledger::kProcesses; ++p)
      for (uint32_t i = 0; i < ledger_.process(p).used; ++i) {
        Entry& e = ledger_.entries(p)[i];
        if (e.file == shared.file && overlap(e, at, at + (last - first))) e.end = 0;
      }
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

#include "softnpu/race/peers.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

namespace softnpu::race {

bool Peers::reachable() {
  takes_part_ = takes_part_ || !shared_.empty();
  if (takes_part_ && ledger_.silent() && !std::exchange(said_silent_, true)) {
    constexpr char kNote[] =
        "anycend: note: ANYCEND_CHECK=race no longer compares this process with others, nor others with it: an order "
        "could not be written down (anycend docs race says when); it does again once all processes that run with the "
        "check "
        "have ended\n";
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

}  // namespace softnpu::race

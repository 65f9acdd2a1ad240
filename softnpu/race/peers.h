// Races with other processes: which of this one's memory is shared, what it has put on streams there, how that is ordered with what the
// others have. Who calls it: the detector, under its lock. Where the words are: report.h.
//
// Messages between hosts are not seen. So what a host knows done counts as before all that any process submits from then on; with
// that, events between processes and the collectives of a group order streams. What lies behind a collective that not all of its ranks
// have submitted cannot be compared yet, and is not.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "softnpu/race/clock.h"
#include "softnpu/race/ledger.h"
#include "softnpu/race/meeting.h"
#include "softnpu/race/report.h"
#include "softnpu/race/shadow.h"

namespace softnpu::race {

class Peers {
 public:
  // `lanes`: the detector's, to which those of other processes are added; the host is the first.
  Peers(std::string folder, std::vector<Lane>& lanes) : ledger_(std::move(folder)), lanes_(lanes) {}

  // [begin, +bytes) is the file's from `offset` on, and another process may have it, too. `mine`: this process gave it away.
  void share(uintptr_t begin, uint64_t bytes, uint64_t file, uint64_t offset, bool mine);
  // It is not mapped there any more. `back`: the memory itself goes back to its owner, and who comes next begins anew.
  void forget(uintptr_t begin, uintptr_t end, bool back);
  // So does [begin, end) of a file of ours, wherever it was mapped.
  void given_back(uint64_t file, uint64_t begin, uint64_t end);
  bool shares(uintptr_t begin, uintptr_t end) const;  // a byte of it
  bool covers(uintptr_t begin, uintptr_t end) const;  // all of it
  bool shares_nothing() const noexcept { return shared_.empty(); }

  // `clock`: of what is before the touch; `host`: what the host knows. The host's own touches are over when they are told of.
  void touch(const Touch& now, const Clock& clock, const Clock& host, bool guessed,
             const std::function<void(const Stranger& earlier, uintptr_t begin, uintptr_t end)>& conflict);
  // Only told to the others: it was before the memory was shared.
  void tell(const Touch& earlier, const Clock& clock, const Clock& host);
  bool lost() const noexcept { return lost_; }

  // False: what is before it could not be written down.
  void write(Stamp& stamp, const Clock& clock, const Clock& host, bool guessed, bool joined);
  // False: what is before it is not known.
  bool join(Clock& clock, const Stamp& stamp);
  // The task of `lane`, which has ticked, is a meeting. False: what is before it is not known from here on.
  bool meet(const Meeting& meeting, Clock& clock, const Clock& host, bool guessed);

  // The host knows so far.
  void know(const Clock& host) { know(host, false); }
  // It may know so far sooner than we hear of it.
  void will_say(const Clock& clock, bool guessed);
  // What a host has heard cannot be told from what it has not.
  void know_everything();

 private:
  struct Name {  // in the ledger
    uint32_t lane = 0;
    uint64_t base = 0;  // of times
    bool there = false;
  };
  struct Shared {
    uintptr_t end;
    uint64_t file, offset;
    bool mine;
  };
  struct Known {  // before a touch, through collectives
    std::unordered_map<uint32_t, uint64_t> times;
    bool unsure = false;
  };

  // `later`: what it knows now it may know later only, when more has been submitted.
  void know(const Clock& host, bool later);
  bool reachable();
  Name& name(uint32_t lane, const Clock& host);
  uint32_t local(uint32_t lane);
  static bool is_meeting(uint32_t lane) noexcept { return lane >= Ledger::kFirstMeeting; }
  bool finished(uint32_t lane, uint64_t time);
  Known through_meetings(const Clock& clock);
  using Found = std::vector<std::tuple<Stranger, uintptr_t, uintptr_t>>;
  void look(const Touch& now, const Clock& clock, const Clock& host, Found& found);
  void publish(const Touch& touch, const Clock& clock, const Clock& host);
  uint32_t slot(const Ledger::Entry& entry);
  void sweep();

  Ledger ledger_;
  std::vector<Lane>& lanes_;
  std::map<uintptr_t, Shared> shared_;  // by beginning; they do not overlap
  bool takes_part_ = false;
  std::vector<Name> names_;                        // of our lanes
  uint32_t own_lanes_ = 0;                         // that have a name
  std::unordered_map<uint32_t, uint32_t> locals_;  // the other way round, of others' lanes
  std::vector<uint64_t> told_;                     // how far the host is known to know, by our lane
  std::map<uint32_t, Clock> met_;                  // what was before the meetings of a group and a rank of ours
  using Key = std::tuple<uint64_t, uint64_t, uint64_t, uint32_t, uint32_t, Pattern>;
  std::map<Key, uint32_t> index_;  // of our entries
  std::vector<uint32_t> free_;
  size_t sweep_at_ = 64;
  uint32_t next_victim_ = 0;
  bool lost_ = false, said_silent_ = false;
};

}  // namespace softnpu::race

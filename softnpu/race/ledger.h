// What processes that look for races tell each other: which accesses to shared memory they have put on streams, how far the hosts know
// them done, and what was put before each collective. A file of this user's beside the registry, mapped by all. Each process holds a
// lock on a byte of its own: one that died, however, holds nothing, and its part is the next one's. Nobody waits long for it: a lock
// that cannot be had in a second, as of a stopped process, ends the looking (silence).
// What it is not: who is compared with whom (peers.h), the processes of a device (runtime/registry). Who uses it: peers.cpp.
// Not thread-safe: one object belongs to one detector, under its lock. `known` and `raise` may be called at any time.
#pragma once

#include <cstdint>
#include <string>

#include "softnpu/race/accesses.h"
#include "softnpu/race/stamp.h"

namespace softnpu::race {

class Ledger {
 public:
  // A lane's number is the same in all processes: of a stream its process's place times kLanes and the stream's place, and behind all of
  // those one for each group of ranks that meet. Its times go on where those of who had the place before ended.
  static constexpr uint32_t kProcesses = 64, kLanes = 128, kMeetings = 256;
  static constexpr uint32_t kFirstMeeting = kProcesses * kLanes, kAllLanes = kFirstMeeting + kMeetings;
  static constexpr uint32_t kEntries = 2048;  // of a process
  static constexpr uint32_t kMembers = 64;    // of a group
  static constexpr uint32_t kStamps = 4;      // the newest of each member

  struct Entry {
    uint64_t file;        // its inode number: which memory
    uint64_t begin, end;  // in the file; an end of 0: nothing
    uint64_t time;
    uint32_t lane;
    uint32_t write;
    uint32_t strided, meetings;
    Pattern pattern;
    Stamp::At met[8];  // the collectives behind which it is
    char name[64], place[192];
    uint64_t block_begin, block_end;  // 0: not known
    char block_place[192];
  };

  struct Process {
    int32_t pid, rank;
    uint32_t used;  // entries
    uint32_t unused;
    uint64_t latest[kLanes];
    struct {
      int32_t device, stream;
    } lanes[kLanes];
  };

  struct Member {
    uint32_t process, unused;  // its place + 1; 0: has not come yet
    int64_t pid;
    uint64_t submitted;  // time
    Stamp stamps[kStamps];
  };

  struct Meeting {
    uint64_t id, first;  // 0: nobody's; times up to `first` are of others before
    uint32_t members, unused;
    Member member[kMembers];
  };

  // Nothing is opened before it is needed.
  explicit Ledger(std::string folder) : folder_(std::move(folder)) {}
  Ledger(const Ledger&) = delete;
  ~Ledger();

  // Holds the file for itself. False: there is none, or it is not to be had.
  class Turn {
   public:
    explicit Turn(Ledger& ledger) : ledger_(ledger), good_(ledger.enter()) {}
    Turn(const Turn&) = delete;
    ~Turn() {
      if (good_) ledger_.leave();
    }
    explicit operator bool() const noexcept { return good_; }

   private:
    Ledger& ledger_;
    const bool good_;
  };

  bool open() const noexcept { return book_ != nullptr; }
  uint32_t me() const noexcept { return me_; }

  // In a turn:
  Process& process(uint32_t at) noexcept;
  Entry* entries(uint32_t process) noexcept;
  Meeting& meeting(uint32_t lane) noexcept;
  // The group's lane, which is made if there is none; 0: no place.
  uint32_t meeting_of(uint64_t id, uint32_t members) noexcept;
  bool runs(uint32_t process) noexcept;
  // All that is queued anywhere counts as done.
  void know_everything() noexcept;

  uint64_t known(uint32_t lane) const noexcept;
  void raise(uint32_t lane, uint64_t time) noexcept;

  // Nobody compares anything any more, until the last of these processes has ended: where an edge could not be written down.
  bool silent() const noexcept;
  void silence() noexcept;

  // Whether there is room for it on the file's disk: a store where there is none would end the process.
  bool room(const void* at, uint64_t bytes) noexcept;

 private:
  struct Book;

  bool start() noexcept;
  bool enter() noexcept;
  void leave() noexcept;
  bool held(uint32_t process) noexcept;
  void claim() noexcept;

  const std::string folder_;
  bool tried_ = false;
  int fd_ = -1;
  Book* book_ = nullptr;
  uint32_t me_ = kProcesses;
};

}  // namespace softnpu::race

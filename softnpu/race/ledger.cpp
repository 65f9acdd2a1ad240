#include "softnpu/race/ledger.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "softnpu/race/file_lock.h"

namespace softnpu::race {

// All of it begins as zeros, and pages that nobody has used cost nothing.
struct Ledger::Book {
  uint64_t silent;
  uint64_t known[kAllLanes];
  Process processes[kProcesses];
  Meeting meetings[kMeetings];
  Entry entries[kProcesses][kEntries];
};

namespace {

constexpr const char* kName = "/races-1";  // the number changes with Book

// A forked child must not keep our part locked after our death. No lock is taken: a thread that is gone may have held it.
constexpr int kMostFiles = 16;
std::atomic<int> g_files[kMostFiles];  // descriptor + 1; more than one in tests only
void watch_fork(int fd) noexcept {
  static const int once = pthread_atfork(nullptr, nullptr, [] {
    for (auto& file : g_files)
      if (const int open = file.exchange(0)) close(open - 1);
  });
  (void)once;
  for (auto& file : g_files)
    if (int none = 0; file.compare_exchange_strong(none, fd + 1)) return;
}
void forget_fork(int fd) noexcept {
  for (auto& file : g_files)
    if (int open = fd + 1; file.compare_exchange_strong(open, 0)) return;
}

// On its way out: its streams are still, and what it held is let go of piece by piece.
bool is_exiting(int pid) noexcept {
  char path[32], text[512];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT;
  const ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  text[std::max<ssize_t>(n, 0)] = 0;
  const char* after = strrchr(text, ')');
  unsigned long flags = 0;
  constexpr unsigned long kExiting = 4;  // PF_EXITING
  return after && sscanf(after, ") %*c %*d %*d %*d %*d %*d %lu", &flags) == 1 && (flags & kExiting);
}

}  // namespace

Ledger::~Ledger() {
  if (book_) munmap(static_cast<void*>(book_), sizeof(Book));
  if (fd_ < 0) return;
  forget_fork(fd_);
  close(fd_);
}

bool Ledger::start() noexcept {
  if (tried_) return book_ != nullptr;
  tried_ = true;
  if (folder_.empty()) return false;
  mkdir(folder_.c_str(), 0700);
  struct stat s;
  // A folder of somebody else in /tmp is not ours to trust.
  if (lstat(folder_.c_str(), &s) != 0 || !S_ISDIR(s.st_mode) || s.st_uid != geteuid()) return false;
  const int fd = ::open((folder_ + kName).c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return false;
  void* at = MAP_FAILED;
  if (ftruncate(fd, sizeof(Book)) == 0 && posix_fallocate(fd, 0, offsetof(Book, meetings)) == 0)
    at = mmap(nullptr, sizeof(Book), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (at == MAP_FAILED) {
    close(fd);
    return false;
  }
  madvise(at, sizeof(Book), MADV_DONTFORK);
  madvise(at, sizeof(Book), MADV_DONTDUMP);
  fd_ = fd;
  book_ = static_cast<Book*>(at);
  watch_fork(fd);
  return true;
}

bool Ledger::enter() noexcept {
  if (!start()) return false;
  bool have = false;
  for (int i = 0; !(have = set_lock(fd_, F_WRLCK, 0, 1)) && (errno == EAGAIN || errno == EACCES) && i < 10000; ++i)
    i < 100 ? void(sched_yield()) : void(usleep(100));
  if (!have) {
    silence();
    return false;
  }
  if (me_ == kProcesses) claim();
  if (me_ != kProcesses) return true;
  leave();
  return false;
}

void Ledger::leave() noexcept { set_lock(fd_, F_UNLCK, 0, 1); }

bool Ledger::held(uint32_t process) noexcept {
  struct flock l = lock_of(F_WRLCK, 1 + int64_t{process}, 1);
  return fcntl(fd_, F_OFD_GETLK, &l) != 0 || l.l_type != F_UNLCK;
}

void Ledger::claim() noexcept {
  bool alone = true;
  for (uint32_t i = 0; i < kProcesses; ++i) {
    if (held(i)) {
      alone = false;
      continue;
    }
    Process& p = book_->processes[i];
    if (p.pid) {  // one that has ended: what it queued is over, and its pages go back
      for (uint32_t lane = 0; lane < kLanes; ++lane) raise(i * kLanes + lane, p.latest[lane]);
      const auto at = static_cast<off_t>(offsetof(Book, entries) + sizeof(Entry) * kEntries * i);
      if (p.used) fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, sizeof(Entry) * kEntries);
      p.used = 0;
      p.pid = 0;
    }
    if (me_ != kProcesses || !set_lock(fd_, F_WRLCK, 1 + int64_t{i}, 1)) continue;
    me_ = i;
    p.pid = getpid();
    const char* rank = getenv("RANK");
    p.rank = rank && *rank ? atoi(rank) : -1;
  }
  if (me_ == kProcesses) return silence();
  if (alone) __atomic_store_n(&book_->silent, 0, __ATOMIC_RELAXED);
}

Ledger::Process& Ledger::process(uint32_t at) noexcept { return book_->processes[at]; }
Ledger::Entry* Ledger::entries(uint32_t process) noexcept { return book_->entries[process]; }
Ledger::Meeting& Ledger::meeting(uint32_t lane) noexcept { return book_->meetings[lane - kFirstMeeting]; }

uint32_t Ledger::meeting_of(uint64_t id, uint32_t members) noexcept {
  uint32_t free = kMeetings;
  for (uint32_t i = 0; i < kMeetings; ++i) {
    Meeting& m = book_->meetings[i];
    if (m.id == id) return m.members == members ? kFirstMeeting + i : 0;
    if (free == kMeetings && m.id == 0) free = i;
  }
  for (uint32_t i = 0; free == kMeetings && i < kMeetings; ++i) {
    const Meeting& m = book_->meetings[i];
    if (std::none_of(m.member, m.member + m.members, [&](const Member& one) {
          return one.process && (one.process - 1 == me_ || runs(one.process - 1)) &&
                 process(one.process - 1).pid == one.pid;
        }))
      free = i;
  }
  if (free == kMeetings) return 0;
  Meeting& m = book_->meetings[free];
  if (!room(&m, sizeof m)) return 0;
  uint64_t last = m.first;
  for (const Member& one : m.member) last = std::max(last, one.submitted);
  m = {};
  m.id = id;
  m.first = last;
  m.members = members;
  raise(kFirstMeeting + free, last);
  return kFirstMeeting + free;
}

bool Ledger::runs(uint32_t process) noexcept {
  if (process == me_) return true;
  return held(process) && !is_exiting(book_->processes[process].pid);
}

void Ledger::know_everything() noexcept {
  for (uint32_t p = 0; p < kProcesses; ++p)
    if (book_->processes[p].pid)
      for (uint32_t lane = 0; lane < kLanes; ++lane) raise(p * kLanes + lane, book_->processes[p].latest[lane]);
}

uint64_t Ledger::known(uint32_t lane) const noexcept { return __atomic_load_n(&book_->known[lane], __ATOMIC_ACQUIRE); }

void Ledger::raise(uint32_t lane, uint64_t time) noexcept {
  uint64_t now = known(lane);
  while (now < time &&
         !__atomic_compare_exchange_n(&book_->known[lane], &now, time, true, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
  }
}

bool Ledger::room(const void* at, uint64_t bytes) noexcept {
  const auto offset = static_cast<const char*>(at) - static_cast<const char*>(static_cast<void*>(book_));
  return posix_fallocate(fd_, offset, static_cast<off_t>(bytes)) == 0;
}

bool Ledger::silent() const noexcept { return book_ && __atomic_load_n(&book_->silent, __ATOMIC_RELAXED); }
void Ledger::silence() noexcept {
  if (book_) __atomic_store_n(&book_->silent, 1, __ATOMIC_RELAXED);
}

}  // namespace softnpu::race

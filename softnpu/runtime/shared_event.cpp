#include "softnpu/runtime/shared_event.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "softnpu/runtime/enqueue.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/futex.h"
#include "softnpu/runtime/process.h"
#include "softnpu/runtime/schedule.h"
#include "softnpu/runtime/stream.h"
#include "softnpu/runtime/watch.h"

namespace softnpu {

struct SharedEvent::Slot {
  std::atomic<uint32_t> begun;
  std::atomic<uint32_t> passed;   // the word that waiters sleep on
  std::atomic<uint32_t> failed;   // the last record whose stream had failed before it
  std::atomic<int32_t> recorder;  // the process of the last record
};

namespace {

constexpr uint32_t kSlots = 1 << 16;
constexpr uint64_t kMagic = 0x746e7665'6e79636e;

struct Handle {  // what an aclrtIpcEventHandle holds
  uint64_t magic, board;
  int32_t pid, fd;
  uint32_t slot, base;
};
static_assert(sizeof(Handle) <= sizeof(aclrtIpcEventHandle));

// As futex.h's, for words that processes share.
void sleep_on(const std::atomic<uint32_t>& word, uint32_t expected, int64_t deadline) noexcept {
  timespec until{deadline / 1000000000, deadline % 1000000000};
  syscall(SYS_futex, reinterpret_cast<const uint32_t*>(&word), FUTEX_WAIT_BITSET, expected, &until, nullptr,
          FUTEX_BITSET_MATCH_ANY);
}
void wake_all(std::atomic<uint32_t>& word) noexcept {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// At least `target`, on counters that go round.
bool reached(uint32_t count, uint32_t target) noexcept { return int32_t(count - target) >= 0; }

}  // namespace

// The memory of one process's events, mapped here. Ours lives until the process ends, another's while an event of it is open.
struct SharedEvent::Board {
  uint64_t id = 0;
  int32_t pid = 0, fd = -1;
  Slot* slots = nullptr;
  race::Stamp* stamps = nullptr;  // what was before each slot's last record; where races are looked for

  static constexpr size_t kHeader = 64, kBytes = kHeader + sizeof(Slot) * kSlots;
  static constexpr size_t kStampsAt = (kBytes + 0xffff) / 0x10000 * 0x10000, kStampBytes = sizeof(race::Stamp) * kSlots;

  void map(int descriptor) {
    watch_if_asked();
    void* at = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
    if (at == MAP_FAILED) fail(ACL_ERROR_RT_IPC_ERROR, "cannot map the events of process %d: %s", pid, strerror(errno));
    slots = reinterpret_cast<Slot*>(static_cast<char*>(at) + kHeader);
    if (!race::on()) return;
    at = mmap(nullptr, kStampBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, off_t{kStampsAt});
    if (at != MAP_FAILED) stamps = static_cast<race::Stamp*>(at);
  }
  uint64_t& stored_id() { return *reinterpret_cast<uint64_t*>(reinterpret_cast<char*>(slots) - kHeader); }
  ~Board() {
    if (slots) munmap(reinterpret_cast<char*>(slots) - kHeader, kBytes);
    if (stamps) munmap(static_cast<void*>(stamps), kStampBytes);
    if (fd >= 0) close(fd);
  }

  struct Ours {
    std::mutex mutex;  // guards all below; a leaf
    std::shared_ptr<Board> board;
    std::vector<uint32_t> free;  // a slot whose last record is not passed yet is passed over
    uint32_t next = 0;
    std::map<std::pair<int32_t, uint64_t>, std::weak_ptr<Board>> others;
  };
  static Ours& ours() {
    static Ours& o = *new Ours;
    return o;
  }

  // With the lock held.
  static const std::shared_ptr<Board>& mine(Ours& o) {
    if (o.board) return o.board;
    auto board = std::make_shared<Board>();
    board->pid = getpid();
    board->fd = memfd_create("anycend-events", MFD_CLOEXEC);
    if (board->fd < 0 || ftruncate(board->fd, off_t{kStampsAt + kStampBytes}) != 0)
      fail(ACL_ERROR_RT_IPC_ERROR, "cannot make memory for events between processes: %s", strerror(errno));
    board->map(board->fd);
    if (getrandom(&board->id, sizeof board->id, 0) != sizeof board->id)
      fail(ACL_ERROR_RT_IPC_ERROR, "no random numbers");
    board->stored_id() = board->id;
    return o.board = std::move(board);
  }

  static std::shared_ptr<Board> of(const Handle& h) {
    Ours& o = ours();
    std::lock_guard lock(o.mutex);
    if (o.board && o.board->id == h.board) return o.board;
    std::erase_if(o.others, [](const auto& row) { return row.second.expired(); });
    std::weak_ptr<Board>& known = o.others[{h.pid, h.board}];
    if (auto board = known.lock()) return board;
    auto board = std::make_shared<Board>();
    board->pid = h.pid;
    char path[64], link[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", h.pid, h.fd);
    const ssize_t n = readlink(path, link, sizeof link - 1);
    link[std::max<ssize_t>(n, 0)] = 0;
    const int fd = strncmp(link, "/memfd:anycend-events", 21) == 0 ? ::open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
      fail(ACL_ERROR_RT_IPC_ERROR,
           "process %d, which made the event, has ended, or belongs to another user or container", h.pid);
    try {
      board->map(fd);
    } catch (...) {
      close(fd);
      throw;
    }
    close(fd);
    if (board->stored_id() != h.board)
      fail(ACL_ERROR_RT_IPC_ERROR, "process %d, which made the event, has ended", h.pid);
    board->id = h.board;
    known = board;
    return board;
  }
};

struct SharedEvent::RecordTask {
  std::shared_ptr<Board>* board;
  uint32_t slot, target;
  bool ran;

  static int run(void* state) noexcept {
    static_cast<RecordTask*>(state)->ran = true;
    return 0;
  }
  // Not `run`: a record that is skipped, because the stream failed or was aborted, must not be waited for.
  static void drop(void* state) noexcept {
    auto* t = static_cast<RecordTask*>(state);
    Slot& s = (*t->board)->slots[t->slot];
    if (!t->ran) s.failed.store(t->target, std::memory_order_relaxed);
    uint32_t now = s.passed.load(std::memory_order_relaxed);
    while (!reached(now, t->target) && !s.passed.compare_exchange_weak(now, t->target, std::memory_order_acq_rel)) {
    }
    wake_all(s.passed);
    delete t->board;
  }
};

struct SharedEvent::WaitTask {
  std::shared_ptr<Board>* board;
  uint32_t slot, target;
  int64_t limit_ns;

  static int run(void* state) noexcept {
    auto* t = static_cast<WaitTask*>(state);
    const Slot& s = (*t->board)->slots[t->slot];
    const int64_t end = deadline_after_ns(t->limit_ns);
    char text[160];
    for (;;) {
      const uint32_t now = s.passed.load(std::memory_order_acquire);
      if (const char* why = why_never(s, t->target, text, sizeof text)) {
        set_error_message(why);
        return ACL_ERROR_RT_IPC_ERROR;
      }
      if (reached(now, t->target)) return 0;
      if (Stream::running_task_aborted()) return ACL_ERROR_RT_STREAM_ABORT;
      const int64_t time = now_ns();
      if (time >= end) {
        set_error_message("the event of another process has not happened within the time limit of the wait");
        return ACL_ERROR_RT_WAIT_TIMEOUT;
      }
      sleep_on(s.passed, now, std::min(time + schedule::kAbortNs, end));
    }
  }
  static void drop(void* state) noexcept { delete static_cast<WaitTask*>(state)->board; }
};

SharedEvent::SharedEvent(std::shared_ptr<Board> board, uint32_t slot, uint32_t base, bool mine)
    : board_(std::move(board)), slot_(slot), base_(base), mine_(mine) {}

SharedEvent::Slot& SharedEvent::slot() const noexcept { return board_->slots[slot_]; }
race::Stamp* SharedEvent::stamp() const noexcept { return board_->stamps ? board_->stamps + slot_ : nullptr; }

std::shared_ptr<SharedEvent> SharedEvent::make() {
  Board::Ours& o = Board::ours();
  std::lock_guard lock(o.mutex);
  const auto& board = Board::mine(o);
  auto settled = std::find_if(o.free.begin(), o.free.end(), [&](uint32_t i) {
    return board->slots[i].passed.load() == board->slots[i].begun.load();
  });
  uint32_t index;
  if (settled != o.free.end()) {
    index = *settled;
    *settled = o.free.back();
    o.free.pop_back();
  } else {
    if (o.next == kSlots)
      fail(ACL_ERROR_RT_NO_EVENT_RESOURCE, "a process has %u events between processes at most", kSlots);
    index = o.next++;
  }
  const uint32_t base = board->slots[index].begun.load();
  board->slots[index].failed.store(base);
  if (board->stamps) board->stamps[index] = {};
  return std::shared_ptr<SharedEvent>(new SharedEvent(board, index, base, true));
}

std::shared_ptr<SharedEvent> SharedEvent::open(const aclrtIpcEventHandle& handle) {
  Handle h;
  memcpy(&h, handle.reserved, sizeof h);
  if (h.magic != kMagic || h.slot >= kSlots)
    fail(ACL_ERROR_RT_IPC_ERROR, "the handle was not made by aclrtIpcGetEventHandle");
  return std::shared_ptr<SharedEvent>(new SharedEvent(Board::of(h), h.slot, h.base, false));
}

SharedEvent::~SharedEvent() {
  if (!mine_) return;
  Board::Ours& o = Board::ours();
  std::lock_guard lock(o.mutex);
  o.free.push_back(slot_);
}

aclrtIpcEventHandle SharedEvent::handle() const noexcept {
  aclrtIpcEventHandle handle{};
  const Handle h{kMagic, board_->id, board_->pid, board_->fd, slot_, base_};
  memcpy(handle.reserved, &h, sizeof h);
  return handle;
}

bool SharedEvent::passed(const Slot& slot, uint32_t target) noexcept {
  return reached(slot.passed.load(std::memory_order_acquire), target);
}

const char* SharedEvent::why_never(const Slot& slot, uint32_t target, char* text, int size) noexcept {
  const int32_t pid = slot.recorder.load(std::memory_order_relaxed);
  if (passed(slot, target)) {
    if (slot.failed.load(std::memory_order_relaxed) != target) return nullptr;
    snprintf(text, size_t(size), "process %d's stream failed before it came to the event", pid);
    return text;
  }
  if (pid == getpid() || !has_ended(pid)) return nullptr;
  if (passed(slot, target)) return nullptr;  // in between
  snprintf(text, size_t(size), "process %d has ended before its stream came to the event that it recorded", pid);
  return text;
}

void SharedEvent::record(Stream& stream) {
  if (stream.captured())
    fail(ACL_ERROR_RT_STREAM_CAPTURED, "an event between processes cannot be recorded in a capture");
  if (stream.failed() && !stream.continue_on_failure()) stream.throw_error(false);
  Slot& s = slot();
  if (race::on()) {  // before anybody can see the record
    const bool another = recorded() && s.recorder.load(std::memory_order_relaxed) != getpid();
    stamp() ? race::recorded(*stamp(), named(stream), another) : race::opens(named(stream), true, false);
  }
  s.recorder.store(getpid(), std::memory_order_relaxed);
  const uint32_t target = s.begun.fetch_add(1, std::memory_order_acq_rel) + 1;
  RecordTask task{new std::shared_ptr<Board>(board_), slot_, target, false};
  stream.submit(Work({RecordTask::run, RecordTask::drop, nullptr, "aclrtRecordEvent", Cost::kTiny}, task));
}

void SharedEvent::wait_on(Stream& stream, int64_t limit_ns, const char* name) {
  if (stream.captured())
    fail(ACL_ERROR_RT_STREAM_CAPTURED, "an event between processes cannot be waited for in a capture");
  const uint32_t target = slot().begun.load(std::memory_order_acquire);
  if (race::on() && target != base_)
    stamp() ? race::waited(*stamp(), named(stream)) : race::opens(named(stream), false, true);
  if (target == base_ || (passed(slot(), target) && slot().failed.load(std::memory_order_relaxed) != target)) return;
  WaitTask task{new std::shared_ptr<Board>(board_), slot_, target, limit_ns};
  stream.submit(Work({WaitTask::run, WaitTask::drop, nullptr, name, Cost::kHost}, task));
}

bool SharedEvent::recorded() const noexcept { return slot().begun.load(std::memory_order_acquire) != base_; }

bool SharedEvent::done() const {
  const uint32_t target = slot().begun.load(std::memory_order_acquire);
  if (target == base_) return true;
  char text[160];
  if (const char* why = why_never(slot(), target, text, sizeof text)) fail(ACL_ERROR_RT_IPC_ERROR, "%s", why);
  const bool yes = passed(slot(), target);
  if (race::on() && yes && stamp()) race::host_saw(*stamp());
  return yes;
}

void SharedEvent::synchronize(int64_t deadline) const {
  while (!done()) {
    if (deadline != kForever && now_ns() >= deadline)
      fail(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, "the event has not happened within the given time");
    const uint32_t seen = slot().passed.load(std::memory_order_acquire);
    if (seen != slot().begun.load(std::memory_order_acquire))
      sleep_on(slot().passed, seen, std::min(now_ns() + schedule::kAbortNs, deadline));
  }
}

}  // namespace softnpu

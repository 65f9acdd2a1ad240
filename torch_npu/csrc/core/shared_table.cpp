#include "csrc/core/shared_table.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace npu {
namespace {

constexpr const char* kName = "anycend-shared";
constexpr uint32_t kSlots = 1 << 20;  // 8 MiB, of which the kernel gives what is used

struct Slot {
  std::atomic<uint32_t> generation;
  std::atomic<uint32_t> on_its_way;
};
struct Table {
  uint64_t id;
  uint64_t unused[7];
  Slot slots[kSlots];
};
static_assert(std::atomic<uint32_t>::is_always_lock_free, "the words are shared between processes");

// Lock of one slot's byte. The first bytes of the file are nobody's.
bool lock_slot(int fd, uint32_t slot, short type, bool wait) noexcept {
  struct flock what{};
  what.l_type = type;
  what.l_whence = SEEK_SET;
  what.l_start = 64 + off_t{slot};
  what.l_len = 1;
  int done = 0;
  do done = fcntl(fd, wait ? F_SETLKW : F_SETLK, &what);
  while (done != 0 && errno == EINTR);
  return done == 0;
}

Table* map_table(int fd) noexcept {
  void* at = mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  return at == MAP_FAILED ? nullptr : static_cast<Table*>(at);
}

// --- ours ---

struct Own {
  std::mutex mutex;  // guards all below; a leaf
  Table* table = nullptr;
  int fd = -1;
  pid_t pid = 0;
  uint32_t next = 0;
  std::vector<uint32_t> free;
};

Own& own() {
  static auto* const made = new Own();  // leaked: storages are freed until the process is gone
  return *made;
}

void make_table(Own& o) {
  const int fd = memfd_create(kName, MFD_CLOEXEC);
  TORCH_CHECK(fd >= 0, "npu: memory cannot be shared: memfd_create: ", std::strerror(errno));
  Table* table = ftruncate(fd, sizeof(Table)) == 0 ? map_table(fd) : nullptr;
  if (!table || getrandom(&table->id, sizeof table->id, 0) != sizeof table->id) {
    const int error = errno;
    close(fd);
    TORCH_CHECK(false, "npu: memory cannot be shared: ", std::strerror(error));
  }
  o.fd = fd;
  o.table = table;
  o.pid = getpid();
}

// --- others' ---

struct Peer {
  int fd = -1;
  Table* table = nullptr;
  std::unordered_map<uint32_t, int> holds;  // slot → how often: a POSIX lock belongs to the whole process
};
using PeerKey = std::pair<int32_t, uint64_t>;

struct Peers {
  std::mutex mutex;  // guards all below; held while the kernel locks, which is never for long
  std::map<PeerKey, Peer> open;
};

Peers& peers() {
  static auto* const made = new Peers();
  return *made;
}

void close_peer(Peer& peer) noexcept {
  munmap(peer.table, sizeof(Table));
  close(peer.fd);  // gives back the locks on this file, of which there are none left
}

void close_idle(Peers& all) noexcept {
  for (auto it = all.open.begin(); it != all.open.end();) {
    if (it->second.holds.empty()) {
      close_peer(it->second);
      it = all.open.erase(it);
    } else {
      ++it;
    }
  }
}

// Null when the process is gone or is another one.
Peer* open_peer(Peers& all, const SharedTicket& ticket) {
  const PeerKey key{ticket.pid, ticket.table};
  if (const auto found = all.open.find(key); found != all.open.end()) return &found->second;
  close_idle(all);
  char path[64];
  char target[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", ticket.pid, ticket.fd);
  const ssize_t length = readlink(path, target, sizeof target - 1);
  if (length < 0) return nullptr;
  target[length] = 0;
  if (std::strncmp(target, "/memfd:anycend-shared", 21) != 0) return nullptr;
  Peer peer;
  peer.fd = open(path, O_RDWR | O_CLOEXEC);
  if (peer.fd < 0) return nullptr;
  peer.table = map_table(peer.fd);
  if (!peer.table || peer.table->id != ticket.table) {
    if (peer.table) munmap(peer.table, sizeof(Table));
    close(peer.fd);
    return nullptr;
  }
  return &all.open.emplace(key, std::move(peer)).first->second;
}

}  // namespace

SharedTicket issue_ticket() {
  Own& o = own();
  const std::lock_guard<std::mutex> lock(o.mutex);
  if (!o.table) make_table(o);
  uint32_t slot = 0;
  if (!o.free.empty()) {
    slot = o.free.back();
    o.free.pop_back();
  } else {
    TORCH_CHECK(o.next < kSlots, "npu: ", kSlots,
                " messages with tensors are on their way or in use elsewhere: receive some, or let go of them");
    slot = o.next++;
  }
  Slot& s = o.table->slots[slot];
  s.on_its_way.store(1, std::memory_order_release);
  return {o.table->id, o.pid, o.fd, slot, s.generation.load(std::memory_order_relaxed)};
}

bool is_own(const SharedTicket& ticket) noexcept {
  Own& o = own();
  const std::lock_guard<std::mutex> lock(o.mutex);
  return o.table && o.table->id == ticket.table && o.pid == getpid();
}

bool is_on_its_way(uint32_t slot) noexcept {
  return own().table->slots[slot].on_its_way.load(std::memory_order_acquire) != 0;
}

void give_up(uint32_t slot) noexcept { own().table->slots[slot].on_its_way.store(0, std::memory_order_release); }

// The receiver locks before it says that it has received: so a slot that is not on its way and not locked is free for good. A
// second reader of the same message may come at any time: it finds another generation.
bool try_retire(uint32_t slot) noexcept {
  if (is_on_its_way(slot)) return false;
  Own& o = own();
  const std::lock_guard<std::mutex> lock(o.mutex);
  if (!lock_slot(o.fd, slot, F_WRLCK, false)) return false;
  o.table->slots[slot].generation.fetch_add(1, std::memory_order_acq_rel);
  lock_slot(o.fd, slot, F_UNLCK, false);
  o.free.push_back(slot);
  return true;
}

SharedHold::SharedHold(const SharedTicket& ticket) : ticket_(ticket) {
  Peers& all = peers();
  const std::lock_guard<std::mutex> lock(all.mutex);
  TORCH_CHECK(ticket.slot < kSlots, "npu: this is not a message about a shared tensor");
  Peer* peer = open_peer(all, ticket);
  const bool ended = kill(ticket.pid, 0) != 0 && errno == ESRCH;
  TORCH_CHECK(peer, "npu: process ", ticket.pid, ", whose tensor this is, ",
              ended ? "has ended, and its memory is gone"
                    : "cannot be reached: it belongs to another user or container, or has ended",
              ": a process that shares a tensor must live until the tensor was received, or send tensor.cpu()");
  const bool first = peer->holds[ticket.slot]++ == 0;
  const bool locked = !first || lock_slot(peer->fd, ticket.slot, F_RDLCK, true);
  if (locked && peer->table->slots[ticket.slot].generation.load(std::memory_order_acquire) == ticket.generation) return;
  if (first) {
    if (locked) lock_slot(peer->fd, ticket.slot, F_UNLCK, false);
    peer->holds.erase(ticket.slot);
  } else {
    --peer->holds[ticket.slot];
  }
  TORCH_CHECK(locked, "npu: a shared tensor cannot be held: fcntl: ", std::strerror(errno));
  TORCH_CHECK(false, "npu: this message about a tensor of process ", ticket.pid,
              " was received before, and the tensor was freed since: send the tensor once for each receiver");
}

SharedHold::~SharedHold() {
  Peers& all = peers();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto found = all.open.find({ticket_.pid, ticket_.table});
  if (found == all.open.end()) return;
  Peer& peer = found->second;
  const auto held = peer.holds.find(ticket_.slot);
  if (held == peer.holds.end() || --held->second > 0) return;
  lock_slot(peer.fd, ticket_.slot, F_UNLCK, false);
  peer.holds.erase(held);
}

void mark_received(const SharedTicket& ticket) noexcept {
  if (ticket.slot >= kSlots) return;
  if (is_own(ticket)) {
    Slot& slot = own().table->slots[ticket.slot];
    if (slot.generation.load(std::memory_order_acquire) == ticket.generation) give_up(ticket.slot);
    return;
  }
  Peers& all = peers();
  const std::lock_guard<std::mutex> lock(all.mutex);
  Peer* peer = open_peer(all, ticket);
  if (!peer) return;
  Slot& slot = peer->table->slots[ticket.slot];
  if (slot.generation.load(std::memory_order_acquire) == ticket.generation)
    slot.on_its_way.store(0, std::memory_order_release);
}

void close_idle_tables() noexcept {
  Peers& all = peers();
  const std::lock_guard<std::mutex> lock(all.mutex);
  close_idle(all);
}

}  // namespace npu

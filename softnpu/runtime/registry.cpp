#include "softnpu/runtime/registry.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "softnpu/race/file_lock.h"
#include "softnpu/runtime/config.h"
#include "softnpu/runtime/registry_view.h"
#include "softnpu/sanitize/faults.h"

namespace softnpu {
namespace {

constexpr int64_t kHeader = sizeof(RegistryRecord);  // locking its first byte is the right to grow

int g_fd = -1;

// A device that can be lost is one of config()'s, which has been read then.
[[maybe_unused]] const bool g_listens = [] {
  sanitize::tell_loss = [](int device, bool lost) noexcept {
    Registry::get().set_lost(config().visible[size_t(device)], lost);
  };
  return true;
}();

}  // namespace

Registry& Registry::get() {
  static Registry& r = *new Registry;
  return r;
}

Registry::Registry() {
  for (int& i : index_) i = -1;
  const std::string dir = registry_folder();
  mkdir(dir.c_str(), 0700);
  struct stat s;
  // A folder of somebody else in /tmp is not ours to trust.
  if (lstat(dir.c_str(), &s) != 0 || !S_ISDIR(s.st_mode) || s.st_uid != geteuid()) return;
  int fd = open((dir + "/registry").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return;
  size_t bytes = kHeader + sizeof(RegistryRecord) * kRecords;
  void* p = MAP_FAILED;
  if (ftruncate(fd, off_t(bytes)) == 0) p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (p == MAP_FAILED) {
    close(fd);
    return;
  }
  records_ = reinterpret_cast<RegistryRecord*>(static_cast<char*>(p) + kHeader);
  fd_ = g_fd = fd;
  // A forked child must not keep our records locked after our death.
  pthread_atfork(nullptr, nullptr, [] {
    if (g_fd >= 0) close(g_fd);
    g_fd = -1;
    forget_public_registry();
  });
}

bool Registry::lock(int64_t start, int64_t length, bool wait_briefly) noexcept {
  for (int i = 0; i < (wait_briefly ? 1000 : 1); ++i) {
    if (race::set_lock(fd_, F_WRLCK, start, length)) return true;
    if (errno != EAGAIN && errno != EACCES) return false;
    if (wait_briefly) usleep(1000);  // a stopped process must not stop the others for ever
  }
  return false;
}

bool Registry::held_by_other(int index) noexcept {
  struct flock l =
      race::lock_of(F_WRLCK, kHeader + int64_t{index} * int64_t{sizeof(RegistryRecord)}, sizeof(RegistryRecord));
  return fcntl(fd_, F_OFD_GETLK, &l) == 0 && l.l_type != F_UNLCK;
}

RegistryRecord* Registry::mine(int device) noexcept {
  if (fd_ < 0 || device < 0 || device >= kMaxDevices) return nullptr;
  if (index_[device] >= 0) return &records_[index_[device]];
  for (int i = 0; i < kRecords; ++i) {
    bool own = false;
    for (int taken : index_) own = own || taken == i;
    if (own || !lock(kHeader + int64_t{i} * int64_t{sizeof(RegistryRecord)}, sizeof(RegistryRecord), false)) continue;
    RegistryRecord& r = records_[i];
    // It ends no reader's way through the records meanwhile, and is nobody's memory.
    RegistryRecord fresh = {};
    fresh.pid = getpid();
    fresh.device = int16_t(device);
    timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    fresh.started_ns = uint64_t(t.tv_sec) * 1000000000 + uint64_t(t.tv_nsec);
    snprintf(fresh.name, sizeof fresh.name, "%s", program_invocation_short_name);
    __atomic_store_n(&r.committed, uint64_t{0}, __ATOMIC_RELAXED);
    __atomic_store_n(&r.pid, fresh.pid, __ATOMIC_RELEASE);
    r = fresh;
    index_[device] = i;
    shown_[device] = publish(fresh);
    return &r;
  }
  return nullptr;
}

void Registry::set_used(int device, uint64_t committed, uint64_t used) noexcept {
  std::lock_guard guard(mutex_);
  if (RegistryRecord* r = mine(device)) {
    __atomic_store_n(&r->committed, committed, __ATOMIC_RELAXED);
    __atomic_store_n(&r->used, used, __ATOMIC_RELAXED);
    if (PublicRecord* p = shown_[device]) __atomic_store_n(&p->committed, committed, __ATOMIC_RELAXED);
  }
}

void Registry::set_lost(int device, bool lost) noexcept {
  std::lock_guard guard(mutex_);
  if (RegistryRecord* r = mine(device)) __atomic_store_n(&r->lost, uint16_t{lost}, __ATOMIC_RELAXED);
}

Registry::Busy Registry::busy(int device) noexcept {
  std::lock_guard guard(mutex_);
  RegistryRecord* r = mine(device);
  if (r == nullptr) return {};
  return {&r->busy, shown_[device] ? &shown_[device]->busy : nullptr};
}

Registry::Growth::Growth(Registry& r)
    : registry_(r), in_process_(r.growth_mutex_), locked_(r.fd_ >= 0 && r.lock(0, 1, true)) {}

Registry::Growth::~Growth() {
  if (locked_) race::set_lock(registry_.fd_, F_UNLCK, 0, 1);
}

uint64_t Registry::Growth::used_by_others(int device) noexcept {
  if (registry_.fd_ < 0) return 0;
  uint64_t sum = 0;
  for (int i = 0; i < kRecords; ++i) {
    RegistryRecord& r = registry_.records_[i];
    if (r.pid == 0) break;  // records are taken from the front
    uint64_t held = __atomic_load_n(&r.committed, __ATOMIC_RELAXED);
    if (held && r.device == device && registry_.held_by_other(i)) sum += held;
  }
  return sum;
}

}  // namespace softnpu

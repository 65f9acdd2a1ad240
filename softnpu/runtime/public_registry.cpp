#include "softnpu/runtime/public_registry.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "softnpu/race/file_lock.h"
#include "softnpu/runtime/registry_view.h"

namespace softnpu {
namespace {

constexpr char kPrefix[] = "anycend-processes-";
constexpr char kMagic[sizeof(PublicRecord)] = "anycend processes 1";  // the first record
constexpr size_t kRecord = sizeof(PublicRecord);
constexpr size_t kBytes = kRecord * (size_t{Registry::kRecords} + 1);
// Of all files of one user, of which each space of process ids has one: who makes more only hides their own.
constexpr size_t kMostRecords = Registry::kRecords;

std::string folder() {
  const char* v = getenv("ANYCEND_PROCESS_FOLDER");
  return v ? v : "/tmp";
}

struct File {
  int fd;
  ~File() {
    if (fd >= 0) close(fd);
  }
};

std::string text_of(const std::string& path) {
  const File file{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  std::string text(4096, '\0');
  const ssize_t got = file.fd < 0 ? -1 : read(file.fd, text.data(), text.size());
  text.resize(size_t(std::max<ssize_t>(got, 0)));
  return text;
}

// Field 22; the second one, the program's name, may hold anything.
uint64_t started(const std::string& stat) noexcept {
  size_t at = stat.rfind(')');
  for (int field = 2; field < 22 && at != std::string::npos; ++field) at = stat.find(' ', at + 1);
  return at == std::string::npos ? 0 : strtoull(stat.c_str() + at, nullptr, 10);
}

// Whose the process is, and since when. A thread's number is none of a process.
struct Owner {
  uid_t uid = uid_t(-1);
  uint64_t started = 0;
};
Owner owner_of(int pid) {
  const std::string folder = "/proc/" + std::to_string(pid), status = text_of(folder + "/status");
  const size_t group = status.find("\nTgid:"), uid = status.find("\nUid:");
  unsigned real = 0, effective = 0;
  if (group == std::string::npos || atoi(status.c_str() + group + 6) != pid || uid == std::string::npos ||
      sscanf(status.c_str() + uid + 5, "%u %u", &real, &effective) != 2)
    return {};
  return {effective, started(text_of(folder + "/stat"))};
}

bool is_whole(const PublicRecord& r) noexcept {
  return r.pid > 0 && r.device >= 0 && r.device < kMaxDevices && r.committed <= kMostDeviceBytes &&
         memchr(r.name, 0, sizeof r.name) != nullptr;
}

// What a reader may see of the first record while its owner copies it there.
bool is_being_written(const char (&magic)[kRecord]) noexcept {
  return std::equal(magic, magic + kRecord, kMagic, [](char is, char will) { return is == '\0' || is == will; });
}

int64_t place_of(size_t index) noexcept { return int64_t((index + 1) * kRecord); }

// What the files of each user say. Nothing is mapped: its owner may cut a file short at any time.
class Reader {
 public:
  explicit Reader(RegistryView& view) : view_(view) {
    for (const RegistryRecord& r : view.records) known_.emplace(r.pid, r.device);
  }

  // False: there is something wrong with the file. A file without records costs little, however many of them a user has.
  bool read(int fd, const struct stat& s) {
    size_t& records = records_[s.st_uid];
    if (!S_ISREG(s.st_mode)) return false;
    if (s.st_size == 0) return true;  // it is being made
    char magic[kRecord] = {};
    if (s.st_size != off_t(kBytes) || pread(fd, magic, kRecord, 0) != ssize_t(kRecord)) return false;
    if (memcmp(magic, kMagic, kRecord) != 0) return is_being_written(magic);
    std::vector<PublicRecord>& part = part_;
    bool right = true;
    for (size_t at = kRecord; at < kBytes;) {
      const ssize_t got = pread(fd, part.data(), std::min(part.size() * kRecord, kBytes - at), off_t(at));
      if (got < ssize_t(kRecord)) return false;
      for (size_t i = 0; i < size_t(got) / kRecord; ++i) {
        if (part[i].pid == 0) return right;
        if (records == kMostRecords) {
          view_.too_many.insert(s.st_uid);
          return right;
        }
        ++records;
        if (part[i].process_started == 0) continue;
        if (!is_whole(part[i]))
          right = false;
        else if (!part[i].locked || is_locked(fd, at / kRecord - 1 + i))
          take(part[i], s.st_uid);
      }
      at += size_t(got) / kRecord * kRecord;
    }
    return right;
  }

 private:
  // By its owner, who alone may write: locks for reading, which anybody may have, are not asked for.
  static bool is_locked(int fd, size_t index) noexcept {
    struct flock l = race::lock_of(F_RDLCK, place_of(index), kRecord);
    return fcntl(fd, F_OFD_GETLK, &l) == 0 && l.l_type != F_UNLCK;
  }

  void take(const PublicRecord& r, uid_t uid) {
    if (known_.contains({r.pid, r.device})) return;
    auto [owner, is_new] = owners_.try_emplace(r.pid);
    if (is_new) owner->second = owner_of(r.pid);
    if (owner->second.uid != uid || owner->second.started != r.process_started) return;
    known_.emplace(r.pid, r.device);
    RegistryRecord found = {};
    found.pid = r.pid;
    found.device = r.device;
    found.committed = r.committed;
    found.started_ns = r.started_ns;
    found.busy = r.busy;
    memcpy(found.name, r.name, sizeof found.name);
    make_printable(found.name);
    view_.records.push_back(found);
  }

  RegistryView& view_;
  std::set<std::pair<int, int>> known_;
  std::map<uid_t, size_t> records_;  // read so far, by user
  std::vector<PublicRecord> part_ = std::vector<PublicRecord>(256);
  std::map<int, Owner> owners_;
};

// A file of ours alone, or -1. Somebody else may have put one of that name there, or a second name of another file of ours.
int own_file(const std::string& path) noexcept {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  struct stat s = {};
  if (fd >= 0 && fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_uid == geteuid() && s.st_nlink == 1 &&
      (s.st_size == 0 || s.st_size == off_t(kBytes)))
    return fd;
  if (fd >= 0) close(fd);
  return -1;
}

// This user's file. Open as long as the process lives, for its locks.
struct Own {
  int fd = -1;
  PublicRecord* records = nullptr;

  Own() noexcept {
    try {
      open_file();
    } catch (...) {
      records = nullptr;
    }
  }

 private:
  void open_file() {
    if (folder().empty()) return;
    struct stat space = {};  // of process ids: a container's are its own
    if (stat("/proc/self/ns/pid", &space) != 0) return;
    const std::string path = folder() + "/" + kPrefix + std::to_string(geteuid()) + "-" + std::to_string(space.st_ino);
    fd = own_file(path);
    for (int i = 1; fd < 0 && i < 8; ++i) fd = own_file(path + "-" + std::to_string(i));
    // A disk that is full is found out here and in publish(), not at a store.
    if (fd < 0 || ftruncate(fd, off_t(kBytes)) != 0 || posix_fallocate(fd, 0, kRecord) != 0) return;
    void* p = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) return;
    memcpy(p, kMagic, kRecord);
    if (fchmod(fd, 0644) == 0) records = static_cast<PublicRecord*>(p) + 1;
  }
};
std::atomic<Own*> g_made{nullptr};
Own& own() noexcept {
  static Own& the = *[] {
    auto* const made = new Own;
    g_made = made;
    return made;
  }();
  return the;
}

}  // namespace

PublicRecord* publish(const RegistryRecord& like) noexcept {
  uint64_t since = 0;
  try {
    since = started(text_of("/proc/self/stat"));
  } catch (...) {
  }
  Own& file = own();
  if (file.records == nullptr || since == 0) return nullptr;
  for (size_t i = 0; i < kMostRecords; ++i) {
    PublicRecord& r = file.records[i];
    int32_t before = __atomic_load_n(&r.pid, __ATOMIC_ACQUIRE);
    if (before == 0 && posix_fallocate(file.fd, off_t((i + 1) * kRecord), kRecord) != 0) return nullptr;
    if (before > 0 && (kill(before, 0) == 0 || errno != ESRCH)) continue;
    if (!__atomic_compare_exchange_n(&r.pid, &before, like.pid, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) continue;
    __atomic_store_n(&r.process_started, uint64_t{0}, __ATOMIC_RELEASE);
    r.locked =
        race::set_lock(file.fd, F_WRLCK, place_of(i), kRecord);  // not where somebody else has locked it for reading
    r.device = like.device;
    r.committed = like.committed;
    r.started_ns = like.started_ns;
    r.busy = like.busy;
    memcpy(r.name, like.name, sizeof r.name);
    __atomic_store_n(&r.process_started, since, __ATOMIC_RELEASE);
    return &r;
  }
  return nullptr;
}

void forget_public_registry() noexcept {
  Own* const file = g_made;  // a forked child makes none
  if (!file) return;
  if (file->fd >= 0) close(file->fd);
  file->fd = -1;
}

void read_public_registries(RegistryView& view) {
  const std::string where = folder();
  DIR* entries = where.empty() ? nullptr : opendir(where.c_str());
  if (entries == nullptr) return;
  const std::unique_ptr<DIR, int (*)(DIR*)> closes(entries, closedir);
  Reader reader(view);
  while (const dirent* entry = readdir(entries)) {
    if (strncmp(entry->d_name, kPrefix, sizeof kPrefix - 1) != 0) continue;
    const File file{openat(dirfd(entries), entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)};
    struct stat s = {};
    if (file.fd >= 0 && fstat(file.fd, &s) == 0 && reader.read(file.fd, s)) continue;
    if (file.fd < 0 && fstatat(dirfd(entries), entry->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0) continue;
    std::string path = where + "/" + entry->d_name;
    make_printable(path.data());
    RegistryView::Damaged& damaged = view.left_out[s.st_uid];
    if (damaged.files++ == 0 || path < damaged.one) damaged.one = std::move(path);
  }
}

}  // namespace softnpu

#include "softnpu/runtime/registry_view.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "softnpu/race/file_lock.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/futex.h"
#include "softnpu/runtime/limits.h"
#include "softnpu/runtime/public_registry.h"

namespace softnpu {
namespace {

constexpr size_t kHeader = sizeof(RegistryRecord);
constexpr size_t kBytes = kHeader + sizeof(RegistryRecord) * Registry::kRecords;

struct File {
  int fd;
  ~File() {
    if (fd >= 0) close(fd);
  }
};

// A process holds a lock on its records as long as it lives.
bool alive(int fd, size_t index, const std::string& path) {
  struct flock l = race::lock_of(F_WRLCK, int64_t(kHeader + index * sizeof(RegistryRecord)), sizeof(RegistryRecord));
  if (fcntl(fd, F_OFD_GETLK, &l) != 0)
    fail(ACL_ERROR_INTERNAL_ERROR, "cannot ask for the locks of %s: %s", path.c_str(), strerror(errno));
  return l.l_type != F_UNLCK;
}

const char* what_is_wrong(const RegistryRecord& r) noexcept {
  if (r.pid < 0) return "its process id is negative";
  if (r.device < 0 || r.device >= kMaxDevices) return "there is no such device";
  if (r.committed > kMostDeviceBytes || r.used > kMostDeviceBytes) return "no device has that much memory";
  if (memchr(r.name, 0, sizeof r.name) == nullptr) return "its name has no end";
  return nullptr;
}

}  // namespace

std::string registry_folder() {
  if (const char* v = getenv("XDG_RUNTIME_DIR"); v && *v && access(v, W_OK) == 0) return std::string(v) + "/anycend";
  return "/tmp/anycend-" + std::to_string(geteuid());
}

void make_printable(char* name) noexcept {
  for (char* c = name; *c; ++c)
    if (*c <= ' ' || *c > '~' || *c == '|') *c = '?';
}

namespace {

void read_own(RegistryView& view) {
  const std::string path = registry_folder() + "/registry";
  const File file{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
  if (file.fd < 0 && errno == ENOENT) return;
  struct stat s = {};
  if (file.fd < 0 || fstat(file.fd, &s) != 0)
    fail(ACL_ERROR_INTERNAL_ERROR, "cannot open the registry of processes %s: %s", path.c_str(), strerror(errno));
  if (!S_ISREG(s.st_mode) || s.st_uid != geteuid())
    fail(ACL_ERROR_INTERNAL_ERROR, "the registry of processes %s is not a file of this user", path.c_str());
  if (s.st_size == 0) return;  // it is being made
  if (s.st_size != off_t(kBytes))
    fail(ACL_ERROR_INTERNAL_ERROR,
         "the registry of processes %s has %lld bytes, not %zu: remove it when no process uses an NPU", path.c_str(),
         static_cast<long long>(s.st_size), kBytes);
  std::vector<RegistryRecord> part(1024);
  view.full = true;
  for (size_t index = 0; index < size_t{Registry::kRecords};) {
    const size_t most = std::min(part.size(), size_t{Registry::kRecords} - index);
    const ssize_t got = pread(file.fd, part.data(), most * sizeof part[0], off_t(kHeader + index * sizeof part[0]));
    if (got < ssize_t(sizeof part[0]))
      fail(ACL_ERROR_INTERNAL_ERROR, "cannot read the registry of processes %s: %s", path.c_str(),
           got < 0 ? strerror(errno) : "it became shorter");
    for (size_t i = 0; i < size_t(got) / sizeof part[0]; ++i, ++index) {
      RegistryRecord& r = part[i];
      if (r.pid == 0) {  // records are taken from the front
        view.full = false;
        return;
      }
      if (!alive(file.fd, index, path)) {
        view.full = false;
        continue;
      }
      if (const char* wrong = what_is_wrong(r))
        fail(
            ACL_ERROR_INTERNAL_ERROR,
            "record %zu of the registry of processes %s is damaged (process %d, device %d): %s; end the processes that "
            "use NPUs "
            "and remove it",
            index, path.c_str(), r.pid, r.device, wrong);
      make_printable(r.name);
      view.records.push_back(r);
    }
  }
}

}  // namespace

RegistryView read_registry() {
  RegistryView view;
  read_own(view);
  read_public_registries(view);
  view.at_ns = now_ns();
  std::sort(view.records.begin(), view.records.end(), [](const RegistryRecord& a, const RegistryRecord& b) {
    return a.device != b.device ? a.device < b.device : a.pid < b.pid;
  });
  return view;
}

}  // namespace softnpu

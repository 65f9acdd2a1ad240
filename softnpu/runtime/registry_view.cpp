#include "softnpu/runtime/registry_view.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "softnpu/runtime/error.h"
#include "softnpu/runtime/futex.h"
#include "softnpu/runtime/limits.h"

namespace softnpu {
namespace {

constexpr size_t kHeader = sizeof(RegistryRecord);
constexpr size_t kBytes = kHeader + sizeof(RegistryRecord) * Registry::kRecords;
constexpr uint64_t kMostBytes = uint64_t{1} << 50;

struct File {
  int fd;
  ~File() {
    if (fd >= 0) close(fd);
  }
};

// A process holds a lock on its records as long as it lives.
bool alive(int fd, size_t index, const std::string& path) {
  struct flock l = {};
  l.l_type = F_WRLCK;
  l.l_whence = SEEK_SET;
  l.l_start = off_t(kHeader + index * sizeof(RegistryRecord));
  l.l_len = sizeof(RegistryRecord);
  if (fcntl(fd, F_OFD_GETLK, &l) != 0)
    fail(ACL_ERROR_INTERNAL_ERROR, "cannot ask for the locks of %s: %s", path.c_str(), strerror(errno));
  return l.l_type != F_UNLCK;
}

const char* what_is_wrong(const RegistryRecord& r) noexcept {
  if (r.pid < 0) return "its process id is negative";
  if (r.device < 0 || r.device >= kMaxDevices) return "there is no such device";
  if (r.committed > kMostBytes || r.used > kMostBytes) return "no device has that much memory";
  if (memchr(r.name, 0, sizeof r.name) == nullptr) return "its name has no end";
  return nullptr;
}

}  // namespace

std::string registry_folder() {
  if (const char* v = getenv("XDG_RUNTIME_DIR"); v && *v && access(v, W_OK) == 0) return std::string(v) + "/anycend";
  return "/tmp/anycend-" + std::to_string(geteuid());
}

RegistryView read_registry() {
  RegistryView view;
  const std::string path = registry_folder() + "/registry";
  const File file{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
  if (file.fd < 0 && errno == ENOENT) {
    view.at_ns = now_ns();
    return view;
  }
  struct stat s = {};
  if (file.fd < 0 || fstat(file.fd, &s) != 0)
    fail(ACL_ERROR_INTERNAL_ERROR, "cannot open the registry of processes %s: %s", path.c_str(), strerror(errno));
  if (!S_ISREG(s.st_mode) || s.st_uid != geteuid())
    fail(ACL_ERROR_INTERNAL_ERROR, "the registry of processes %s is not a file of this user", path.c_str());
  std::vector<RegistryRecord> all(size_t{Registry::kRecords} + 1);  // the first stands for the header
  const ssize_t got = s.st_size == 0 ? 0 : pread(file.fd, all.data(), kBytes, 0);
  view.at_ns = now_ns();
  if (s.st_size == 0) return view;  // it is being made
  if (got < 0)
    fail(ACL_ERROR_INTERNAL_ERROR, "cannot read the registry of processes %s: %s", path.c_str(), strerror(errno));
  if (s.st_size != off_t(kBytes) || size_t(got) != kBytes)
    fail(ACL_ERROR_INTERNAL_ERROR,
         "the registry of processes %s has %lld bytes, not %zu: remove it when no process uses an NPU", path.c_str(),
         static_cast<long long>(s.st_size), kBytes);
  for (size_t i = 0; i < size_t{Registry::kRecords}; ++i) {
    RegistryRecord& r = all[i + 1];
    if (r.pid == 0 || !alive(file.fd, i, path)) continue;
    if (const char* wrong = what_is_wrong(r))
      fail(ACL_ERROR_INTERNAL_ERROR,
           "record %zu of the registry of processes %s is damaged (process %d, device %d): %s; end the processes that "
           "use NPUs "
           "and remove it",
           i, path.c_str(), r.pid, r.device, wrong);
    for (char* c = r.name; *c; ++c)
      if (*c <= ' ' || *c > '~' || *c == '|') *c = '?';
    view.records.push_back(r);
  }
  return view;
}

}  // namespace softnpu

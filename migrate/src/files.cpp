// See files.h.
#include "migrate/src/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace migrate {
namespace fs = std::filesystem;
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

std::string reason() { return strerror(errno); }

}  // namespace

std::string read_file(const std::string& path, std::string* bytes) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info;
  if (file.get() < 0 || ::fstat(file.get(), &info) != 0) return reason();
  if (!S_ISREG(info.st_mode)) return "not a regular file";
  if (info.st_size >= (1LL << 31)) return "larger than 2 GiB";
  bytes->resize(static_cast<size_t>(info.st_size));
  size_t done = 0;
  while (true) {
    if (done == bytes->size()) bytes->resize(done + 4096);  // the file may have grown
    ssize_t got = ::read(file.get(), bytes->data() + done, bytes->size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return reason();
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  bytes->resize(done);
  return "";
}

std::string write_file(const std::string& path, std::string_view bytes, unsigned mode) {
  static std::atomic<unsigned> counter{0};
  std::error_code failed;
  fs::path parent = fs::path(path).parent_path();
  if (!parent.empty()) fs::create_directories(parent, failed);
  if (failed) return failed.message();
  std::string temporary = path + ".tmp" + std::to_string(::getpid()) + "_" + std::to_string(counter++);
  {
    Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (file.get() < 0) return reason();
    for (size_t done = 0; done < bytes.size();) {
      ssize_t wrote = ::write(file.get(), bytes.data() + done, bytes.size() - done);
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) {
        std::string why = reason();
        ::unlink(temporary.c_str());
        return why;
      }
      done += static_cast<size_t>(wrote);
    }
    ::fchmod(file.get(), mode ? mode & 0777 : 0644);
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    std::string why = reason();
    ::unlink(temporary.c_str());
    return why;
  }
  return "";
}

std::vector<Entry> walk(const std::string& root, const std::vector<std::string>& skip,
                        std::vector<std::string>* errors) {
  static const char* const kLeftOut[] = {".git", ".hg", ".svn", "__pycache__"};
  std::vector<Entry> found;
  std::vector<std::string> open = {""};
  while (!open.empty()) {
    std::string folder = open.back();
    open.pop_back();
    std::error_code failed;
    std::string absolute = folder.empty() ? root : root + "/" + folder;
    fs::directory_iterator it(absolute, failed), end;
    if (failed) {
      errors->push_back(absolute + ": " + failed.message());
      continue;
    }
    for (; it != end; it.increment(failed)) {
      if (failed) {
        errors->push_back(absolute + ": " + failed.message());
        break;
      }
      std::string name = it->path().filename().string();
      Entry entry;
      entry.path = folder.empty() ? name : folder + "/" + name;
      struct stat info;
      if (::lstat(it->path().c_str(), &info) != 0) {
        errors->push_back(entry.path + ": " + reason());
        continue;
      }
      entry.mode = info.st_mode & 0777;
      if (S_ISLNK(info.st_mode)) {
        entry.kind = Entry::kLink;
        std::error_code ignored;
        entry.target = fs::read_symlink(it->path(), ignored).string();
      } else if (S_ISDIR(info.st_mode)) {
        if (std::any_of(std::begin(kLeftOut), std::end(kLeftOut), [&](const char* n) { return name == n; })) continue;
        if (std::find(skip.begin(), skip.end(), it->path().lexically_normal().string()) != skip.end()) continue;
        entry.kind = Entry::kFolder;
        open.push_back(entry.path);
      } else {
        entry.kind = S_ISREG(info.st_mode) ? Entry::kFile : Entry::kOther;
      }
      found.push_back(std::move(entry));
    }
  }
  std::sort(found.begin(), found.end(), [](const Entry& a, const Entry& b) { return a.path < b.path; });
  return found;
}

}  // namespace migrate

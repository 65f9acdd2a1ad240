// Long because all of one file is written here: how it begins and ends, its texts, each kind of record.
#include "softnpu/trace/recorder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>
#include <utility>

#include "acl/api.h"
#include "acl/enums.h"
#include "softnpu/runtime/error.h"
#include "softnpu/trace/record_file.h"

namespace softnpu::prof {
namespace {

namespace fs = std::filesystem;
constexpr size_t kMuch = 1 << 20;       // bytes that wait for the disk
constexpr size_t kMostTexts = 4 << 20;  // bytes of texts whose numbers are remembered

constexpr trace::Listener kListener{
    [](const trace::Call& c) noexcept { Recorder::get().called(c); },
    [](const trace::Record& r) noexcept { Recorder::get().ran(r); },
    [](const trace::Mark& m) noexcept { Recorder::get().marked(m); },
};

int64_t nanoseconds(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return int64_t{t.tv_sec} * 1000000000 + t.tv_nsec;
}

// Both clocks of one moment: of a few tries the one that was interrupted least.
file::Clock now_in_both() {
  file::Clock best{};
  int64_t least = INT64_MAX;
  for (int i = 0; i < 8; ++i) {
    const int64_t before = nanoseconds(CLOCK_MONOTONIC_RAW), real = trace::now(),
                  after = nanoseconds(CLOCK_MONOTONIC_RAW);
    if (after - before >= least) continue;
    least = after - before;
    best = {real, before + least / 2};
  }
  return best;
}

// PROF_000001_20261125182816184_KQFZM: CANN's form.
std::string new_name() {
  static std::atomic<unsigned> count{0};
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  tm local;
  localtime_r(&t.tv_sec, &local);
  char stamp[32], name[96], letters[17] = {};
  strftime(stamp, sizeof stamp, "%Y%m%d%H%M%S", &local);
  std::random_device random;
  for (int i = 0; i < 16; ++i) letters[i] = char('A' + random() % 26);
  snprintf(name, sizeof name, "PROF_%06u_%s%03d_%s", ++count, stamp, int(t.tv_nsec / 1000000), letters);
  return name;
}

// Over what stands there, in its place: on a full disk a file that was emptied first would stay empty.
void write_text(const std::string& path, const std::string& content) {
  const int out = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0640);
  if (out < 0)
    fail(ACL_ERROR_INVALID_FILE, "%s cannot be written (%s): name a folder that can", path.c_str(), strerror(errno));
  const bool whole = ::write(out, content.data(), content.size()) == ssize_t(content.size()) &&
                     ::ftruncate(out, off_t(content.size())) == 0;
  if (::close(out) != 0 || !whole)
    fail(ACL_ERROR_INVALID_FILE, "%s cannot be written: is the disk full?", path.c_str());
}

void make_folder(const std::string& path) {
  std::error_code why;
  fs::create_directories(path, why);
  if (why)
    fail(ACL_ERROR_INVALID_FILE, "the folder %s cannot be made (%s): name one that can", path.c_str(),
         why.message().c_str());
}

// Is this a child of fork that has not called exec since? The library may have been loaded only in it. The kernel says so by a bit
// (PF_FORKNOEXEC) of the seventh field behind the program's name.
bool forked_and_no_more() noexcept {
  FILE* file = fopen("/proc/self/stat", "re");
  if (file == nullptr) return false;
  char text[1024] = {};
  const size_t got = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  const char* fields = got > 0 ? strrchr(text, ')') : nullptr;
  unsigned flags = 0;
  return fields && sscanf(fields + 1, " %*c %*d %*d %*d %*d %*d %u", &flags) == 1 && (flags & 0x40) != 0;
}

uint32_t thread_id() noexcept {
  static thread_local const auto id = uint32_t(syscall(SYS_gettid));
  return id;
}

}  // namespace

Recorder& Recorder::get() {
  static Recorder& the = *new Recorder;
  return the;
}

void Recorder::begin(const Choice& choice) {
  uint32_t devices = 0;
  if (choice.memory_hz > 0 && choice.devices.empty()) aclrtGetDeviceCount(&devices);
  std::lock_guard turn(turn_);
  if (running()) fail(ACL_ERROR_PROF_ALREADY_RUN, "a profile is being made: stop it first");
  {
    std::lock_guard lock(mutex_);
    devices_ = devices;
    choice_ = choice;
    open();
    stop_ = false;
  }
  try {
    if (choice.memory_hz > 0) sampler_ = std::thread([this] { sample(); });
    if (!trace::listen(&kListener)) fail(ACL_ERROR_PROFILING_FAILURE, "too many profilers listen: end another first");
  } catch (...) {  // a thread that cannot be had is std::system_error
    stop_sampling();
    std::lock_guard lock(mutex_);
    ::close(std::exchange(file_, -1));
    throw;
  }
  running_.store(true, std::memory_order_release);
}

void Recorder::begin_when_used(const std::string& folder) noexcept {
  try {
    std::lock_guard turn(turn_);
    std::lock_guard lock(mutex_);
    choice_ = Choice{};
    choice_.folder = folder;
    eager_ = forked_and_no_more();
    running_.store(trace::listen(&kListener), std::memory_order_release);
  } catch (const std::exception&) {  // no memory, before main: nothing is recorded
  }
}

void Recorder::end() {
  std::lock_guard turn(turn_);
  if (!running()) fail(ACL_ERROR_PROF_NOT_RUN, "no profile is being made: call aclprofStart first");
  trace::ignore(&kListener);
  running_.store(false, std::memory_order_release);
  stop_sampling();
  std::lock_guard lock(mutex_);
  if (file_ < 0) return;  // it was to begin with the first record, and there was none
  clocks();
  write_out();
  const int64_t bytes = ::lseek(file_, 0, SEEK_END);
  if (::close(std::exchange(file_, -1)) != 0) lose();
  for (int device : choice_.devices) seen_.insert(device);
  describe_process(!lost_, bytes);
  if (lost_) fail(ACL_ERROR_PROFILING_FAILURE, "%s lacks records: the memory or the disk was full", path_.c_str());
}

void Recorder::stop_sampling() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopping_.notify_all();
  if (sampler_.joinable()) sampler_.join();
}

void Recorder::forget() noexcept {
  if (file_ >= 0) {
    foreign_.store(true, std::memory_order_relaxed);
  } else {
    eager_ = true;
  }
}

void Recorder::open() {
  forget_texts();
  last_text_ = 0;
  seen_.clear();
  waiting_.clear();
  lost_ = full_ = false;
  path_ = choice_.folder + "/" + new_name();
  make_folder(path_ + "/host/data");
  const std::string records = path_ + "/host/data/records";
  file_ = ::open(records.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
  if (file_ < 0)
    fail(ACL_ERROR_INVALID_FILE, "%s cannot be written (%s): name a folder that can", records.c_str(), strerror(errno));
  try {
    const file::Clock start = now_in_both();
    put(file::kClock, &start, sizeof start);
    char text[160];
    snprintf(text, sizeof text, "{\"collectionTimeBegin\": \"%lld.%03lld\", \"clockMonotonicRaw\": \"%lld\"}\n",
             static_cast<long long>(start.real / 1000), static_cast<long long>(start.real % 1000),
             static_cast<long long>(start.raw));
    write_text(path_ + "/host/start_info", text);
    describe_process(eager_ && !lost_);
  } catch (...) {  // no record may go into a folder without these
    ::close(std::exchange(file_, -1));
    throw;
  }
}

// At the beginning, so that a killed process leaves what can be read; at the end again, with the devices.
void Recorder::describe_process(bool whole, int64_t bytes) const {
  std::string devices;
  for (int device : seen_) {
    make_folder(path_ + "/device_" + std::to_string(device));
    devices += (devices.empty() ? "" : ", ") + std::to_string(device);
  }
  auto truth = [](bool yes) { return yes ? "true" : "false"; };
  write_text(path_ + "/host/info.json", "{\"CPU\": [{\"Frequency\": \"\"}], \"process\": " + std::to_string(getpid()) +
                                            ", \"devices\": [" + devices + "], \"tasks\": " + truth(choice_.tasks) +
                                            ", \"calls\": " + truth(choice_.calls) +
                                            ", \"marks\": " + truth(choice_.marks) + ", \"whole\": " + truth(whole) +
                                            (lost_ ? ", \"lost\": true" : "") +
                                            (bytes < 0 ? "" : ", \"bytes\": " + std::to_string(bytes)) + "}\n");
}

bool Recorder::takes(int device) const noexcept {
  if (choice_.devices.empty() || device < 0) return true;
  for (int mine : choice_.devices)
    if (mine == device) return true;
  return false;
}

// Is there a file? Makes it if the profile was to begin with the first record.
bool Recorder::ready() noexcept {
  if (file_ >= 0) return true;
  if (!running() || !path_.empty() || !trace::alive()) return false;
  try {
    open();
    return true;
  } catch (const Error& error) {
    report("msprof", error.code, error.message.c_str());
    fprintf(stderr, "[ERROR] msprof: process %d has no profile: %s\n", int(getpid()), error.message.c_str());
  } catch (const std::exception&) {
    fprintf(stderr, "[ERROR] msprof: process %d has no profile: the host is out of memory\n", int(getpid()));
  }
  path_ = choice_.folder;  // do not try again
  return false;
}

// A record is not, or will not be, in the file. Said at once: the process may never come to the profile's end.
void Recorder::lose() noexcept {
  if (std::exchange(lost_, true)) return;
  try {
    describe_process(false);
  } catch (...) {  // a disk so full that it cannot be written there: `end` says it
  }
}

void Recorder::put(uint32_t kind, const void* at, size_t size) {
  const uint32_t head[2] = {kind, uint32_t(size)};
  const size_t before = waiting_.size();
  waiting_.resize(before + sizeof head + size);  // of both parts or, where memory is short, of none
  memcpy(&waiting_[before], head, sizeof head);
  memcpy(&waiting_[before + sizeof head], at, size);
  if (eager_ || waiting_.size() >= kMuch) write_out();
}

// After one write that failed nothing more is written: the file may end in a part of a record, and lacks texts that later records name.
void Recorder::write_out() noexcept {
  for (size_t done = 0; done < waiting_.size() && !full_;) {
    const ssize_t n = ::write(file_, waiting_.data() + done, waiting_.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      full_ = true;
      lose();
    } else {
      done += size_t(n);
    }
  }
  waiting_.clear();
}

void Recorder::clocks() {
  const file::Clock both = now_in_both();
  put(file::kClock, &both, sizeof both);
}

void Recorder::forget_texts() noexcept {
  texts_.clear();
  interned_.clear();
  text_bytes_ = 0;
}

// Where a program has too many of them to keep, as ranges with a number each, a text comes into the file again.
uint32_t Recorder::text(const std::string& what) {
  if (what.empty()) return 0;
  if (text_bytes_ > kMostTexts) forget_texts();
  auto [it, fresh] = texts_.try_emplace(what, last_text_ + 1);
  if (fresh) {
    ++last_text_;
    text_bytes_ += what.size() + sizeof(*it);
    try {
      std::string record(reinterpret_cast<const char*>(&it->second), sizeof it->second);
      record += what;
      put(file::kText, record.data(), record.size());
    } catch (...) {  // the next record that names it writes it
      texts_.erase(it);
      throw;
    }
  }
  return it->second;
}

uint32_t Recorder::text(const char* what) {
  if (what == nullptr || *what == 0) return 0;
  if (auto it = interned_.find(what); it != interned_.end()) return it->second;
  return interned_[what] = text(std::string(what));
}

void Recorder::called(const trace::Call& c) noexcept {
  if (foreign_.load(std::memory_order_relaxed)) return;
  std::lock_guard lock(mutex_);
  if (!choice_.calls || !ready()) return;
  try {
    const file::Call record{c.correlation,    c.began,     c.ended,       text(c.name),
                            uint32_t(c.kind), thread_id(), c.asynchronous};
    put(file::kCall, &record, sizeof record);
  } catch (...) {  // no memory, or a folder that cannot be made
    lose();
  }
}

void Recorder::ran(const trace::Record& r) noexcept {
  if (foreign_.load(std::memory_order_relaxed) || r.what.kind == trace::Kind::kOther) return;
  std::lock_guard lock(mutex_);
  if (!choice_.tasks || !takes(r.device) || !ready()) return;
  try {
    auto tensors = [this](const trace::Tensors& t) {
      if (!choice_.tensors) return file::Tensors{};
      return file::Tensors{text(t.shapes), text(t.types), text(t.formats)};
    };
    if (r.device >= 0 && seen_.insert(r.device).second && eager_) describe_process(!lost_);
    const file::Task record{r.correlation,
                            r.task,
                            r.queued,
                            r.began,
                            r.ended,
                            r.what.bytes,
                            r.what.count,
                            r.device,
                            r.stream,
                            r.status,
                            r.what.detail,
                            r.what.rank,
                            r.what.ranks,
                            uint32_t(r.what.kind),
                            text(r.name),
                            text(r.what.group),
                            tensors(r.what.in),
                            tensors(r.what.out),
                            0};
    put(file::kTask, &record, sizeof record);
  } catch (...) {  // no memory, or a folder that cannot be made
    lose();
  }
}

void Recorder::marked(const trace::Mark& m) noexcept {
  if (foreign_.load(std::memory_order_relaxed)) return;
  std::lock_guard lock(mutex_);
  if (!choice_.marks || !takes(m.device) || !ready()) return;
  try {
    const uint32_t name =
        m.name ? text(std::string(m.name)) : 0;  // by its words: the pointer is another mark's tomorrow
    const file::Mark record{m.at,        m.id,     name,     text(m.domain), uint32_t(m.point),
                            m.on_stream, m.device, m.stream, m.thread,       0};
    put(file::kMark, &record, sizeof record);
  } catch (...) {  // no memory, or a folder that cannot be made
    lose();
  }
}

void Recorder::look_at_memory() noexcept {
  auto look = [this](int device, uint64_t bytes) {
    const file::Memory record{trace::now(), bytes, device, 0};
    std::lock_guard lock(mutex_);
    if (file_ < 0) return;
    try {
      seen_.insert(device);
      put(file::kMemory, &record, sizeof record);
    } catch (...) {
      lose();
    }
  };
  // begin has set them, and end waits for this thread. Where none is named: those that the process uses.
  for (int device : choice_.devices) look(device, trace::memory_of(device));
  if (!choice_.devices.empty()) return;
  for (int device = 0; device < int(devices_); ++device)
    if (const uint64_t bytes = trace::memory_of(device)) look(device, bytes);
}

void Recorder::sample() {
  const auto pause = std::chrono::nanoseconds(1000000000 / choice_.memory_hz);
  for (bool last = false; !last;) {
    look_at_memory();
    std::unique_lock lock(mutex_);
    last = stopping_.wait_for(lock, pause, [this] { return stop_; });
  }
  look_at_memory();
}

}  // namespace softnpu::prof

#include "softnpu/sanitize/faults.h"

#include <dlfcn.h>
#include <link.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "acl/enums.h"

namespace softnpu::sanitize {
namespace {

constexpr int kPhaseFailed = 561000;  // ACLNN_ERR_INNER
constexpr int kHcclFailed = 4;        // HCCL_E_INTERNAL
constexpr int kHcclMemory = 3;        // HCCL_E_MEMORY
constexpr int kMostDevices = 64;      // bits of g_lost; runtime/config.cpp sees to it that no more are asked for

enum class How : uint8_t { kCall, kTask, kHang, kLost, kCut };

struct Fault {
  std::string text;      // as it was asked for
  std::string function;  // empty for a device
  int device = -1;       // of kLost; -1: whichever comes first
  How how = How::kCall;
  int status = 0;
  uint64_t first = 1;
  bool on = false;     // from the first one on
  int64_t cut_ns = 0;  // how long; of kCut
  mutable std::atomic<uint64_t> met = 0, struck = 0;
  mutable std::atomic<uint64_t> tasks[kMostDevices] = {};  // that each device has had; of kLost

  Fault() = default;
  Fault(Fault&& o) noexcept
      : text(std::move(o.text)),
        function(std::move(o.function)),
        device(o.device),
        how(o.how),
        status(o.status),
        first(o.first),
        on(o.on),
        cut_ns(o.cut_ns) {}

  // Counts a call, and says whether it is one of those asked for.
  bool hit() const noexcept { return hit(met); }

  // The same of the tasks of one device.
  bool hit(int of_device) const noexcept {
    met.fetch_add(1);
    return hit(tasks[of_device]);
  }

 private:
  bool hit(std::atomic<uint64_t>& count) const noexcept {
    const uint64_t n = count.fetch_add(1) + 1;
    if (n != first && !(on && n > first)) return false;
    struck.fetch_add(1);
    return true;
  }
};

struct Faults {
  std::vector<Fault> all;
  std::string wrong;  // why ANYCEND_FAULT cannot be read
};

thread_local char t_message[400];
thread_local int t_uncounted = 0;
std::atomic<uint64_t> g_lost{0};      // a bit for each device
std::atomic<int64_t> g_cut_until{0};  // CLOCK_MONOTONIC

// The runtime's (runtime/futex.h) once more: the runtime includes this room, which so includes none of the runtime's.
int64_t now_ns() noexcept {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

bool starts(std::string_view text, std::string_view with) { return text.substr(0, with.size()) == with; }

template <class Number>
std::optional<Number> number(std::string_view text) {
  Number n{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return n;
}

bool is_operator(std::string_view function) { return starts(function, "aclnn") || starts(function, "aclStft"); }

bool makes_plan(std::string_view function) { return is_operator(function) && function.ends_with("GetWorkspaceSize"); }

// What can be the name of a task, of which the others cannot fail or hang.
bool puts_task(std::string_view function) {
  if (is_operator(function)) return !makes_plan(function);
  for (const std::string_view name :
       {"aclrtMemcpyAsync", "aclrtMemsetAsync", "aclrtLaunchCallback", "aclrtLaunchHostFunc", "aclrtValueWrite",
        "aclrtValueWait", "aclrtRecordEvent", "aclrtResetEvent", "HcclBroadcast", "HcclBarrier", "HcclBatchSendRecv",
        "HcclSend", "HcclRecv", "HcclReduce", "HcclScatter"})
    if (function == name) return true;
  return starts(function, "HcclAll") || starts(function, "HcclReduceScatter");
}

// One of the list; a text: what is wrong with it.
std::optional<std::string> read(std::string_view text, Fault* out) {
  std::vector<std::string_view> parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(':', at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  out->text = text;
  if (parts.size() >= 2 && parts[0] == "link") {
    if (parts[1] != "cut" || parts.size() < 3) return "a link can be cut for a time, as in link:cut:5s";
    std::string_view time = parts[2];
    const bool milli = time.size() > 2 && time.substr(time.size() - 2) == "ms";
    time.remove_suffix(milli ? 2 : time.empty() ? 0 : 1);
    const auto n = number<uint32_t>(time);
    if (!n || *n == 0 || parts[2].back() != 's') return "write the time as 5s or 500ms";
    out->how = How::kCut, out->cut_ns = int64_t{*n} * (milli ? 1'000'000 : 1'000'000'000);
    parts.erase(parts.begin() + 2);
  }
  if (parts.size() < 2 || parts.size() > 3) return "give function:how or function:how:which";
  const std::string_view what = parts[0], equals = parts[1].substr(std::min(parts[1].find('='), parts[1].size()));
  const std::string_view how = parts[1].substr(0, parts[1].size() - equals.size());
  const bool of_hccl = starts(what, "Hccl") || starts(what, "Hcom"), of_operator = is_operator(what);
  if (out->how == How::kCut) {
    // read above
  } else if (starts(what, "device")) {
    if (how != "lost") return "a device can be lost, nothing else";
    if (what.size() > 6) {
      const auto id = number<int>(what.substr(6));
      if (!id || *id < 0 || *id >= kMostDevices) return "write device, or device and its number, as in device0";
      out->device = *id;
    }
    out->how = How::kLost, out->status = ACL_ERROR_RT_LOST_HEARTBEAT;
  } else if (!starts(what, "acl") && !of_hccl) {
    return "it is neither a function of CANN (acl..., Hccl...) nor a device nor the link";
  } else {
    out->function = what;
    if ((how == "kernel" || how == "hang") && !puts_task(what))
      return of_operator ? "it puts no task on a stream: give error"
                         : "it puts no task on a stream that could fail or hang: give error or oom";
    if (how == "error")
      out->status = of_hccl ? kHcclFailed : of_operator ? kPhaseFailed : ACL_ERROR_RT_INTERNAL_ERROR;
    else if (how == "oom" && !of_operator)
      out->status = of_hccl ? kHcclMemory : ACL_ERROR_RT_MEMORY_ALLOCATION;
    else if (how == "kernel")
      out->how = How::kTask, out->status = ACL_ERROR_RT_AICORE_EXCEPTION;
    else if (how == "hang")
      out->how = How::kHang, out->status = ACL_ERROR_RT_AICORE_EXCEPTION;
    else
      return std::string(of_operator ? "an operator can have error, kernel or hang, not "
                                     : "a function can have error, oom, kernel or hang, not ") +
             std::string(how);
  }
  if (!equals.empty()) {
    const auto status = number<int>(equals.substr(1));
    if (how != "error" && how != "kernel") return std::string(how) + " takes no status: only error and kernel do";
    if (!status || *status <= 0) return "a status is a number over 0: error=507899";
    out->status = *status;
  }
  if (parts.size() == 3) {
    std::string_view which = parts[2];
    if (!which.empty() && which.back() == '+') out->on = true, which.remove_suffix(1);
    const auto n = number<uint64_t>(which);
    if (out->on && out->how == How::kCut) return "the link is cut once: write the number without +";
    if (!n || *n == 0) return "what stands last is the number of a call, from 1 on, with + for all from there";
    out->first = *n;
  }
  return std::nullopt;
}

Faults read_all(std::string_view text) {
  Faults faults;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    Fault fault;
    if (const auto wrong = read(text.substr(at, end - at), &fault); wrong && faults.wrong.empty()) {
      const std::string one(text.substr(at, end - at));
      faults.wrong = "ANYCEND_FAULT=" + std::string(text) + ": " + (one == text ? "" : one + ": ") + *wrong;
    }
    faults.all.push_back(std::move(fault));
    at = end + 1;
  }
  return faults;
}

// What was asked for and never came is said: a name that nobody calls, mostly a misspelt one.
void say_what_is_left();

// What was asked for when the library was loaded: a launcher may take the variable away after that, from its children.
const std::string& asked() {
  static const auto* const text = [] {
    const char* set = getenv("ANYCEND_FAULT");
    return new std::string(set ? set : "");
  }();
  return *text;
}

const Faults& faults() {
  static const Faults* const read = [] {
    auto* const all = new Faults(read_all(asked()));
    if (all->wrong.empty()) atexit(say_what_is_left);
    return all;
  }();
  return *read;
}

const pid_t g_process = getpid();

// In any library of the process, those that were opened for their opener alone, too.
bool is_there(const std::string& function) {
  std::vector<std::string> names;  // the loader's lock is held while it tells them: they are opened afterwards
  const auto tell = [](dl_phdr_info* library, size_t, void* into) {
    static_cast<std::vector<std::string>*>(into)->push_back(library->dlpi_name);
    return 0;
  };
  dl_iterate_phdr(tell, &names);
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    void* const handle = dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    const bool found = handle && dlsym(handle, function.c_str());
    if (handle) dlclose(handle);
    return found;
  });
}

void say_what_is_left() {
  if (getpid() != g_process) return;
  for (const Fault& f : faults().all) {
    if (f.struck.load() != 0) continue;
    const auto met = static_cast<unsigned long long>(f.met.load());
    fprintf(stderr, "ANYCEND_FAULT: %s did not happen: ", f.text.c_str());
    if (f.how == How::kCut)
      fprintf(stderr, "HCCL was called %llu time(s), and nothing went between hosts\n", met);
    else if (!f.function.empty() && met == 0 && !is_there(f.function))
      fprintf(stderr, "no library that was loaded has a function of this name\n");
    else if (f.how == How::kCall)
      fprintf(stderr, "it was called %llu time(s)\n", met);
    else if (f.how == How::kLost && f.device < 0)
      fprintf(stderr, "no device had so many tasks, all together %llu\n", met);
    else
      fprintf(stderr, "%llu task(s) of that %s came to a stream\n", met, f.how == How::kLost ? "device" : "name");
  }
}

int strike(const Fault& fault, const char* what) noexcept {
  snprintf(t_message, sizeof t_message, "%s, as ANYCEND_FAULT asks (%s)", what, fault.text.c_str());
  return fault.status;
}

bool lost(int device) noexcept { return device >= 0 && device < kMostDevices && g_lost.load() >> device & 1; }

int say_lost(int device) noexcept {
  snprintf(t_message, sizeof t_message,
           "device %d is lost, as ANYCEND_FAULT asks; aclrtResetDevice or aclrtDeviceTaskAbort brings it back", device);
  return ACL_ERROR_RT_LOST_HEARTBEAT;
}

// What does not need the device, or gives up what it has there. Phase one makes a description of the operands, on whatever device
// they are: a thread may come to it from another device than theirs.
bool works_without_device(std::string_view function) {
  if (makes_plan(function)) return true;
  for (const std::string_view name :
       {"aclrtSetDevice", "aclrtResetDevice", "aclrtGet", "aclGet", "aclInit", "aclFinalize", "aclrtDestroy",
        "aclrtFree", "aclrtSetCurrentContext", "aclrtDeviceTaskAbort", "aclrtQueryDevice", "aclCreate", "aclDestroy"})
    if (starts(function, name)) return true;
  return false;
}

}  // namespace

void (*tell_loss)(int device, bool lost) noexcept = nullptr;

namespace {

const bool told = [] {  // when the library is loaded
  if (asked().empty()) return false;
  watch(kFaults);
  return true;
}();

}  // namespace

Uncounted::Uncounted() noexcept { ++t_uncounted; }
Uncounted::~Uncounted() { --t_uncounted; }

int fault_of_call(const char* function, int device) noexcept {
  const Faults& all = faults();
  if (!all.wrong.empty()) {
    snprintf(t_message, sizeof t_message, "%s", all.wrong.c_str());
    return ACL_ERROR_INVALID_PARAM;
  }
  if (lost(device) && !works_without_device(function)) return say_lost(device);
  if (t_uncounted != 0) return 0;
  const Fault* strikes = nullptr;  // each counts every call; the first one asked for strikes
  for (const Fault& f : all.all)
    if (f.how == How::kCall && f.function == function && f.hit() && !strikes) strikes = &f;
  return strikes ? strike(*strikes, "the call fails") : 0;
}

TaskFault fault_of_task(const char* name, int device) noexcept {
  const Faults& all = faults();
  const Fault* strikes = nullptr;
  for (const Fault& f : all.all) {
    if (f.how == How::kLost && (f.device < 0 || f.device == device) && !lost(device)) {
      // One device: the first that has had so many tasks, where none is named.
      if (device < 0 || device >= kMostDevices || (f.device < 0 && f.struck.load()) || !f.hit(device)) continue;
      g_lost.fetch_or(uint64_t{1} << device);
      if (tell_loss) tell_loss(device, true);
    } else if (f.how == How::kCut) {
      if (starts(name, "Hc") && f.met.fetch_add(1) + 1 == f.first) g_cut_until.store(now_ns() + f.cut_ns);
    } else if ((f.how == How::kTask || f.how == How::kHang) && f.function == name && f.hit() && !strikes) {
      strikes = &f;
    }
  }
  if (strikes) {
    const bool hangs = strikes->how == How::kHang;
    return {strike(*strikes, hangs ? "the task hung until its stream was aborted" : "the kernel fails"), hangs};
  }
  if (lost(device)) return {say_lost(device), false};
  return {};
}

bool link_is_cut() noexcept {
  const int64_t until = g_cut_until.load(std::memory_order_relaxed);
  if (until == 0 || now_ns() >= until) return false;
  for (const Fault& f : faults().all)
    if (f.how == How::kCut && f.met.load() >= f.first) f.struck.store(1);
  return true;
}

const char* fault_message() noexcept { return t_message; }

void device_reset(int device) noexcept {
  if (!lost(device)) return;
  g_lost.fetch_and(~(uint64_t{1} << device));
  if (tell_loss) tell_loss(device, false);
}

}  // namespace softnpu::sanitize

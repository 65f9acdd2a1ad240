// aclprof*: profiles that a program asks for, written to PROF_* (recorder.h). Exported by libascendcl, where clients look them up;
// libmsprofiler, which depends on it in CANN's way, finds them there, too. One profile at a time in a process. What it is not:
// subscriptions to operators of offline models (aclprofModelSubscribe, aclprofGetOp*): there is none to subscribe to.
#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <pthread.h>
#include <unistd.h>

#include "acl/api.h"
#include "softnpu/runtime/error.h"
#include "softnpu/trace/recorder.h"

using softnpu::fail;
using softnpu::guarded;
using softnpu::need;
using softnpu::prof::Choice;
using softnpu::prof::Recorder;
using softnpu::trace::Mark;
using softnpu::trace::Point;

struct aclprofConfig {
  std::vector<int> devices;
  uint64_t bits;
};

struct aclprofStepInfo {
  uint64_t number;
};

namespace {

constexpr uint64_t kTasks = ACL_PROF_TASK_TIME | ACL_PROF_TASK_TIME_L0 | ACL_PROF_TASK_TIME_L2 | ACL_PROF_TASK_TIME_L3;
constexpr uint64_t kShapes =
    ACL_PROF_TASK_TIME | ACL_PROF_TASK_TIME_L2 | ACL_PROF_TASK_TIME_L3 | uint64_t{ACL_PROF_AICORE_SHAPE};
constexpr uint64_t kAclApi = 0x1, kRuntimeApi = 0x100;

// A text of the program's, at a mark or over a range.
struct Stamp {
  std::string message;
};

struct State {
  std::mutex mutex;  // before the recorder's, with which a profile begins
  bool ready = false;
  std::string folder;
  int memory_hz = 0;
  const aclprofConfig* started = nullptr;
  std::unordered_set<const void*> configs, steps, stamps;
};
State& state() {
  static State& s = *new State;
  return s;
}

std::atomic<uint64_t> g_marks{1};

void need_ready(const State& s) {
  if (!s.ready) fail(ACL_ERROR_PROF_NOT_RUN, "call aclprofInit first");
}

const aclprofConfig& known(const State& s, const aclprofConfig* config) {
  need(config, "profilerConfig");
  if (!s.configs.count(config)) fail(ACL_ERROR_INVALID_PARAM, "this is no configuration of aclprofCreateConfig");
  return *config;
}

Stamp& stamp_of(State& s, void* stamp) {
  if (!s.stamps.count(stamp)) fail(ACL_ERROR_INVALID_PARAM, "this is no stamp of aclprofCreateStamp");
  return *static_cast<Stamp*>(stamp);
}

void mark(Point point, const char* message, uint64_t id, aclrtStream stream = nullptr) {
  if (!softnpu::trace::on()) return;
  softnpu::trace::mark({.id = id, .name = point == Point::kEnd ? nullptr : message, .point = point}, stream);
}

// Ranges that the calling thread has pushed.
std::vector<uint64_t>& pushed() {
  static thread_local std::vector<uint64_t> mine;
  return mine;
}

// What a client asks a version of CANN for. Laid out as its C++ class, whose destructor is virtual.
struct Feature {
  virtual ~Feature() = default;
  char name[64], compatible[16], version[16], component[16], of_version[16], notes[128];
};
static_assert(sizeof(Feature) == 264);

Feature* shapes() {
  static Feature& it = *new Feature{};
  static const bool filled = [] {
    strcpy(it.name, "AICORE_SHAPE");
    strcpy(it.compatible, "1");
    strcpy(it.version, "1");
    strcpy(it.component, "all");
    strcpy(it.of_version, "all");
    return true;
  }();
  return filled ? &it : nullptr;
}

// `msprof command`: the process is profiled from its first call to its end. The end comes after the runtime's own, since what is
// registered first runs last.
__attribute__((constructor)) void begin_as_the_environment_says() {
  const char* folder = getenv("ANYCEND_MSPROF");
  if (folder == nullptr || *folder == 0) return;
  Recorder::get().begin_when_used(folder);
  pthread_atfork(nullptr, nullptr, [] { Recorder::get().forget(); });
  atexit([] {
    try {
      if (Recorder::get().running()) Recorder::get().end();
    } catch (const softnpu::Error& error) {
      softnpu::report("msprof", error.code, error.message.c_str());
      fprintf(stderr, "[WARNING] msprof: process %d: %s\n", int(getpid()), error.message.c_str());
    } catch (const std::exception& error) {
      fprintf(stderr, "[WARNING] msprof: process %d has not ended its profile: %s\n", int(getpid()), error.what());
    }
  });
}

}  // namespace

SOFTNPU_EXPORT aclError aclprofInit(const char* profilerResultPath, size_t length) {
  return guarded(__func__, [&] {
    need(profilerResultPath, "profilerResultPath");
    if (length == 0 || strnlen(profilerResultPath, length) != length)
      fail(ACL_ERROR_INVALID_PARAM, "length is %zu, and not that of profilerResultPath", length);
    State& s = state();
    std::lock_guard lock(s.mutex);
    if (s.ready) fail(ACL_ERROR_REPEAT_INITIALIZE, "it was called already: call aclprofFinalize first");
    s.folder.assign(profilerResultPath, length);
    s.memory_hz = 0;
    s.ready = true;
  });
}

SOFTNPU_EXPORT aclError aclprofFinalize() {
  return guarded(__func__, [&] {
    State& s = state();
    {
      std::lock_guard lock(s.mutex);
      need_ready(s);
      s.ready = false;
      if (!std::exchange(s.started, nullptr)) return;
    }
    Recorder::get().end();  // writes, and waits for a thread
  });
}

SOFTNPU_EXPORT aclError aclprofSetConfig(aclprofConfigType configType, const char* config, size_t configLength) {
  return guarded(__func__, [&] {
    need(config, "config");
    if (configType != ACL_PROF_SYS_HARDWARE_MEM_FREQ)
      fail(ACL_ERROR_FEATURE_UNSUPPORTED,
           "type %d asks for figures of hardware that the software NPU has not: only ACL_PROF_SYS_HARDWARE_MEM_FREQ "
           "(3) works",
           int(configType));
    int hz = 0;
    const char* last = config + strnlen(config, configLength);
    const auto [end, wrong] = std::from_chars(config, last, hz);
    if (wrong != std::errc() || end != last || hz < 1 || hz > 50)
      fail(ACL_ERROR_INVALID_PROFILING_CONFIG, "the frequency of memory is a number from 1 to 50");
    State& s = state();
    std::lock_guard lock(s.mutex);
    need_ready(s);
    s.memory_hz = hz;
  });
}

// Counters of AI cores and the bits of hardware have no source here. They are not refused: clients ask for them by default (the vendor's
// profiler for PipeUtilization), and the tables say N/A in their columns. `msprof`, which a person calls, warns of them.
SOFTNPU_EXPORT aclprofConfig* aclprofCreateConfig(uint32_t* deviceIdList, uint32_t deviceNums,
                                                  aclprofAicoreMetrics aicoreMetrics,
                                                  const aclprofAicoreEvents* aicoreEvents, uint64_t dataTypeConfig) {
  aclprofConfig* made = nullptr;
  guarded(__func__, [&] {
    if (deviceNums) need(deviceIdList, "deviceIdList");
    auto config = std::make_unique<aclprofConfig>();
    config->devices.assign(deviceIdList, deviceIdList + deviceNums);
    config->bits = dataTypeConfig;
    State& s = state();
    std::lock_guard lock(s.mutex);
    s.configs.insert(config.get());
    made = config.release();
  });
  return made;
}

SOFTNPU_EXPORT aclError aclprofDestroyConfig(const aclprofConfig* profilerConfig) {
  return guarded(__func__, [&] {
    State& s = state();
    std::lock_guard lock(s.mutex);
    known(s, profilerConfig);
    if (s.started == profilerConfig)
      fail(ACL_ERROR_INVALID_PARAM, "a profile is being made with it: call aclprofStop first");
    s.configs.erase(profilerConfig);
    delete profilerConfig;
  });
}

// There is nothing to warm: the first record costs what the others do.
SOFTNPU_EXPORT aclError aclprofWarmup(const aclprofConfig* profilerConfig) {
  return guarded(__func__, [&] {
    State& s = state();
    std::lock_guard lock(s.mutex);
    need_ready(s);
    known(s, profilerConfig);
  });
}

SOFTNPU_EXPORT aclError aclprofStart(const aclprofConfig* profilerConfig) {
  return guarded(__func__, [&] {
    State& s = state();
    std::lock_guard lock(s.mutex);
    need_ready(s);
    const aclprofConfig& config = known(s, profilerConfig);
    Recorder::get().begin({.folder = s.folder,
                           .devices = config.devices,
                           .tasks = (config.bits & kTasks) != 0,
                           .calls = (config.bits & (kAclApi | kRuntimeApi)) != 0,
                           .tensors = (config.bits & kShapes) != 0,
                           .marks = (config.bits & ACL_PROF_MSPROFTX) != 0,
                           .memory_hz = s.memory_hz});
    s.started = profilerConfig;
  });
}

SOFTNPU_EXPORT aclError aclprofStop(const aclprofConfig* profilerConfig) {
  return guarded(__func__, [&] {
    State& s = state();
    {
      std::lock_guard lock(s.mutex);
      known(s, profilerConfig);
      if (s.started != profilerConfig)
        fail(ACL_ERROR_PROF_NOT_RUN, "no profile is being made with this configuration: call aclprofStart first");
      s.started = nullptr;
    }
    Recorder::get().end();
  });
}

// In CANN a profile hears of the devices that the program sets. Here it has the records of all that it was asked for.
SOFTNPU_EXPORT aclError aclprofRegisterDeviceCallback() { return ACL_SUCCESS; }

SOFTNPU_EXPORT aclError aclprofGetSupportedFeatures(size_t* featuresSize, void** featuresData) {
  return guarded(__func__, [&] {
    need(featuresSize, "featuresSize");
    need(featuresData, "featuresData");
    *featuresSize = 0;
    *featuresData = nullptr;
  });
}

SOFTNPU_EXPORT aclError aclprofGetSupportedFeaturesV2(size_t* featuresSize, void** featuresData) {
  return guarded(__func__, [&] {
    need(featuresSize, "featuresSize");
    need(featuresData, "featuresData");
    *featuresSize = 1;
    *featuresData = shapes();
  });
}

SOFTNPU_EXPORT aclprofStepInfo* aclprofCreateStepInfo() {
  aclprofStepInfo* made = nullptr;
  guarded(__func__, [&] {
    auto step = std::make_unique<aclprofStepInfo>();
    step->number = g_marks.fetch_add(1);
    State& s = state();
    std::lock_guard lock(s.mutex);
    s.steps.insert(step.get());
    made = step.release();
  });
  return made;
}

SOFTNPU_EXPORT void aclprofDestroyStepInfo(aclprofStepInfo* stepinfo) {
  guarded(__func__, [&] {
    State& s = state();
    std::lock_guard lock(s.mutex);
    if (!s.steps.erase(stepinfo)) fail(ACL_ERROR_INVALID_PARAM, "this is no step of aclprofCreateStepInfo");
    delete stepinfo;
  });
}

SOFTNPU_EXPORT aclError aclprofGetStepTimestamp(aclprofStepInfo* stepInfo, aclprofStepTag tag, aclrtStream stream) {
  return guarded(__func__, [&] {
    uint64_t number = 0;
    {
      State& s = state();
      std::lock_guard lock(s.mutex);
      if (!s.steps.count(stepInfo)) fail(ACL_ERROR_INVALID_PARAM, "this is no step of aclprofCreateStepInfo");
      number = stepInfo->number;
    }
    if (tag != ACL_STEP_START && tag != ACL_STEP_END)
      fail(ACL_ERROR_INVALID_PARAM, "tag is %d, and neither ACL_STEP_START nor ACL_STEP_END", int(tag));
    mark(tag == ACL_STEP_START ? Point::kStart : Point::kEnd, softnpu::trace::interned("step"), number, stream);
  });
}

SOFTNPU_EXPORT aclError aclprofMarkEx(const char* msg, size_t msgLen, aclrtStream stream) {
  return guarded(__func__, [&] {
    need(msg, "msg");
    if (!softnpu::trace::on()) return;  // a text that nobody reads is not kept
    const std::string text(msg, strnlen(msg, msgLen));
    mark(Point::kInstant, softnpu::trace::interned(text.c_str()), g_marks.fetch_add(1), stream);
  });
}

SOFTNPU_EXPORT void* aclprofCreateStamp() {
  Stamp* made = nullptr;
  guarded(__func__, [&] {
    auto stamp = std::make_unique<Stamp>();
    State& s = state();
    std::lock_guard lock(s.mutex);
    s.stamps.insert(stamp.get());
    made = stamp.release();
  });
  return made;
}

SOFTNPU_EXPORT void aclprofDestroyStamp(void* stamp) {
  guarded(__func__, [&] {
    State& s = state();
    std::lock_guard lock(s.mutex);
    Stamp* its = &stamp_of(s, stamp);
    s.stamps.erase(stamp);
    delete its;
  });
}

SOFTNPU_EXPORT aclError aclprofSetStampTraceMessage(void* stamp, const char* msg, uint32_t msgLen) {
  return guarded(__func__, [&] {
    need(msg, "msg");
    std::string text(msg, strnlen(msg, msgLen));
    State& s = state();
    std::lock_guard lock(s.mutex);
    stamp_of(s, stamp).message = std::move(text);
  });
}

namespace {

// The stamp's message, after checking that there is such a stamp; null where nobody reads it.
const char* message_of(void* stamp) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  const Stamp& its = stamp_of(s, stamp);
  return softnpu::trace::on() ? softnpu::trace::interned(its.message.c_str()) : nullptr;
}

}  // namespace

SOFTNPU_EXPORT aclError aclprofMark(void* stamp) {
  return guarded(__func__, [&] { mark(Point::kInstant, message_of(stamp), g_marks.fetch_add(1)); });
}

SOFTNPU_EXPORT aclError aclprofPush(void* stamp) {
  return guarded(__func__, [&] {
    const char* message = message_of(stamp);
    pushed().push_back(g_marks.fetch_add(1));
    mark(Point::kStart, message, pushed().back());
  });
}

SOFTNPU_EXPORT aclError aclprofPop() {
  return guarded(__func__, [&] {
    if (pushed().empty()) fail(ACL_ERROR_INVALID_PARAM, "this thread has pushed no range: call aclprofPush first");
    mark(Point::kEnd, nullptr, pushed().back());
    pushed().pop_back();
  });
}

SOFTNPU_EXPORT aclError aclprofRangeStart(void* stamp, uint32_t* rangeId) {
  return guarded(__func__, [&] {
    need(rangeId, "rangeId");
    const char* message = message_of(stamp);
    *rangeId = uint32_t(g_marks.fetch_add(1));
    mark(Point::kStart, message, *rangeId);
  });
}

SOFTNPU_EXPORT aclError aclprofRangeStop(uint32_t rangeId) {
  return guarded(__func__, [&] { mark(Point::kEnd, nullptr, rangeId); });
}

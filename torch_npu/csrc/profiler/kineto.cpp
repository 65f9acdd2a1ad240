// The NPU's part of torch.profiler: a profiler that kineto asks for device events, through the registry that PyTorch has for back ends.
// Kernels, copies, fills and collectives become rows of device and stream; the calls that asked for them become rows of the host thread,
// with a flow from each to its task; both are linked to the PyTorch operator they were made in.
#include <c10/util/Exception.h>
#include <libkineto.h>
#include <output_base.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "csrc/core/torch_version.h"
#include "csrc/profiler/recording.h"
#include NPU_KINETO_REGISTRY

namespace npu::profiler {
namespace {

using libkineto::ActivityType;
using libkineto::GenericTraceActivity;

const std::set<ActivityType>& types() {
  static const std::set<ActivityType> all{ActivityType::CONCURRENT_KERNEL,   ActivityType::GPU_MEMCPY,
                                          ActivityType::GPU_MEMSET,          ActivityType::PRIVATEUSE1_RUNTIME,
                                          ActivityType::PRIVATEUSE1_DRIVER,  ActivityType::GPU_USER_ANNOTATION,
                                          ActivityType::EXTERNAL_CORRELATION};
  return all;
}

const char* copy_name(msptiActivityMemcpyKind kind) {
  switch (kind) {
    case MSPTI_ACTIVITY_MEMCPY_KIND_HOST:
      return "Memcpy HtoH";
    case MSPTI_ACTIVITY_MEMCPY_KIND_HTOD:
      return "Memcpy HtoD";
    case MSPTI_ACTIVITY_MEMCPY_KIND_DTOH:
      return "Memcpy DtoH";
    case MSPTI_ACTIVITY_MEMCPY_KIND_DTOD:
      return "Memcpy DtoD";
    default:
      return "Memcpy";
  }
}

// Kineto escapes nothing in a row's words, and turns backslashes: what would end the text is written as something near it.
std::string plain(const char* text) {
  std::string out(text);
  for (char& c : out) {
    if (c == '"') c = '\'';
    if (c == '\\') c = '/';
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return out;
}

const char* data_type(int type) {
  static constexpr const char* kNames[] = {"Int8",   "Short", "Int",    "Half",   "Float",  "Long",
                                           "UInt64", "Byte",  "UInt16", "UInt32", "Double", "BFloat16"};
  return type >= 0 && type < 12 ? kNames[type] : "unknown";
}

class Session final : public libkineto::IActivityProfilerSession {
 public:
  void start() override {
    why_ = recording_.begin();
    if (!why_.empty()) TORCH_WARN("npu: the trace has no device events: ", why_);
  }
  void stop() override {
    recording_.end();
    if (recording_.lost())
      TORCH_WARN("npu: the trace lacks device events: there was no memory for all of libmspti's records");
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    stopped_ = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
  }
  std::vector<std::string> errors() override { return why_.empty() ? std::vector<std::string>{} : std::vector{why_}; }
  void pushCorrelationId(uint64_t id) override {
    if (why_.empty()) push_operator(id);
  }
  void popCorrelationId() override {
    if (why_.empty()) pop_operator();
  }
  // Of record_function: a task is linked to its operator, and kineto has the range that this one lies in.
  void pushUserCorrelationId(uint64_t) override {}
  void popUserCorrelationId() override {}

  void processTrace(libkineto::ActivityLogger& logger) override { processTrace(logger, nullptr, 0, INT64_MAX); }
  void processTrace(libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback linked, int64_t,
                    int64_t) override {
    if (!why_.empty()) return;
    recording_.end();
    linked_ = std::move(linked);
    trace_.span = libkineto::TraceSpan(0, 0, "npu");
    collect();
    for (auto& activity : trace_.activities) activity->log(logger);
    tell_rows(logger);
  }

  // Rows are named by processTrace: there may be several devices.
  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override { return nullptr; }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override { return {}; }
  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override {
    auto all = std::make_unique<libkineto::CpuTraceBuffer>();
    all->span = trace_.span;
    all->gpuOpCount = 0;
    all->activities = std::move(trace_.activities);
    return all;
  }

 private:
  // First what the others refer to, then the rows.
  void collect() {
    recording_.each([this](const msptiActivity& record) {
      if (record.kind == MSPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) {
        const auto& e = reinterpret_cast<const msptiActivityExternalCorrelation&>(record);
        if (e.externalKind == kOperators) operators_[e.correlationId] = e.externalId;
      } else if (record.kind == SOFTNPU_ACTIVITY_KIND_TENSORS) {
        const auto& t = reinterpret_cast<const softnpuActivityTensors&>(record);
        tensors_[t.correlationId] = &t;
      } else if (const uint64_t id = task_of(record)) {
        tasks_.insert(id);
      } else if (record.kind == MSPTI_ACTIVITY_KIND_API || record.kind == MSPTI_ACTIVITY_KIND_ACL_API) {
        calls_.insert(reinterpret_cast<const msptiActivityApi&>(record).correlationId);
      }
    });
    recording_.each([this](const msptiActivity& record) { add(record); });
    for (auto& open : open_) {
      for (const auto& [id, from] : open)
        range(*from, std::max(stopped_, from->timestamp)).addMetadata("unfinished", uint64_t{1});
      open.clear();
    }
  }

  // The correlation of a record that is a row of the device, or 0.
  static uint64_t task_of(const msptiActivity& record) {
    switch (int(record.kind)) {
      case MSPTI_ACTIVITY_KIND_KERNEL:
        return reinterpret_cast<const msptiActivityKernel&>(record).correlationId;
      case MSPTI_ACTIVITY_KIND_MEMCPY:
        return reinterpret_cast<const msptiActivityMemcpy&>(record).correlationId;
      case MSPTI_ACTIVITY_KIND_MEMSET:
        return reinterpret_cast<const msptiActivityMemset&>(record).correlationId;
      case MSPTI_ACTIVITY_KIND_COMMUNICATION:
        return reinterpret_cast<const msptiActivityCommunication&>(record).correlationId;
      default:
        return 0;
    }
  }

  void add(const msptiActivity& record) {
    switch (int(record.kind)) {
      case MSPTI_ACTIVITY_KIND_KERNEL:
        return add(reinterpret_cast<const msptiActivityKernel&>(record));
      case MSPTI_ACTIVITY_KIND_MEMCPY:
        return add(reinterpret_cast<const msptiActivityMemcpy&>(record));
      case MSPTI_ACTIVITY_KIND_MEMSET:
        return add(reinterpret_cast<const msptiActivityMemset&>(record));
      case MSPTI_ACTIVITY_KIND_COMMUNICATION:
        return add(reinterpret_cast<const msptiActivityCommunication&>(record));
      case MSPTI_ACTIVITY_KIND_API:
      case MSPTI_ACTIVITY_KIND_ACL_API:
        return add(reinterpret_cast<const msptiActivityApi&>(record));
      case MSPTI_ACTIVITY_KIND_MARKER:
        return add(reinterpret_cast<const msptiActivityMarker&>(record));
      default:
        return;
    }
  }

  GenericTraceActivity& row(ActivityType type, const char* name, uint64_t start, uint64_t end, uint64_t correlation) {
    trace_.emplace_activity(trace_.span, type, name ? name : "");
    GenericTraceActivity& a = *trace_.activities.back();
    a.startTime = static_cast<int64_t>(start);
    a.endTime = static_cast<int64_t>(end);
    a.id = static_cast<int32_t>(correlation);
    const auto found = operators_.find(correlation);
    if (linked_ && found != operators_.end()) a.linked = linked_(static_cast<int32_t>(found->second));
    return a;
  }

  GenericTraceActivity& task(ActivityType type, const char* name, uint64_t start, uint64_t end, uint64_t correlation,
                             uint32_t device, uint32_t stream) {
    GenericTraceActivity& a = row(type, name, start, end, correlation);
    place(a, device, stream);
    flow(a, correlation, false);
    a.addMetadata("correlation", correlation);
    return a;
  }

  void place(GenericTraceActivity& a, uint32_t device, uint32_t stream) {
    a.device = static_cast<int32_t>(device);
    a.resource = static_cast<int32_t>(stream);
    streams_[a.device].insert(a.resource);
    a.addMetadata("device", a.device);
    a.addMetadata("stream", a.resource);
  }

  // A flow has both ends, or none: a task may have outlived the recording, and a call may have been made before it.
  void flow(GenericTraceActivity& a, uint64_t correlation, bool start) const {
    if (!(start ? tasks_ : calls_).count(correlation)) return;
    a.flow.id = static_cast<uint32_t>(correlation);
    a.flow.type = libkineto::kLinkAsyncCpuGpu;
    a.flow.start = start;
  }

  void add(const msptiActivityKernel& k) {
    GenericTraceActivity& a =
        task(ActivityType::CONCURRENT_KERNEL, k.name, k.start, k.end, k.correlationId, k.ds.deviceId, k.ds.streamId);
    if (k.type) a.addMetadataQuoted("task type", k.type);
    const auto found = tensors_.find(k.correlationId);
    if (found == tensors_.end()) return;
    const softnpuActivityTensors& t = *found->second;
    a.addMetadata("task", static_cast<uint64_t>(t.taskId));
    a.addMetadataQuoted("input shapes", t.inputShapes);
    a.addMetadataQuoted("input types", t.inputTypes);
    a.addMetadataQuoted("input formats", t.inputFormats);
    a.addMetadataQuoted("output shapes", t.outputShapes);
    a.addMetadataQuoted("output types", t.outputTypes);
    a.addMetadataQuoted("output formats", t.outputFormats);
  }

  void add(const msptiActivityMemcpy& c) {
    GenericTraceActivity& a =
        task(ActivityType::GPU_MEMCPY, copy_name(c.copyKind), c.start, c.end, c.correlationId, c.deviceId, c.streamId);
    a.addMetadata("bytes", static_cast<uint64_t>(c.bytes));
    if (c.end > c.start)
      a.addMetadata("memory bandwidth (GB/s)", static_cast<double>(c.bytes) / static_cast<double>(c.end - c.start));
  }

  void add(const msptiActivityMemset& f) {
    GenericTraceActivity& a =
        task(ActivityType::GPU_MEMSET, "Memset (Device)", f.start, f.end, f.correlationId, f.deviceId, f.streamId);
    a.addMetadata("bytes", static_cast<uint64_t>(f.bytes));
  }

  void add(const msptiActivityCommunication& c) {
    GenericTraceActivity& a =
        task(ActivityType::CONCURRENT_KERNEL, c.name, c.start, c.end, c.correlationId, c.ds.deviceId, c.ds.streamId);
    a.addMetadataQuoted("task type", "COMMUNICATION");
    a.addMetadataQuoted("Collective name", c.name ? c.name : "");
    a.addMetadataQuoted("dtype", data_type(c.dataType));
    a.addMetadata("count", static_cast<uint64_t>(c.count));
    a.addMetadataQuoted("communicator", plain(c.commName ? c.commName : ""));
  }

  void add(const msptiActivityApi& c) {
    GenericTraceActivity& a = row(ActivityType::PRIVATEUSE1_RUNTIME, c.name, c.start, c.end, c.correlationId);
    a.device = static_cast<int32_t>(c.pt.processId);
    a.resource = static_cast<int32_t>(c.pt.threadId);
    a.threadId = a.resource;
    flow(a, c.correlationId, true);
    a.addMetadata("correlation", static_cast<uint64_t>(c.correlationId));
  }

  // Of mstx: rows of the thread that named a range, and of the stream that it has a place in.
  void add(const msptiActivityMarker& m) {
    auto& open = open_[m.sourceKind == MSPTI_ACTIVITY_SOURCE_KIND_DEVICE];
    const msptiActivityMarker* from = &m;
    if (m.flag == MSPTI_ACTIVITY_FLAG_MARKER_START || m.flag == MSPTI_ACTIVITY_FLAG_MARKER_START_WITH_DEVICE) {
      open[m.id] = &m;
      return;
    }
    if (m.flag == MSPTI_ACTIVITY_FLAG_MARKER_END || m.flag == MSPTI_ACTIVITY_FLAG_MARKER_END_WITH_DEVICE) {
      const auto found = open.find(m.id);
      if (found == open.end()) return;  // begun before the recording
      from = found->second;
      open.erase(found);
    }
    range(*from, m.timestamp);
  }

  GenericTraceActivity& range(const msptiActivityMarker& from, uint64_t end) {
    const bool on_device = from.sourceKind == MSPTI_ACTIVITY_SOURCE_KIND_DEVICE;
    const auto type = on_device ? ActivityType::GPU_USER_ANNOTATION : ActivityType::PRIVATEUSE1_DRIVER;
    GenericTraceActivity& a = row(type, from.name, from.timestamp, end, 0);
    if (on_device) {
      place(a, from.objectId.ds.deviceId, from.objectId.ds.streamId);
    } else {
      a.device = static_cast<int32_t>(from.objectId.pt.processId);
      a.resource = a.threadId = static_cast<int32_t>(from.objectId.pt.threadId);
    }
    a.addMetadataQuoted("domain", plain(from.domain ? from.domain : "default"));
    return a;
  }

  void tell_rows(libkineto::ActivityLogger& logger) const {
    for (const auto& [device, streams] : streams_) {
      const std::string label = "NPU " + std::to_string(device);
      logger.handleDeviceInfo({device, libkineto::kExceedMaxPid + device, "python", label}, 0);
      for (const int stream : streams)
        logger.handleResourceInfo({stream, stream, device, "stream " + std::to_string(stream)}, 0);
    }
  }

  Recording recording_;
  uint64_t stopped_ = 0;  // where ranges end that are still open
  std::string why_;
  libkineto::getLinkedActivityCallback linked_;
  libkineto::CpuTraceBuffer trace_{};
  std::unordered_map<uint64_t, uint64_t> operators_;
  std::unordered_map<uint64_t, const softnpuActivityTensors*> tensors_;
  std::unordered_set<uint64_t> tasks_, calls_;
  std::unordered_map<uint64_t, const msptiActivityMarker*> open_[2];  // of the host, of the device
  std::map<int, std::set<int>> streams_;
};

class Profiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override {
    static const std::string its = "npu";
    return its;
  }
  const std::set<ActivityType>& availableActivities() const override { return types(); }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(const std::set<ActivityType>& wanted,
                                                                 const libkineto::Config&) override {
    // With host activities alone kineto still asks.
    if (!wanted.count(ActivityType::CONCURRENT_KERNEL)) return nullptr;
    return std::make_unique<Session>();
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(int64_t, int64_t, const std::set<ActivityType>& wanted,
                                                                 const libkineto::Config& config) override {
    return configure(wanted, config);
  }
};

REGISTER_PRIVATEUSE1_PROFILER(Profiler);

}  // namespace
}  // namespace npu::profiler

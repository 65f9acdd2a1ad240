// See recorder.h. c10d's template does the work, with the end of a WorkHCCL as its event.
#include "csrc/distributed/recorder.h"

#include <c10/util/Logging.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <fstream>
#include <map>
#include <mutex>
#include <thread>

#include <torch/csrc/distributed/c10d/FlightRecorderDetail.hpp>

#include "csrc/distributed/settings.h"

namespace c10d {
// Never asked for: retire says so.
template <>
float getDurationFromEvent<npu::distributed::WorkHCCL>(npu::distributed::WorkHCCL&, npu::distributed::WorkHCCL&) {
  return 0;
}
}  // namespace c10d

namespace npu::distributed::recorder {
namespace {

using Recorder = c10d::FlightRecorder<WorkHCCL>;

struct Sequence {
  size_t collectives = 0, messages = 0, calls = 0;
  std::shared_ptr<c10d::ProcessGroupStatus> status = std::make_shared<c10d::ProcessGroupStatus>();
};
struct State {
  Recorder recorder;
  std::mutex mutex;
  std::map<size_t, Sequence> groups;
  int dumps = 0;  // threads that write one
  std::condition_variable dumped;
  State() {
    recorder.max_entries_ = settings().trace_buffer_size;
    recorder.enabled_ = recorder.max_entries_ > 0;
    recorder.capture_cpp_stack_ = settings().trace_cpp_stack;
  }
};
State& state() {
  static auto* const the = new State;  // leaked: it holds Python's objects
  return *the;
}

}  // namespace

bool enabled() { return settings().trace_buffer_size > 0; }

std::optional<size_t> record(const Group& group, WorkHCCL& work, const std::vector<at::Tensor>& inputs, bool message) {
  if (!enabled()) return {};
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  const bool known = s.groups.count(group.id);
  Sequence& sequence = s.groups[group.id];
  const auto name = std::make_tuple(group.name, group.description);
  if (!known) s.recorder.record_pg_ranks(name, group.ranks);
  ++(message ? sequence.messages : sequence.collectives);
  sequence.status->lastEnqueuedSeq = static_cast<int64_t>(work.getSequencenumber());
  sequence.status->lastEnqueuedWorkName = c10d::opTypeToString(work.info().type);
  return s.recorder.record(group.id, name, sequence.collectives, sequence.messages, ++sequence.calls, work.info().title,
                           inputs, work.info().outputs, nullptr, &work, work.info().timeout, sequence.status, message);
}

void retire(std::optional<size_t> entry) {
  if (entry) state().recorder.retire_id(entry, /*compute_duration=*/false);
}

std::string dump(bool collectives, bool stacks, bool only_active) {
  return state().recorder.dump({}, collectives, stacks, only_active);
}

std::string dump_json(bool collectives, bool only_active) {
  return state().recorder.dump_json({}, collectives, only_active);
}

void dump_after_failure(int rank) {
  if (!enabled() || !settings().dump_on_timeout) return;
  State& s = state();
  {
    std::lock_guard<std::mutex> lock(s.mutex);
    ++s.dumps;
  }
  std::thread([rank, &s] {
    const std::string path = settings().trace_file + std::to_string(rank);
    const std::string calls = dump(true, true, false), part = path + ".part";
    std::ofstream file(part, std::ios::binary);
    file << calls;
    file.close();
    const bool written = file && std::rename(part.c_str(), path.c_str()) == 0;  // who looks finds all of it or nothing
    LOG(ERROR) << "ProcessGroupHCCL: the last calls "
               << (written ? "are in " : "could not be written (TORCH_HCCL_DEBUG_INFO_TEMP_FILE) to ") << path;
    std::lock_guard<std::mutex> lock(s.mutex);
    --s.dumps;
    s.dumped.notify_all();
  }).detach();
}

void finish_dumps() {
  if (!enabled()) return;
  State& s = state();
  std::unique_lock<std::mutex> lock(s.mutex);
  s.dumped.wait_for(lock, std::chrono::seconds(30), [&] { return !s.dumps; });
}

}  // namespace npu::distributed::recorder

// The caching allocator for Python: statistics, snapshots for PyTorch's memory viewer, history, raw pointers.
#include <c10/util/ApproximateClock.h>
#include <torch/csrc/profiler/combined_traceback.h>

#include <unordered_map>
#include <vector>

#include "csrc/core/allocator.h"
#include "csrc/core/allocator_config.h"
#include "csrc/core/device_index.h"
#include "csrc/core/info.h"
#include "csrc/core/memory_points.h"
#include "csrc/core/pinned.h"
#include "csrc/core/stream.h"
#include "csrc/python/bind.h"

namespace torch {
// Declared in torch/csrc/profiler/python/combined_traceback.h, which includes a JSON library for another function.
TORCH_API std::vector<pybind11::object> py_symbolize(std::vector<CapturedTraceback*>& to_symbolize);
}  // namespace torch

namespace npu::python {
namespace {

using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;
using c10::CachingDeviceAllocator::RecordContext;
using c10::CachingDeviceAllocator::TraceEntry;

py::dict to_dict(const Stat& stat) {
  py::dict d;
  d["current"] = stat.current;
  d["peak"] = stat.peak;
  d["allocated"] = stat.allocated;
  d["freed"] = stat.freed;
  return d;
}

py::dict to_dict(const StatArray& stats) {
  py::dict d;
  d["all"] = to_dict(stats[0]);
  d["small_pool"] = to_dict(stats[1]);
  d["large_pool"] = to_dict(stats[2]);
  return d;
}

// (address, bytes, active bytes, stream), as they came.
py::list memory_points() {
  py::list all;
  for (const MemoryPoint& p : take_memory_points())
    all.append(py::make_tuple(reinterpret_cast<uintptr_t>(p.address), p.bytes, p.active,
                              reinterpret_cast<uintptr_t>(p.stream)));
  return all;
}

py::dict device_stats(int index) {
  DeviceStats s;
  {
    py::gil_scoped_release no_gil;
    s = memory::stats(device_index(index));
  }
  py::dict d;
  d["num_alloc_retries"] = s.num_alloc_retries;
  d["num_ooms"] = s.num_ooms;
  d["num_sync_all_streams"] = s.num_sync_all_streams;
  d["num_device_alloc"] = s.num_device_alloc;
  d["num_device_free"] = s.num_device_free;
  d["num_oom_rejections"] = s.num_oom_rejections;
  d["max_split_size"] = s.max_split_size;
  d["allocation"] = to_dict(s.allocation);
  d["segment"] = to_dict(s.segment);
  d["active"] = to_dict(s.active);
  d["inactive_split"] = to_dict(s.inactive_split);
  d["allocated_bytes"] = to_dict(s.allocated_bytes);
  d["reserved_bytes"] = to_dict(s.reserved_bytes);
  d["active_bytes"] = to_dict(s.active_bytes);
  d["inactive_split_bytes"] = to_dict(s.inactive_split_bytes);
  d["requested_bytes"] = to_dict(s.requested_bytes);
  d["oversize_allocations"] = to_dict(s.oversize_allocations);
  d["oversize_segments"] = to_dict(s.oversize_segments);
  py::dict private_pools;
  for (const auto& [id, stats] : s.reserved_bytes_by_private_pools) private_pools[py::cast(id)] = to_dict(stats);
  d["reserved_bytes_by_private_pools"] = private_pools;
  return d;
}

py::dict host_stats() {
  at::HostStats s;
  {
    py::gil_scoped_release no_gil;
    s = pinned_allocator()->get_stats();
  }
  const auto duration = [](const at::DurationStat& stat) {
    py::dict d;
    d["total"] = stat.total;
    d["max"] = stat.max;
    d["min"] = stat.min;
    d["count"] = stat.count;
    return d;
  };
  py::dict d;
  d["num_host_alloc"] = s.num_host_alloc;
  d["num_host_free"] = s.num_host_free;
  d["allocations"] = to_dict(s.allocations);
  d["active_requests"] = to_dict(s.active_requests);
  d["allocated_bytes"] = to_dict(s.allocated_bytes);
  d["active_bytes"] = to_dict(s.active_bytes);
  d["host_alloc_time"] = duration(s.host_alloc_time);
  d["host_free_time"] = duration(s.host_free_time);
  return d;
}

const char* name_of(TraceEntry::Action action) {
  switch (action) {
    case TraceEntry::ALLOC:
      return "alloc";
    case TraceEntry::FREE_REQUESTED:
      return "free_requested";
    case TraceEntry::FREE_COMPLETED:
      return "free_completed";
    case TraceEntry::SEGMENT_ALLOC:
      return "segment_alloc";
    case TraceEntry::SEGMENT_FREE:
      return "segment_free";
    case TraceEntry::SEGMENT_MAP:
      return "segment_map";
    case TraceEntry::SEGMENT_UNMAP:
      return "segment_unmap";
    case TraceEntry::SNAPSHOT:
      return "snapshot";
    case TraceEntry::OOM:
      return "oom";
  }
  return "unknown";
}

// Relates the entries' clock to the time of day. The longer it lives the better it does; begun with the first recording.
c10::ApproximateClockToUnixTimeConverter& clock() {
  static auto* const converter = new c10::ApproximateClockToUnixTimeConverter();
  return *converter;
}

// Stacks are symbolized together, once each: it is slow.
class Frames {
 public:
  void add(py::dict& where, const std::shared_ptr<c10::GatheredContext>& context) {
    if (auto* traceback = dynamic_cast<torch::CapturedTraceback*>(context.get())) {
      wanted_.emplace_back(where, traceback);
      if (seen_.emplace(traceback, all_.size()).second) all_.push_back(traceback);
    } else {
      where["frames"] = py::list();
    }
  }

  void finish() {
    if (all_.empty()) return;
    const std::vector<py::object> symbolized = torch::py_symbolize(all_);
    for (auto& [where, traceback] : wanted_) where["frames"] = symbolized[seen_[traceback]];
  }

 private:
  std::vector<std::pair<py::dict, torch::CapturedTraceback*>> wanted_;
  std::vector<torch::CapturedTraceback*> all_;
  std::unordered_map<torch::CapturedTraceback*, size_t> seen_;
};

// A negative index: every device.
py::dict memory_snapshot(int index) {
  memory::Snapshot snapshot;
  {
    py::gil_scoped_release no_gil;
    snapshot = memory::snapshot(device_index(index));
  }
  Frames frames;
  py::list segments;
  for (const auto& segment : snapshot.segments) {
    py::dict d;
    d["device"] = segment.device;
    d["address"] = segment.address;
    d["total_size"] = segment.total_size;
    d["allocated_size"] = segment.allocated_size;
    d["active_size"] = segment.active_size;
    d["requested_size"] = segment.requested_size;
    d["stream"] = reinterpret_cast<int64_t>(segment.stream);
    d["segment_type"] = segment.is_large ? "large" : "small";
    d["segment_pool_id"] = segment.owner_private_pool_id;
    d["is_expandable"] = segment.is_expandable;
    frames.add(d, segment.context_when_allocated);
    py::list blocks;
    size_t address = segment.address;
    for (const auto& block : segment.blocks) {
      py::dict b;
      b["address"] = address;
      b["size"] = block.size;
      b["requested_size"] = block.requested_size;
      b["state"] = block.allocated ? "active_allocated" : block.active ? "active_pending_free" : "inactive";
      frames.add(b, block.context_when_allocated);
      address += block.size;
      blocks.append(b);
    }
    d["blocks"] = blocks;
    segments.append(d);
  }
  const auto to_time = clock().makeConverter();
  py::list traces;
  for (const auto& device : snapshot.traces) {
    py::list entries;
    for (const TraceEntry& entry : device) {
      py::dict d;
      d["action"] = name_of(entry.action_);
      d[entry.action_ == TraceEntry::OOM ? "device_free" : "addr"] = entry.addr_;
      d["size"] = entry.size_;
      d["stream"] = reinterpret_cast<int64_t>(entry.stream_);
      d["time_us"] = to_time(entry.time_.approx_t_) / 1000;
      d["compile_context"] = entry.compile_context_;
      d["user_metadata"] = entry.user_metadata_;
      frames.add(d, entry.context_);
      entries.append(d);
    }
    traces.append(entries);
  }
  frames.finish();
  py::dict settings;
  settings["PYTORCH_NPU_ALLOC_CONF"] = SharedConfig::last_allocator_settings();
  settings["max_split_size"] = static_cast<int64_t>(SharedConfig::max_split_size());
  settings["garbage_collection_threshold"] = SharedConfig::garbage_collection_threshold();
  settings["expandable_segments"] = SharedConfig::use_expandable_segments();
  py::dict result;
  result["segments"] = segments;
  result["device_traces"] = traces;
  result["allocator_settings"] = settings;
  result["external_annotations"] = py::list();
  return result;
}

std::shared_ptr<c10::GatheredContext> gather_python() { return torch::CapturedTraceback::gather(true, true, false); }
std::shared_ptr<c10::GatheredContext> gather_all() { return torch::CapturedTraceback::gather(true, true, true); }

// `context`: which events carry a stack: "" none, else state, alloc or all.
void record_memory_history(int index, bool enabled, const std::string& context, bool cpp_stacks, size_t max_entries,
                           bool clear) {
  const RecordContext when = context == "all"     ? RecordContext::ALL
                             : context == "alloc" ? RecordContext::ALLOC
                             : context == "state" ? RecordContext::STATE
                                                  : RecordContext::NEVER;
  clock();
  memory::record_history(device_index(index), enabled, cpp_stacks ? &gather_all : &gather_python, max_entries, when,
                         clear);
}

}  // namespace

void bind_memory(pybind11::module& module) {
  module.def("_empty_cache", no_gil([] { device_allocator()->emptyCache(); }));
  module.def("_mem_get_info", no_gil([](int index) { return memory_info(device_index(index)); }));
  module.def("_memory_stats", with_gil(&device_stats));
  module.def("_keep_memory_points", no_gil(&keep_memory_points));
  module.def("_take_memory_points", with_gil(&memory_points));
  module.def("_reset_accumulated_stats",
             no_gil([](int index) { device_allocator()->resetAccumulatedStats(device_index(index)); }));
  module.def("_reset_peak_stats", no_gil([](int index) { device_allocator()->resetPeakStats(device_index(index)); }));
  module.def("_set_memory_fraction",
             no_gil([](double fraction, int index) { memory::set_fraction(fraction, device_index(index)); }));
  module.def("_get_memory_fraction", no_gil([](int index) { return memory::get_fraction(device_index(index)); }));
  module.def("_memory_snapshot", with_gil(&memory_snapshot));
  module.def("_record_memory_history", no_gil(&record_memory_history));
  module.def("_set_allocator_settings", no_gil([](const std::string& text) { set_allocator_config(text); }));
  module.def("_raw_alloc", no_gil([](size_t bytes, int64_t stream_id, int index) {
               check_device(device_index(index));
               const c10::Device device(c10::DeviceType::PrivateUse1, device_index(index));
               return reinterpret_cast<intptr_t>(
                   memory::raw_allocate(bytes, c10::Stream(c10::Stream::UNSAFE, device, stream_id)));
             }));
  module.def("_raw_free", no_gil([](int64_t pointer) {
               memory::raw_free(reinterpret_cast<void*>(static_cast<intptr_t>(pointer)));
             }));

  module.def("_use_source",
             no_gil([](uintptr_t alloc, uintptr_t free) { memory::use_source(source_at(alloc, free)); }));
  module.def("_has_source", with_gil(&memory::has_source));
  module.def("_host_memory_stats", with_gil(&host_stats));
  module.def("_host_empty_cache", no_gil([] { pinned_allocator()->empty_cache(); }));
  module.def("_host_reset_accumulated_stats", no_gil([] { pinned_allocator()->reset_accumulated_stats(); }));
  module.def("_host_reset_peak_stats", no_gil([] { pinned_allocator()->reset_peak_stats(); }));
}

}  // namespace npu::python

// The flight recorder: the last calls of all groups with their shapes, states and Python stacks, in c10d's own format (what
// `torchfrtrace` reads). Off unless TORCH_HCCL_TRACE_BUFFER_SIZE (or TORCH_FR_BUFFER_SIZE) is the number of calls to keep.
// Who calls it: the watchdog (record, retire, dump at a failure); the Python module (dumps).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "csrc/distributed/work.h"

namespace npu::distributed::recorder {

bool enabled();
// A group that records: its number in the dump. `ranks` are global.
struct Group {
  size_t id;
  std::string name, description;
  std::vector<uint64_t> ranks;
};
// The call's number in the record. `work` must be retired before it dies.
std::optional<size_t> record(const Group& group, WorkHCCL& work, const std::vector<at::Tensor>& inputs, bool message);
void retire(std::optional<size_t> entry);

NPU_API std::string dump(bool collectives, bool stacks, bool only_active);  // pickled
NPU_API std::string dump_json(bool collectives, bool only_active);
// TORCH_HCCL_DUMP_ON_TIMEOUT: to the file TORCH_HCCL_DEBUG_INFO_TEMP_FILE + rank, on a thread of its own (stacks need the
// interpreter, which whoever hangs may hold). Tells the log where.
void dump_after_failure(int rank);
void finish_dumps();  // of these threads; before the interpreter ends, and without its lock

}  // namespace npu::distributed::recorder

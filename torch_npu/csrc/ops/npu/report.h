// Tensors that are shown as a stream passes them, printed or saved: a copy to the host, then a function of the host that hands it over, both
// the stream's work. A graph holds them, too, and does it at each replay. A thread of Python's writes what was handed over
// (torch_npu/npu/_reports.py): the stream never waits for Python's lock, whose holder may wait for the stream.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "csrc/cann/export.h"

namespace npu {

struct Report {
  enum class Kind { kPrint, kSave, kSaveList };
  Kind kind;
  std::vector<at::Tensor> values;   // on the host
  std::optional<std::string> text;  // a name, or a path
  bool overwrite = false;
  c10::DeviceIndex device = -1;
  std::vector<at::Tensor> sources{};  // on the device; the writer lets go of them
};

// `start` makes the thread that writes, before the first report is sent; set once, while Python loads the plugin.
NPU_API void set_report_starter(void (*start)());
// Thread-safe. Waits for the next report; the one before it counts as written. Nothing: they are closed.
NPU_API std::optional<Report> next_report();
// Waits until all that was handed over is written; not on the thread that writes.
NPU_API void drain_reports();
NPU_API void close_reports();

namespace ops {

void limit_operators(int64_t timeout);  // time_limit.cpp

}  // namespace ops
}  // namespace npu

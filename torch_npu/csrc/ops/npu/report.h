// Tensors that are shown as a stream passes them, printed or saved: a copy to the host, then a function of the host, both the stream's work.
// A graph holds them, too, and does it at each replay. What it is not: what is written, which Python says (torch_npu/npu/_reports.py).
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
};

// Once, while Python loads the plugin. Called on a thread of CANN's, in the order of the stream; must not throw.
NPU_API void set_reporter(void (*reporter)(const Report&));

namespace ops {

void limit_operators(int64_t timeout);  // time_limit.cpp

}  // namespace ops
}  // namespace npu

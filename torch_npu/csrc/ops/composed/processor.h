// A composed operator's other way: on the software NPU, whose memory the processor reaches, PyTorch's own kernel of the CPU runs as one
// task of the current stream, over the tensors where they lie. The composition is what hardware runs: there this says no. What it is
// not: a fallback; nothing is copied or waited for. Who calls it: the generated wrappers of `compose:` rows, fft and linalg here.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <utility>
#include <vector>

#include "csrc/cann/export.h"

namespace npu {

using Tensors = std::vector<at::Tensor>;
// Tensors of the CPU over the memory of the npu's; those that were the CPU's already are as given. It may run many times (graphs).
using ProcessorKernel = std::function<void(Tensors& outs, const Tensors& ins)>;

// False: compose. The library is CANN, or compositions are asked for (below).
bool has_processor_kernels();
// Puts the kernel on the current stream of the current device. `name` outlives the program; outs have no elements that overlap.
void run_on_processor(const char* name, const Tensors& outs, const Tensors& ins, ProcessorKernel kernel);
// Of an operator that has neither a function of CANN nor a composition, such as `linalg_eig`: on the processor if the kernel can run there,
// else on copies, counted as a fallback. `op`: the schema that is counted. Waits for the stream in the second case.
void run_on_processor_or_copies(const char* op, const Tensors& outs, const Tensors& ins, const ProcessorKernel& kernel);

// For tests of the compositions: what CANN would run. Any thread, from the next call on.
NPU_API void prefer_compositions(bool on) noexcept;

}  // namespace npu

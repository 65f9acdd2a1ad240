// While enabled, the device type "cuda" means the npu, for programs written for CUDA: factories, `.to('cuda')`,
// `.cuda()`, `with torch.device('cuda')`, TorchScript and torch.compile reach the npu without a Python wrapper and
// tensors say `device='npu:0'`. A PyTorch built without CUDA has its CUDA dispatch key and guard slot empty: they are
// served. Where they are taken, cuda_alias_select.h does it one step earlier. Not here: torch.cuda.* and what else stays
// in Python (torch_npu/contrib).
// Called from csrc/python/cuda_alias.cpp, under the GIL; nothing is registered before the first enable.
#pragma once

#include "csrc/cann/export.h"

namespace npu::cuda_alias {

// Enabling twice is enabling once.
NPU_API void enable();

// Removes every registration. No operator that came in through the CUDA key may be running. Disabling twice is allowed.
NPU_API void disable();

NPU_API bool enabled() noexcept;

}  // namespace npu::cuda_alias

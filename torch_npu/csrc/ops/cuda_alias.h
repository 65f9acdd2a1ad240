// While enabled, the device type "cuda" means the npu, for programs written for CUDA: factories, `.to('cuda')`,
// `.cuda()`, `with torch.device('cuda')`, TorchScript and torch.compile reach the npu without a Python wrapper and
// tensors say `device='npu:0'`. Only where PyTorch was built without CUDA: there the CUDA dispatch key and the CUDA
// guard slot are empty. Not here: torch.cuda.* and what else stays in Python (torch_npu/contrib).
// Called from csrc/python/cuda_alias.cpp, under the GIL; nothing is registered before the first enable.
#pragma once

#include "csrc/cann/export.h"

namespace npu::cuda_alias {

// Throws c10::Error where a CUDA guard that is not ours is registered (PyTorch with CUDA). Enabling twice is enabling once.
NPU_API void enable();

// Removes every registration. No operator that came in through the CUDA key may be running. Disabling twice is allowed.
NPU_API void disable();

NPU_API bool enabled() noexcept;

}  // namespace npu::cuda_alias

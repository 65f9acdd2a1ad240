// TorchScript's half of the cuda alias: `x.to('cuda')` in a script asks CUDA's hooks before any kernel is chosen, and
// those hooks are fixed when torch is imported. So that one interpreter operator is wrapped. Every other scripted call
// with a cuda device reaches the dispatcher and needs nothing. Called by cuda_alias.cpp only.
#pragma once

namespace npu::cuda_alias {

void wrap_script_to();
void restore_script_to();

}  // namespace npu::cuda_alias

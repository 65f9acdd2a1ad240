// The cuda alias where PyTorch has CUDA of its own: there the CUDA key's kernels and guard are taken, but every operator
// that is given a device passes the BackendSelect key first. Its kernels are covered by ones that name the npu and go on.
// Called by cuda_alias.cpp only.
#pragma once

#include <c10/util/Exception.h>
#include <torch/library.h>

namespace npu::cuda_alias {

// PyTorch warns when a kernel is covered. Here it is meant to be, and taken back.
class Silence final : private c10::WarningHandler {
 public:
  Silence() : guard_(this) {}

 private:
  void process(const c10::Warning& /*warning*/) override {}
  c10::WarningUtils::WarningHandlerGuard guard_;
};

// Registrations last as long as `library`, which implements aten for BackendSelect.
void cover_backend_select(torch::Library& library);

}  // namespace npu::cuda_alias

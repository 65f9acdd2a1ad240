// What the C++ written by `python -m torch_npu.utils.custom_ops` stands on: results, gradients, refusals and calls of the NPU's own
// operators, which the same generator writes. Nobody else needs it.
#pragma once

#include <ATen/ExpandUtils.h>
#include <ATen/Functions.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

#include "torch_npu/csrc/core/npu/NPUFunctions.h"
#include "torch_npu/csrc/core/npu/NPUGuard.h"
#include "torch_npu/csrc/extension/exec_npu_cmd.h"
#include "torch_npu/csrc/ops/npu/autograd.h"
#include "torch_npu/csrc/ops/npu/dispatch.h"
#include "torch_npu/csrc/ops/npu/result.h"

namespace torch_npu::custom_op {

using namespace npu::ops;  // what the three headers of csrc/ops/npu declare
using c10_npu::NPUGuard;

// That of the first npu tensor, else the current one.
template <class... T>
c10::DeviceIndex first_device(const T&... tensors) {
  return torch_npu::extension::detail::device_of(tensors...).value_or(c10_npu::current_device());
}

// The sizes of a + b. c10::Error where there are none.
inline Sizes broadcast(const at::Tensor& a, const at::Tensor& b) {
  return at::infer_size_symdimvector(a.sym_sizes(), b.sym_sizes());
}

// What the caller of an out= variant brings: of the result's dtype, and resized where it does not have its sizes, as PyTorch's own do.
inline void fit(const at::Tensor& out, const Result& result) {
  TORCH_CHECK(out.scalar_type() == result.type, "Expected out tensor to have dtype ", result.type, ", but got ",
              out.scalar_type(), " instead");
  if (out.sym_sizes() != c10::SymIntArrayRef(result.sizes)) {
    if (out.is_meta())
      out.resize__symint(result.sizes);
    else
      at::_resize_output__symint(out, result.sizes, out.device());
  }
  at::assert_no_internal_overlap(out);
}

}  // namespace torch_npu::custom_op

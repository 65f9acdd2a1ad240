// What LAPACK alone has: eigenvalues of general matrices, whose iteration ends when the values say so, and factors of symmetric ones
// with blocks of pivots whose sizes depend on the values. CANN has neither, and nothing here composes them: on the software NPU
// PyTorch's kernel of the CPU is a task of the stream, elsewhere it is a fallback (processor.h). Who calls it: the dispatcher, rows of ops/aten.yaml.
#include <ATen/ExpandUtils.h>
#include <ATen/ops/_linalg_check_errors.h>
#include <ATen/ops/linalg_eig.h>
#include <ATen/ops/linalg_eigvals.h>
#include <ATen/ops/linalg_ldl_factor_ex.h>
#include <ATen/ops/linalg_ldl_solve.h>
#include <torch/library.h>

#include "csrc/core/device.h"
#include "csrc/core/empty.h"
#include "csrc/ops/composed/composed.h"
#include "csrc/ops/composed/processor.h"
#include "csrc/ops/device_check.h"
#include "csrc/ops/storage.h"

namespace npu {

std::tuple<at::Tensor, at::Tensor, at::Tensor> ldl_factor(const at::Tensor& self, bool hermitian, bool check_errors) {
  const at::Tensor factor = empty(self.sizes(), self.scalar_type());
  const at::Tensor pivots = empty(self.sizes().slice(0, self.dim() - 1), at::kInt);
  const at::Tensor info = empty(self.sizes().slice(0, self.dim() - 2), at::kInt);
  run_on_processor_or_copies("linalg_ldl_factor_ex", {factor, pivots, info}, {self},
                             [hermitian](Tensors& outs, const Tensors& ins) {
                               at::linalg_ldl_factor_ex_out(outs[0], outs[1], outs[2], ins[0], hermitian, false);
                             });
  if (check_errors) at::_linalg_check_errors(info, "torch.linalg.ldl_factor_ex", self.dim() == 2);
  return {factor, pivots, info};
}

at::Tensor ldl_solve(const at::Tensor& LD, const at::Tensor& pivots, const at::Tensor& B, bool hermitian) {
  std::vector<int64_t> shape = at::infer_size(LD.sizes().slice(0, LD.dim() - 2), B.sizes().slice(0, B.dim() - 2));
  shape.insert(shape.end(), {B.size(-2), B.size(-1)});
  const at::Tensor x = empty(shape, B.scalar_type());
  run_on_processor_or_copies("linalg_ldl_solve", {x}, {LD, pivots, B}, [hermitian](Tensors& outs, const Tensors& ins) {
    at::linalg_ldl_solve_out(outs[0], ins[0], ins[1], ins[2], hermitian);
  });
  return x;
}

namespace {

// What the CPU says.
void check_square(const at::Tensor& self, const char* name) {
  TORCH_CHECK(self.dim() >= 2, name, ": The input tensor A must have at least 2 dimensions.");
  TORCH_CHECK(self.size(-1) == self.size(-2), name, ": A must be batches of square matrices, but they are ",
              self.size(-2), " by ", self.size(-1), " matrices");
  const at::ScalarType type = self.scalar_type();
  c10::toComplexType(type);
  TORCH_CHECK_NOT_IMPLEMENTED(type != at::kHalf && type != at::kBFloat16 && type != at::kComplexHalf,
                              "\"linalg_eig_out_cpu\" not implemented for '", type, '\'');
}

// This waits for the numbers, as PyTorch does on every device.
void check_finite_matrix(const at::Tensor& self, const char* name) {
  TORCH_CHECK(self.isfinite().all().item<bool>(), "torch.", name, ": input tensor should not contain infs or NaNs.");
}

void check_given(const at::Tensor& out, at::ScalarType result, const char* op, const char* name) {
  TORCH_CHECK(c10::canCast(result, out.scalar_type()), op, ": Expected ", name, " to be safely castable from ", result,
              " dtype, but got ", name, " with dtype ", out.scalar_type());
}

at::Tensor values_of(const at::Tensor& self) {
  return empty(self.sizes().slice(0, self.dim() - 1), c10::toComplexType(self.scalar_type()));
}

std::tuple<at::Tensor, at::Tensor> eig(const at::Tensor& self) {
  const NPUGuard guard(self.device().index());
  check_square(self, "linalg.eig");
  check_finite_matrix(self, "linalg.eig");
  const at::Tensor values = values_of(self);
  const at::Tensor vectors = at::Tensor(empty(self.sizes(), values.scalar_type())).mT();  // LAPACK's order
  if (self.numel() == 0) return {values, vectors};
  run_on_processor_or_copies("linalg_eig", {values, vectors}, {self},
                             [](Tensors& outs, const Tensors& ins) { at::linalg_eig_out(outs[0], outs[1], ins[0]); });
  return {values, vectors};
}

at::Tensor eigvals(const at::Tensor& self) {
  const NPUGuard guard(self.device().index());
  check_square(self, "linalg.eigvals");
  // A number is its own eigenvalue, whatever it is. Larger matrices end the process in some of LAPACK's libraries.
  if (self.size(-1) != 1) check_finite_matrix(self, "linalg.eigvals");
  const at::Tensor values = values_of(self);
  if (self.numel() == 0) return values;
  run_on_processor_or_copies("linalg_eigvals", {values}, {self},
                             [](Tensors& outs, const Tensors& ins) { at::linalg_eigvals_out(outs[0], ins[0]); });
  return values;
}

std::tuple<at::Tensor&, at::Tensor&> eig_out(const at::Tensor& self, at::Tensor& eigenvalues,
                                             at::Tensor& eigenvectors) {
  const at::ScalarType type = c10::toComplexType(self.scalar_type());
  check_given(eigenvalues, type, "torch.linalg.eig", "eigenvalues");
  check_given(eigenvectors, type, "torch.linalg.eig", "eigenvectors");
  const auto [values, vectors] = eig(self);
  resize_out(eigenvalues, values.sizes());
  resize_out(eigenvectors, vectors.sizes());
  eigenvalues.copy_(values);
  eigenvectors.copy_(vectors);
  return {eigenvalues, eigenvectors};
}

at::Tensor& eigvals_out(const at::Tensor& self, at::Tensor& out) {
  check_given(out, c10::toComplexType(self.scalar_type()), "torch.linalg.eigvals", "eigenvalues");
  const at::Tensor values = eigvals(self);
  resize_out(out, values.sizes());
  return out.copy_(values);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("linalg_eig", TORCH_FN(eig));
  m.impl("linalg_eig.out", NPU_FN(eig_out));
  m.impl("_linalg_eigvals", TORCH_FN(eigvals));
  m.impl("linalg_eigvals.out", NPU_FN(eigvals_out));
}

}  // namespace npu

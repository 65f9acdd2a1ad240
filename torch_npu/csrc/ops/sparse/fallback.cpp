// The boxed fallback of sparse tensors: an operator that neither PyTorch's compositions nor this folder have runs on CPU copies,
// counted and warned of like any other (csrc/ops/fallback.h). What it is not: help for what the CPU cannot do with sparse tensors;
// that is refused. An argument that the schema writes is copied back.
#include "csrc/ops/fallback.h"

#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/SparseTensorUtils.h>
#include <torch/library.h>

#include "csrc/core/device.h"
#include "csrc/ops/sparse/join.h"
#include "csrc/ops/storage.h"

namespace npu {
namespace {

bool is_npu(const at::Tensor& tensor) { return tensor.defined() && tensor.is_privateuseone(); }

void write(const at::Tensor& cpu, const at::Tensor& original, at::Device device) {
  const at::Tensor back = cpu.to(device);
  if (original.layout() == at::kSparse) {
    sparse::give(back, original);
  } else if (at::sparse_csr::is_sparse_compressed(original)) {
    const auto [compressed, plain] = at::sparse_csr::getCompressedPlainIndices(back);
    at::sparse_csr::get_sparse_csr_impl(original)->set_member_tensors(compressed, plain, back.values(), back.sizes());
  } else {
    if (original.sizes() != back.sizes()) resize_tensor(original, back.sizes());
    original.copy_(back);
  }
}

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const size_t n = schema.arguments().size(), begin = stack->size() - n;
  TORCH_CHECK_NOT_IMPLEMENTED(op.operator_name().name.starts_with("aten::"), "npu: ", op.operator_name(),
                              " takes no sparse tensors; to_dense() makes them dense, and an embedding with "
                              "sparse=False has dense gradients");
  const std::vector<c10::IValue> originals(stack->begin() + static_cast<int64_t>(begin), stack->end());
  std::optional<at::Device> device;
  bool compressed = false;
  const auto cpu_of = [&](const at::Tensor& tensor) {
    if (!is_npu(tensor)) return tensor;
    if (!device) device = tensor.device();
    compressed = compressed || at::sparse_csr::is_sparse_compressed(tensor);
    const at::Tensor copy = tensor.cpu();
    // A kernel may ask whether a gradient will follow, and only then keep what it needs (_sparse_mm_reduce_impl: the places of amax).
    return tensor.requires_grad() ? copy.set_requires_grad(true) : copy;
  };
  for (size_t i = begin; i < stack->size(); ++i) {
    c10::IValue& value = (*stack)[i];
    if (value.isTensor()) {
      value = cpu_of(value.toTensor());
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(cpu_of(tensor));
      value = std::move(list);
    } else if (value.isDevice() && value.toDevice().is_privateuseone()) {
      device = value.toDevice();
      value = at::Device(at::kCPU);
    }
  }
  const c10::DispatchKey key = compressed ? c10::DispatchKey::SparseCsrCPU : c10::DispatchKey::SparseCPU;
  TORCH_CHECK_NOT_IMPLEMENTED(device && op.hasKernelForDispatchKey(key), "npu: ", op.operator_name(),
                              " takes no sparse tensors, on the npu nor on the CPU; to_dense() makes them dense");
  count_fallback(op);
  op.callBoxed(stack);
  const size_t first = stack->size() - schema.returns().size();
  for (size_t i = 0; i < schema.returns().size(); ++i) {
    c10::IValue& value = (*stack)[first + i];
    const c10::AliasInfo* alias = schema.returns()[i].alias_info();
    if (!value.isTensor()) continue;
    const at::Tensor result = value.toTensor();
    bool given = false;
    for (size_t j = 0; alias && alias->isWrite() && j < n; ++j) {
      const c10::AliasInfo* mine = schema.arguments()[j].alias_info();
      if (!mine || mine->beforeSets() != alias->beforeSets()) continue;
      if (is_npu(originals[j].toTensor())) write(result, originals[j].toTensor(), *device);
      value = originals[j];
      given = true;
    }
    if (!given && result.defined()) value = result.to(*device);
  }
}

}  // namespace

TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>()); }
TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>()); }

}  // namespace npu

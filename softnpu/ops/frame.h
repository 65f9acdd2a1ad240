// One run of an executor as ATen values: every tensor a CPU view of device memory, made for this run and gone after it, so
// that no task owns an at::Tensor. Who uses it: generated run functions, through names of the aclnn declaration.
//
// Views come from a thread-local pool of TensorImpls that are re-pointed, not made anew: ~25 ns a tensor against ~200 for
// at::from_blob. A view that a kernel kept (its reference count tells) leaves the pool.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>
#include <c10/util/SmallVector.h>

#include <optional>
#include <string_view>
#include <vector>

#include "softnpu/nnopbase/executor.h"

namespace softnpu::ops {

at::ScalarType to_dtype(int64_t acl_dtype);                // throws for what torch has no type for
at::Scalar to_scalar(const nnopbase::ScalarCopy& scalar);  // throws likewise

class ViewPool;

class Frame {
 public:
  explicit Frame(const aclOpExecutor& executor);
  Frame(const Frame&) = delete;
  ~Frame();

  const at::Tensor& tensor(int i) { return out(i); }
  at::Tensor& out(int i);  // undefined if null
  std::optional<at::Tensor> optional(int i);
  at::Scalar scalar(int i) const;
  std::optional<at::Scalar> optional_scalar(int i) const;
  std::vector<at::Scalar> scalars(int i) const;
  c10::SmallVector<at::Tensor, 8> tensors(int i);
  at::IntArrayRef ints(int i) const { return at::IntArrayRef(arg(i).ints, arg(i).count); }
  at::ArrayRef<float> floats(int i) const { return at::ArrayRef<float>(arg(i).floats, arg(i).count); }
  at::ArrayRef<bool> bools(int i) const { return at::ArrayRef<bool>(arg(i).bools, arg(i).count); }
  std::string_view string(int i) const {
    return arg(i).kind == nnopbase::Kind::kNull ? "" : std::string_view(arg(i).string, arg(i).count);
  }
  int64_t integer(int i) const { return arg(i).i; }
  double real(int i) const { return arg(i).d; }
  bool is_null(int i) const;

  // For outputs whose shape depends on data: `result` goes to the buffer behind `out`, its shape to the caller's handle.
  void put_dynamic(at::Tensor& out, const at::Tensor& result);

  // Throws if a kernel gave an output another shape: the buffer was not made for it.
  void check_outputs() const;

 private:
  struct Used {
    const nnopbase::TensorCopy* copy;
    bool out;
  };
  const nnopbase::Arg& arg(int i) const { return executor_.args[i]; }
  at::Tensor& view(const nnopbase::TensorCopy& copy, bool out);

  const aclOpExecutor& executor_;
  ViewPool& pool_;
  size_t first_;  // of this frame's views in the pool: used_[k] is the pool's first_ + k
  c10::SmallVector<Used, 8> used_;
};

}  // namespace softnpu::ops

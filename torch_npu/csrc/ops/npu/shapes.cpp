// What is asked of one operand: number of dimensions, sizes, elements, type; and what has a number a block of one. See sizes.h.
#include <ATen/WrapDimUtils.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "csrc/core/type_name.h"
#include "csrc/ops/castable.h"
#include "csrc/ops/npu/sizes.h"

namespace npu::ops {
namespace {

template <class List>
std::string joined(const List& list, const char* between) {
  std::ostringstream text;
  bool first = true;
  for (const auto& item : list) {
    text << (first ? "" : between) << item;
    first = false;
  }
  return text.str();
}

bool any_size(const c10::SymInt& size) { return size.maybe_as_int() == -1; }

}  // namespace

void need_dims(const char* op, const char* name, const at::Tensor& t, std::initializer_list<int64_t> dims) {
  TORCH_CHECK(std::find(dims.begin(), dims.end(), t.dim()) != dims.end(), op, ": ", name, " must have ",
              joined(dims, " or "), " dimensions, got ", t.dim());
}

void need_sizes(const char* op, const char* name, const at::Tensor& t, const Sizes& sizes) {
  need_dims(op, name, t, {static_cast<int64_t>(sizes.size())});
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (any_size(sizes[d])) continue;
    TORCH_SYM_CHECK(t.sym_size(static_cast<int64_t>(d)).sym_eq(sizes[d]), op, ": ", name, " must have ", sizes[d],
                    " in dimension ", d, ", got ", t.sym_size(static_cast<int64_t>(d)));
  }
}

void need_sizes(const char* op, const char* name, const OptionalTensor& t, const Sizes& sizes) {
  if (given(t)) need_sizes(op, name, *t, sizes);
}

void need_rows(const char* op, const char* name, const at::Tensor& t, int64_t dim, const char* of,
               const at::Tensor& index) {
  if (dim >= t.dim() || index.scalar_type() == at::kBool || index.scalar_type() == at::kByte) return;  // a mask
  const c10::SymBool fits = t.sym_size(dim).sym_gt(0).sym_or(index.sym_numel().sym_eq(0));
  TORCH_CHECK_INDEX(TORCH_GUARD_OR_TRUE(fits), op, ": ", name, " has no rows in dimension ", dim, ", and ", of,
                    " names ", index.sym_numel(), "; its sizes are ", t.sym_sizes());
}

void need_reduced(const char* op, const at::Tensor& input, int64_t dim) {
  if (!input.dim()) return;
  const int64_t at_dim = at::maybe_wrap_dim(dim, input.dim());
  TORCH_CHECK_INDEX(TORCH_GUARD_OR_TRUE(input.sym_size(at_dim).sym_gt(0)), op, ": input has no elements along dim ",
                    dim, ", of which none is the first; its sizes are ", input.sym_sizes());
}

void need_kernel_size(const char* op, const at::Tensor& weight, at::IntArrayRef kernel) {
  const auto dims = static_cast<int64_t>(kernel.size());
  TORCH_CHECK(weight.dim() == dims + 2, op, ": the weight must have ", dims + 2, " dimensions, got ", weight.dim());
  for (int64_t d = 0; d < dims; ++d) {
    TORCH_SYM_CHECK(weight.sym_size(d + 2).sym_eq(kernel[static_cast<size_t>(d)]), op, ": kernel_size is ", kernel,
                    ", the weight's ", weight.sym_sizes().slice(2));
  }
}

void need_broadcast(const char* op, const char* name, const OptionalTensor& t, const Sizes& to) {
  if (!given(t)) return;
  const auto missing = static_cast<int64_t>(to.size()) - t->dim();
  for (int64_t d = 0; d < t->dim(); ++d) {
    const c10::SymInt size = t->sym_size(d);
    const c10::SymBool one = size.sym_eq(1);
    TORCH_SYM_CHECK(missing + d < 0 ? one : one.sym_or(size.sym_eq(to[missing + d])), op, ": ", name, " of ",
                    t->sym_sizes(), " does not broadcast to [", joined(to, ", "), "]");
  }
}

void need_elements(const char* op, const char* name, const OptionalTensor& t, const Sizes& counts) {
  if (!given(t)) return;
  const c10::SymInt has = t->sym_numel();
  c10::SymBool right = has.sym_eq(counts[0]);
  for (size_t i = 1; i < counts.size(); ++i) right = right.sym_or(has.sym_eq(counts[i]));
  TORCH_SYM_CHECK(right, op, ": ", name, " must have ", joined(counts, " or "), " elements, got ", has);
}

void need_type(const char* op, const char* name, const OptionalTensor& t, std::initializer_list<at::ScalarType> types) {
  if (!given(t) || std::find(types.begin(), types.end(), t->scalar_type()) != types.end()) return;
  std::vector<std::string> names;
  for (const at::ScalarType type : types) names.push_back(type_name(type));
  TORCH_CHECK(false, op, ": ", name, " must be ", joined(names, " or "), ", got ", type_name(*t));
}

void need_integers(const char* op, const char* name, const OptionalTensor& t) {
  need_type(op, name, t, {at::kInt, at::kLong});
}

void need_same_type(const char* op, const char* a, const at::Tensor& x, const char* b, const at::Tensor& y) {
  TORCH_CHECK(x.scalar_type() == y.scalar_type(), op, ": ", a, " (", type_name(x), ") and ", b, " (", type_name(y),
              ") must have one type");
}

void check_out(const at::Tensor& to, const at::Tensor& from) {
  TORCH_CHECK(to.device() == from.device(), "Expected out tensor to have device ", from.device(), ", but got ",
              to.device(), " instead");
  check_castable(from.scalar_type(), to.scalar_type());
}

Sizes blocked(const at::Tensor& x, int64_t rows, int64_t columns) {
  TORCH_CHECK_VALUE(rows > 0 && columns > 0, "row_block_size ", rows, " and col_block_size ", columns,
                    " must be positive");
  TORCH_CHECK(x.dim() >= 2, "x must have at least two dimensions, it has the sizes ", x.sym_sizes());
  Sizes sizes = sizes_of(x);
  const size_t n = sizes.size();
  sizes[n - 2] = (sizes[n - 2] + (rows - 1)) / rows;
  sizes[n - 1] = (sizes[n - 1] + (columns - 1)) / columns;
  return sizes;
}

}  // namespace npu::ops

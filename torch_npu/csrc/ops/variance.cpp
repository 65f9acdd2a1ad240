// std, var and both with their mean. Hand-written because CANN takes whole corrections only: another one, like 1.3, is applied to
// the variance of correction 0. What it is not: std and var without `correction`, which PyTorch composes of these.
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>

#include "csrc/core/device.h"
#include "csrc/core/empty.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/castable.h"
#include "csrc/ops/params.h"
#include "csrc/ops/storage.h"
#include "csrc/ops/structured.h"

namespace npu {
namespace {

using Dims = at::OptionalIntArrayRef;
using Correction = std::optional<at::Scalar>;

struct Whole {
  int64_t correction;             // what CANN takes
  std::optional<double> missing;  // or 0, and this one
};

Whole whole(const Correction& correction) {
  const double value = correction ? correction->toDouble() : 1;
  const auto part = static_cast<int64_t>(value);
  return value == static_cast<double>(part) ? Whole{part, std::nullopt} : Whole{0, value};
}

// How many elements one result is made of.
double count(const at::Tensor& self, const Ints& dims) {
  if (self.dim() == 0) return 1;
  int64_t n = 1;
  for (int64_t d : dims) n *= self.size(d);
  return static_cast<double>(n);
}

// From sum / n to sum / max(0, n - correction); `root`: of what was under the root.
void rescale(const at::Tensor& result, double n, double correction, bool root) {
  const double factor = n / std::max(0.0, n - correction);
  at::Tensor values = result;
  values.mul_(root ? std::sqrt(factor) : factor);
}

c10::DimVector sizes_of(const at::Tensor& self, Dims dim, bool keepdim) {
  const auto all = at::dim_list_to_bitset(dim && !dim->empty() ? dim : Dims(), self.dim());
  c10::DimVector sizes;
  for (int64_t d = 0; d < self.dim(); d++) {
    if (!all[d]) {
      sizes.push_back(self.size(d));
    } else if (keepdim) {
      sizes.push_back(1);
    }
  }
  return sizes;
}

void check(const at::Tensor& self, const char* name) {
  TORCH_CHECK(self.is_floating_point() || self.is_complex(), name,
              " only support floating point and complex dtypes, got ", self.scalar_type());
}

at::ScalarType real(const at::Tensor& self) { return c10::toRealValueType(self.scalar_type()); }

void into(const at::Tensor& self, Dims dim, const Correction& correction, bool keepdim, bool root,
          const at::Tensor& out) {
  const Whole given = whole(correction);
  const Ints dims = dims_or_all(dim, self);
  if (root) {
    ACLNN(aclnnStd)(self, dims, given.correction, keepdim, out);
  } else {
    ACLNN(aclnnVarCorrection)(self, dims, given.correction, keepdim, out);
  }
  if (given.missing) rescale(out, count(self, dims), *given.missing, root);
}

template <bool root>
at::Tensor& spread_out(const at::Tensor& self, Dims dim, const Correction& correction, bool keepdim, at::Tensor& out) {
  check(self, "std and var");
  const NPUGuard guard(self.device().index());
  const at::ScalarType type = out.scalar_type(), own = real(self);
  if (type != own) {  // the CPU computes in the output's type: CANN gives what it rounded to self's
    check_castable(own, type);
    TORCH_CHECK_NOT_IMPLEMENTED(c10::isFloatingType(type) || self.is_complex(),
                                "npu: std and var are not computed in an out tensor of type ", type);
    const at::ScalarType wide = c10::promoteTypes(type, self.scalar_type());
    const at::Tensor apart = empty(sizes_of(self, dim, keepdim), c10::toRealValueType(wide));
    into(self.to(wide), dim, correction, keepdim, root, apart);
    give_output(out, apart);
    return out;
  }
  if (out.is_alias_of(self)) {  // read before it is resized
    const at::Tensor apart = empty(sizes_of(self, dim, keepdim), type);
    into(self, dim, correction, keepdim, root, apart);
    give_output(out, apart);
    return out;
  }
  resize_out(out, sizes_of(self, dim, keepdim));
  into(self, dim, correction, keepdim, root, out);
  return out;
}

template <bool root>
at::Tensor spread(const at::Tensor& self, Dims dim, const Correction& correction, bool keepdim) {
  check(self, "std and var");
  const NPUGuard guard(self.device().index());
  at::Tensor out = empty(sizes_of(self, dim, keepdim), real(self));
  into(self, dim, correction, keepdim, root, out);
  return out;
}

template <bool root>
std::tuple<at::Tensor, at::Tensor> spread_and_mean(const at::Tensor& self, Dims dim, const Correction& correction,
                                                   bool keepdim) {
  check(self, "std and var");
  const NPUGuard guard(self.device().index());
  const c10::DimVector sizes = sizes_of(self, dim, keepdim);
  at::Tensor out = empty(sizes, real(self)), mean = empty(sizes, self.scalar_type());
  const Whole given = whole(correction);
  const Ints dims = dims_or_all(dim, self);
  if constexpr (root) {
    ACLNN(aclnnStdMeanCorrection)(self, dims, given.correction, keepdim, out, mean);
  } else {
    ACLNN(aclnnVarMean)(self, dims, given.correction, keepdim, out, mean);
  }
  if (given.missing) rescale(out, count(self, dims), *given.missing, root);
  return {out, mean};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("std.correction", TORCH_FN(spread<true>));
  m.impl("std.correction_out", TORCH_FN(spread_out<true>));
  m.impl("var.correction", TORCH_FN(spread<false>));
  m.impl("var.correction_out", TORCH_FN(spread_out<false>));
  m.impl("std_mean.correction", TORCH_FN(spread_and_mean<true>));
  m.impl("var_mean.correction", TORCH_FN(spread_and_mean<false>));
}

}  // namespace npu

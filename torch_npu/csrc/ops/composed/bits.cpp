// Operators that look into the bits of numbers: mantissa and exponent, and the exclusive or of a tensor's elements. By integers of the
// same bits, in double precision, which holds every narrower type exactly. Who calls it: the dispatcher, a row of ops/aten.yaml.
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/ops/cat.h>
#include <torch/library.h>

#include <cmath>

#include "csrc/core/device.h"
#include "csrc/ops/composed/composed.h"
#include "csrc/ops/device_check.h"
#include "csrc/ops/storage.h"

namespace npu {
namespace {

std::tuple<at::Tensor&, at::Tensor&> frexp_out(const at::Tensor& self, at::Tensor& mantissa, at::Tensor& exponent) {
  const at::ScalarType type = self.scalar_type();
  TORCH_CHECK(at::isFloatingType(type), "torch.frexp() only supports floating-point dtypes");
  TORCH_CHECK(mantissa.dtype() == self.dtype(), "torch.frexp() expects mantissa to have dtype ", self.dtype(),
              " but got ", mantissa.dtype());
  TORCH_CHECK(exponent.dtype() == at::kInt, "torch.frexp() expects exponent to have int dtype but got ",
              exponent.dtype());
  TORCH_CHECK_NOT_IMPLEMENTED(!c10::isReducedFloatingType(type) || type == at::kHalf || type == at::kBFloat16,
                              "\"frexp_cpu\" not implemented for '", type, '\'');
  const NPUGuard guard(self.device().index());
  constexpr int64_t kMantissa = 52, kExponents = 0x7ff, kHalf = 1022;  // the exponent's bits of numbers from 0.5 to 1
  constexpr int64_t kScale = 54;
  const at::Tensor x = self.to(at::kDouble).contiguous();
  const at::Tensor tiny = x.abs().lt(std::ldexp(1.0, -1022));
  const at::Tensor bits = where(tiny, x.mul(std::ldexp(1.0, kScale)), x).view(at::kLong);
  const at::Tensor power = bits.bitwise_right_shift(kMantissa).bitwise_and(kExponents);
  const at::Tensor plain = power.eq(0).logical_or(power.eq(kExponents));  // zeros, infinities and what is no number
  const at::Tensor half = bits.bitwise_and(~(kExponents << kMantissa)).bitwise_or(kHalf << kMantissa).view(at::kDouble);
  resize_out(mantissa, self.sizes());
  resize_out(exponent, self.sizes());
  const at::Tensor shift = power.sub(kHalf).sub(tiny.to(at::kLong).mul(kScale)).masked_fill(plain, 0);
  mantissa.copy_(where(plain, x, half));
  exponent.copy_(shift);
  return {mantissa, exponent};
}

}  // namespace

// By halves. Nothing gives zero.
at::Tensor exclusive_or(const at::Tensor& self, at::IntArrayRef dims, bool keepdim, int64_t mode) {
  TORCH_CHECK(mode == 0, "Unknown hash_tensor mode: ", mode);
  const at::ScalarType type = self.scalar_type();
  const bool is_taken = c10::isIntegralType(type, true) ? !c10::isBarebonesUnsignedType(type)
                                                        : self.is_floating_point() && !c10::isFloat8Type(type);
  TORCH_CHECK_NOT_IMPLEMENTED(is_taken, "\"xor_sum_cpu\" not implemented for '", type, '\'');
  const at::Tensor numbers =
      self.is_floating_point() ? self.to(at::kDouble).contiguous().view(at::kLong) : self.to(at::kLong);
  const auto reduced = at::dim_list_to_bitset(dims.empty() ? at::OptionalIntArrayRef() : dims, self.dim());
  std::vector<int64_t> order, last, kept;
  for (int64_t d = 0; d < self.dim(); ++d) {
    (reduced[d] ? last : order).push_back(d);
    if (!reduced[d] || keepdim) kept.push_back(reduced[d] ? 1 : self.size(d));
  }
  const auto outer = static_cast<int64_t>(order.size());
  order.insert(order.end(), last.begin(), last.end());
  at::Tensor x = numbers.permute(order).unsqueeze(-1).flatten(outer);
  if (x.size(-1) == 0) return at::Tensor(x.new_zeros(kept)).view(at::kUInt64);
  for (int64_t n = x.size(-1); n > 1; n = (n + 1) / 2) {
    const at::Tensor pairs = x.slice(-1, 0, n / 2).bitwise_xor(x.slice(-1, n / 2, n / 2 * 2));
    const std::vector<at::Tensor> parts = {pairs, x.slice(-1, n / 2 * 2)};
    x = n % 2 ? at::cat(parts, -1) : pairs;
  }
  return x.reshape(kept).view(at::kUInt64);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("frexp.Tensor_out", NPU_FN(frexp_out)); }

}  // namespace npu

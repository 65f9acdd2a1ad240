// Operators whose result CANN lets have another type than ATen's kernel gives: computed in the wider one and converted. Operands and
// result of one type, the usual call, go to ATen's out variant.
#include <ATen/native/TypeProperties.h>
#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/_log_softmax_backward_data_cpu_dispatch.h>
#include <ATen/ops/_log_softmax_cpu_dispatch.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/_softmax_backward_data_cpu_dispatch.h>
#include <ATen/ops/_softmax_cpu_dispatch.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/clamp_cpu_dispatch.h>
#include <ATen/ops/clamp_max.h>
#include <ATen/ops/clamp_max_cpu_dispatch.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/clamp_min_cpu_dispatch.h>
#include <ATen/ops/histc.h>
#include <ATen/ops/histc_cpu_dispatch.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/result_type_native.h>
#include <ATen/ops/std.h>
#include <ATen/ops/std_cpu_dispatch.h>
#include <ATen/ops/var.h>
#include <ATen/ops/var_cpu_dispatch.h>
#include <ATen/ops/where.h>
#include <ATen/ops/where_native.h>

#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {

void softmax(const Tensor& self, int64_t dim, bool log, Tensor& out) {
  if (out.scalar_type() == self.scalar_type()) {
    log ? at::cpu::_log_softmax_outf(self, dim, false, out) : at::cpu::_softmax_outf(self, dim, false, out);
    return;
  }
  const Tensor x = self.to(c10::promoteTypes(self.scalar_type(), out.scalar_type()));
  put(out, log ? at::_log_softmax(x, dim, false) : at::_softmax(x, dim, false));
}

void softmax_backward(const Tensor& gradient, const Tensor& output, int64_t dim, bool log, Tensor& grad_input) {
  const at::ScalarType type = output.scalar_type();
  if (grad_input.scalar_type() == type) {
    log ? at::cpu::_log_softmax_backward_data_outf(gradient, output, dim, type, grad_input)
        : at::cpu::_softmax_backward_data_outf(gradient, output, dim, type, grad_input);
    return;
  }
  put(grad_input, log ? at::_log_softmax_backward_data(gradient, output, dim, type)
                      : at::_softmax_backward_data(gradient, output, dim, type));
}

void clamp(const Tensor& self, const OptionalTensor& low, const OptionalTensor& high, Tensor& out) {
  at::native::ResultTypeState types = at::native::update_result_type_state(self, {});
  for (const OptionalTensor* bound : {&low, &high}) {
    if (*bound && (*bound)->defined()) types = at::native::update_result_type_state(**bound, types);
  }
  if (at::native::result_type(types) == out.scalar_type()) {
    at::cpu::clamp_outf(self, low, high, out);
  } else {
    put(out, at::clamp(self, low, high));
  }
}

// One bound that is no number makes the result none; at::clamp of PyTorch 2.10 passes over it.
void clamp(const Tensor& self, const std::optional<Scalar>& low, const std::optional<Scalar>& high, Tensor& out) {
  const bool converts = out.scalar_type() != self.scalar_type();
  if (!low && high) {
    converts ? put(out, at::clamp_max(self, *high)) : void(at::cpu::clamp_max_outf(self, *high, out));
  } else if (low && !high) {
    converts ? put(out, at::clamp_min(self, *low)) : void(at::cpu::clamp_min_outf(self, *low, out));
  } else if (!converts) {
    at::cpu::clamp_outf(self, low, high, out);
  } else {
    put(out, at::clamp(self, low, high));
  }
}

namespace {

// The type of the same bits that every kernel has.
at::ScalarType with_sign(at::ScalarType type) {
  return type == at::kUInt16 ? at::kShort : type == at::kUInt32 ? at::kInt : type == at::kUInt64 ? at::kLong : type;
}

}  // namespace

void where(const Tensor& condition, const Tensor& self, const Tensor& other, Tensor& out) {
  const Tensor chosen = condition.to(at::kBool);
  const at::ScalarType common = at::native::result_type(self, other), bits = with_sign(common);
  if (bits != common) {  // ATen of PyTorch 2.10 chooses none of these
    const auto as_bits = [=](const Tensor& t) { return t.to(common).view(bits); };
    return put(out, at::where(chosen, as_bits(self), as_bits(other)).view(common));
  }
  if (out.scalar_type() == common) {
    at::native::where_self_out(chosen, self, other, out);
  } else {
    put(out, at::where(chosen, self, other));
  }
}

void histc(const Tensor& self, int64_t bins, const Scalar& min, const Scalar& max, Tensor& out) {
  if (self.is_floating_point() && out.scalar_type() == self.scalar_type()) {
    at::cpu::histc_outf(self, bins, min, max, out);
  } else {
    put(out, at::histc(self.to(at::kDouble), bins, min, max));
  }
}

void vector_norm(const Tensor& self, const Scalar& ord, IntArrayRef dims, bool keep, Tensor& out) {
  const at::ScalarType type = out.scalar_type();
  const bool wider = c10::promoteTypes(self.scalar_type(), type) == type;
  put(out, at::linalg_vector_norm(self, ord, some_dims(dims), keep, wider ? some(type) : std::nullopt));
}

void variance(const Tensor& self, IntArrayRef dims, int64_t correction, bool keep, bool root, Tensor& out) {
  const at::OptionalIntArrayRef over = some_dims(dims);
  const Scalar less(correction);
  if (out.scalar_type() == self.scalar_type()) {
    root ? at::cpu::std_outf(self, over, less, keep, out) : at::cpu::var_outf(self, over, less, keep, out);
  } else {
    put(out, root ? at::std(self, over, less, keep) : at::var(self, over, less, keep));
  }
}

}  // namespace softnpu::ops::kernels

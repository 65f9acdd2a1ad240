// New npu tensors: empty and the filled ranges (arange, linspace, eye, randperm …). What it is not: `full`, `ones`, `*_like`:
// PyTorch composes those from empty and fill_. Storage comes from csrc/core/empty.h.
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/kaiser_window_native.h>
#include <ATen/ops/tril_indices_native.h>
#include <ATen/ops/triu_indices_native.h>
#include <torch/library.h>

#include "csrc/core/device.h"
#include "csrc/core/empty.h"
#include "csrc/core/generator.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/operands.h"
#include "csrc/ops/storage.h"

namespace npu {
namespace {

using Dtype = std::optional<at::ScalarType>;
using Layout = std::optional<at::Layout>;
using OptionalDevice = std::optional<at::Device>;

c10::DeviceIndex check_options(const Layout& layout, const OptionalDevice& device,
                               const std::optional<bool>& pin_memory) {
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
  TORCH_CHECK(layout.value_or(at::kStrided) == at::kStrided, "npu: only strided tensors can be made, not ", *layout);
  const c10::DeviceIndex index = device && device->has_index() ? device->index() : current_device();
  check_device(index);
  return index;
}

// torch.use_deterministic_algorithms: memory that a program asked for holds NaN or the largest number, not what was there.
at::Tensor filled_if_deterministic(at::Tensor tensor) {
  const at::Context& context = at::globalContext();
  if (C10_UNLIKELY(context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory())) {
    at::native::fill_empty_deterministic_(tensor);
  }
  return tensor;
}

at::Tensor empty_memory_format(at::IntArrayRef size, Dtype dtype, Layout layout, OptionalDevice device,
                               std::optional<bool> pin_memory, std::optional<at::MemoryFormat> memory_format) {
  const NPUGuard guard(check_options(layout, device, pin_memory));
  return filled_if_deterministic(empty(size, dtype_or_default(dtype), memory_format));
}

at::Tensor empty_strided_(at::IntArrayRef size, at::IntArrayRef stride, Dtype dtype, Layout layout,
                          OptionalDevice device, std::optional<bool> pin_memory) {
  const NPUGuard guard(check_options(layout, device, pin_memory));
  return filled_if_deterministic(empty_strided(size, stride, dtype_or_default(dtype)));
}

// Zeros without memory, as autograd makes them for operands that nothing depends on (sgn): PyTorch gives them memory where a kernel asks.
at::Tensor zeros_without_memory(at::IntArrayRef size, Dtype dtype, Layout layout, OptionalDevice device,
                                std::optional<bool> pin_memory) {
  // A storage keeps a pointer to its allocator: one for each device, leaked.
  static auto* const allocators = [] {
    auto* const all = new std::vector<at::native::ZeroTensorAllocator>;
    for (c10::DeviceIndex i = 0; i < device_count(); ++i)
      all->emplace_back(at::Device(c10::DeviceType::PrivateUse1, i));
    return all;
  }();
  const c10::DeviceIndex index = check_options(layout, device, pin_memory);
  const c10::DispatchKeySet keys({c10::DispatchKey::PrivateUse1, c10::DispatchKey::ZeroTensor});
  return at::detail::empty_generic(size, &allocators->at(static_cast<size_t>(index)), keys, dtype_or_default(dtype),
                                   std::nullopt);
}

int64_t range_size(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, at::ScalarType type,
                   bool inclusive) {
  // As on the CPU: only int64 truncates its bounds first; arange(0.5, 3, dtype=int32) counts fractional steps.
  double size = 0;
  if (type == at::kLong) {
    const int64_t first = start.to<int64_t>(), last = end.to<int64_t>(), by = step.to<int64_t>();
    TORCH_CHECK(by != 0, "step must be nonzero");
    TORCH_CHECK((by > 0 && last >= first) || (by < 0 && last <= first),
                "upper bound and lower bound inconsistent with step sign");
    const int64_t sign = by > 0 ? 1 : -1;
    size = inclusive ? double((last - first) / by + 1) : double((last - first + by - sign) / by);
  } else {
    const double first = start.to<double>(), last = end.to<double>(), by = step.to<double>();
    TORCH_CHECK(by != 0, "step must be nonzero");
    TORCH_CHECK(std::isfinite(first) && std::isfinite(last), "unsupported range: ", first, " -> ", last);
    TORCH_CHECK((by > 0 && last >= first) || (by < 0 && last <= first),
                "upper bound and lower bound inconsistent with step sign");
    size = inclusive ? std::floor((last - first) / by) + 1 : std::ceil((last - first) / by);
  }
  TORCH_CHECK(size >= 0 && size <= static_cast<double>(std::numeric_limits<int64_t>::max()),
              "invalid size, possible overflow?");
  return static_cast<int64_t>(size);
}

at::Tensor& arange_out(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, at::Tensor& out) {
  const NPUGuard guard(out.device().index());
  const at::ScalarType type = out.scalar_type();
  TORCH_CHECK_NOT_IMPLEMENTED(
      c10::isFloatingType(type) || (c10::isIntegralType(type, /*includeBool=*/false) && !is_wide_unsigned(out)),
      "\"arange\" not implemented for '", type, "'");
  TORCH_CHECK(step.toComplexDouble() != 0., "step must be nonzero");
  TORCH_CHECK_VALUE(out.scalar_type() != at::kLong || step.to<int64_t>() != 0, "step must be nonzero");
  const int64_t size = range_size(start, end, step, out.scalar_type(), false);
  if (out.numel() != size) resize_out(out, {size});
  if (size) ACLNN(aclnnArange)(start, end, step, out);
  return out;
}

at::Tensor& range_out(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, at::Tensor& out) {
  const NPUGuard guard(out.device().index());
  const int64_t size = range_size(start, end, step, out.scalar_type(), true);
  if (out.numel() != size) resize_out(out, {size});
  ACLNN(aclnnRange)(start, end, step, out);
  return out;
}

at::Tensor& linspace_out(const at::Scalar& start, const at::Scalar& end, int64_t steps, at::Tensor& out) {
  TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
  const NPUGuard guard(out.device().index());
  if (out.numel() != steps) resize_out(out, {steps});
  if (steps) ACLNN(aclnnLinspace)(start, end, steps, out);
  return out;
}

at::Tensor& logspace_out(const at::Scalar& start, const at::Scalar& end, int64_t steps, double base, at::Tensor& out) {
  TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
  const NPUGuard guard(out.device().index());
  if (out.numel() != steps) resize_out(out, {steps});
  if (steps) ACLNN(aclnnLogSpace)(start, end, steps, base, out);
  return out;
}

at::Tensor& eye_m_out(int64_t n, int64_t m, at::Tensor& out) {
  TORCH_CHECK(n >= 0 && m >= 0, "n and m must be greater or equal to 0, got ", n, " and ", m);
  const NPUGuard guard(out.device().index());
  resize_out(out, {n, m});
  if (n && m) ACLNN(aclnnEye)(n, m, out);
  return out;
}

at::Tensor& eye_out(int64_t n, at::Tensor& out) { return eye_m_out(n, n, out); }

at::Tensor& randperm_out(int64_t n, std::optional<at::Generator> generator, at::Tensor& out) {
  TORCH_CHECK(n >= 0, "n must be non-negative, got", n);
  at::native::check_supported_max_int_with_precision(n, out);
  const NPUGuard guard(out.device().index());
  resize_out(out, {n});
  if (n == 0) return out;
  const PhiloxSlice slice = next_philox(generator, n);
  ACLNN(aclnnRandperm)(n, slice.seed, slice.offset, out);
  return out;
}

// The triangle's coordinates are computed on the host and copied: cheap, and CANN has no such operator.
template <at::Tensor (*on_cpu)(int64_t, int64_t, int64_t, Dtype, Layout, OptionalDevice, std::optional<bool>)>
at::Tensor triangle(int64_t row, int64_t col, int64_t offset, Dtype dtype, Layout layout, OptionalDevice device,
                    std::optional<bool> pin_memory) {
  const c10::DeviceIndex index = check_options(layout, device, pin_memory);
  const at::Tensor cpu = on_cpu(row, col, offset, dtype.value_or(at::kLong), layout, at::kCPU, false);
  return cpu.to(at::Device(c10::DeviceType::PrivateUse1, index));
}

// So is this window: PyTorch's own kernel of it is one of those that a new device cannot add itself to.
at::Tensor kaiser_window(int64_t length, bool periodic, double beta, Dtype dtype, Layout layout, OptionalDevice device,
                         std::optional<bool> pin_memory) {
  const c10::DeviceIndex index = check_options(layout, device, pin_memory);
  const at::Tensor cpu = at::native::kaiser_window(length, periodic, beta, dtype, layout, at::kCPU, false);
  return cpu.to(at::Device(c10::DeviceType::PrivateUse1, index));
}
at::Tensor kaiser_window_periodic(int64_t length, bool periodic, Dtype dtype, Layout layout, OptionalDevice device,
                                  std::optional<bool> pin_memory) {
  return kaiser_window(length, periodic, 12.0, dtype, layout, device, pin_memory);
}
at::Tensor kaiser_window_default(int64_t length, Dtype dtype, Layout layout, OptionalDevice device,
                                 std::optional<bool> pin_memory) {
  return kaiser_window(length, true, 12.0, dtype, layout, device, pin_memory);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", TORCH_FN(empty_memory_format));
  m.impl("empty_strided", TORCH_FN(empty_strided_));
  m.impl("_efficientzerotensor", TORCH_FN(zeros_without_memory));
  m.impl("arange.start_out", TORCH_FN(arange_out));
  m.impl("range.out", TORCH_FN(range_out));
  m.impl("linspace.out", TORCH_FN(linspace_out));
  m.impl("logspace.out", TORCH_FN(logspace_out));
  m.impl("eye.out", TORCH_FN(eye_out));
  m.impl("eye.m_out", TORCH_FN(eye_m_out));
  m.impl("randperm.generator_out", TORCH_FN(randperm_out));
  m.impl("tril_indices", TORCH_FN(triangle<at::native::tril_indices_cpu>));
  m.impl("triu_indices", TORCH_FN(triangle<at::native::triu_indices_cpu>));
  m.impl("kaiser_window", TORCH_FN(kaiser_window_default));
  m.impl("kaiser_window.periodic", TORCH_FN(kaiser_window_periodic));
  m.impl("kaiser_window.beta", TORCH_FN(kaiser_window));
}

}  // namespace npu

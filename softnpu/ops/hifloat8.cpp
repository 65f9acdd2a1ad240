// See hifloat8.h. Both ways are tables: 256 values; and a code for each exponent of fp32 with four bits of mantissa, since a half, which is
// rounded away from zero, is the least number of these that goes up.
#include "softnpu/ops/hifloat8.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

namespace softnpu::ops::kernels {
namespace {

constexpr uint8_t kSign = 0x80, kNan = 0x80, kInfinity = 0x6F;

constexpr double power_of_two(int exponent) {
  double value = 1;
  for (int i = 0; i < exponent; i++) value *= 2;
  for (int i = 0; i > exponent; i--) value /= 2;
  return value;
}

// What a code without its sign is worth.
constexpr double worth(int code) {
  if (code == 0) return 0;
  if (code < 8) return power_of_two(code - 23);
  // Prefixes 0001, 001, 01, 10 and 11: an exponent of none to four bits, the first of which is its sign.
  const int width = code >= 0x60 ? 4 : code >= 0x40 ? 3 : code >= 0x20 ? 2 : code >= 0x10 ? 1 : 0;
  const int prefix = width >= 2 ? 2 : width == 1 ? 3 : 4, mantissa = 7 - prefix - width;
  const int field = code >> mantissa & ((1 << width) - 1), low = width > 1 ? field & ((1 << (width - 1)) - 1) : 0;
  const int magnitude = width ? (1 << (width - 1)) + low : 0;
  const bool minus = width && field >> (width - 1);
  return power_of_two(minus ? -magnitude : magnitude) * (1 + (code & ((1 << mantissa) - 1)) / power_of_two(mantissa));
}

constexpr auto kValues = [] {
  std::array<float, 256> values{};
  for (int code = 0; code < 128; code++) {
    const float value = code == kInfinity ? std::numeric_limits<float>::infinity() : static_cast<float>(worth(code));
    values[static_cast<size_t>(code)] = value;
    values[static_cast<size_t>(code | kSign)] = -value;
  }
  values[kNan] = std::numeric_limits<float>::quiet_NaN();
  return values;
}();

// Places of the exponents of fp32 with four bits of mantissa, without a sign.
constexpr int kCut = 19, kPlaces = 1 << 12;

const auto kCodes = [] {
  // Codes in the order of what they are worth; infinity, the last, lies where the next number would.
  std::array<uint8_t, 128> order{};
  for (size_t i = 0; i < order.size(); i++) order[i] = static_cast<uint8_t>(i);
  std::sort(order.begin(), order.end(), [](int a, int b) { return worth(a) < worth(b); });
  std::array<uint8_t, kPlaces> codes{};
  size_t best = 0;
  for (size_t place = 0; place < codes.size(); place++) {
    const double value = std::bit_cast<float>(static_cast<uint32_t>(place << kCut));
    while (best + 1 < order.size() && value >= (worth(order[best]) + worth(order[best + 1])) / 2) best++;
    codes[place] = order[best];
  }
  return codes;
}();

uint8_t code_of(float value) {
  if (value != value) return kNan;
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint8_t code = kCodes[(bits >> kCut) & (kPlaces - 1)];
  return code && bits >> 31 ? code | kSign : code;
}

// Rounded once: fp32 that is cut off, not rounded, has the same place.
uint8_t code_of(double value) {
  if (value != value) return kNan;
  const auto bits = std::bit_cast<uint64_t>(value) & ~((uint64_t{1} << 32) - 1);
  return code_of(static_cast<float>(std::bit_cast<double>(bits)));
}

template <class T>
void encode(const at::Tensor& values, uint8_t* out) {
  const T* const in = values.const_data_ptr<T>();
  for (int64_t i = 0, n = values.numel(); i < n; i++) out[i] = code_of(in[i]);
}

}  // namespace

at::Tensor hifloat8_values(const at::Tensor& codes) {
  const at::Tensor from = codes.view(at::kByte).contiguous();
  at::Tensor values = at::empty(codes.sizes(), codes.options().dtype(at::kFloat));
  const uint8_t* const in = from.const_data_ptr<uint8_t>();
  auto* const out = values.mutable_data_ptr<float>();
  for (int64_t i = 0, n = from.numel(); i < n; i++) out[i] = kValues[in[i]];
  return values;
}

at::Tensor hifloat8_codes(const at::Tensor& values) {
  TORCH_CHECK(!values.is_complex(), "complex numbers do not become hifloat8, which is real");
  // fp32 holds 16-bit floats; not all 32-bit integers, which fp64 does.
  const at::ScalarType type = values.scalar_type();
  const bool single = type == at::kFloat || (values.is_floating_point() && type != at::kDouble);
  const at::Tensor from = values.to(single ? at::kFloat : at::kDouble).contiguous();
  at::Tensor codes = at::empty(values.sizes(), values.options().dtype(at::kByte));
  auto* const out = codes.mutable_data_ptr<uint8_t>();
  single ? encode<float>(from, out) : encode<double>(from, out);
  return codes.view(kHifloat8);
}

}  // namespace softnpu::ops::kernels

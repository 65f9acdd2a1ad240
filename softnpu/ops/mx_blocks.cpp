// See mx_blocks.h.
#include "softnpu/ops/mx_blocks.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "softnpu/ops/hifloat8.h"

namespace softnpu::ops::kernels::mx {
namespace {

constexpr int64_t kMantissa = int64_t{1} << 23;  // of float32

Tensor bits_of(const Tensor& t) { return t.contiguous().view(at::kInt).to(at::kLong); }

// 2^power, of powers from -64 to 64.
Tensor two_to(const Tensor& power) { return ((power + kBias) * kMantissa).to(at::kInt).view(at::kFloat); }

Tensor padded(const Tensor& t, int64_t dim, int64_t count) {
  if (count == 0) return t;
  std::vector<int64_t> pads(static_cast<size_t>(2 * (t.dim() - dim)), 0);
  pads.back() = count;
  return at::constant_pad_nd(t, pads);
}

// Distances of the type's numbers: e2m1 has 0, 0.5, 1, 1.5, 2, 3, 4, 6, e1m2 multiples of 0.25 up to 1.75.
Tensor nibbles(const Tensor& v, const Element& e, std::string_view round) {
  const Tensor magnitude = v.abs();
  const Tensor step = e.mantissa == 1
                          ? at::where(magnitude.lt(2), 0.5, at::where(magnitude.lt(4), 1.0, 2.0)).to(v.scalar_type())
                          : at::zeros({}, v.options()) + 0.25;
  const Tensor q = v / step;
  const Tensor whole = round == "floor"   ? q.floor()
                       : round == "ceil"  ? q.ceil()
                       : round == "trunc" ? q.trunc()
                       : round == "round" ? (q.abs() + 0.5).floor() * q.sign()
                                          : q.round();
  const Tensor value = (whole * step).clamp(-e.largest, e.largest), m = value.abs();
  const Tensor code = e.mantissa == 1 ? at::where(m.lt(2), m * 2, at::where(m.lt(4), m + 2, m / 2 + 4)) : m * 4;
  return (code + v.lt(0).to(code.scalar_type()) * 8).to(at::kByte);
}

}  // namespace

bool is_small(at::ScalarType type) {
  return type == at::kFloat8_e5m2 || type == at::kFloat8_e4m3fn || type == at::ScalarType::Float4_e2m1fn_x2 ||
         type == at::ScalarType::Bits4x2;
}

Element element(at::ScalarType type) {
  switch (type) {
    case at::kFloat8_e5m2:
      return {15, 57344, 0};
    case at::kFloat8_e4m3fn:
      return {8, 448, 0};
    case kHifloat8:
      return {15, kHifloat8Largest, 0};
    case at::ScalarType::Float4_e2m1fn_x2:
      return {2, 6, 1};
    case at::ScalarType::Bits4x2:
      return {0, 1.75, 2};
    default:
      TORCH_CHECK_NOT_IMPLEMENTED(false, "elements of ", type, " are not implemented; float8_e5m2, float8_e4m3fn, ",
                                  "float4_e2m1 and float4_e1m2 are");
  }
}

int64_t pair_dim(const Tensor& t) {
  const int64_t last = t.dim() - 1;
  return t.dim() > 1 && t.stride(last) != 1 && t.stride(last - 1) == 1 ? last - 1 : last;
}

std::vector<int64_t> sizes_of(const Tensor& t) {
  std::vector<int64_t> sizes = t.sizes().vec();
  if (packed(t) && !sizes.empty()) sizes[pair_dim(t)] *= 2;
  return sizes;
}

std::vector<int64_t> scale_sizes(at::IntArrayRef sizes, int64_t dim, int64_t block) {
  std::vector<int64_t> out = sizes.vec();
  out[dim] = (out[dim] + 2 * block - 1) / (2 * block);
  out.push_back(2);
  return out;
}

void need_sizes(const char* name, const Tensor& t, at::IntArrayRef sizes) {
  const std::vector<int64_t> found = sizes_of(t);
  TORCH_CHECK(sizes == found, name, " has the sizes ", at::IntArrayRef(found), ", ", sizes, " are expected");
}

void need_floating(const char* name, const Tensor& t) {
  const auto type = t.scalar_type();
  TORCH_CHECK(type == at::kFloat || type == at::kHalf || type == at::kBFloat16, name,
              " is float32, float16 or bfloat16, not ", type);
}

int64_t dim_of(const char* name, const Tensor& x, int64_t dim) {
  TORCH_CHECK(dim >= -x.dim() && dim < x.dim(), name, " ", dim, " is no dimension of ", x.dim());
  return dim < 0 ? dim + x.dim() : dim;
}

Element need_form(const MxForm& f, const Tensor& y, std::initializer_list<int64_t> algorithms) {
  const Element e = element(y.scalar_type());
  constexpr int64_t kNumbers[] = {35, 36, 40, 41};
  const int64_t own = y.scalar_type() == at::kFloat8_e5m2                   ? kNumbers[0]
                      : y.scalar_type() == at::kFloat8_e4m3fn               ? kNumbers[1]
                      : y.scalar_type() == at::ScalarType::Float4_e2m1fn_x2 ? kNumbers[2]
                                                                            : kNumbers[3];
  const int64_t named = static_cast<int32_t>(f.type);
  TORCH_CHECK(named == 0 || named == own, "the type ", named, " is not that of the result, ", own);
  const bool four = e.mantissa > 0;
  TORCH_CHECK(f.round.empty() || f.round == "rint" || (four && (f.round == "floor" || f.round == "round")),
              "the rounding \"", std::string(f.round), "\" is not rint",
              four ? ", floor or round" : ", as 8-bit types need");
  TORCH_CHECK(std::find(algorithms.begin(), algorithms.end(), f.alg) != algorithms.end(), "scaleAlg ", f.alg,
              " is not one of ", at::IntArrayRef(algorithms));
  TORCH_CHECK(f.alg != 1 || !four, "scaleAlg 1 goes with 8-bit types");
  TORCH_CHECK(f.alg != 2 || e.mantissa == 1, "scaleAlg 2 goes with float4_e2m1");
  TORCH_CHECK(f.largest == 0 || f.alg == 2, "a largest number, ", f.largest, ", goes with scaleAlg 2");
  TORCH_CHECK(f.least == 0 || (f.alg == 1 && f.least > 0), "maxLowBound ", f.least,
              " must be positive and goes with scaleAlg 1");
  TORCH_CHECK(f.block > 0 && f.block <= 1024 && f.block % 32 == 0, "the block size ", f.block,
              " must be a multiple of 32 up to 1024");
  TORCH_CHECK(f.alg != 2 || f.block == 32, "the block size ", f.block, " must be 32 with scaleAlg 2");
  return e;
}

// The documents round such a block's exponent by bits of its mantissa, which they do not name.
void refuse_rounded_exponent(const MxForm& f) {
  TORCH_CHECK_NOT_IMPLEMENTED(f.alg != 2 || (f.largest > 6 && f.largest <= 12 && f.largest != 7),
                              "scaleAlg 2 is implemented for largest numbers above 6 to 12 other than 7, not ",
                              f.largest);
}

Tensor floats(const Tensor& t) { return is_hifloat8(t) ? hifloat8_values(t) : t.to(at::kFloat); }

Tensor exponents(const Tensor& magnitude, const Element& e, const MxForm& f) {
  Tensor exponent;
  if (f.alg == 0) {
    exponent = (bits_of(magnitude).div(kMantissa, "floor") - e.top).clamp_min(0);
  } else {
    const Tensor most = f.least > 0 ? magnitude.clamp_min(f.least) : magnitude;
    const Tensor bits = bits_of(most / (f.largest > 0 ? f.largest : e.largest));
    const Tensor whole = bits.div(kMantissa, "floor"), rest = bits - whole * kMantissa;
    Tensor up = whole.gt(0).logical_and(whole.lt(254)).logical_and(rest.gt(0));
    if (f.alg == 1) up = up.logical_or(whole.eq(0).logical_and(rest.gt(kMantissa / 2)));
    exponent = whole + up.to(at::kLong);
  }
  return at::where(magnitude.isfinite(), exponent, kNan);
}

Tensor block_maxima(const Tensor& x, int64_t dim, int64_t block) {
  const int64_t n = x.size(dim);
  block = std::min(std::max<int64_t>(n, 1), block);  // a block that is longer is not padded to its end
  const int64_t blocks = (n + block - 1) / block;
  return padded(x.abs(), dim, blocks * block - n).unflatten(dim, {blocks, block}).amax(dim + 1);
}

Tensor spread(const Tensor& of_block, int64_t dim, int64_t block, int64_t n) {
  return of_block.repeat_interleave(std::min(std::max<int64_t>(n, 1), block), dim).narrow(dim, 0, n);
}

void put_elements(Tensor& y, const Tensor& values, const Element& e, std::string_view round) {
  if (y.numel() == 0) return;
  if (e.mantissa == 0) return put(y, values.clamp(-e.largest, e.largest));
  const Tensor pairs = nibbles(values, e, round).unflatten(-1, {values.size(-1) / 2, 2});
  y.view(at::kByte).copy_(pairs.select(-1, 0) + pairs.select(-1, 1) * 16);
}

void put_scaled(Tensor& y, const Tensor& x, const Tensor& exponent, const Element& e, std::string_view round) {
  const Tensor lost = exponent.eq(kNan);
  put_elements(y, times_powers(x, 2 * kBias - exponent.masked_fill(lost, kBias)).masked_fill(lost, 0), e, round);
}

// Pairs along the dimension, of which the two lie in a last dimension of their own; an odd count ends with 0.
void put_scales(Tensor& scale, const Tensor& exponent, int64_t dim) {
  if (scale.numel() == 0) return;
  const Tensor even = padded(exponent, dim, exponent.size(dim) % 2);
  scale.view(at::kByte).copy_(even.unflatten(dim, {even.size(dim) / 2, 2}).movedim(dim + 1, -1));
}

void put_blocks(Tensor& y, Tensor& scale, const Tensor& x, int64_t dim, const Element& e, const MxForm& f) {
  if (x.numel() == 0) return;
  const Tensor exponent = exponents(block_maxima(x, dim, f.block), e, f);
  put_scaled(y, x, spread(exponent, dim, f.block, x.size(dim)), e, f.round);
  put_scales(scale, exponent, dim);
}

Tensor unpacked(const Tensor& t) {
  if (!packed(t)) return floats(t);
  const Element e = element(t.scalar_type());
  const int64_t at = pair_dim(t);
  const Tensor bytes = t.view(at::kByte).to(at::kLong), high = bytes.div(16, "floor");
  const Tensor code = at::stack({bytes - high * 16, high}, at + 1).flatten(at, at + 1), minus = code.ge(8);
  const Tensor c = (code - minus.to(at::kLong) * 8).to(at::kFloat);
  const Tensor m = e.mantissa == 1 ? at::where(c.lt(4), c / 2, at::where(c.lt(6), c - 2, c * 2 - 8)) : c / 4;
  return at::where(minus, -m, m);
}

// In two steps that neither overflow nor underflow where the product does not.
Tensor times_powers(const Tensor& values, const Tensor& exponent) {
  const Tensor power = exponent - kBias, half = power.div(2, "floor");
  return values * two_to(half) * two_to(power - half);
}

Tensor values_of(const Tensor& t, const Tensor& scale, int64_t dim, int64_t block) {
  const Tensor value = unpacked(t);
  if (value.numel() == 0) return value;
  const int64_t at = at::maybe_wrap_dim(dim, value.dim());
  const Tensor kept = scale.view(at::kByte).to(at::kLong).movedim(-1, at + 1).flatten(at, at + 1);
  const Tensor exponent = spread(kept, at, block, value.size(at)), lost = exponent.eq(kNan);
  return times_powers(value, exponent.masked_fill(lost, kBias)).masked_fill(lost, NAN);
}

GroupedRows grouped_rows(const Tensor& ends, int64_t rows, int64_t block) {
  const int64_t groups = ends.size(0);
  const Tensor end = ends.to(at::kLong);
  const Tensor begin = at::cat({at::zeros({1}, end.options()), end.narrow(0, 0, groups - 1)});
  const Tensor count = (end - begin + (block - 1)).div(block, "floor"), first = count.cumsum(0) - count;
  const Tensor row = at::arange(rows, end.options());
  const Tensor group = row.unsqueeze(1).ge(end).sum(1).clamp_max(groups - 1);
  const Tensor from = row - begin.index_select(0, group), blocks = from.div(block, "floor");
  return {first.index_select(0, group) + blocks, from - blocks * block};
}

// A group has whole pairs of blocks, one after the other.
void put_grouped(Tensor& y, Tensor& scale, const Tensor& x, const Tensor& ends, const Element& e, const MxForm& f) {
  const int64_t rows = x.size(0), columns = x.size(1), all = 2 * scale.size(0);
  const GroupedRows g = grouped_rows(ends, rows, 2 * f.block);
  const Tensor place = g.place * 2 + g.inside.div(f.block, "floor");
  TORCH_CHECK(rows == 0 || place.amax().item<int64_t>() < all, "the groups end at ", ends, " of ", rows, " rows");
  const Tensor index = place.unsqueeze(1).expand({rows, columns});
  const Tensor largest = at::zeros({all, columns}, x.options()).scatter_reduce(0, index, x.abs(), "amax");
  const Tensor exponent = exponents(largest, e, f);
  put_scaled(y, x, exponent.index_select(0, place), e, f.round);
  put_scales(scale, exponent, 0);
}

}  // namespace softnpu::ops::kernels::mx

// Blocks and back: see mx.h.
#include "softnpu/ops/mx.h"

#include <ATen/ops/where.h>

#include "softnpu/ops/mx_blocks.h"

namespace softnpu::ops::kernels {

using namespace mx;

void need_mx(const Tensor& x, int64_t axis, const MxForm& form, const Tensor& y, const Tensor& scale) {
  need_floating("x", x);
  const int64_t dim = dim_of("axis", x, axis);
  need_form(form, y, {0, 1, 2});
  refuse_rounded_exponent(form);
  need_sizes("yOut", y, x.sizes());
  need_sizes("mxscaleOut", scale, scale_sizes(x.sizes(), dim, form.block));
}

void mx_quant(const Tensor& x, int64_t axis, const MxForm& form, Tensor& y, Tensor& scale) {
  put_blocks(y, scale, floats(x), dim_of("axis", x, axis), element(y.scalar_type()), form);
}

void need_mx_twice(const Tensor& x, const MxForm& form, const Tensor& y1, const Tensor& scale1, const Tensor& y2,
                   const Tensor& scale2) {
  TORCH_CHECK(x.dim() >= 2, "x has ", x.dim(), " dimensions, two are expected");
  need_mx(x, -1, form, y1, scale1);
  need_mx(x, -2, form, y2, scale2);
}

void mx_quant_twice(const Tensor& x, const MxForm& form, Tensor& y1, Tensor& scale1, Tensor& y2, Tensor& scale2) {
  mx_quant(x, -1, form, y1, scale1);
  mx_quant(x, -2, form, y2, scale2);
}

void need_mx_squares(const Tensor& x, const MxForm& form, const Tensor& y, const Tensor& scale1, const Tensor& scale2) {
  need_floating("x", x);
  TORCH_CHECK(x.dim() == 2 || x.dim() == 3, "x has ", x.dim(), " dimensions, two or three are expected");
  need_form(form, y, {0, 2});
  TORCH_CHECK(form.largest == 0 || form.largest == 6 || form.largest == 7, "dstTypeMax ", form.largest,
              " is not 0, 6 or 7");
  need_sizes("yOut", y, x.sizes());
  need_sizes("scale1Out", scale1, scale_sizes(x.sizes(), x.dim() - 1, 32));
  need_sizes("scale2Out", scale2, scale_sizes(x.sizes(), x.dim() - 2, 32));
}

void mx_quant_squares(const Tensor& input, const MxForm& form, Tensor& y, Tensor& scale1, Tensor& scale2) {
  if (input.numel() == 0) return;
  const Element e = element(y.scalar_type());
  const Tensor x = floats(input);
  const int64_t last = x.dim() - 1, rows = x.size(last - 1), columns = x.size(last);
  const Tensor exponent = exponents(block_maxima(block_maxima(x, last, 32), last - 1, 32), e, form);
  const Tensor by_row = spread(exponent, last - 1, 32, rows);
  put_scaled(y, x, spread(by_row, last, 32, columns), e, form.round);
  put_scales(scale1, by_row, last);
  put_scales(scale2, spread(exponent, last, 32, columns), last - 1);
}

void need_mx_levels(const Tensor& x, const MxLevels& levels, const MxForm& form, const Tensor& y, const Tensor& level0,
                    const Tensor& level1) {
  need_floating("x", x);
  TORCH_CHECK(x.dim() > 0, "x has no dimensions");
  TORCH_CHECK(levels.level0 == 512 && levels.level1 == 32, "the block sizes ", levels.level0, " and ", levels.level1,
              " are not 512 and 32");
  TORCH_CHECK(need_form(form, y, {0}).mantissa == 1, "yOut is ", y.scalar_type(), ", float4_e2m1 is expected");
  if (given(levels.smooth)) {
    need_sizes("smoothScaleOptional", *levels.smooth, {x.size(-1)});
    TORCH_CHECK(levels.smooth->scalar_type() == x.scalar_type(), "smoothScaleOptional is ",
                levels.smooth->scalar_type(), ", x ", x.scalar_type());
  }
  need_sizes("yOut", y, x.sizes());
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = (sizes.back() + 511) / 512;
  need_sizes("level0ScaleOut", level0, sizes);
  need_sizes("level1ScaleOut", level1, scale_sizes(x.sizes(), x.dim() - 1, 32));
}

void mx_quant_levels(const Tensor& input, const MxLevels& levels, const MxForm& form, Tensor& y, Tensor& level0,
                     Tensor& level1) {
  if (input.numel() == 0) return;
  const Element e = element(y.scalar_type());
  Tensor x = floats(input);
  if (given(levels.smooth)) x = x * floats(*levels.smooth);
  const int64_t last = x.dim() - 1, n = x.size(last);
  const Tensor coarse = block_maxima(x, last, levels.level0) / e.largest;
  put(level0, coarse);
  const Tensor over = spread(at::where(coarse.eq(0), 1, coarse), last, levels.level0, n);
  put_blocks(y, level1, floats((x / over).to(input.scalar_type())), last, e, form);
}

void need_mx_values(const Tensor& x, const Tensor& scale, int64_t axis, int64_t type, const Tensor& y) {
  element(x.scalar_type());
  need_floating("y", y);
  const int64_t named = static_cast<int32_t>(type), own = y.scalar_type() == at::kFloat  ? 0
                                                          : y.scalar_type() == at::kHalf ? 1
                                                                                         : 27;
  TORCH_CHECK(named == own, "dstType ", named, " is not the type of y, ", own);
  const std::vector<int64_t> sizes = sizes_of(x);
  TORCH_CHECK(!packed(x) || x.is_contiguous(), "x of 4-bit elements is not contiguous");
  need_sizes("y", y, sizes);
  need_sizes("mxscale", scale, scale_sizes(sizes, dim_of("axis", x, axis), 32));
}

void mx_values(const Tensor& x, const Tensor& scale, int64_t axis, Tensor& y) {
  if (y.numel() == 0) return;
  put(y, values_of(x, scale, axis));
}

}  // namespace softnpu::ops::kernels

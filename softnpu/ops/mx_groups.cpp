// Blocks of groups of rows: see mx.h.
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "softnpu/ops/hifloat8.h"
#include "softnpu/ops/mx_blocks.h"

namespace softnpu::ops::kernels {

using namespace mx;

namespace {

void need_ends(const char* name, const Tensor& ends) {
  const auto type = ends.scalar_type();
  TORCH_CHECK(ends.dim() == 1 && ends.size(0) > 0, name, " has the sizes ", ends.sizes(),
              ", one dimension is expected");
  TORCH_CHECK(type == at::kInt || type == at::kLong, name, " is int32 or int64, not ", type);
}

}  // namespace

void need_mx_groups(const Tensor& x, const Tensor& ends, const MxForm& form, const Tensor& y, const Tensor& scale) {
  need_floating("x", x);
  need_ends("groupIndex", ends);
  TORCH_CHECK(x.dim() == 2, "x has ", x.dim(), " dimensions, two are expected");
  need_form(form, y, {0, 1, 2});
  refuse_rounded_exponent(form);
  TORCH_CHECK(form.block == 32, "blocksize ", form.block, " is not 32");
  need_sizes("y", y, x.sizes());
  need_sizes("mxscale", scale, {x.size(0) / 64 + ends.size(0), x.size(1), 2});
}

void mx_quant_groups(const Tensor& x, const Tensor& ends, const MxForm& form, Tensor& y, Tensor& scale) {
  if (scale.numel() == 0) return;
  put_grouped(y, scale, floats(x), ends, element(y.scalar_type()), form);
}

void need_block_groups(const Tensor& x, const Tensor& ends, const BlockForm& form, const Tensor& y,
                       const Tensor& scale) {
  need_floating("x", x);
  need_ends("groupList", ends);
  TORCH_CHECK(x.dim() == 2 || x.dim() == 3, "x has ", x.dim(), " dimensions, two or three are expected");
  TORCH_CHECK(form.rows > 0 && form.columns > 0, "blocks of ", form.rows, " x ", form.columns);
  TORCH_CHECK(form.least >= 0, "minScale ", form.least, " is negative");
  TORCH_CHECK(form.list == 0, "groupListType ", form.list, " is not 0, running ends");
  TORCH_CHECK(form.largest == 0 || is_hifloat8(y), "dstTypeMax ", form.largest, " goes with hifloat8, yOut is of ",
              y.scalar_type());
  if (is_hifloat8(y)) {
    need_hifloat8(form.round, form.type, form.largest);
  } else {
    TORCH_CHECK(need_form({form.round, form.type}, y, {0}).mantissa == 0, "yOut of ", y.scalar_type(),
                " is not implemented, 8-bit floats are");
  }
  need_sizes("yOut", y, x.sizes());
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes[sizes.size() - 2] = x.size(-2) / form.rows + ends.size(0);
  sizes.back() = (x.size(-1) + form.columns - 1) / form.columns;
  need_sizes("scaleOut", scale, sizes);
}

void block_quant_groups(const Tensor& x, const Tensor& ends, const BlockForm& form, Tensor& y, Tensor& scale) {
  if (scale.numel() == 0) return;
  const Element e = element(y.scalar_type());
  const int64_t all = scale.size(-2), width = x.size(-1);
  const Tensor place = grouped_rows(ends, x.size(-2), form.rows).place, value = floats(x);
  TORCH_CHECK(x.size(-2) == 0 || place.amax().item<int64_t>() < all, "the groups end at ", ends, " of ", x.size(-2),
              " rows");
  const Tensor most = block_maxima(value, x.dim() - 1, form.columns);
  const Tensor index = place.unsqueeze(1).expand(most.sizes());
  Tensor found = at::zeros(scale.sizes(), value.options()).scatter_reduce(-2, index, most, "amax") /
                 (form.largest > 0 ? form.largest : e.largest);
  if (form.least > 0) found = found.clamp_max(1 / form.least);
  put(scale, found);
  const Tensor of_row = found.index_select(-2, place);
  const Tensor over = spread(at::where(of_row.eq(0), 1, of_row), x.dim() - 1, form.columns, width);
  put_elements(y, value / over, e, "rint");
}

}  // namespace softnpu::ops::kernels

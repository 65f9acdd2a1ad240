// See overlap.h.
#include "softnpu/ops/overlap.h"

#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>

#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {

void box_overlap(const Tensor& boxes, const Tensor& others, std::string_view mode, double eps, bool aligned,
                 Tensor& out) {
  const char* const op = "aclnnIou";
  TORCH_CHECK(mode == "iou" || mode == "iof", op, ": mode ", mode, " is not iou or iof");
  TORCH_CHECK(boxes.dim() == 2 && others.dim() == 2 && boxes.size(1) == 4 && others.size(1) == 4, op, ": bBoxes ",
              boxes.sizes(), " and gtBoxes ", others.sizes(), " are not [m, 4] and [n, 4]");
  TORCH_CHECK(!aligned || boxes.size(0) == others.size(0), op, ": aligned boxes are ", boxes.size(0), " and ",
              others.size(0));
  const Tensor a = wide(boxes).unsqueeze(1), b = aligned ? wide(others).unsqueeze(1) : wide(others).unsqueeze(0);
  const auto column = [](const Tensor& t, int64_t i) { return t.select(2, i); };
  const auto area = [&](const Tensor& t) { return (column(t, 2) - column(t, 0)) * (column(t, 3) - column(t, 1)); };
  const auto shared = [&](int64_t i) {
    return (at::minimum(column(a, i + 2), column(b, i + 2)) - at::maximum(column(a, i), column(b, i))).clamp_min(0);
  };
  const Tensor both = shared(0) * shared(1);
  const Tensor whole = mode == "iof" ? area(b) : area(a) + area(b) - both;
  const Tensor found = both / (whole + eps);
  TORCH_CHECK(found.sizes() == out.sizes(), op, ": overlap is ", out.sizes(), ", ", found.sizes(), " is expected");
  put(out, found);
}

}  // namespace softnpu::ops::kernels

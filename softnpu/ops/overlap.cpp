// See overlap.h.
#include "softnpu/ops/overlap.h"

#include <ATen/ops/atan.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>

#include <numbers>

#include "softnpu/ops/kernels.h"
#include "softnpu/ops/shapes.h"

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

void check_complete_overlap(const Tensor& boxes, const Tensor& others, bool cross, std::string_view mode,
                            const Tensor& out, const Tensor& angle) {
  // The page takes nothing else, and the vendor's plugin would have the pairs the other way round than the page.
  TORCH_CHECK(!cross, "isCross is true; only false is supported");
  need_word("mode", mode, {"iou"});
  need_sizes("bBoxes", boxes, {4, -1});
  need_sizes("gtBoxes", others, {4, boxes.size(1)});
  need_sizes("overlap", out, {1, boxes.size(1)});
  need_sizes("atanSub", angle, {1, boxes.size(1)});
}

void complete_overlap(const Tensor& boxes, const Tensor& others, bool centred, Tensor& out, Tensor& angle) {
  const auto corner = [&](const Tensor& t, int64_t i) {
    const Tensor all = wide(t);
    if (!centred) return all[i];
    return i < 2 ? all[i] - all[i + 2] / 2 : all[i - 2] + all[i] / 2;
  };
  const auto a = [&](int64_t i) { return corner(boxes, i); };
  const auto b = [&](int64_t i) { return corner(others, i); };
  const double eps = 1e-9;
  const Tensor w1 = a(2) - a(0), h1 = a(3) - a(1) + eps, w2 = b(2) - b(0), h2 = b(3) - b(1) + eps;
  const auto shared = [&](int64_t i) {
    return (at::minimum(a(i + 2), b(i + 2)) - at::maximum(a(i), b(i))).clamp_min(0);
  };
  const auto outer = [&](int64_t i) { return at::maximum(a(i + 2), b(i + 2)) - at::minimum(a(i), b(i)); };
  const Tensor both = shared(0) * shared(1), iou = both / (w1 * h1 + w2 * h2 - both + eps);
  const Tensor distance = ((b(0) + b(2) - a(0) - a(2)).square() + (b(1) + b(3) - a(1) - a(3)).square()) / 4;
  const Tensor turn = at::atan(w2 / h2) - at::atan(w1 / h1);
  const Tensor v = turn.square() * (4 / (std::numbers::pi * std::numbers::pi));
  const Tensor found = iou - distance / (outer(0).square() + outer(1).square() + eps) - v / (1 - iou + v + eps) * v;
  put(out, found.unsqueeze(0));
  put(angle, turn.unsqueeze(0));
}

}  // namespace softnpu::ops::kernels

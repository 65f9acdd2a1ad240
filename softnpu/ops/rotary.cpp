// Rotary position embedding: pairs of columns turned by an angle, whose cosine and sine the caller gives for every column.
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>

#include "softnpu/ops/in_halves.h"
#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {
namespace {

enum Mode : int64_t { kHalves, kNeighbours, kQuarters, kNeighboursToHalves };

Tensor turned_halves(const Tensor& x) {
  const auto parts = in_halves(x, -1);
  return at::cat({-parts[1], parts[0]}, -1);
}
Tensor turned_neighbours(const Tensor& x) {
  const Tensor pairs = x.unflatten(-1, {-1, 2});
  return at::stack({-pairs.select(-1, 1), pairs.select(-1, 0)}, -1).flatten(-2);
}
// Every pair (a, b) as (-b, a).
Tensor turned(const Tensor& x, int64_t mode) {
  if (mode == kNeighbours) return turned_neighbours(x);
  if (mode == kQuarters) {
    const auto parts = in_halves(x, -1);
    return at::cat({turned_halves(parts[0]), turned_halves(parts[1])}, -1);
  }
  return turned_halves(x);
}
Tensor neighbours_to_halves(const Tensor& x) { return x.unflatten(-1, {-1, 2}).transpose(-1, -2).flatten(-2); }
Tensor halves_to_neighbours(const Tensor& x) { return x.unflatten(-1, {2, -1}).transpose(-1, -2).flatten(-2); }

void check(const Tensor& x, int64_t mode) {
  TORCH_CHECK(mode >= kHalves && mode <= kNeighboursToHalves, "rotary position embedding: mode ", mode,
              " is not 0 to 3");
  TORCH_CHECK(x.size(-1) % (mode == kQuarters ? 4 : 2) == 0, "rotary position embedding: ", x.size(-1),
              " columns are not pairs");
}

}  // namespace

int64_t rotary_mode(std::string_view name) {
  if (name.empty() || name == "half") return kHalves;
  if (name == "interleave") return kNeighbours;
  TORCH_CHECK(name == "quarter", "rotary position embedding: the mode ", std::string(name),
              " is not one of half, interleave, quarter");
  return kQuarters;
}

void rotary(const Tensor& x, const Tensor& cos, const Tensor& sin, int64_t mode, Tensor& out) {
  check(x, mode);
  Tensor value = wide(x);
  if (mode == kNeighboursToHalves) value = neighbours_to_halves(value);
  put(out, value * cos + turned(value, mode) * sin);
}

void rotary_backward(const Tensor& gradient, const Tensor& cos, const Tensor& sin, const OptionalTensor& x,
                     int64_t mode, Tensor& grad_x, Tensor& grad_cos, Tensor& grad_sin) {
  check(gradient, mode);
  const Tensor dy = wide(gradient);
  const Tensor back = dy * cos - turned(dy * sin, mode);  // turning the other way is minus turning
  put(grad_x, mode == kNeighboursToHalves ? halves_to_neighbours(back) : back);
  if (!passed(x)) return;
  Tensor value = x->to(dy.scalar_type());
  if (mode == kNeighboursToHalves) value = neighbours_to_halves(value);
  if (grad_cos.defined()) put(grad_cos, (dy * value).sum_to_size(cos.sizes()));
  if (grad_sin.defined()) put(grad_sin, (dy * turned(value, mode)).sum_to_size(sin.sizes()));
}

}  // namespace softnpu::ops::kernels

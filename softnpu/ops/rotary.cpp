// Rotary position embedding: pairs of columns turned by an angle, whose cosine and sine the caller gives for every column.
#include <ATen/ExpandUtils.h>
#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "softnpu/ops/fused_rows.h"
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

// As many rows as one thread takes that share an angle, and adds up its gradients of.
constexpr int64_t kShares = 4096;

// Row by row in fp32: pairs are halves, and the last dimension of cosine and sine is the whole of the input's.
bool by_rows(const Tensor& x, const Tensor& cos, const Tensor& sin, int64_t mode) {
  if (mode == kNeighbours || mode == kQuarters || x.scalar_type() != at::kFloat || x.numel() == 0) return false;
  return cos.sizes() == sin.sizes() && cos.dim() == x.dim() && cos.size(-1) == x.size(-1) &&
         cos.scalar_type() != at::kDouble && sin.scalar_type() != at::kDouble &&
         at::is_expandable_to(cos.sizes(), x.sizes()) && x.numel() <= kShares * cos.numel();
}

// Where the rows of some dimensions begin.
std::vector<int64_t> places(const Tensor& t, const std::vector<int64_t>& dims) {
  std::vector<int64_t> out{0};
  for (int64_t d : dims) {
    std::vector<int64_t> more;
    for (int64_t at : out) {
      for (int64_t i = 0; i < t.size(d); i++) more.push_back(at + i * t.stride(d));
    }
    out.swap(more);
  }
  return out;
}

// A tensor of fp32 whose rows lie as they are.
struct Rows {
  explicit Rows(const Tensor& t) : tensor(t.stride(-1) == 1 ? t : t.contiguous()) {}
  Tensor tensor;
  std::vector<int64_t> angles{}, shares{};  // where the rows of each angle begin; those that share one, from there

  void place(const std::vector<int64_t>& own, const std::vector<int64_t>& shared) {
    angles = places(tensor, own);
    shares = places(tensor, shared);
  }
  float* at(size_t angle, size_t share) const {
    return tensor.mutable_data_ptr<float>() + angles[angle] + shares[share];
  }
};

// work(angle, one of those that share it), all of an angle on one thread. Cosine and sine are contiguous: angle i is their row i.
template <class F>
void each_angle(const Tensor& cos, std::initializer_list<Rows*> tensors, F&& work) {
  std::vector<int64_t> own, shared;
  const Tensor& x = (*tensors.begin())->tensor;
  for (int64_t d = 0; d + 1 < x.dim(); d++) (cos.size(d) == x.size(d) ? own : shared).push_back(d);
  for (Rows* t : tensors) t->place(own, shared);
  const size_t count = (*tensors.begin())->shares.size();
  const int64_t numbers = x.size(-1) * static_cast<int64_t>(count);
  at::parallel_for(0, cos.numel() / cos.size(-1), std::max<int64_t>(1, (1 << 14) / numbers),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; i++) {
                       for (size_t k = 0; k < count; k++) work(i, k);
                     }
                   });
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
  if (!by_rows(value, cos, sin, mode)) return put(out, value * cos + turned(value, mode) * sin);
  const Tensor c = wide(cos).contiguous(), s = wide(sin).contiguous();
  Rows from(value), to(fp32_room(out, x.sizes(), {value, c, s}));
  const auto *cosines = c.const_data_ptr<float>(), *sines = s.const_data_ptr<float>();
  const int64_t n = x.size(-1);
  each_angle(c, {&from, &to}, [&](int64_t i, size_t k) {
    rotary_row(from.at(i, k), cosines + i * n, sines + i * n, n / 2, to.at(i, k));
  });
  put(out, to.tensor);
}

void rotary_backward(const Tensor& gradient, const Tensor& cos, const Tensor& sin, const OptionalTensor& x,
                     int64_t mode, Tensor& grad_x, Tensor& grad_cos, Tensor& grad_sin) {
  check(gradient, mode);
  const Tensor dy = wide(gradient);
  const bool rows = by_rows(dy, cos, sin, mode), reordered = mode == kNeighboursToHalves;
  Tensor value = passed(x) ? x->to(dy.scalar_type()) : Tensor();
  if (reordered && value.defined()) value = neighbours_to_halves(value);
  if (rows && (!value.defined() || value.sizes() == dy.sizes())) {
    const Tensor c = wide(cos).contiguous(), s = wide(sin).contiguous();
    const Tensor dcos = at::zeros(c.sizes(), c.options()), dsin = at::zeros(c.sizes(), c.options());
    Rows from(dy), to(fp32_room(reordered ? Tensor() : grad_x, dy.sizes(), {dy, c, s, value})),
        of(value.defined() ? value : dy);
    const auto *cosines = c.const_data_ptr<float>(), *sines = s.const_data_ptr<float>();
    auto *to_cos = dcos.mutable_data_ptr<float>(), *to_sin = dsin.mutable_data_ptr<float>();
    const int64_t n = dy.size(-1);
    each_angle(c, {&from, &to, &of}, [&](int64_t i, size_t k) {
      if (value.defined()) rotary_angle_gradient(from.at(i, k), of.at(i, k), n / 2, to_cos + i * n, to_sin + i * n);
      rotary_row_gradient(from.at(i, k), cosines + i * n, sines + i * n, n / 2, to.at(i, k));
    });
    put(grad_x, reordered ? halves_to_neighbours(to.tensor) : to.tensor);
    if (value.defined()) put(grad_cos, dcos), put(grad_sin, dsin);
    return;
  }
  // All of them before the first is written: it may lie where an operand does.
  const Tensor back = dy * cos - turned(dy * sin, mode);  // turning the other way is minus turning
  const bool of_cos = value.defined() && grad_cos.defined(), of_sin = value.defined() && grad_sin.defined();
  const Tensor to_cos = of_cos ? (dy * value).sum_to_size(cos.sizes()) : Tensor();
  const Tensor to_sin = of_sin ? (dy * turned(value, mode)).sum_to_size(sin.sizes()) : Tensor();
  put(grad_x, reordered ? halves_to_neighbours(back) : back);
  if (of_cos) put(grad_cos, to_cos);
  if (of_sin) put(grad_sin, to_sin);
}

}  // namespace softnpu::ops::kernels

// Max pooling of NCHW. ATen's forward is scalar there (a third of a small CNN's step); this one goes over each output row
// once per kernel element with vector compares. Its backward takes int64 alone: this one adds at int32, too, and looks at the
// places as it goes. Channels-last, integers and unusual shapes stay ATen's.
#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <ATen/native/Pool.h>
#include <ATen/ops/adaptive_max_pool2d_backward.h>
#include <ATen/ops/adaptive_max_pool3d_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/max_pool2d_with_indices_backward_cpu_dispatch.h>
#include <ATen/ops/max_pool2d_with_indices_cpu_dispatch.h>
#include <ATen/ops/max_pool3d_with_indices_backward.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <memory>
#include <type_traits>

#include "softnpu/ops/half.h"
#include "softnpu/ops/kernels.h"
#include "softnpu/ops/processor.h"
#include "softnpu/ops/scratch.h"

namespace softnpu::ops::kernels {

namespace {

struct Window {
  int height, width;          // of the input
  int out_height, out_width;  // of the output
  int kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
};

// max[i] = in[i*stride], where that is larger or NaN; `at[i]` gets the place. NaN wins, as in ATen.
CLONES void step_1(const float* in, int place, float* max, int32_t* at, int n) {
  for (int i = 0; i < n; i++) {
    float v = in[i];
    bool take = (v > max[i]) | (v != v);
    max[i] = take ? v : max[i];
    at[i] = take ? place + i : at[i];
  }
}
CLONES void step_2(const float* in, int place, float* max, int32_t* at, int n) {
  for (int i = 0; i < n; i++) {
    float v = in[2 * i];
    bool take = (v > max[i]) | (v != v);
    max[i] = take ? v : max[i];
    at[i] = take ? place + 2 * i : at[i];
  }
}
CLONES void step_n(const float* in, int stride, int place, float* max, int32_t* at, int n) {
  for (int i = 0; i < n; i++) {
    float v = in[static_cast<long>(i) * stride];
    bool take = (v > max[i]) | (v != v);
    max[i] = take ? v : max[i];
    at[i] = take ? place + stride * i : at[i];
  }
}
// The commonest window, 2x2 by 2 without padding, in one pass and without branches, for rows of at least
// four: the last vector overlaps the one before it.
struct Four {
  static constexpr int kLanes = 4;
  using Floats = float __attribute__((vector_size(16), aligned(4), may_alias));
  using Ints = int32_t __attribute__((vector_size(16), aligned(4), may_alias));
  static constexpr Ints kEven = {0, 2, 4, 6};
};
struct Eight {
  static constexpr int kLanes = 8;
  using Floats = float __attribute__((vector_size(32), aligned(4), may_alias));
  using Ints = int32_t __attribute__((vector_size(32), aligned(4), may_alias));
  static constexpr Ints kEven = {0, 2, 4, 6, 8, 10, 12, 14};
};
template <class V>
[[gnu::always_inline]] inline void windows_2x2(const float* top, const float* low, int place, int width, float* max,
                                               int32_t* at, int n) {
  using Floats = typename V::Floats;
  using Ints = typename V::Ints;
  for (int i = 0;;) {
    Floats best{};
    Ints where{};
    for (int which = 0; which < 4; which++) {
      const float* row = (which < 2 ? top : low) + 2 * i;
      const Floats first = *reinterpret_cast<const Floats*>(row);
      const Floats second = *reinterpret_cast<const Floats*>(row + V::kLanes);
      const Floats v = __builtin_shuffle(first, second, V::kEven + which % 2);
      const Ints here = V::kEven + (place + 2 * i + (which < 2 ? 0 : width) + which % 2);
      const Ints take = which == 0 ? here == here : (v > best) | (v != v);
      best = take ? v : best;
      where = take ? here : where;
    }
    *reinterpret_cast<Floats*>(max + i) = best;
    *reinterpret_cast<Ints*>(at + i) = where;
    if (i == n - V::kLanes) return;
    i = std::min(i + V::kLanes, n - V::kLanes);
  }
}
CLONES void row_2x2(const float* top, const float* low, int place, int width, float* max, int32_t* at, int n) {
  if (n >= Eight::kLanes) return windows_2x2<Eight>(top, low, place, width, max, at, n);
  return windows_2x2<Four>(top, low, place, width, max, at, n);
}
CLONES void widen_indices(const int32_t* from, int64_t* to, int n) {
  for (int i = 0; i < n; i++) to[i] = from[i];
}

void pool_plane(const Window& w, const float* in, float* max, int32_t* at) {
  bool simple = w.kernel_h == 2 && w.kernel_w == 2 && w.stride_h == 2 && w.stride_w == 2 && !w.pad_h && !w.pad_w &&
                w.dilation_h == 1 && w.dilation_w == 1 && w.out_height * 2 <= w.height && w.out_width * 2 <= w.width &&
                w.out_width >= Four::kLanes;
  for (int oh = 0; oh < w.out_height; oh++, max += w.out_width, at += w.out_width) {
    int top = oh * w.stride_h - w.pad_h;
    if (simple) {
      row_2x2(in + top * w.width, in + (top + 1) * w.width, top * w.width, w.width, max, at, w.out_width);
      continue;
    }
    int first_h = top;
    while (first_h < 0) first_h += w.dilation_h;
    for (int ow = 0; ow < w.out_width; ow++) {
      int first_w = ow * w.stride_w - w.pad_w;
      while (first_w < 0) first_w += w.dilation_w;
      max[ow] = -std::numeric_limits<float>::infinity();
      at[ow] = first_h * w.width + first_w;
    }
    for (int kh = 0; kh < w.kernel_h; kh++) {
      int ih = top + kh * w.dilation_h;
      if (ih < 0 || ih >= w.height) continue;
      for (int kw = 0; kw < w.kernel_w; kw++) {
        // Output columns whose input column ow*stride + shift lies inside.
        int shift = kw * w.dilation_w - w.pad_w;
        int from = shift >= 0 ? 0 : (-shift + w.stride_w - 1) / w.stride_w;
        int last = w.width - 1 - shift;
        int to = last < 0 ? 0 : std::min(w.out_width, last / w.stride_w + 1);
        if (from >= to) continue;
        int column = from * w.stride_w + shift;
        const float* row = in + ih * w.width + column;
        int place = ih * w.width + column;
        if (w.stride_w == 1) {
          step_1(row, place, max + from, at + from, to - from);
        } else if (w.stride_w == 2) {
          step_2(row, place, max + from, at + from, to - from);
        } else {
          step_n(row, w.stride_w, place, max + from, at + from, to - from);
        }
      }
    }
  }
}

int pick(IntArrayRef values, size_t i, int otherwise) {
  if (values.empty()) return otherwise;
  const int64_t value = values[values.size() == 1 ? 0 : i];
  TORCH_CHECK(value == static_cast<int>(value), "pooling: a kernel size, stride, padding or dilation of ", value,
              " does not fit into 32 bits");
  return static_cast<int>(value);
}

Window window_of(const Tensor& in, const Tensor& out, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding,
                 IntArrayRef dilation) {
  Window w{};
  w.height = static_cast<int>(in.size(-2));
  w.width = static_cast<int>(in.size(-1));
  w.out_height = static_cast<int>(out.size(-2));
  w.out_width = static_cast<int>(out.size(-1));
  w.kernel_h = pick(kernel, 0, 1), w.kernel_w = pick(kernel, 1, 1);
  w.pad_h = pick(padding, 0, 0), w.pad_w = pick(padding, 1, 0);
  // A stride beyond all elements is as good as the next one after them, with which the loops reckon in int.
  const auto within = [](int stride, int size, int pad) {
    return static_cast<int>(std::min<int64_t>(stride, int64_t(size) + 2 * std::max<int64_t>(pad, 0) + 1));
  };
  w.stride_h = within(pick(stride, 0, w.kernel_h), w.height, w.pad_h);
  w.stride_w = within(pick(stride, 1, w.kernel_w), w.width, w.pad_w);
  w.dilation_h = pick(dilation, 0, 1), w.dilation_w = pick(dilation, 1, 1);
  return w;
}

// Calls body(i, first input row and column of the window, dilations, input width, kernel width) for each output element.
template <class Body>
void visit_places(const Tensor& self, const Tensor& out, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding,
                  IntArrayRef dilation, const Body& body) {
  int kh = pick(kernel, 0, 1), kw = pick(kernel, 1, 1);
  int sh = pick(stride, 0, kh), sw = pick(stride, 1, kw), ph = pick(padding, 0, 0), pw = pick(padding, 1, 0);
  int dh = pick(dilation, 0, 1), dw = pick(dilation, 1, 1), width = static_cast<int>(self.size(-1));
  int64_t rows = out.size(-2), columns = out.size(-1);
  at::parallel_for(0, out.numel() / std::max<int64_t>(columns, 1), 256, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++) {
      int top = static_cast<int>(r % rows) * sh - ph;
      for (int64_t c = 0; c < columns; c++)
        body(r * columns + c, top, static_cast<int>(c) * sw - pw, dh, dw, width, kw);
    }
  });
}

}  // namespace

Tensor narrow_in_rows(const Tensor& self) {
  return at::isIntegralType(self.scalar_type(), true) && self.element_size() < 4 ? self.contiguous() : self;
}

void max_pool2d(const Tensor& self, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
                bool ceil, Tensor& out, Tensor& indices) {
  bool floating =
      self.scalar_type() == at::kFloat || self.scalar_type() == at::kHalf || self.scalar_type() == at::kBFloat16;
  bool rows = (self.dim() == 3 || self.dim() == 4) && self.is_contiguous() && out.dim() == self.dim() &&
              out.is_contiguous() && indices.is_contiguous() && indices.sizes() == out.sizes() &&
              out.scalar_type() == self.scalar_type();
  if (!floating || !rows || self.numel() == 0 || self.size(-1) * self.size(-2) > (1 << 30)) {
    const Tensor given = narrow_in_rows(self);
    auto [values, places] = at::cpu::max_pool2d_with_indices(given, kernel, stride, padding, dilation, ceil);
    put(out, values);
    return put(indices, places);
  }
  const Window w = window_of(self, out, kernel, stride, padding, dilation);
  int64_t planes = self.numel() / (int64_t(w.height) * w.width);
  int64_t in_plane = int64_t(w.height) * w.width, out_plane = int64_t(w.out_height) * w.out_width;
  TORCH_CHECK(out.numel() == planes * out_plane, "max_pool2d: the output has ", out.sizes(), " for an input of ",
              self.sizes());
  Tensor wide = wide_copy(self, Slot::kFirst);
  Tensor wide_out = self.scalar_type() == at::kFloat ? out : scratch(out, Slot::kResult);
  const float* in = wide.const_data_ptr<float>();
  float* max = wide_out.mutable_data_ptr<float>();
  bool narrow = indices.scalar_type() == at::kInt;
  TORCH_CHECK(narrow || indices.scalar_type() == at::kLong, "max_pool2d: indices must be int32 or int64");
  int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(in_plane, 1));
  at::parallel_for(0, planes, grain, [&](int64_t begin, int64_t end) {
    std::unique_ptr<int32_t[]> row(narrow ? nullptr : new int32_t[out_plane]);
    for (int64_t p = begin; p < end; p++) {
      int32_t* at = narrow ? static_cast<int32_t*>(indices.mutable_data_ptr()) + p * out_plane : row.get();
      pool_plane(w, in + p * in_plane, max + p * out_plane, at);
      if (!narrow)
        widen_indices(at, static_cast<int64_t*>(indices.mutable_data_ptr()) + p * out_plane,
                      static_cast<int>(out_plane));
    }
  });
  if (self.scalar_type() != at::kFloat) put(out, wide_out);
}

namespace {

Tensor checked_places(const Tensor& indices, const Tensor& self, int64_t dims) {
  const IntArrayRef plane = self.sizes().slice(std::max<int64_t>(0, self.dim() - dims));
  return checked_index(indices, c10::multiply_integers(plane), "max pooling");
}

// Whether all lie as they are counted, and the sizes are those of the pooling.
bool plain_planes(const Tensor& gradient, const Tensor& self, const Tensor& places, IntArrayRef kernel,
                  IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool ceil, const Tensor& grad_input) {
  const bool alike = grad_input.scalar_type() == gradient.scalar_type() && grad_input.sizes() == self.sizes() &&
                     gradient.sizes() == places.sizes();
  const bool lie = grad_input.is_contiguous() && gradient.is_contiguous() && places.is_contiguous() &&
                   self.is_contiguous() && (self.dim() == 3 || self.dim() == 4) && gradient.dim() == self.dim();
  if (!alike || !lie || !self.is_floating_point() || self.numel() == 0 || gradient.numel() == 0) return false;
  if (self.sizes().slice(0, self.dim() - 2) != gradient.sizes().slice(0, self.dim() - 2)) return false;
  const Window w = window_of(self, gradient, kernel, stride, padding, dilation);
  const auto fits = [ceil](int in, int out, int kernel, int stride, int pad, int dilation) {
    return kernel > 0 && stride > 0 && dilation > 0 && pad >= 0 && pad <= kernel / 2 &&
           at::native::pooling_output_shape<int64_t>(in, kernel, pad, stride, dilation, ceil) == out;
  };
  return fits(w.height, w.out_height, w.kernel_h, w.stride_h, w.pad_h, w.dilation_h) &&
         fits(w.width, w.out_width, w.kernel_w, w.stride_w, w.pad_w, w.dilation_w);
}

// grad_input[place] += gradient, in the order of the outputs, as ATen, but 16 bits in float32. False: a place lies outside
// of its plane.
template <class Number, class Index>
bool add_in_planes(const Tensor& gradient, const Tensor& places, Tensor& grad_input) {
  const int64_t in_plane = grad_input.size(-1) * grad_input.size(-2), out_plane = gradient.size(-1) * gradient.size(-2);
  const auto* from = gradient.const_data_ptr<Number>();
  const auto* at = places.const_data_ptr<Index>();
  auto* to = grad_input.mutable_data_ptr<Number>();
  std::atomic<bool> inside{true};
  using Sum = at::opmath_type<Number>;
  constexpr bool kInPlace = std::is_same_v<Sum, Number>;
  const int64_t grain = std::max<int64_t>(1, 16384 / in_plane);
  at::parallel_for(0, grad_input.numel() / in_plane, grain, [&](int64_t begin, int64_t end) {
    bool good = true;
    const std::unique_ptr<Sum[]> wide(kInPlace ? nullptr : new Sum[in_plane + out_plane]);
    for (int64_t p = begin; p < end; ++p) {
      const Number* const given = from + p * out_plane;
      Sum* const plane = kInPlace ? reinterpret_cast<Sum*>(to + p * in_plane) : wide.get();
      const Sum* const values = kInPlace ? reinterpret_cast<const Sum*>(given) : wide.get() + in_plane;
      if constexpr (!kInPlace) widen(given, wide.get() + in_plane, out_plane);
      std::fill_n(plane, in_plane, Sum(0));
      for (int64_t i = 0; i < out_plane; ++i) {
        const auto place = static_cast<uint64_t>(static_cast<int64_t>(at[p * out_plane + i]));
        if (place < static_cast<uint64_t>(in_plane)) {
          plane[place] += values[i];
        } else {
          good = false;
        }
      }
      if constexpr (!kInPlace) narrow(plane, to + p * in_plane, in_plane);
    }
    if (!good) inside.store(false, std::memory_order_relaxed);
  });
  return inside.load();
}

bool add_in_planes(const Tensor& gradient, const Tensor& places, Tensor& grad_input) {
  return AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, gradient.scalar_type(), "max_pool2d_backward", [&] {
    return places.scalar_type() == at::kInt ? add_in_planes<scalar_t, int32_t>(gradient, places, grad_input)
                                            : add_in_planes<scalar_t, int64_t>(gradient, places, grad_input);
  });
}

void add_to_places(const Tensor& gradient, const Tensor& self, const Tensor& places, IntArrayRef kernel,
                   IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool ceil, Tensor& grad_input) {
  if (self.element_size() == 2 &&
      self.is_floating_point()) {  // 16 bits are added in float32; of self ATen reads the layout
    const Tensor laid_out = at::empty_like(self, self.options().dtype(at::kFloat));
    put(grad_input, at::cpu::max_pool2d_with_indices_backward(gradient.to(at::kFloat), laid_out, kernel, stride,
                                                              padding, dilation, ceil, places));
    return;
  }
  const bool alike = grad_input.scalar_type() == gradient.scalar_type();
  if (alike && grad_input.is_contiguous() && gradient.is_contiguous() && self.is_contiguous()) {
    at::cpu::max_pool2d_with_indices_backward_outf(gradient, self, kernel, stride, padding, dilation, ceil, places,
                                                   grad_input);
  } else {
    put(grad_input,
        at::cpu::max_pool2d_with_indices_backward(gradient, self, kernel, stride, padding, dilation, ceil, places));
  }
}

}  // namespace

void max_pool2d_backward(const Tensor& gradient, const Tensor& self, const Tensor& indices, IntArrayRef kernel,
                         IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool ceil, Tensor& grad_input) {
  const bool counted = indices.scalar_type() == at::kInt || indices.scalar_type() == at::kLong;
  if (counted && plain_planes(gradient, self, indices, kernel, stride, padding, dilation, ceil, grad_input) &&
      add_in_planes(gradient, indices, grad_input)) {
    return;
  }
  add_to_places(gradient, self, checked_places(indices, self, 2), kernel, stride, padding, dilation, ceil, grad_input);
}

Tensor max_pool3d_backward(const Tensor& gradient, const Tensor& self, IntArrayRef kernel, IntArrayRef stride,
                           IntArrayRef padding, IntArrayRef dilation, bool ceil, const Tensor& indices) {
  const bool batched = self.dim() == 5;  // without a batch, ATen takes channels_last for a format of its own
  return at::max_pool3d_with_indices_backward(batched ? gradient : gradient.contiguous(),
                                              batched ? self : self.contiguous(), kernel, stride, padding, dilation,
                                              ceil, checked_places(indices, self, 3));
}

Tensor adaptive_max_pool_backward(const Tensor& gradient, const Tensor& self, const Tensor& indices, int64_t dims) {
  const Tensor places = checked_places(indices, self, dims);
  return dims == 2 ? at::adaptive_max_pool2d_backward(gradient, self, places)
                   : at::adaptive_max_pool3d_backward(gradient, self, places);
}

// aclnnMaxPool2dWithMask: the mask is opaque between forward and backward. Ours holds int16: the place within the window
// (row * width + column) of each output element, in the output's order; the vendor's size is always enough.
void max_pool2d_mask(const Tensor& self, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding,
                     IntArrayRef dilation, bool ceil, Tensor& out, Tensor& mask) {
  Tensor places = at::empty(out.sizes(), out.options().dtype(at::kInt));
  max_pool2d(self, kernel, stride, padding, dilation, ceil, out, places);
  TORCH_CHECK(mask.is_contiguous() && mask.numel() * mask.element_size() >= 2 * out.numel(),
              "max_pool2d: the mask's buffer is too small");
  const size_t used = 2 * out.numel();  // a program may look at the rest: the same each time
  std::memset(static_cast<char*>(mask.mutable_data_ptr()) + used, 0, mask.nbytes() - used);
  visit_places(self, out, kernel, stride, padding, dilation,
               [&](int64_t i, int top, int left, int dh, int dw, int width, int kw) {
                 int place = places.const_data_ptr<int32_t>()[i];
                 int row = (place / width - top) / dh, column = (place % width - left) / dw;
                 static_cast<int16_t*>(mask.mutable_data_ptr())[i] = static_cast<int16_t>(row * kw + column);
               });
}

void max_pool2d_mask_backward(const Tensor& gradient, const Tensor& self, const Tensor& mask, IntArrayRef kernel,
                              IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool ceil,
                              Tensor& grad_input) {
  const int window = pick(kernel, 0, 1) * pick(kernel, 1, 1);
  const int64_t plane = self.dim() >= 3 ? self.size(-1) * self.size(-2) : 0;
  TORCH_CHECK(window > 0 && self.dim() >= 3 && gradient.dim() == self.dim() && mask.is_contiguous() &&
                  mask.numel() * mask.element_size() >= 2 * gradient.numel(),
              "max_pool2d: a kernel of ", kernel, ", an input of ", self.sizes(), " and a mask of ", mask.sizes(),
              " do not make a gradient of ", gradient.sizes());
  Tensor places = at::empty(gradient.sizes(), gradient.options().dtype(at::kLong));
  auto* to = places.mutable_data_ptr<int64_t>();
  const auto* offsets = static_cast<const int16_t*>(mask.const_data_ptr());
  visit_places(self, gradient, kernel, stride, padding, dilation,
               [&](int64_t i, int top, int left, int dh, int dw, int width, int kw) {
                 const int64_t place = int64_t{top + offsets[i] / kw * dh} * width + left + offsets[i] % kw * dw;
                 TORCH_CHECK(offsets[i] >= 0 && offsets[i] < window && place >= 0 && place < plane,
                             "max_pool2d: the mask names element ", offsets[i], " of a window of ", window);
                 to[i] = place;
               });
  add_to_places(gradient, self, places, kernel, stride, padding, dilation, ceil, grad_input);
}

}  // namespace softnpu::ops::kernels

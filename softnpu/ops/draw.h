// Random draws by element: each_draw hands every logical element its own 64 bits of Philox(seed, offset), and put_draws stores what
// a distribution makes of them. Who uses it: random.cpp, dropout.cpp.
//
// A distribution is computed in fp64 and rounded once. Rounding an interval's numbers to nearest may reach its open end, and a
// 16-bit type has few numbers: Floor rounds down instead, so that [from, to) stays half open in every type.
#pragma once

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "softnpu/ops/kernels.h"
#include "softnpu/ops/philox.h"

namespace softnpu::ops::kernels {

constexpr int64_t kDrawGrain = 4096;  // elements a thread takes at least

struct Draw {
  uint32_t high, low;
  double unit() const { return to_double(high, low); }  // [0, 1)
};

// Calls body(i, draw) for every logical element: block i/2 of the stream, and nothing else, decides element i.
template <class Body>
void each_draw(int64_t n, int64_t seed, int64_t offset, const Body& body) {
  Philox philox(static_cast<uint64_t>(seed), static_cast<uint64_t>(offset));
  at::parallel_for(0, (n + 1) / 2, kDrawGrain, [&](int64_t begin, int64_t end) {
    Philox::Words words;
    for (int64_t first = begin; first < end; first += Philox::kMany) {
      philox.many(static_cast<uint64_t>(first), words);
      for (int64_t k = 0; k < std::min<int64_t>(Philox::kMany, end - first); k++) {
        const int64_t i = 2 * (first + k);
        body(i, Draw{words[0][k], words[1][k]});
        if (i + 1 < n) body(i + 1, Draw{words[2][k], words[3][k]});
      }
    }
  });
}

// The number below: numbers of one sign are ordered as their bits are.
template <class T>
T below(T value) {
  using Bits = std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;
  constexpr Bits kSign = Bits{1} << (8 * sizeof(T) - 1);
  const Bits bits = std::bit_cast<Bits>(value);
  if ((bits & ~kSign) == 0) return std::bit_cast<T>(static_cast<Bits>(kSign | 1));
  return std::bit_cast<T>(static_cast<Bits>(bits & kSign ? bits + 1 : bits - 1));
}

template <class T>
T above(T value) {
  return -below(-value);
}

// The largest number of the type that is not above `value`.
template <class T, class Value>
T floor_to(Value value) {
  const T nearest = static_cast<T>(value);
  if constexpr (std::is_integral_v<T>) {
    return nearest;
  } else if constexpr (std::is_integral_v<Value>) {  // beyond 2^53 only the exact comparison tells
    return static_cast<long double>(static_cast<double>(nearest)) > static_cast<long double>(value) ? below(nearest)
                                                                                                    : nearest;
  } else {
    return static_cast<double>(nearest) > value ? below(nearest) : nearest;
  }
}

// The smallest positive number of a floating type.
template <class T>
T smallest() {
  if constexpr (std::is_integral_v<T>) {
    return T(0);
  } else if constexpr (sizeof(T) == 2) {
    return std::bit_cast<T>(uint16_t{1});
  } else {
    return std::numeric_limits<T>::denorm_min();
  }
}

// A contiguous buffer for `self`'s values: itself, or one that write_back copies.
inline Tensor draw_buffer(const Tensor& self) {
  return self.is_contiguous() ? self : at::empty(self.sizes(), self.options());
}
inline void write_back(Tensor& self, const Tensor& values) {
  if (!values.is_same(self)) put(self, values);
}

// self[i] = make(i, draw, tag), where `tag` is a value of the tensor's C++ type.
template <class Make>
void put_draws(Tensor& self, int64_t seed, int64_t offset, const Make& make) {
  Tensor values = draw_buffer(self);
  AT_DISPATCH_ALL_TYPES_AND3(at::kHalf, at::kBFloat16, at::kBool, values.scalar_type(), "random", [&] {
    auto* out = values.mutable_data_ptr<scalar_t>();
    each_draw(values.numel(), seed, offset, [&](int64_t i, Draw d) { out[i] = make(i, d, scalar_t{}); });
  });
  write_back(self, values);
}

}  // namespace softnpu::ops::kernels

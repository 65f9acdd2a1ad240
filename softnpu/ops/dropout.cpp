// Dropout: masks, drawn from Philox(seed, offset) as random.cpp draws, and their use. drop_mask.h is their format.
#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "softnpu/ops/draw.h"
#include "softnpu/ops/drop_mask.h"
#include "softnpu/ops/processor.h"

namespace softnpu::ops::kernels {

namespace {

using Pairs = std::array<uint8_t, Philox::kMany>;  // of a block's two elements which ones stay, a bit each

CLONES void pairs_of(const Philox::Words& words, uint32_t limit, Pairs& pairs) {
  for (int i = 0; i < Philox::kMany; i++) {
    const bool even = words[0][i] >> 8 < limit, odd = words[2][i] >> 8 < limit;
    pairs[i] = static_cast<uint8_t>(even | odd << 1);
  }
}

}  // namespace

void dropout_mask(IntArrayRef shape, double probability, int64_t seed, int64_t offset, Tensor& out) {
  const int64_t n = c10::multiply_integers(shape);
  const bool bits = DropMask(out, n).bits();
  auto* mask = static_cast<uint8_t*>(out.mutable_data_ptr());
  // to_float(word) < 1 - probability, asked of the 24 bits that to_float takes.
  const auto limit =
      static_cast<uint32_t>(std::ceil(std::clamp(static_cast<float>(1 - probability), 0.0f, 1.0f) * 0x1p24f));
  Philox philox(static_cast<uint64_t>(seed), static_cast<uint64_t>(offset));
  const int64_t groups = (n + 7) / 8;  // a byte of mask has one owner
  at::parallel_for(0, groups, kDrawGrain / 8, [&](int64_t begin, int64_t end) {
    Philox::Words words;
    Pairs pairs{};
    for (int64_t g = begin; g < end; g++) {
      const auto first = static_cast<size_t>((g - begin) * 4 % Philox::kMany);
      if (first == 0) {
        philox.many(static_cast<uint64_t>(4 * g), words);
        pairs_of(words, limit, pairs);
      }
      const auto* four = pairs.data() + first;
      const auto byte = static_cast<uint8_t>(four[0] | four[1] << 2 | four[2] << 4 | four[3] << 6);
      if (bits) {
        mask[g] = byte;
        continue;
      }
      for (int64_t i = 8 * g; i < std::min(n, 8 * g + 8); i++) mask[i] = (byte >> (i & 7)) & 1;
    }
  });
  if (bits) std::fill(mask + groups, mask + out.numel(), 0);
}

void dropout_apply(const Tensor& self, const Tensor& mask, double scale, Tensor& out) {
  const int64_t n = self.numel();
  const Tensor from = self.contiguous(), flags = mask.contiguous();
  Tensor values = draw_buffer(out);
  const DropMask kept(flags, n);
  TORCH_CHECK(values.numel() == n, "dropout: an output of ", values.numel(), " elements for ", n);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, self.scalar_type(), "dropout", [&] {
    const auto* in = from.const_data_ptr<scalar_t>();
    auto* to = values.mutable_data_ptr<scalar_t>();
    auto factor = static_cast<at::opmath_type<scalar_t>>(scale);
    at::parallel_for(0, n, kDrawGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) {
        to[i] = kept[i] ? static_cast<scalar_t>(static_cast<at::opmath_type<scalar_t>>(in[i]) * factor) : scalar_t(0);
      }
    });
  });
  write_back(out, values);
}

void masked_scale(const Tensor& self, const Tensor& mask, double scale, Tensor& out) {
  if (mask.scalar_type() != at::kByte || mask.sizes() != self.sizes()) return put(out, self * mask * scale);
  const Tensor from = self.contiguous(), values = mask.contiguous();
  Tensor made = draw_buffer(out);
  TORCH_CHECK(made.numel() == self.numel() && made.scalar_type() == self.scalar_type(), "masked_scale: an output of ",
              made.numel(), " elements of ", made.scalar_type(), " for ", self.numel(), " of ", self.scalar_type());
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, self.scalar_type(), "masked_scale", [&] {
    using Wide = at::opmath_type<scalar_t>;
    const auto* in = from.const_data_ptr<scalar_t>();
    const auto* factor = values.const_data_ptr<uint8_t>();
    auto* to = made.mutable_data_ptr<scalar_t>();
    at::parallel_for(0, self.numel(), kDrawGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) {
        to[i] =
            static_cast<scalar_t>(static_cast<Wide>(in[i]) * static_cast<Wide>(factor[i]) * static_cast<Wide>(scale));
      }
    });
  });
  write_back(out, made);
}

void dropout(const Tensor& self, double probability, bool train, int64_t seed, int64_t offset, Tensor& out,
             Tensor& mask) {
  dropout_mask(self.sizes(), train ? probability : 0, seed, offset, mask);
  dropout_apply(self, mask, train && probability < 1 ? 1 / (1 - probability) : train ? 0 : 1, out);
}

}  // namespace softnpu::ops::kernels

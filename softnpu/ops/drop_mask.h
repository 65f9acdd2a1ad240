// The mask of dropout: which elements stay. Its type alone says how it is laid out: uint8 (and int8) is CANN's format, an element a
// bit, least significant first, padded to 128 elements; bool is an element a value. Sizes say nothing: 16 bytes are a mask of
// 16 elements as well as of 100. Who uses it: dropout.cpp and attention_blocks.cpp.
#pragma once

#include <ATen/core/Tensor.h>

namespace softnpu::ops::kernels {

class DropMask {
 public:
  // `flags` is contiguous, outlives the mask, and holds at least `n` elements.
  DropMask(const at::Tensor& flags, int64_t n)
      : bits_(flags.scalar_type() != at::kBool), data_(static_cast<const uint8_t*>(flags.const_data_ptr())) {
    TORCH_CHECK(flags.is_contiguous() && flags.element_size() == 1, "a dropout mask is uint8 or bool, not ",
                flags.scalar_type());
    TORCH_CHECK(flags.numel() >= (bits_ ? (n + 7) / 8 : n), "dropout: a mask of ", flags.numel(), " elements for ", n,
                bits_ ? ", which are bits" : "");
  }

  bool bits() const { return bits_; }
  bool operator[](int64_t i) const { return bits_ ? data_[i >> 3] >> (i & 7) & 1 : data_[i] != 0; }

  // factor where an element stays, 0 elsewhere, of n elements from `first` on.
  template <class T>
  void scale(int64_t first, int64_t n, T factor, T* to) const {
    int64_t i = 0;
    for (; bits_ && (first & 7) == 0 && i + 8 <= n; i += 8) {
      const unsigned byte = data_[(first + i) >> 3];
      for (unsigned k = 0; k < 8; k++) to[i + k] = factor * static_cast<T>(byte >> k & 1u);
    }
    for (; i < n; i++) to[i] = (*this)[first + i] ? factor : T{0};
  }

 private:
  bool bits_;
  const uint8_t* data_;
};

}  // namespace softnpu::ops::kernels

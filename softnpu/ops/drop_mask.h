// The mask of dropout: which elements stay. Its type alone says how it is laid out: uint8 (and int8) is CANN's format, an element a
// bit, least significant first, padded to 128 elements; bool is an element a value. Sizes say nothing: 16 bytes are a mask of
// 16 elements as well as of 100. Who uses it: dropout.cpp and attention_blocks.cpp.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstring>

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

  // What each byte's eight elements become: `factor` where one stays, 0 elsewhere.
  static constexpr int64_t kTable = 256 * 8;
  template <class T>
  static void fill_table(T factor, T* table) {
    for (int64_t i = 0; i < kTable; i++) table[i] = i >> 3 >> (i & 7) & 1 ? factor : T{0};
  }
  // That of n elements from `first` on.
  template <class T>
  void scale(int64_t first, int64_t n, const T* table, T* to) const {
    const int64_t shift = first & 7;
    int64_t i = 0;
    for (; bits_ && i + 8 <= n; i += 8) {
      const uint8_t* from = data_ + ((first + i) >> 3);
      const unsigned byte = shift ? (from[0] | from[1] << 8) >> shift & 0xff : from[0];
      std::memcpy(to + i, table + 8 * byte, 8 * sizeof(T));
    }
    for (; i < n; i++) to[i] = table[(*this)[first + i] ? 8 : 0];
  }

 private:
  bool bits_;
  const uint8_t* data_;
};

}  // namespace softnpu::ops::kernels

// What all that is MX shares: types of elements, exponents of blocks, elements from numbers and back. What it is not: the operators (mx.h).
// Included by the .cpp of the family.
#pragma once

#include "softnpu/ops/kernels.h"
#include "softnpu/ops/mx.h"

namespace softnpu::ops::kernels::mx {

constexpr int64_t kBias = 127, kNan = 255;  // of an exponent in a byte

struct Element {
  int64_t top;  // the exponent of its largest number
  double largest;
  int64_t mantissa;  // bits, of the 4-bit types; 0 of the others
};
Element element(at::ScalarType type);  // throws for other types
bool is_small(at::ScalarType type);    // whether there is an element of it
inline bool packed(const Tensor& t) {
  return t.scalar_type() == at::ScalarType::Float4_e2m1fn_x2 || t.scalar_type() == at::ScalarType::Bits4x2;
}
// The dimension along which two elements of 4 bits lie in a byte: the last, or of a transposed matrix the one before.
int64_t pair_dim(const Tensor& t);
std::vector<int64_t> sizes_of(const Tensor& t);  // in elements
std::vector<int64_t> scale_sizes(at::IntArrayRef sizes, int64_t dim, int64_t block);

// -- phase one
void need_sizes(const char* name, const Tensor& t, at::IntArrayRef sizes);
void need_floating(const char* name, const Tensor& t);
int64_t dim_of(const char* name, const Tensor& x, int64_t dim);
// The element of y, of which x becomes blocks by one of the algorithms.
Element need_form(const MxForm& form, const Tensor& y, std::initializer_list<int64_t> algorithms);
void refuse_rounded_exponent(const MxForm& form);

// -- values
Tensor floats(const Tensor& t);
// The exponents of scales as a byte keeps them, from largest magnitudes; int64.
Tensor exponents(const Tensor& magnitude, const Element& e, const MxForm& form);
Tensor block_maxima(const Tensor& x, int64_t dim, int64_t block);
Tensor spread(const Tensor& of_block, int64_t dim, int64_t block, int64_t n);
// Numbers to elements: y takes x / 2^exponent, `scale` the exponents in pairs along the dimension.
void put_elements(Tensor& y, const Tensor& values, const Element& e, std::string_view round);
void put_scaled(Tensor& y, const Tensor& x, const Tensor& exponent, const Element& e, std::string_view round);
void put_scales(Tensor& scale, const Tensor& exponent, int64_t dim);
void put_blocks(Tensor& y, Tensor& scale, const Tensor& x, int64_t dim, const Element& e, const MxForm& form);
// Elements to numbers: as they are stored, and times the powers of two of their blocks along the dimension.
Tensor unpacked(const Tensor& t);
Tensor times_powers(const Tensor& values, const Tensor& exponent);
Tensor values_of(const Tensor& t, const Tensor& scale, int64_t dim, int64_t block = 32);

// Of each row: the block of `block` rows, counted through groups of which each begins one, and the place in it.
struct GroupedRows {
  Tensor place, inside;
};
GroupedRows grouped_rows(const Tensor& ends, int64_t rows, int64_t block);
void put_grouped(Tensor& y, Tensor& scale, const Tensor& x, const Tensor& ends, const Element& e, const MxForm& form);

}  // namespace softnpu::ops::kernels::mx

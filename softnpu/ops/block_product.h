// Products of quantized factors whose scales are for blocks of the inner dimension, or whose factors have different types. Who calls it:
// mx_product.cpp, which knows the forms of two factors. What it is not: blocks with powers of two (mx_blocks.h). Sums are fp64 of integers, fp32 of
// floats.
#pragma once

#include "softnpu/ops/mx_product.h"

namespace softnpu::ops::kernels {

constexpr int64_t kBlock = 128, kInnerGroup = 256;
// groupSize of [1, 128, 128] and of [128, 128, 128]: 16 bits each, of rows, columns and inner numbers.
constexpr int64_t kRowBlocks = (int64_t{1} << 32) + (kBlock << 16) + kBlock;
constexpr int64_t kSquareBlocks = (kBlock << 32) + (kBlock << 16) + kBlock;

// A number for each row, or for 128 rows, and 128 inner numbers, and one for each 128 inner numbers and 128 columns: of int8 with rows alone.
void need_block_product(const QuantFactors& f, const at::Tensor& out);
at::Tensor block_product(const QuantFactors& f);

// Of int4 both: x1Scale * the sum over groups of 256 inner numbers of x2Scale * (x1 @ x2 - x1 @ x2Offset).
void need_shifted_product(const QuantFactors& f, const at::Tensor& out);
at::Tensor shifted_product(const QuantFactors& f);

// int8 by int4: ((x1 - 8) @ (x2 * x2Scale) + yOffset) * x1Scale, of which yOffset has what 8 takes away.
void need_mixed_product(const QuantFactors& f, const at::Tensor& out);
at::Tensor mixed_product(const QuantFactors& f);

// Shared with mx_product.cpp.
void need_result(const std::vector<int64_t>& wanted, const at::Tensor& out);
void need_bias(const Maybe& bias, int64_t columns);
void need_numbers(const char* name, const at::Tensor& t, std::initializer_list<int64_t> counts);
std::vector<int64_t> product_sizes(const std::vector<int64_t>& a, const std::vector<int64_t>& b);

}  // namespace softnpu::ops::kernels

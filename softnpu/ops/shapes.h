// Phase one's refusal of shapes by a kernel's own words: statements of `shapes` in ops/aclnn.yaml, which throw where an operand does not fit the
// others, and what they are made of. Who uses it: entry points generated from rows with that key, and kernels' checks that the rows name.
// What it is not: a check of data types (ops/types.yaml), or of what tensors hold, which only the stream's order knows.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <optional>
#include <string_view>

#include "softnpu/ops/frame.h"
#include "softnpu/ops/op.h"

namespace softnpu::ops {

// Runs `look` over the arguments; what it throws becomes 161002 with its sentence.
bool fits(Plan& plan, void (*look)(Frame& frame));
// Whether an argument has elements of 4 bits, of which kernels see pairs: `pairs` of a row is asked then alone.
bool holds_pairs(const Plan& plan);

namespace kernels {

// Each throws, naming the parameter. A size of -1 stands for any. An absent operand fits.
void need_dims(const char* name, const at::Tensor& t, std::initializer_list<int64_t> counts);
void need_sizes(const char* name, const at::Tensor& t, at::IntArrayRef sizes);
void need_sizes(const char* name, const std::optional<at::Tensor>& t, at::IntArrayRef sizes);
// A result that may be null, or without elements where the caller does not want it.
void need_result(const char* name, const at::Tensor& t, at::IntArrayRef sizes);
void need_absent(const char* name, const std::optional<at::Tensor>& t);  // an operand that is not implemented
void need_word(const char* name, std::string_view word, std::initializer_list<std::string_view> known);
void need_number(const char* name, int64_t number, std::initializer_list<int64_t> known);

}  // namespace kernels
}  // namespace softnpu::ops

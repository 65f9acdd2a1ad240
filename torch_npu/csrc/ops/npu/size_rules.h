// Sizes of operands by the rules that rows of ops/npu.yaml have in `sizes:`, where docs/npu_operators.md says how they are written. One
// interpreter of short texts: code for each row would be many times its size. A call costs some ten nanoseconds. What it is not: a check of
// values or of types. Who uses it: generated wrappers.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <string_view>

#include "csrc/ops/npu/operands.h"

namespace npu::ops {

// `rules`: letters of the numbers and "!", a rule an operand, behind a line's end their names: "K!TH;T*K;#H\nx,indices,scale".
void check_sizes(const char* op, const char* rules, std::initializer_list<Operand> operands,
                 std::initializer_list<c10::SymInt> numbers = {});

// Rows of which statistics are taken over the dimensions of gamma.
c10::SymInt norm_rows(const at::Tensor& x, const at::Tensor& gamma);
// Caches [blocks, parts, rows, part] (PA_NZ) or [blocks, rows, heads, columns] have the columns of the heads of key and value.
void check_cache_columns(const char* op, std::string_view mode, const c10::SymInt& columns, at::IntArrayRef heads,
                         const at::Tensor& key, const at::Tensor& value);

}  // namespace npu::ops

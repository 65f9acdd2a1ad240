// Types of operands by the rules that rows of ops/types.yaml are, for "meta": the device's kernel asks CANN, whose phase one has the same
// rules. What it is not: a check of the chip's types (ANYCEND_STRICT), or of types between which CANN promotes. Who uses it: generated wrappers.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>

#include "csrc/ops/npu/operands.h"

namespace npu::ops {

// `rules`: of each operand the bits of the types it takes, in hexadecimal, by CANN's numbers; + of a list; the letter of its group, whose members
// have the type of the first; a star where it may be float32 beside halves. Behind a line's end their names: "8000803 a;8000803 a*\nx,gamma".
void check_types(const char* op, const char* rules, std::initializer_list<Operand> operands);

// A kernel that has nothing to compute asks CANN nothing.
bool holds_elements(const at::Tensor& result);

}  // namespace npu::ops

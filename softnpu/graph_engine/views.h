// Shapes of results, and views of values that need no memory: what rows of ops/ge.yaml say of their outputs. Each throws Error for
// shapes that do not fit. What it is not: anything that runs on the device.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "softnpu/graph_engine/error.h"
#include "softnpu/graph_engine/value.h"

namespace softnpu::graph {

inline size_t at(int64_t index) { return static_cast<size_t>(index); }
[[noreturn]] void misfit(const char* what, const Dims& a, const Dims& b);
// Sums and products of dimensions; Error where 64 bits do not hold them.
int64_t sum_of(int64_t a, int64_t b);
int64_t product_of(int64_t a, int64_t b);
aclDataType index_type(aclDataType type);  // int32 or int64
aclDataType float_of(aclDataType type);    // float32 for what is shorter
int64_t long_of(const Value& x, int64_t axis);
template <typename T>
int64_t count_of(const std::vector<T>& list) {
  return static_cast<int64_t>(list.size());
}
// A dimension counted from the end, if negative. `rank` itself is allowed where `end` says so.
int64_t axis_of(int64_t axis, int64_t rank, bool end = false);

inline Spec like(const Value& x) { return {x.type, x.dims}; }
inline Spec like(const Value& x, aclDataType type) { return {type, x.dims}; }
inline Spec typed(const Spec& spec, aclDataType type) { return {type, spec.dims}; }

Dims broadcast_dims(const Dims& a, const Dims& b);
Spec broadcast(const Value& a, const Value& b);  // of the first's type
Spec broadcast(const Value& a, const Value& b, const Value& c);
Spec truth(const Value& a, const Value& b);  // of a comparison
// A product of matrices, or of batches of them; of int8 in int32.
Spec product(const Value& a, const Value& b);
Spec reduced(const Value& x, const Dims& axes, bool keep);
Spec joined(const std::vector<Value>& parts, int64_t axis);
Spec stacked(const std::vector<Value>& parts, int64_t axis);
Spec gathered(const Value& x, const Value& indices, int64_t axis, int64_t batch_dims);
// How many numbers a range has; with its limit, if closed.
int64_t count_of_range(const Number& start, const Number& limit, const Number& delta, bool closed);

// All dimensions, where none are named.
Dims all_axes(const Value& x, const Dims& axes);
// The one of a list of one.
int64_t only(const Dims& list);
bool whole(const Value& x);                 // integers
Spec halved(const Value& x, int64_t axis);  // half as long
Spec resized(const Value& x, int64_t axis, int64_t count);
Spec repeated(const Value& x, const Dims& times);
Spec statistic(const Value& x, size_t normalized);  // of a norm over the last dimensions: fp32
Spec times(const Value& x, int64_t count);          // along dimension 0
Spec part(const Value& x, int64_t count);
// Exp and Log as they are, not of another base or scale.
void plain_power(double base, double scale, double shift);

Value transposed(const Value& x, bool swap);
Value permuted(const Value& x, const Dims& order);
Value expanded(const Value& x, const Dims& dims);
Value reshaped(const Value& x, const Dims& dims);  // of a dense value; -1 once
Value unsqueezed(const Value& x, const Dims& axes);
Value squeezed(const Value& x, const Dims& axes);
Value flattened(const Value& x, int64_t first, int64_t last);
Value recast(const Value& x, aclDataType type);  // the same bytes

// Parts (slices.cpp).
Value narrowed(const Value& x, int64_t axis, int64_t start, int64_t count, int64_t step = 1);
std::vector<Value> split(const Value& x, Dims sizes, int64_t axis);
std::vector<Value> halved_by(const Value& x, int64_t count, int64_t axis);  // equal parts
Value windowed(const Value& x, const Dims& offsets, const Dims& sizes);
std::vector<Value> unstacked(const Value& x, int64_t axis);

// Strides, masks and axes of a slice. An axis that is not named is whole.
struct Slices {
  Dims begin, end, axes, strides;
  int64_t begin_mask = 0, end_mask = 0, ellipsis_mask = 0, new_axis_mask = 0, shrink_axis_mask = 0;
};
Value sliced(const Value& x, const Slices& slices);

}  // namespace softnpu::graph

// What rows of ops/ge.yaml run where one call of an aclnn function does not do it.
#pragma once

#include "softnpu/graph_engine/step.h"

namespace softnpu::graph {

// A product of matrices, or of batches of them, and a bias if there is one.
void multiply(Step& step, const Value& x1, const Value& x2, const Value& bias, const Value& y);
// Elements of x along an axis; indices may count from the end. Of numbers known on the host (shapes), on the host.
Value taken(Step& step, const Value& x, const Value& indices, int64_t axis, int64_t batch_dims);
// x[i, :, j]: an index tensor for each dimension whose number in the mask is 1, broadcast together.
Value indexed(Step& step, const Value& x, const std::vector<Value>& indices, const Dims& mask);
// Stacks its parts; numbers known on the host, on the host.
Value packed(Step& step, const std::vector<Value>& parts, int64_t axis);
// Numbers of the start's type; with the limit, if closed and a number of the range. All three are of one type, or integers.
Value ranged(Step& step, const Value& start, const Value& limit, const Value& delta, bool closed);
// Indices of int32 or int64.
void top(Step& step, const Value& x, int64_t count, int64_t dim, bool largest, bool sorted, const Value& values,
         const Value& indices);
int64_t reduction_of(const std::string& name);     // of ScatterElements, as aclnnScatter numbers it
void need_update(const std::string& reduce);       // of Scatter
int64_t gelu_of(const std::string& approximate);   // as aclnnGeluV2 numbers it
void need_shape(const Value& x, const Value& as);  // the same
// Of TransposeBatchMatMul: the order of dimensions, as they are where none is given; of the result, rows before batches alone.
Dims ordered(const Dims& order, const Value& x);
Dims rows_first(const Dims& order);
// The products of all batches side by side: [rows, batches, columns], in `split` parts, or with a scale one row of int8.
Spec batches_beside(const Spec& product, int64_t split, const Value& scale);
// Of AddRmsNormDynamicQuant: which of its two results are asked for; of what is not, nothing.
std::vector<bool> asked_of(const std::vector<bool>& mask, const Value& first, const Value& second);
Spec if_asked(bool asked, const Spec& spec);
Spec without_last(const Value& x);  // fp32

}  // namespace softnpu::graph

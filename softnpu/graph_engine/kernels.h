// What rows of ops/ge.yaml run where one call of an aclnn function does not do it.
#pragma once

#include "softnpu/graph_engine/step.h"

namespace softnpu::graph {

// A product of matrices, or of batches of them, and a bias if there is one.
void multiply(Step& step, const Value& a, const Value& b, const Value& bias, const Value& y);
// Elements of x along an axis; indices may count from the end. Of numbers known on the host (shapes), on the host.
Value taken(Step& step, const Value& x, const Value& indices, int64_t axis, int64_t batch_dims);
// x[i, :, j]: an index tensor for each dimension whose number in the mask is 1, broadcast together.
Value indexed(Step& step, const Value& x, const std::vector<Value>& indices, const Dims& mask);
// Stacks its parts; numbers known on the host, on the host.
Value packed(Step& step, const std::vector<Value>& parts, int64_t axis);
// Numbers of the start's type.
void range(Step& step, const Value& start, double from, double to, double by, const Value& y);
// Indices of any integer type.
void top(Step& step, const Value& x, int64_t count, int64_t dim, bool largest, bool sorted, const Value& values,
         const Value& indices);
int64_t reduction_of(const std::string& name);  // of ScatterElements, as aclnnScatter numbers it
void need_update(const std::string& reduce);    // of Scatter

}  // namespace softnpu::graph

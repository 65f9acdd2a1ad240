// See kernels.h.
#include "softnpu/graph_engine/kernels.h"

#include <numeric>
#include <utility>

namespace softnpu::graph {
namespace {
constexpr int kKeepType = 1;  // cubeMathType: computed in the operands' own type
}

void multiply(Step& step, const Value& x1, const Value& x2, const Value& bias, const Value& y) {
  const bool half = y.type == ACL_FLOAT16 || y.type == ACL_BF16;
  if (bias && bias.type != y.type && !(half && bias.type == ACL_FLOAT))
    throw Error("input 'bias' is " + name_of(bias.type) + " and the result " + name_of(y.type));
  const auto wide = [&](const Value& x) {  // int8 is added up in int32
    if (x.type == y.type) return x;
    const Value made = step.temporary({y.type, x.dims});
    step.call(ACLNN(aclnnCast), x, y.type, made);
    return made;
  };
  const Value a = wide(x1), b = wide(x2);
  if (bias && y.rank() == 2) return step.call(ACLNN(aclnnAddmm), bias, a, b, 1, 1, y, kKeepType);  // rounded once
  step.call(ACLNN(aclnnMatmul), a, b, y, kKeepType);
  if (bias) step.call(ACLNN(aclnnInplaceAdd), y, bias, 1);
}

Value taken(Step& step, const Value& x, const Value& indices, int64_t axis, int64_t batch_dims) {
  const Spec spec = gathered(x, indices, axis, batch_dims);
  if (x.rank() == 1 && step.known(x) && step.known(indices)) {
    const Dims from = step.ints(x);
    Dims numbers;
    const int64_t count = x.dims[0];
    for (int64_t index : step.ints(indices)) {
      if (index < -count || index >= count)
        throw Error("index " + std::to_string(index) + " of " + std::to_string(count) + " elements");
      numbers.push_back(from[static_cast<size_t>(index < 0 ? index + count : index)]);
    }
    return step.numbers_of(spec, numbers);
  }
  const Value y = step.temporary(spec);
  if (!y.elements()) return y;
  // aclnnIndex takes the first dimension: that of x is moved there, and the result's that come from the indices.
  axis = axis_of(axis, x.rank());
  Dims front{axis}, back;
  for (int64_t i = 0; i < x.rank(); i++)
    if (i != axis) front.push_back(i);
  for (int64_t i = 0; i < indices.rank(); i++) back.push_back(axis + i);
  for (int64_t i = 0; i < y.rank(); i++)
    if (i < axis || i >= axis + indices.rank()) back.push_back(i);
  step.call(ACLNN(aclnnIndex), permuted(x, front), std::vector<Value>{indices}, permuted(y, back));
  return y;
}

Value indexed(Step& step, const Value& x, const std::vector<Value>& indices, const Dims& mask) {
  Dims named, rest, shape;
  for (int64_t i = 0; i < x.rank(); i++)
    (static_cast<size_t>(i) < mask.size() && mask[static_cast<size_t>(i)] == 1 ? named : rest).push_back(i);
  if (indices.empty() || named.size() != indices.size() || mask.size() > x.dims.size())
    throw Error(std::to_string(indices.size()) + " indices for the mask " + text_of(mask));
  for (const Value& index : indices) {
    index_type(index.type);  // a mask is none: its values decide the shape
    shape = broadcast_dims(shape, index.dims);
  }
  // Where the result has the indices' dimensions: in their place if they are neighbours, else first.
  const int64_t count = static_cast<int64_t>(named.size()), rank = static_cast<int64_t>(shape.size());
  const int64_t place = named.back() - named.front() + 1 == count ? named.front() : 0;
  Dims dims, front = named, back;
  for (int64_t axis : rest) dims.push_back(x.dims[static_cast<size_t>(axis)]);
  dims.insert(dims.begin() + place, shape.begin(), shape.end());
  front.insert(front.end(), rest.begin(), rest.end());
  for (int64_t i = 0; i < rank; i++) back.push_back(place + i);
  for (int64_t i = 0; i < static_cast<int64_t>(dims.size()); i++)
    if (i < place || i >= place + rank) back.push_back(i);
  const Value y = step.temporary({x.type, dims});
  if (y.elements()) step.call(ACLNN(aclnnIndex), permuted(x, front), indices, permuted(y, back));
  return y;
}

Value packed(Step& step, const std::vector<Value>& parts, int64_t axis) {
  const Spec spec = stacked(parts, axis);
  bool known = spec.dims.size() == 1;
  for (const Value& part : parts) known = known && step.known(part);
  if (known) {
    Dims numbers;
    for (const Value& part : parts) numbers.push_back(step.index(part));
    return step.numbers_of(spec, numbers);
  }
  const Value y = step.temporary(spec);
  step.call(ACLNN(aclnnStack), parts, axis, y);
  return y;
}

Value ranged(Step& step, const Value& start, const Value& limit, const Value& delta, bool closed) {
  const Number from = step.number(start), to = step.number(limit), by = step.number(delta);
  for (const Value* other : {&limit, &delta})
    if (other->type != start.type && !(whole(start) && whole(*other)))
      throw Error("a range from " + name_of(start.type) + " to " + name_of(limit.type) + " by " + name_of(delta.type) +
                  ": they must have one data type, or be integers");
  const int64_t count = count_of_range(from, to, by, closed);
  const Value y = step.temporary({start.type, {count}});
  if (!count) return y;
  if (!from.whole) {
    const double end = closed ? from.real + (static_cast<double>(count) - 0.5) * by.real : to.real;
    step.call(ACLNN(aclnnArange), from.real, end, by.real, y);
    return y;
  }
  // aclnnArange takes what lies behind the last number, and computes end - start: both may be more than 64 bits hold.
  const int64_t last =
      from.integer + static_cast<int64_t>(static_cast<uint64_t>(count - 1) * static_cast<uint64_t>(by.integer));
  if (start.type == ACL_INT32 && !std::in_range<int32_t>(last))
    throw Error("a range of int32 to " + std::to_string(last));
  int64_t end = 0, span = 0;
  if (!__builtin_add_overflow(last, by.integer < 0 ? -1 : 1, &end) &&
      !__builtin_sub_overflow(end, from.integer, &span) && !__builtin_add_overflow(span, by.integer, &span)) {
    step.call(ACLNN(aclnnArange), from.integer, end, by.integer, y);
    return y;
  }
  step.call(ACLNN(aclnnArange), int64_t{0}, count, int64_t{1}, y);
  step.call(ACLNN(aclnnInplaceMuls), y, by.integer);
  step.call(ACLNN(aclnnInplaceAdds), y, from.integer, 1);
  return y;
}

void top(Step& step, const Value& x, int64_t count, int64_t dim, bool largest, bool sorted, const Value& values,
         const Value& indices) {
  if (indices.type == ACL_INT64) return step.call(ACLNN(aclnnTopk), x, count, dim, largest, sorted, values, indices);
  const Value wide = step.temporary({ACL_INT64, indices.dims});
  step.call(ACLNN(aclnnTopk), x, count, dim, largest, sorted, values, wide);
  step.call(ACLNN(aclnnCast), wide, indices.type, indices);
}

int64_t reduction_of(const std::string& name) {
  if (name == "none") return 0;
  if (name == "add") return 1;
  if (name == "mul") return 2;
  throw Error("reduction '" + name + "' is not supported: none, add and mul are");
}

void need_update(const std::string& reduce) {
  if (reduce != "update") throw Error("reduce '" + reduce + "' is not supported: update is");
}

int64_t gelu_of(const std::string& approximate) {
  if (approximate == "none") return 0;
  if (approximate == "tanh") return 1;
  throw Error("attribute 'approximate' is '" + approximate + "': none and tanh are supported");
}

void need_shape(const Value& x, const Value& as) {
  if (x.dims != as.dims) misfit("assignment", x.dims, as.dims);
}

Dims ordered(const Dims& order, const Value& x) {
  if (!order.empty()) return order;
  Dims same(x.dims.size());
  std::iota(same.begin(), same.end(), 0);
  return same;
}

Dims rows_first(const Dims& order) { return order.empty() ? Dims{1, 0, 2} : order; }

Spec batches_beside(const Spec& product, int64_t split, const Value& scale) {
  if (product.dims.size() != 3) throw Error("operands have three dimensions");
  const int64_t batch = product.dims[0], rows = product.dims[1], columns = product.dims[2];
  if (split < 1 || batch % split != 0)
    throw Error("batch_split_factor is " + std::to_string(split) + ", and there are " + std::to_string(batch) +
                " batches: it must divide them");
  if (scale) return {ACL_INT8, {rows, 1, product_of(batch, columns)}};
  if (split > 1) return {product.type, {split, rows, product_of(batch / split, columns)}};
  return {product.type, {rows, batch, columns}};
}

std::vector<bool> asked_of(const std::vector<bool>& mask, const Value& first, const Value& second) {
  if (mask.empty()) return {true, first && second};
  if (mask.size() != 2) throw Error("output_mask has " + std::to_string(mask.size()) + " elements, and there are 2");
  return mask;
}

Spec if_asked(bool asked, const Spec& spec) { return asked ? spec : Spec{spec.type, {0}}; }

Spec without_last(const Value& x) {
  if (x.dims.empty()) throw Error("x1 has no dimension");
  return {ACL_FLOAT, {x.dims.begin(), x.dims.end() - 1}};
}

}  // namespace softnpu::graph

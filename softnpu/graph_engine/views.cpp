// See views.h.
#include "softnpu/graph_engine/views.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace softnpu::graph {

void misfit(const char* what, const Dims& a, const Dims& b) {
  throw Error(std::string(what) + ": shapes " + text_of(a) + " and " + text_of(b) + " do not fit");
}

int64_t sum_of(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum))
    throw Error("a dimension of " + std::to_string(a) + " and " + std::to_string(b) + " is more than 64 bits hold");
  return sum;
}

int64_t product_of(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product))
    throw Error("a dimension of " + std::to_string(a) + " times " + std::to_string(b) + " is more than 64 bits hold");
  return product;
}

aclDataType index_type(aclDataType type) {
  if (type != ACL_INT32 && type != ACL_INT64) throw Error("indices of " + name_of(type) + ": int32 or int64 is wanted");
  return type;
}

aclDataType float_of(aclDataType type) { return type == ACL_FLOAT16 || type == ACL_BF16 ? ACL_FLOAT : type; }

int64_t long_of(const Value& x, int64_t axis) {
  if (x.dims.empty()) throw Error("a scalar with no dimension " + std::to_string(axis));
  return x.dims[at(axis_of(axis, x.rank()))];
}

int64_t axis_of(int64_t axis, int64_t rank, bool end) {
  const int64_t most = rank + (end ? 1 : 0);
  const int64_t room = most ? most : 1;  // of a scalar, 0 and -1 are allowed
  if (axis < -room || axis >= room)
    throw Error("dimension " + std::to_string(axis) + " of a tensor with " + std::to_string(rank));
  return axis < 0 ? axis + room : axis;
}

Dims broadcast_dims(const Dims& a, const Dims& b) {
  Dims dims(std::max(a.size(), b.size()), 1);
  for (size_t i = 0; i < dims.size(); i++) {
    const int64_t from_a = i < a.size() ? a[a.size() - 1 - i] : 1, from_b = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (from_a != from_b && from_a != 1 && from_b != 1) misfit("broadcast", a, b);
    dims[dims.size() - 1 - i] = from_a == 1 ? from_b : from_a;
  }
  return dims;
}

Spec broadcast(const Value& a, const Value& b) { return {a.type, broadcast_dims(a.dims, b.dims)}; }
Spec broadcast(const Value& a, const Value& b, const Value& c) {
  return {a.type, broadcast_dims(broadcast_dims(a.dims, b.dims), c.dims)};
}
Spec truth(const Value& a, const Value& b) { return {ACL_BOOL, broadcast_dims(a.dims, b.dims)}; }

Spec product(const Value& a, const Value& b) {
  if (a.rank() < 2 || b.rank() < 2 || a.dims.back() != b.dims[b.dims.size() - 2]) misfit("product", a.dims, b.dims);
  Dims dims = broadcast_dims({a.dims.begin(), a.dims.end() - 2}, {b.dims.begin(), b.dims.end() - 2});
  dims.push_back(a.dims[a.dims.size() - 2]);
  dims.push_back(b.dims.back());
  return {a.type == ACL_INT8 ? ACL_INT32 : a.type, std::move(dims)};
}

Dims all_axes(const Value& x, const Dims& axes) {
  Dims found = axes;
  if (axes.empty()) {
    found.resize(x.dims.size());
    std::iota(found.begin(), found.end(), 0);
  }
  for (int64_t& axis : found) axis = axis_of(axis, x.rank());
  if (x.dims.empty()) found.clear();
  return found;
}

Spec reduced(const Value& x, const Dims& axes, bool keep) {
  const Dims gone = all_axes(x, axes);
  Dims dims;
  for (int64_t i = 0; i < x.rank(); i++) {
    const bool here = std::find(gone.begin(), gone.end(), i) != gone.end();
    if (!here || keep) dims.push_back(here ? 1 : x.dims[at(i)]);
  }
  return {x.type, std::move(dims)};
}

Spec joined(const std::vector<Value>& parts, int64_t axis) {
  if (parts.empty()) throw Error("nothing to join");
  Spec spec{parts[0].type, parts[0].dims};
  axis = axis_of(axis, parts[0].rank());
  for (size_t i = 1; i < parts.size(); i++) {
    if (parts[i].rank() != parts[0].rank()) misfit("join", parts[0].dims, parts[i].dims);
    for (int64_t d = 0; d < parts[i].rank(); d++)
      if (d != axis && parts[i].dims[at(d)] != spec.dims[at(d)]) misfit("join", parts[0].dims, parts[i].dims);
    int64_t& sum = spec.dims[at(axis)];
    sum = sum_of(sum, parts[i].dims[at(axis)]);
  }
  return spec;
}

Spec stacked(const std::vector<Value>& parts, int64_t axis) {
  if (parts.empty()) throw Error("nothing to stack");
  for (const Value& part : parts)
    if (part.dims != parts[0].dims) misfit("stack", parts[0].dims, part.dims);
  Spec spec{parts[0].type, parts[0].dims};
  spec.dims.insert(spec.dims.begin() + axis_of(axis, parts[0].rank(), true), static_cast<int64_t>(parts.size()));
  return spec;
}

Spec gathered(const Value& x, const Value& indices, int64_t axis, int64_t batch_dims) {
  if (batch_dims) throw Error("batch_dims is " + std::to_string(batch_dims) + ": only 0 is supported");
  axis = axis_of(axis, x.rank());
  Dims dims(x.dims.begin(), x.dims.begin() + axis);
  dims.insert(dims.end(), indices.dims.begin(), indices.dims.end());
  if (x.rank()) dims.insert(dims.end(), x.dims.begin() + axis + 1, x.dims.end());
  return {x.type, std::move(dims)};
}

int64_t count_of_range(const Number& start, const Number& limit, const Number& delta, bool closed) {
  if (delta.whole ? delta.integer == 0 : delta.real == 0) throw Error("a range with a step of 0");
  if (start.whole) {  // of one type all three
    __extension__ using Wide = __int128;
    const Wide span = Wide{limit.integer} - start.integer, step = delta.integer;
    if (span != 0 && (span < 0) != (step < 0)) return 0;
    const Wide count = span / step + (closed || span % step ? 1 : 0);
    if (count > INT64_MAX) throw Error("a range of more numbers than 64 bits count");
    return static_cast<int64_t>(count);
  }
  if (!std::isfinite(start.real) || !std::isfinite(limit.real) || !std::isfinite(delta.real))
    throw Error("a range from " + std::to_string(start.real) + " to " + std::to_string(limit.real) + " by " +
                std::to_string(delta.real) + ": its numbers must be finite");
  const double steps = (limit.real - start.real) / delta.real,
               count = closed ? std::floor(steps) + 1 : std::ceil(steps);
  if (!(count < 0x1p63)) throw Error("a range of more numbers than 64 bits count");
  return count > 0 ? static_cast<int64_t>(count) : 0;
}

int64_t only(const Dims& list) {
  if (list.size() != 1) throw Error("a list of one is supported, not " + text_of(list));
  return list[0];
}

bool whole(const Value& x) {
  switch (x.type) {
    case ACL_INT8:
    case ACL_INT16:
    case ACL_INT32:
    case ACL_INT64:
    case ACL_UINT8:
      return true;
    default:
      return false;
  }
}

Spec resized(const Value& x, int64_t axis, int64_t count) {
  Spec spec = like(x);
  if (spec.dims.empty()) throw Error("a scalar with no dimension " + std::to_string(axis));
  spec.dims[at(axis_of(axis, x.rank()))] = count;
  return spec;
}

Spec halved(const Value& x, int64_t axis) {
  const int64_t dim = x.dims.empty() ? 1 : x.dims[at(axis_of(axis, x.rank()))];
  if (dim % 2) throw Error("half of dimension " + std::to_string(axis) + " of shape " + text_of(x.dims));
  return resized(x, axis, dim / 2);
}

Spec repeated(const Value& x, const Dims& counts) {
  if (counts.size() < x.dims.size()) misfit("repeat", x.dims, counts);
  Spec spec{x.type, counts};
  for (int64_t count : counts)
    if (count < 0) misfit("repeat", x.dims, counts);
  for (size_t i = 0; i < x.dims.size(); i++) {
    int64_t& dim = spec.dims[counts.size() - 1 - i];
    dim = product_of(dim, x.dims[x.dims.size() - 1 - i]);
  }
  return spec;
}

Spec statistic(const Value& x, size_t normalized) {
  Spec spec{ACL_FLOAT, x.dims};
  if (normalized > x.dims.size()) throw Error("a norm over more dimensions than shape " + text_of(x.dims) + " has");
  for (size_t i = x.dims.size() - normalized; i < x.dims.size(); i++) spec.dims[i] = 1;
  return spec;
}

Spec times(const Value& x, int64_t count) { return resized(x, 0, product_of(count, x.dims.empty() ? 1 : x.dims[0])); }

Spec part(const Value& x, int64_t count) {
  if (x.dims.empty() || count <= 0 || x.dims[0] % count)
    throw Error("shape " + text_of(x.dims) + " has no " + std::to_string(count) + " equal parts");
  return resized(x, 0, x.dims[0] / count);
}

void plain_power(double base, double scale, double shift) {
  if (base != -1 || scale != 1 || shift != 0) throw Error("another base than e, a scale or a shift is not supported");
}

Value transposed(const Value& x, bool swap) {
  Value view = x;
  if (!swap) return view;
  if (x.rank() < 2) throw Error("a transposed tensor of shape " + text_of(x.dims));
  std::swap(view.dims[view.dims.size() - 1], view.dims[view.dims.size() - 2]);
  std::swap(view.strides[view.strides.size() - 1], view.strides[view.strides.size() - 2]);
  return view;
}

Value permuted(const Value& x, const Dims& order) {
  Value view = x;
  Dims sorted;
  for (int64_t axis : order) sorted.push_back(axis_of(axis, x.rank()));
  std::sort(sorted.begin(), sorted.end());
  for (int64_t i = 0; i < static_cast<int64_t>(sorted.size()); i++)
    if (sorted[at(i)] != i) misfit("permutation", x.dims, order);
  if (order.size() != x.dims.size()) misfit("permutation", x.dims, order);
  for (size_t i = 0; i < order.size(); i++) {
    const size_t from = at(axis_of(order[i], x.rank()));
    view.dims[i] = x.dims[from], view.strides[i] = x.strides[from];
  }
  return view;
}

Value expanded(const Value& x, const Dims& wanted) {
  Dims dims = wanted;
  if (dims.size() < x.dims.size()) misfit("broadcast", x.dims, wanted);
  Value view = x;
  view.strides.assign(dims.size(), 0);
  const size_t more = dims.size() - x.dims.size();
  for (size_t i = 0; i < dims.size(); i++) {
    if (i < more) {
      if (dims[i] < 0) misfit("broadcast", x.dims, wanted);
      continue;
    }
    const int64_t from = x.dims[i - more];
    if (dims[i] == -1) dims[i] = from;
    if (dims[i] < 0 || (from != dims[i] && from != 1)) misfit("broadcast", x.dims, wanted);
    view.strides[i] = from == dims[i] ? x.strides[i - more] : 0;
  }
  view.dims = std::move(dims);
  return view;
}

Value reshaped(const Value& x, const Dims& wanted) {
  Value view = x;
  Dims dims = wanted;
  int64_t known = 1, open = -1;
  for (size_t i = 0; i < dims.size(); i++) {
    if (dims[i] == 0 && x.elements() && i < x.dims.size()) dims[i] = x.dims[i];
    if (dims[i] == -1 && open < 0)
      open = static_cast<int64_t>(i);
    else if (dims[i] < 0 || __builtin_mul_overflow(known, dims[i], &known))
      misfit("reshape", x.dims, wanted);
  }
  if (open >= 0) dims[at(open)] = known ? x.elements() / known : 0;
  if (elements_of(dims) != x.elements()) misfit("reshape", x.dims, wanted);
  view.strides = strides_of(dims);
  view.dims = std::move(dims);
  return view;
}

Value unsqueezed(const Value& x, const Dims& axes) {
  const int64_t rank = x.rank() + static_cast<int64_t>(axes.size());
  Dims dims(at(rank), 0);
  for (int64_t axis : axes) {
    int64_t& dim = dims[at(axis_of(axis, rank))];
    if (dim) throw Error("dimension " + std::to_string(axis) + " named twice");
    dim = 1;
  }
  size_t next = 0;
  Value view = x;
  view.strides.assign(at(rank), 1);
  for (size_t i = 0; i < dims.size(); i++) {
    if (dims[i]) continue;
    view.strides[i] = x.strides[next];
    dims[i] = x.dims[next++];
  }
  view.dims = std::move(dims);
  return view;
}

Value squeezed(const Value& x, const Dims& axes) {
  Dims gone;
  for (int64_t axis : axes) gone.push_back(axis_of(axis, x.rank()));
  Value view = x;
  view.dims.clear(), view.strides.clear();
  for (int64_t i = 0; i < x.rank(); i++) {
    const bool named = std::find(gone.begin(), gone.end(), i) != gone.end();
    if (named && x.dims[at(i)] != 1) misfit("squeeze", x.dims, axes);
    if (named || (axes.empty() && x.dims[at(i)] == 1)) continue;
    view.dims.push_back(x.dims[at(i)]), view.strides.push_back(x.strides[at(i)]);
  }
  return view;
}

Value flattened(const Value& x, int64_t first, int64_t last) {
  first = axis_of(first, x.rank()), last = axis_of(last, x.rank());
  if (!x.rank()) return reshaped(x, {1});
  if (first > last) throw Error("nothing to flatten from " + std::to_string(first) + " to " + std::to_string(last));
  Dims dims(x.dims.begin(), x.dims.begin() + first);
  dims.push_back(elements_of({x.dims.begin() + first, x.dims.begin() + last + 1}));
  dims.insert(dims.end(), x.dims.begin() + last + 1, x.dims.end());
  return reshaped(x, dims);
}

Value recast(const Value& x, aclDataType type) {
  if (bytes_of(type) != bytes_of(x.type))
    throw Error(name_of(x.type) + " as " + name_of(type) + ": only types of one size are supported");
  Value view = x;
  view.type = type;
  return view;
}

}  // namespace softnpu::graph

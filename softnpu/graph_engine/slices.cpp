// Parts of values: see views.h.
#include <algorithm>

#include "softnpu/graph_engine/views.h"

namespace softnpu::graph {

Value narrowed(const Value& x, int64_t axis, int64_t start, int64_t count, int64_t step) {
  axis = axis_of(axis, x.rank());
  const int64_t last = x.dims.empty() ? -1 : x.dims[at(axis)] - 1;
  if (x.dims.empty() || count < 0 || start < 0 || (count && (start > last || count - 1 > (last - start) / step)))
    throw Error(std::to_string(count) + " elements from " + std::to_string(start) + " by " + std::to_string(step) +
                " of dimension " + std::to_string(axis) + " of shape " + text_of(x.dims));
  Value view = x;
  if (count) view.offset += start * x.strides[at(axis)];
  view.dims[at(axis)] = count;
  if (count > 1) view.strides[at(axis)] *= step;
  return view;
}

std::vector<Value> split(const Value& x, Dims sizes, int64_t axis) {
  axis = axis_of(axis, x.rank());
  if (x.dims.empty()) throw Error("a scalar to split");
  int64_t sum = 0, open = 0;
  for (int64_t size : sizes) {
    if (size < -1 || (size == -1 && open++)) misfit("split", x.dims, sizes);
    sum = sum_of(sum, size < 0 ? 0 : size);
  }
  std::vector<Value> parts;
  int64_t start = 0;
  for (int64_t size : sizes) {
    const int64_t count = size < 0 ? x.dims[at(axis)] - sum : size;
    parts.push_back(narrowed(x, axis, start, count));
    start += count;
  }
  if (start != x.dims[at(axis)]) misfit("split", x.dims, sizes);
  return parts;
}

std::vector<Value> halved_by(const Value& x, int64_t count, int64_t axis) {
  axis = axis_of(axis, x.rank());
  if (x.dims.empty() || count <= 0 || x.dims[at(axis)] % count)
    throw Error("shape " + text_of(x.dims) + " has no " + std::to_string(count) + " equal parts");
  return split(x, Dims(at(count), x.dims[at(axis)] / count), axis);
}

Value windowed(const Value& x, const Dims& offsets, const Dims& sizes) {
  if (offsets.size() != x.dims.size() || sizes.size() != x.dims.size()) misfit("slice", x.dims, sizes);
  Value view = x;
  for (size_t i = 0; i < sizes.size(); i++)
    view = narrowed(view, static_cast<int64_t>(i), offsets[i],
                    sizes[i] == -1 && offsets[i] >= 0 ? x.dims[i] - offsets[i] : sizes[i]);
  return view;
}

std::vector<Value> unstacked(const Value& x, int64_t axis) {
  axis = axis_of(axis, x.rank());
  std::vector<Value> parts;
  for (int64_t i = 0; !x.dims.empty() && i < x.dims[at(axis)]; i++)
    parts.push_back(squeezed(narrowed(x, axis, i, 1), {axis}));
  return parts;
}

// A mask has bits for 63 entries.
Value sliced(const Value& x, const Slices& s) {
  if (s.ellipsis_mask || s.new_axis_mask) throw Error("a slice with an ellipsis or a new axis is not supported");
  const size_t count = s.begin.size();
  if (count > 63 || count > x.dims.size() || s.end.size() != count || (!s.axes.empty() && s.axes.size() != count) ||
      (!s.strides.empty() && s.strides.size() != count))
    throw Error("a slice of shape " + text_of(x.dims) + " whose lists are longer, or not of one length");
  Value view = x;
  Dims gone, named;
  for (size_t i = 0; i < count; i++) {
    const int64_t axis = axis_of(s.axes.empty() ? static_cast<int64_t>(i) : s.axes[i], x.rank());
    if (std::find(named.begin(), named.end(), axis) != named.end())
      throw Error("dimension " + std::to_string(axis) + " named twice");
    named.push_back(axis);
    const int64_t dim = x.dims[at(axis)], step = s.strides.empty() ? 1 : s.strides[i];
    if (step <= 0) throw Error("a slice with a step of " + std::to_string(step));
    const auto place = [&](int64_t index) { return std::clamp<int64_t>(index < 0 ? index + dim : index, 0, dim); };
    const int64_t start = s.begin_mask >> i & 1 ? 0 : place(s.begin[i]);
    if (s.shrink_axis_mask >> i & 1) {
      if (!(s.begin_mask >> i & 1) && s.begin[i] < -dim)
        throw Error("element " + std::to_string(s.begin[i]) + " of dimension " + std::to_string(axis) + " of shape " +
                    text_of(x.dims));
      view = narrowed(view, axis, start, 1);
      gone.push_back(axis);
      continue;
    }
    const int64_t end = s.end_mask >> i & 1 ? dim : place(s.end[i]);
    view = narrowed(view, axis, start, end > start ? (end - start - 1) / step + 1 : 0, step);
  }
  return gone.empty() ? view : squeezed(view, gone);
}

}  // namespace softnpu::graph

// See windows.h.
#include "softnpu/graph_engine/windows.h"

#include <algorithm>

namespace softnpu::graph {
namespace {

Dims middle(const Dims& four) {
  if (four.size() != 4) throw Error("a list of four is wanted, not " + text_of(four));
  return {four[1], four[2]};
}

// Of {1, h, w, 1}, as windows over images have it.
Dims inner(const Dims& four) {
  if (four.size() != 4 || four[0] != 1 || four[3] != 1)
    throw Error("a list " + text_of(four) + ": it is wanted as [1, h, w, 1]");
  return middle(four);
}

// Of {1, 1, h, w}, or {h, w}.
Dims of_image(const Dims& four) {
  if (four.size() == 2) return four;
  if (four.size() != 4 || four[0] != 1 || four[1] != 1)
    throw Error("a list " + text_of(four) + ": it is wanted as [1, 1, h, w]");
  return {four[2], four[3]};
}

Dims even_pads(const Dims& pads) {
  if (pads.size() == 2) return pads;
  if (pads.size() != 4 || pads[0] != pads[1] || pads[2] != pads[3])
    throw Error("paddings " + text_of(pads) + ": only those that are alike on both sides are supported");
  return {pads[0], pads[2]};
}

// How many windows a dimension has.
int64_t windows_in(int64_t dim, int64_t size, int64_t stride, int64_t pad, int64_t dilation, bool ceil) {
  if (size < 1 || stride < 1 || dilation < 1 || pad < 0)
    throw Error("a window of " + std::to_string(size) + " with a stride of " + std::to_string(stride) +
                ", a dilation of " + std::to_string(dilation) + " and a padding of " + std::to_string(pad) +
                ": they must not be less than 1, the padding not less than 0");
  __extension__ using Wide = __int128;
  const Wide room = Wide{dim} + Wide{pad} * 2 - Wide{dilation} * (size - 1) - 1 + (ceil ? stride - 1 : 0);
  Wide count = room < 0 ? 0 : room / stride + 1;
  if (ceil && (count - 1) * stride >= Wide{dim} + pad) count--;  // a window must begin inside
  if (count < 1 || count > INT64_MAX)
    throw Error("a window of " + std::to_string(size) + " in a dimension of " + std::to_string(dim) +
                " with a padding of " + std::to_string(pad));
  return static_cast<int64_t>(count);
}

}  // namespace

Window convolution_of(const Dims& strides, const Dims& pads, const Dims& dilations, const std::string& format) {
  need_nchw(format);
  return {{}, of_image(strides), even_pads(pads), of_image(dilations)};
}

Window pool_of(const Dims& size, const Dims& strides, const Dims& pads, const Dims& dilations) {
  return {inner(size), inner(strides), middle(pads), inner(dilations)};
}

Window averaged(const Value& x, const Dims& size, const Dims& strides, const Dims& pads, const std::string& mode,
                bool global, bool ceil) {
  if (x.rank() < 3) misfit("pooling", x.dims, size);
  const Dims image(x.dims.end() - 2, x.dims.end());
  if (global) return {image, {1, 1}, {0, 0}, {1, 1}};
  Window window{of_image(size), of_image(strides), {0, 0}, {1, 1}};
  if (mode == "CALCULATED") {
    window.pads = even_pads(pads);
    return window;
  }
  if (ceil || (mode != "VALID" && mode != "SAME"))
    throw Error("padding_mode " + mode + (ceil ? " with ceil_mode" : "") +
                " is not supported: CALCULATED is, and VALID and SAME without ceil_mode");
  for (size_t i = 0; mode == "SAME" && i < 2; i++) {
    const int64_t stride = window.strides[i];
    if (image[i] < 1 || stride < 1) throw Error("a stride of " + std::to_string(stride) + " in " + text_of(x.dims));
    const int64_t first = (image[i] - 1) / stride * stride;  // of the last window
    const int64_t all = std::max<int64_t>(0, sum_of(window.size[i], first - image[i]));
    if (all % 2)
      throw Error("padding_mode SAME of " + std::to_string(all) +
                  " elements: only paddings that are alike on both sides are supported");
    window.pads[i] = all / 2;
  }
  return window;
}

void need_nchw(const std::string& format) {
  if (format != "NCHW") throw Error("format " + format + " is not supported: NCHW is");
}

void need_constant(const std::string& mode) {
  if (mode != "constant") throw Error("padding of mode " + mode + " is not supported: constant is");
}

Spec convolved(const Value& x, const Value& filter, const Dims& strides, const Dims& pads, const Dims& dilations) {
  if (x.rank() != static_cast<int64_t>(pads.size()) + 2 || filter.rank() != x.rank() || strides.size() != pads.size() ||
      dilations.size() != pads.size())
    misfit("convolution", x.dims, filter.dims);
  if (whole(x)) throw Error("a convolution of " + name_of(x.type) + " is not supported: its result would be int32");
  Dims dims{x.dims[0], filter.dims[0]};
  for (size_t i = 0; i < pads.size(); i++)
    dims.push_back(windows_in(x.dims[i + 2], filter.dims[i + 2], strides[i], pads[i], dilations[i], false));
  return {x.type, std::move(dims)};
}

Spec pooled(const Value& x, const Dims& size, const Dims& strides, const Dims& pads, const Dims& dilations, bool ceil) {
  if (x.rank() < 3 || size.size() != 2 || strides.size() != 2 || pads.size() != 2 || dilations.size() != 2)
    misfit("pooling", x.dims, size);
  Dims dims = x.dims;
  for (size_t i = 0; i < 2; i++) {
    int64_t& dim = dims[dims.size() - 2 + i];
    dim = windows_in(dim, size[i], strides[i], pads[i], dilations[i], ceil);
  }
  return {x.type, std::move(dims)};
}

Spec image_sized(const Value& x, const Dims& size) {
  if (x.rank() < 3 || size.size() != 2) misfit("pooling", x.dims, size);
  Spec spec = like(x);
  spec.dims[spec.dims.size() - 2] = size[0];
  spec.dims[spec.dims.size() - 1] = size[1];
  return spec;
}

Dims pads_of(const Dims& paddings, bool contiguous) {
  if (paddings.size() % 2) throw Error("paddings " + text_of(paddings));
  const size_t rank = paddings.size() / 2;
  Dims pads;
  for (size_t i = rank; i-- > 0;) {
    pads.push_back(contiguous ? paddings[2 * i] : paddings[i]);
    pads.push_back(contiguous ? paddings[2 * i + 1] : paddings[rank + i]);
  }
  return pads;
}

Spec padded(const Value& x, const Dims& pads) {
  if (pads.size() > 2 * x.dims.size()) misfit("padding", x.dims, pads);
  Spec spec = like(x);
  for (size_t i = 0; i < pads.size(); i++) {
    int64_t& dim = spec.dims[x.dims.size() - 1 - i / 2];
    dim = sum_of(dim, pads[i]);
    if (i % 2 && dim < 0) misfit("padding", x.dims, pads);
  }
  return spec;
}

}  // namespace softnpu::graph

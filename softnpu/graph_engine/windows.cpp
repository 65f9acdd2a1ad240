// See windows.h.
#include "softnpu/graph_engine/windows.h"

namespace softnpu::graph {
namespace {

Dims middle(const Dims& four) {
  if (four.size() != 4) throw Error("a list of four is wanted, not " + text_of(four));
  return {four[1], four[2]};
}

}  // namespace

Window convolution_of(const Dims& strides, const Dims& pads, const Dims& dilations, const std::string& format) {
  need_nchw(format);
  return {{}, of_image(strides, format), even_pads(pads), of_image(dilations, format)};
}

Window pool_of(const Dims& size, const Dims& strides, const Dims& pads, const Dims& dilations) {
  return {middle(size), middle(strides), middle(pads), middle(dilations)};
}

void need_nchw(const std::string& format) {
  if (format != "NCHW") throw Error("format " + format + " is not supported: NCHW is");
}

void need_constant(const std::string& mode) {
  if (mode != "constant") throw Error("padding of mode " + mode + " is not supported: constant is");
}

Dims of_image(const Dims& four, const std::string& format) {
  if (four.size() == 2) return four;
  if (four.size() != 4 || (format != "NCHW" && format != "NHWC"))
    throw Error("a list " + text_of(four) + " for format " + format);
  return format == "NCHW" ? Dims{four[2], four[3]} : Dims{four[1], four[2]};
}

Dims even_pads(const Dims& pads) {
  if (pads.size() == 2) return pads;
  if (pads.size() != 4 || pads[0] != pads[1] || pads[2] != pads[3])
    throw Error("paddings " + text_of(pads) + ": only those that are alike on both sides are supported");
  return {pads[0], pads[2]};
}

Spec convolved(const Value& x, const Value& filter, const Dims& strides, const Dims& pads, const Dims& dilations) {
  if (x.rank() != static_cast<int64_t>(pads.size()) + 2 || filter.rank() != x.rank() || strides.size() != pads.size() ||
      dilations.size() != pads.size())
    misfit("convolution", x.dims, filter.dims);
  Dims dims{x.dims[0], filter.dims[0]};
  for (size_t i = 0; i < pads.size(); i++) {
    if (strides[i] <= 0) throw Error("a stride of " + std::to_string(strides[i]));
    dims.push_back((x.dims[i + 2] + 2 * pads[i] - dilations[i] * (filter.dims[i + 2] - 1) - 1) / strides[i] + 1);
  }
  return {x.type, std::move(dims)};
}

Spec pooled(const Value& x, const Dims& size, const Dims& strides, const Dims& pads, const Dims& dilations, bool ceil) {
  if (x.rank() < 3 || size.size() != 2 || strides.size() != 2 || pads.size() != 2 || dilations.size() != 2)
    misfit("pooling", x.dims, size);
  Dims dims = x.dims;
  for (size_t i = 0; i < 2; i++) {
    if (strides[i] <= 0) throw Error("a stride of " + std::to_string(strides[i]));
    int64_t& dim = dims[dims.size() - 2 + i];
    const int64_t in = dim, room = in + 2 * pads[i] - dilations[i] * (size[i] - 1) - 1;
    dim = (ceil ? room + strides[i] - 1 : room) / strides[i] + 1;
    if (ceil && (dim - 1) * strides[i] >= in + pads[i]) dim--;  // a window must begin inside
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
  for (size_t i = 0; i < pads.size(); i++) spec.dims[x.dims.size() - 1 - i / 2] += pads[i];
  return spec;
}

}  // namespace softnpu::graph

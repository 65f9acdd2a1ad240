// Windows over images: convolution, pooling, padding. Their lists as CANN's operator types have them, shapes of results. NCHW alone.
// What it is not: anything that runs on the device.
#pragma once

#include <string>

#include "softnpu/graph_engine/views.h"

namespace softnpu::graph {

// A window, {h, w} each, paddings alike on both sides.
struct Window {
  Dims size, strides, pads, dilations;
};
// Of Conv2D's lists of four; pads are {top, bottom, left, right}.
Window convolution_of(const Dims& strides, const Dims& pads, const Dims& dilations, const std::string& format);
// Of MaxPoolWithArgmaxV1's lists {1, h, w, 1}.
Window pool_of(const Dims& size, const Dims& strides, const Dims& pads, const Dims& dilations);
// Of AvgPoolV2's lists; over the whole image, if global.
Window averaged(const Value& x, const Dims& size, const Dims& strides, const Dims& pads, const std::string& mode,
                bool global, bool ceil);
void need_nchw(const std::string& format);

Spec convolved(const Value& x, const Value& filter, const Dims& strides, const Dims& pads, const Dims& dilations);
Spec pooled(const Value& x, const Dims& size, const Dims& strides, const Dims& pads, const Dims& dilations, bool ceil);
Spec image_sized(const Value& x, const Dims& size);

// Paddings {before, after} by dimension (or, if not contiguous, all before and then all after) as aclnn has them: the last dimension first.
Dims pads_of(const Dims& paddings, bool contiguous = true);
Spec padded(const Value& x, const Dims& pads);
void need_constant(const std::string& mode);

}  // namespace softnpu::graph

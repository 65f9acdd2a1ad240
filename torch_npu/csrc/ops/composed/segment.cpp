// Reductions of segments of a dimension, given by their lengths or by where they begin: each element's segment is searched for, and
// scatter_reduce does the rest. What is read back: unless the caller says `unsafe`, what PyTorch asks of the lengths on every device.
// Who calls it: PyTorch's dispatcher.
#include <ATen/OpMathType.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/stack.h>
#include <torch/library.h>

#include <limits>

#include "csrc/core/device.h"
#include "csrc/core/graph.h"
#include "csrc/ops/composed/composed.h"
#include "csrc/ops/device_check.h"

namespace npu {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
enum class Segment { kSum, kMean, kMax, kMin, kProd };

Segment reduction_of(c10::string_view reduce) {
  if (reduce == "sum") return Segment::kSum;
  if (reduce == "mean") return Segment::kMean;
  if (reduce == "max" || reduce == "amax") return Segment::kMax;
  if (reduce == "min" || reduce == "amin") return Segment::kMin;
  TORCH_CHECK(reduce == "prod", "reduce argument must be either sum, prod, mean, amax or amin, got ", reduce);
  return Segment::kProd;
}

const char* scatter_of(Segment reduction) {
  switch (reduction) {
    case Segment::kMax:
      return "amax";
    case Segment::kMin:
      return "amin";
    case Segment::kProd:
      return "prod";
    default:
      return "sum";
  }
}

double start_of(Segment reduction) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return reduction == Segment::kMax    ? -kInfinity
         : reduction == Segment::kMin  ? kInfinity
         : reduction == Segment::kProd ? 1
                                       : 0;
}

void check_types(const at::Tensor& data, const at::Tensor& places, const char* kernel) {
  const at::ScalarType type = places.scalar_type();
  TORCH_CHECK_NOT_IMPLEMENTED(type == at::kLong || type == at::kInt, '"', kernel, "\" not implemented for '", type,
                              '\'');
  TORCH_CHECK_NOT_IMPLEMENTED(data.is_floating_point(), "\"_segment_reduce_cpu\" not implemented for '",
                              data.scalar_type(), '\'');
}

// The segments of dimension `axis`, which is the last of lengths (or offsets), whose other sizes are data's.
struct Segments {
  at::Tensor lengths;  // with data's number of dimensions
  at::Tensor of;       // each element's, in data's shape; `count` where it is in none
  int64_t count, axis;

  Segments(const at::Tensor& data, const OptionalTensor& given_lengths, const OptionalTensor& offsets, int64_t dim) {
    const bool by_length = given_lengths && given_lengths->defined();
    const at::Tensor places = (by_length ? *given_lengths : *offsets).to(at::kLong);
    axis = dim;
    for (int64_t d = 0; d < axis; ++d) {
      TORCH_CHECK(places.size(d) == data.size(d), "segment_reduce(): Expected lengths or offsets of shape ",
                  places.sizes(), " to have data's size in dimension ", d, ", which is ", data.size(d));
    }
    const at::Tensor ends = by_length ? places.cumsum(-1) : places.slice(-1, 1);
    lengths = by_length ? places : ends.sub(places.slice(-1, 0, -1));
    count = lengths.size(-1);
    std::vector<int64_t> shape = places.sizes().vec();
    shape.back() = data.size(axis);
    const at::Tensor place = at::arange(data.size(axis), places.options()).expand(shape).contiguous();
    if (count == 0) {
      of = at::Tensor(place).zero_();
    } else {
      of = at::searchsorted(ends.contiguous(), place, false, true);
      if (!by_length) of = of.masked_fill(place.lt(places.slice(-1, 0, 1)), count);
    }
    for (int64_t d = axis + 1; d < data.dim(); ++d) {
      of = of.unsqueeze(-1);
      lengths = lengths.unsqueeze(-1);
    }
    of = of.expand(data.sizes());
  }

  at::Tensor reduced(const at::Tensor& values, Segment reduction, const at::Scalar& start) const {
    std::vector<int64_t> shape = values.sizes().vec();
    shape[axis] = count + 1;
    const at::Tensor sums = at::full(shape, start, values.options());
    return sums.scatter_reduce(axis, of, values, scatter_of(reduction), true).slice(axis, 0, count);
  }

  // What belongs to its segment, for each element; any where there is none.
  at::Tensor spread(const at::Tensor& per_segment) const {
    std::vector<int64_t> shape = of.sizes().vec();
    shape[axis] = count;
    return per_segment.expand(shape).gather(axis, of.clamp_max(count - 1));
  }
};

void check_values(const at::Tensor& data, const at::Tensor& places, bool by_length) {
  if (is_capturing(current_stream())) return;
  if (!by_length) {
    const int64_t segment_length = places.size(-1) < 2 ? 0 : places.diff().min().item<int64_t>();
    TORCH_CHECK(segment_length >= 0);
    return;
  }
  if (places.numel() == 0) return;
  const int64_t axis = places.dim() - 1;
  const at::Tensor sums = places.to(at::kLong).sum(-1);
  const std::vector<at::Tensor> asked = {places.min().to(at::kLong), sums.min(), sums.max()};
  const at::Tensor found = at::stack(asked).cpu();
  const int64_t* values = found.const_data_ptr<int64_t>();
  TORCH_CHECK(values[0] >= 0, "lengths contains negative value!");
  TORCH_CHECK(values[1] == data.size(axis) && values[2] == data.size(axis),
              "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when "
              "!unsafe.");
}

at::Tensor segment_reduce(const at::Tensor& data, c10::string_view reduce, const OptionalTensor& lengths,
                          const OptionalTensor& indices, const OptionalTensor& offsets, int64_t axis, bool unsafe,
                          const std::optional<at::Scalar>& initial) {
  axis = at::maybe_wrap_dim(axis, data.dim());
  const bool by_length = lengths && lengths->defined(), by_offset = offsets && offsets->defined();
  TORCH_CHECK(!indices || !indices->defined(), "segment_reduce(): indices based reduction is not supported yet.");
  TORCH_CHECK(by_length || by_offset, "segment_reduce(): Either lengths or offsets must be defined.");
  const at::Tensor& lengths_value = by_length ? *lengths : *offsets;
  TORCH_CHECK(data.dim() >= lengths_value.dim());
  TORCH_CHECK(axis == lengths_value.dim() - 1, "segment_reduce(): Expected axis to be the last dimension of ",
              by_length ? "lengths" : "offsets", " but got ", axis, ".");
  TORCH_CHECK(by_length || lengths_value.size(-1) > 0, "Trying to create tensor with negative dimension -1: [-1]");
  const Segment reduction = reduction_of(reduce);
  check_types(data, lengths_value,
              by_length ? "_segment_reduce_lengths_cpu_kernel1" : "_segment_reduce_offsets_cpu_kernel2");
  const NPUGuard guard(data.device().index());
  if (!unsafe) check_values(data, lengths_value, by_length);
  const Segments segments(data, lengths, offsets, axis);
  const at::Scalar start = initial ? *initial : at::Scalar(start_of(reduction));
  at::Tensor result = segments.reduced(data.to(at::toOpMathType(data.scalar_type())), reduction, start);
  if (reduction == Segment::kMean) {
    result = result.div(segments.lengths.clamp_min(1));
    if (!initial) result = result.masked_fill(segments.lengths.eq(0), std::numeric_limits<double>::quiet_NaN());
  }
  return result.to(data.scalar_type()).contiguous();
}

// Of a product: that of the segment's other elements, which is not a quotient where the element is zero or no number.
at::Tensor product_of_others(const Segments& segments, const at::Tensor& x, const at::Tensor& product,
                             const at::Scalar& start) {
  const at::Tensor zero = x.eq(0), nan = x.ne(x), odd = zero.logical_or(nan);
  const at::Tensor rest = segments.reduced(x.masked_fill(odd, 1), Segment::kProd, start);
  const auto others = [&](const at::Tensor& which) {
    const at::Tensor ones = which.to(x.scalar_type());
    return segments.spread(segments.reduced(ones, Segment::kSum, 0)).sub(ones).gt(0);
  };
  const at::Tensor plain = segments.spread(rest);
  const at::Tensor exact =
      where(others(zero), plain.mul(0), plain).masked_fill(others(nan), std::numeric_limits<double>::quiet_NaN());
  return where(odd, exact, segments.spread(product).div(x));
}

at::Tensor segment_reduce_backward(const at::Tensor& grad, const at::Tensor& output, const at::Tensor& data,
                                   c10::string_view reduce, const OptionalTensor& lengths,
                                   const OptionalTensor& offsets, int64_t axis,
                                   const std::optional<at::Scalar>& initial) {
  axis = at::maybe_wrap_dim(axis, data.dim());
  const bool by_length = lengths && lengths->defined();
  TORCH_CHECK(by_length || (offsets && offsets->defined()),
              "segment_reduce(): Either lengths or offsets must be defined.");
  const at::Tensor& places = by_length ? *lengths : *offsets;
  TORCH_CHECK(axis == places.dim() - 1, "segment_reduce(): Expected axis to be the last dimension of ",
              by_length ? "lengths" : "offsets", " but got ", axis, ".");
  const Segment reduction = reduction_of(reduce);
  check_types(
      data, places,
      by_length ? "_segment_reduce_cpu_lengths_backward_kernel1" : "_segment_reduce_cpu_offsets_backward_kernel2");
  const NPUGuard guard(data.device().index());
  const Segments segments(data, lengths, offsets, axis);
  if (segments.count == 0 || data.numel() == 0) return data.new_zeros(data.sizes());
  const at::ScalarType type = at::toOpMathType(data.scalar_type());
  const at::Tensor g = grad.to(type), x = data.to(type);
  at::Tensor result;
  if (reduction == Segment::kMax || reduction == Segment::kMin) {
    const at::Tensor chosen = x.eq(segments.spread(output.to(type))).logical_or(x.ne(x));
    const at::Tensor times = segments.spread(segments.reduced(chosen.to(type), Segment::kSum, 0));
    result = segments.spread(g).mul(chosen);
    result = where(result.gt(0), result.div(times.clamp_min(1)), result);  // shared only if positive, as the CPU's
  } else if (reduction == Segment::kProd) {
    const at::Scalar start = initial ? *initial : at::Scalar(1);
    result = segments.spread(g).mul(product_of_others(segments, x, output.to(type), start));
  } else {
    result = segments.spread(reduction == Segment::kMean ? g.div(segments.lengths.clamp_min(1)) : g);
  }
  return result.masked_fill(segments.of.eq(segments.count), 0).to(data.scalar_type()).contiguous();
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("segment_reduce", NPU_FN(segment_reduce));
  m.impl("_segment_reduce_backward", NPU_FN(segment_reduce_backward));
}

}  // namespace npu

// See feed_forward.h.
#include "softnpu/ops/feed_forward.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>

#include "softnpu/ops/fused_quant.h"
#include "softnpu/ops/low_bits.h"
#include "softnpu/ops/mx_blocks.h"

namespace softnpu::ops::kernels {
namespace {

bool whole(const Tensor& t) { return t.scalar_type() == at::kChar; }

// An expert's part of what has its own for each of `experts`; 0: there is one expert, without a dimension.
Tensor of(const Tensor& t, int64_t expert, int64_t experts) {
  return experts > 0 && t.dim() > 0 && t.size(0) == experts ? t[expert] : t;
}

// Numbers a column, or a row of them for each block of a weight's rows.
Tensor of_rows(const Tensor& t, int64_t rows) {
  const Tensor numbers = wide(t);
  return numbers.dim() < 2 ? numbers : mx::spread(numbers, 0, rows / numbers.size(0), rows);
}

class Expert {
 public:
  Expert(int64_t expert, int64_t experts) : expert_(expert), experts_(experts) {}

  Tensor part(const Tensor& t) const { return of(t, expert_, experts_); }

  // x @ weight + bias; of int8 operands times the scale.
  Tensor layer(const Tensor& x, const Layer& l, bool quantized) const {
    const at::ScalarType type = quantized ? at::kDouble : x.scalar_type();
    Tensor w = part(l.weight).to(type);
    if (given(l.antiquant)) {
      if (given(l.antiquant_offset)) w = w + of_rows(part(*l.antiquant_offset), w.size(0));
      w = w * of_rows(part(*l.antiquant), w.size(0));
    }
    Tensor value = at::matmul(x.to(type), w);
    if (given(l.bias)) value = value + part(*l.bias).to(type);
    return quantized ? (value * scale_values(part(*l.scale)).to(type)).to(at::kFloat) : value;
  }

 private:
  int64_t expert_, experts_;
};

void need_layer(const char* name, const Layer& l, bool quantized, at::ScalarType x) {
  const bool fewer = whole(l.weight);
  TORCH_CHECK(quantized ? fewer : fewer == given(l.antiquant), name, " is of ", l.weight.scalar_type(), " with x of ",
              x, given(l.antiquant) ? " and antiquantScale" : "");
  TORCH_CHECK(quantized == given(l.scale), "deqScale goes with x of int8, which is of ", x);
  TORCH_CHECK(!quantized || !given(l.antiquant), "antiquantScale does not go with x of int8");
  TORCH_CHECK(!given(l.antiquant_offset) || (given(l.antiquant) && l.antiquant_offset->sizes() == l.antiquant->sizes()),
              "antiquantOffset has not the sizes of antiquantScale");
  TORCH_CHECK(fewer || l.weight.scalar_type() == x, name, " is of ", l.weight.scalar_type(), ", x of ", x);
  TORCH_CHECK(!given(l.bias) || quantized == (l.bias->scalar_type() == at::kInt), "a bias of ",
              given(l.bias) ? l.bias->scalar_type() : x, " with x of ", x);
}

}  // namespace

void need_feed_forward(const Tensor& x, const Layer& first, const Layer& second, const Between& between,
                       const Tensor& y) {
  const bool quantized = whole(x);
  need_layer("weight1", first, quantized, x.scalar_type());
  need_layer("weight2", second, quantized, x.scalar_type());
  TORCH_CHECK(quantized == given(between.scale), "scale goes with x of int8, which is of ", x.scalar_type());
  TORCH_CHECK(quantized || !given(between.offset), "offset goes with x of int8");
  TORCH_CHECK(quantized ? at::isFloatingType(y.scalar_type()) : y.scalar_type() == x.scalar_type(), "y is of ",
              y.scalar_type(), ", x of ", x.scalar_type());
}

void feed_forward(const Tensor& x, at::IntArrayRef tokens, bool ends, const Layer& first, const Layer& second,
                  const Between& between, Tensor& y) {
  const bool quantized = whole(x);
  const Tensor rows = (quantized ? x : wide(x)).flatten(0, -2);
  const int64_t experts = first.weight.dim() > 2 ? first.weight.size(0) : 0;
  const auto one = [&](const Tensor& part, int64_t number) {
    const Expert expert(number, experts);
    Tensor h = activated(expert.layer(part, first, quantized), between.activation);
    if (quantized) {
      h = h * wide(expert.part(*between.scale));
      if (given(between.offset)) h = h + wide(expert.part(*between.offset));
      h = h.round().clamp(-128, 127);
    }
    return expert.layer(h, second, quantized);
  };
  if (tokens.empty()) return put(y, one(rows, 0).reshape(y.sizes()));
  std::vector<Tensor> parts;
  int64_t from = 0;
  for (size_t e = 0; e < tokens.size(); e++) {
    const int64_t to = ends ? tokens[e] : from + tokens[e];
    TORCH_CHECK(to >= from && to <= rows.size(0), "aclnnFFN: rows ", from, " to ", to, " of ", rows.size(0));
    parts.push_back(one(rows.narrow(0, from, to - from), int64_t(e)));
    from = to;
  }
  put(y, at::cat(parts, 0).reshape(y.sizes()));
}

}  // namespace softnpu::ops::kernels

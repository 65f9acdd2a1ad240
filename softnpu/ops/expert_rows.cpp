// Rows of tokens in the order of the experts they go to, with counts, and quantized on the way; rows that came from several ranks.
#include <ATen/ops/arange.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <limits>

#include "softnpu/ops/expert_rows.h"
#include "softnpu/ops/rounded.h"

namespace softnpu::ops::kernels {
namespace {

// Which pair of token and expert fills each row, -1 for none; and the pairs by number.
struct Sorted {
  Tensor source, expert;  // of each row: the pair, its expert
  Tensor numbers, counts;
};

Sorted sort_pairs(const Tensor& experts, const ExpertRows& o, int64_t row_count) {
  const Tensor flat = experts.flatten().to(at::kLong);
  const Tensor inside = flat.ge(o.first()).logical_and_(flat.lt(o.end()));
  const Tensor key = at::where(inside, flat, std::numeric_limits<int32_t>::max());
  const Tensor order = at::argsort(key, /*stable=*/true, 0, false);
  const int64_t pairs = inside.sum().item<int64_t>(), span = std::max<int64_t>(o.end() - o.first(), 0);
  const Tensor sorted = order.narrow(0, 0, pairs), owner = flat.index_select(0, sorted);
  Sorted s;
  constexpr int64_t kMostExperts = 10240;
  TORCH_CHECK(span <= kMostExperts, "aclnnMoeInitRouting: there may be ", kMostExperts, " experts, got ", span);
  s.counts = at::bincount(owner - o.first(), {}, span);
  const Tensor position = at::arange(pairs, flat.options());
  s.source = at::full({row_count}, -1, flat.options());
  s.expert = at::full({row_count}, -1, flat.options());
  s.numbers = at::full({flat.numel()}, -1, flat.options());
  Tensor row = position, pair = sorted, own = owner;
  if (o.padded) {
    const Tensor starts = at::cumsum(s.counts, 0) - s.counts;
    const Tensor rank = position - starts.index_select(0, owner - o.first());
    const Tensor kept = rank.lt(o.capacity).nonzero().squeeze(1);
    row = (owner * o.capacity + rank).index_select(0, kept);
    pair = sorted.index_select(0, kept);
    own = owner.index_select(0, kept);
  }
  s.numbers.index_put_({pair}, row);
  if (o.forward_rows && !o.padded) s.numbers = order;
  const Tensor fits = row.lt(row_count).nonzero().squeeze(1);
  s.source.index_put_({row.index_select(0, fits)}, pair.index_select(0, fits));
  s.expert.index_put_({row.index_select(0, fits)}, own.index_select(0, fits));
  return s;
}

void put_counts(Tensor& out, const Sorted& s, const ExpertRows& o) {
  if (!out.defined() || out.numel() == 0) return;
  if (o.counts == 0) return put(out, at::cumsum(s.counts, 0));
  if (o.counts == 1) return put(out, s.counts);
  const Tensor used = s.counts.nonzero().squeeze(1);
  Tensor pairs = at::zeros({out.size(0), 2}, s.counts.options());
  pairs.narrow(0, 0, used.numel()).copy_(at::stack({used + o.first(), s.counts.index_select(0, used)}, 1));
  put(out, pairs);
}

}  // namespace

// Elements of 8-bit and 4-bit floats are moved, with their powers of two where they have some.
void need_expert_rows(const Tensor& x, const OptionalTensor& scale, const ExpertRows& o, const ExpertRowsMade& made) {
  if (o.quantization == -1) {
    TORCH_CHECK(x.scalar_type() == made.rows.scalar_type(), "x is of ", x.scalar_type(), ", expandedXOut of ",
                made.rows.scalar_type(), ", and nothing is quantized");
    need_last_pairs("x", x);
    need_last_pairs("expandedXOut", made.rows);
    const bool powers = given(scale) && scale->scalar_type() == at::kFloat8_e8m0fnu;
    TORCH_CHECK(!powers || x.element_size() == 1, "scales of float8_e8m0fnu go with 8-bit and 4-bit floats, not ",
                x.scalar_type());
    TORCH_CHECK(!powers || scale->size(0) == x.size(0), "scale has ", powers ? scale->sizes() : IntArrayRef(), " for ",
                x.size(0), " rows");
    TORCH_CHECK(!given(scale) || !made.scales.defined() || made.scales.scalar_type() == scale->scalar_type(),
                "scale is of ", given(scale) ? scale->scalar_type() : at::kFloat, ", which expandedScaleOut is not");
    return;
  }
  TORCH_CHECK(x.element_size() > 1 && at::isFloatingType(x.scalar_type()), "x of ", x.scalar_type(),
              " is quantized already; quantMode is ", o.quantization);
  TORCH_CHECK(made.rows.scalar_type() != at::ScalarType::Float4_e2m1fn_x2,
              "expandedXOut of 4-bit elements goes with x of them");
}

void moe_expert_rows(const Tensor& x, const Tensor& experts, const OptionalTensor& scale, const OptionalTensor& offset,
                     const ExpertRows& o, const ExpertRowsMade& made) {
  Tensor &rows = made.rows, &row_scales = made.scales;
  TORCH_CHECK_NOT_IMPLEMENTED(o.quantization >= -1 && o.quantization <= 1, "aclnnMoeInitRouting: quantMode ",
                              o.quantization, " is not implemented; -1, 0 and 1 are");
  const int64_t h = x.size(1), row_count = h ? rows.numel() / h : 0, k = experts.size(-1);
  const Sorted s = sort_pairs(experts, o, row_count);
  put(made.numbers, s.numbers);
  put_counts(made.counts, s, o);
  if (made.before_capacity && made.before_capacity->defined() && made.before_capacity->numel() > 0)
    put(*made.before_capacity, s.counts);
  const Tensor filled = s.source.ge(0);
  Tensor used = filled;
  if (!o.padded && o.active > 0) used = filled.logical_and(at::arange(row_count, s.source.options()).lt(o.active));
  const Tensor token = at::where(used, s.source, 0).floor_divide(k), empty = used.logical_not();
  // Without tokens all rows are empty.
  const auto of_row = [&](const Tensor& t) {
    return x.size(0) > 0 ? t.index_select(0, token) : t.new_zeros({row_count, t.size(-1)});
  };
  if (o.quantization == -1) {
    put_bits(rows, of_row(moved_bits(x)).masked_fill(empty.unsqueeze(1), 0).reshape(rows.sizes()));
    if (!row_scales.defined()) return;
    if (!given(scale)) return void(row_scales.zero_());
    TORCH_CHECK(scale->dim() > 0 && scale->size(0) == x.size(0), "aclnnMoeInitRouting: a scale of ", scale->sizes(),
                " for ", x.size(0), " rows");
    const Tensor columns = bits(*scale);
    const Tensor kept =
        of_row(columns.dim() == 1 ? columns.unsqueeze(1) : columns.flatten(1)).masked_fill(empty.unsqueeze(1), 0);
    Tensor place = bits(row_scales);
    if (place.numel() == kept.numel()) put(place, kept.reshape(place.sizes()));
    return;
  }
  Tensor value = wide(of_row(x)).masked_fill_(empty.unsqueeze(1), 0);
  Tensor flat = rows.view({row_count, h});
  if (o.quantization == 0) {
    TORCH_CHECK(given(scale) && given(offset), "aclnnMoeInitRouting: static quantization needs scale and offset");
    value = value * wide(*scale).flatten()[0] + wide(*offset).flatten()[0];
    put_rounded(flat, value.masked_fill(empty.unsqueeze(1), 0));
    return;
  }
  if (given(scale)) {
    TORCH_CHECK(scale->size(-1) == h && (scale->numel() == h || scale->numel() == (o.end() - o.first()) * h),
                "aclnnMoeInitRouting: a scale of ", scale->sizes(), " for ", o.end() - o.first(), " experts of ", h,
                " columns");
    const Tensor smooth = wide(*scale).reshape({-1, h});
    value = value * (smooth.size(0) == 1 ? smooth : smooth.index_select(0, at::where(used, s.expert - o.first(), 0)));
  }
  const Tensor found = put_dynamic_rows(flat, value);
  if (row_scales.defined()) put_if_fits(row_scales, found);
}

void moe_plain_expert_rows(const Tensor& x, const Tensor& experts, const PlainExpertRows& o, Tensor& rows,
                           Tensor& numbers, Tensor& counts, Tensor& before_capacity) {
  const char* const op = "aclnnMoeInitRoutingV2";
  TORCH_CHECK(o.active >= 0 && o.capacity >= 0 && o.experts >= 0, op, ": activeNum ", o.active, ", expertCapacity ",
              o.capacity, " and expertNum ", o.experts, " are not negative");
  TORCH_CHECK(o.padded == 0 || o.padded == 1, op, ": dropPadMode ", o.padded, " is not 0 or 1");
  TORCH_CHECK(o.flag >= 0 && o.flag <= 2, op, ": expertTokensCountOrCumsumFlag ", o.flag, " is not 0 to 2");
  TORCH_CHECK(o.padded == 0 || (o.experts > 0 && o.capacity > 0), op,
              ": dropPadMode 1 needs an expertNum and an expertCapacity");
  TORCH_CHECK(x.dim() == 2 && experts.size(0) == x.size(0), op, ": expertIdx is ", experts.sizes(), " for x of ",
              x.sizes());
  const bool all = o.experts == 0 && experts.numel() > 0;
  const int64_t count = all ? experts.max().item<int64_t>() + 1 : o.experts;
  Tensor none;
  moe_expert_rows(
      x, experts.dim() == 1 ? experts.unsqueeze(1) : experts, std::nullopt, std::nullopt,
      {.active = o.active, .capacity = o.capacity, .experts = count, .padded = o.padded, .counts = o.flag == 1 ? 0 : 1},
      {rows, numbers, o.flag != 0 && o.padded == 0 ? counts : none, none,
       o.before_capacity && o.padded == 1 ? &before_capacity : nullptr});
}

void moe_rows_of_ranks(const Tensor& tokens, const Tensor& counts, const OptionalTensor& scales, bool running,
                       bool scatter, Tensor& rows, Tensor& row_scales, Tensor& numbers, Tensor& totals) {
  // The expert of each row, rank by rank; a stable sort by it is the order wanted.
  const Tensor each = counts.to(at::kLong);
  // Of numbers that may be wrong: each is looked at before their sum says how much memory is asked for.
  TORCH_CHECK(each.numel() == 0 || (each.min().item<int64_t>() >= 0 && each.max().item<int64_t>() <= tokens.size(0)),
              "aclnnMoeReRouting: a count of tokens is negative or above ", tokens.size(0));
  TORCH_CHECK(each.sum().item<int64_t>() == tokens.size(0), "aclnnMoeReRouting: ", each.sum().item<int64_t>(),
              " tokens are counted, ", tokens.size(0), " are given");
  const Tensor expert = at::arange(each.size(1), each.options()).repeat({each.size(0)});
  const Tensor of_row = expert.repeat_interleave(each.flatten());
  const Tensor order = at::argsort(of_row, /*stable=*/true, 0, false);
  put_bits(rows, moved_bits(tokens).index_select(0, order));
  if (row_scales.defined()) {
    if (given(scales)) {
      put_bits(row_scales, bits(*scales).index_select(0, order));
    } else {
      row_scales.fill_(1);
    }
  }
  put(numbers, scatter ? at::argsort(order, true, 0, false) : order);
  const Tensor sums = each.sum(0);
  put(totals, running ? at::cumsum(sums, 0) : sums);
}

}  // namespace softnpu::ops::kernels

// See group_product.h.
#include "softnpu/ops/group_product.h"

#include <ATen/ops/matmul.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "softnpu/ops/fused_quant.h"
#include "softnpu/ops/kernels.h"
#include "softnpu/ops/low_bits.h"
#include "softnpu/ops/mx_blocks.h"
#include "softnpu/ops/mx_product.h"
#include "softnpu/ops/quantize.h"

namespace softnpu::ops::kernels {
namespace {

using Sizes = std::vector<int64_t>;

at::Tensor sum_of(const Factors& f) {
  at::Tensor value = at::matmul(f.a.to(at::kFloat), f.right().to(at::kFloat));
  if (given(f.bias)) value.add_(f.bias->to(at::kFloat));
  if (given(f.added)) value.add_(f.added->to(at::kFloat));
  return value;
}

void need_contiguous(const char* name, const at::Tensor& t) {
  TORCH_CHECK(t.is_contiguous(), name, " of sizes ", t.sizes(), " and strides ", t.strides(),
              " is not contiguous; a group exchanges its memory");
}

// And that it is contiguous.
void need_sizes(const char* name, const at::Tensor& t, at::IntArrayRef sizes) {
  TORCH_CHECK(t.defined() && t.sizes() == sizes, name, " has sizes ", t.defined() ? t.sizes() : at::IntArrayRef(),
              ", not ", sizes);
  need_contiguous(name, t);
}

void need_share(const char* what, int64_t size, int64_t ranks) {
  TORCH_CHECK(size % ranks == 0, what, " of ", size, " cannot be divided among ", ranks, " ranks");
}

void need_absent(const char* name, const Maybe& t, const char* why) {
  TORCH_CHECK(!given(t), name, " is given; ", why);
}

// Sizes of a factor's elements.
int64_t elements(const at::Tensor& t, int64_t dim) {
  return mx::sizes_of(t)[static_cast<size_t>(dim < 0 ? dim + t.dim() : dim)];
}

void need_powers(const Factors& f) {
  TORCH_CHECK(mx::is_small(f.a.scalar_type()) && mx::is_small(f.b.scalar_type()), "factors of ", f.a.scalar_type(),
              " and ", f.b.scalar_type(), " are no MX operands");
  TORCH_CHECK(mx::packed(f.a) == mx::packed(f.b), "factors of ", f.a.scalar_type(), " and ", f.b.scalar_type(),
              " have not the same bits");
  TORCH_CHECK(of_powers(f.row) && of_powers(f.column), "x1Scale and x2Scale of MX operands are float8_e8m0fnu");
  const at::Tensor flat = f.a.flatten(0, -2), scale = f.row->flatten(0, -3);
  need_mx_factor("the left factor", {flat, scale, false});
  mx_right_turned("the right factor's scale", f.right(), *f.column);
}

// `weights`: a right factor of int8 that has its own scales (Antiquant) is all right beside a floating left one.
void need_scales(const Factors& f, bool weights = false) {
  if (f.powers()) return need_powers(f);
  TORCH_CHECK(!of_powers(f.row) && !of_powers(f.column), "scales of float8_e8m0fnu go with MX operands on both sides");
  const bool small = small_float(f.a);
  TORCH_CHECK(!mx::packed(f.a) && !mx::packed(f.b), "factors of 4-bit elements need scales of float8_e8m0fnu");
  const bool wide = weights && at::isFloatingType(f.a.scalar_type()) && !small;
  TORCH_CHECK(wide || (small ? small_float(f.b) : f.a.scalar_type() == f.b.scalar_type()), "factors of ",
              f.a.scalar_type(), " and ", f.b.scalar_type());
  TORCH_CHECK(is_hifloat8(f.a) == is_hifloat8(f.b), "factors of ", f.a.scalar_type(), " and ", f.b.scalar_type());
  if (!small && f.a.scalar_type() != at::kChar) {
    need_absent("x1Scale", f.row, "the factors are no integers");
    return need_absent("x2Scale", f.column, "the factors are no integers");
  }
  const int64_t rows = f.a.numel() / std::max<int64_t>(f.a.size(-1), 1);
  TORCH_CHECK(given(f.column) && (f.column->numel() == 1 || f.column->numel() == f.columns()),
              "the right factor's scale has ", given(f.column) ? f.column->numel() : 0,
              " numbers; factors of 8 bits need 1 or ", f.columns());
  TORCH_CHECK(!given(f.row) || f.row->numel() == rows || (small && f.row->numel() == 1), "the left factor's scale has ",
              given(f.row) ? f.row->numel() : 0, " numbers for ", rows, " rows");
}

void need_bias(const Factors& f) {
  TORCH_CHECK(!passed(f.bias) || f.bias->sizes() == at::IntArrayRef{f.columns()}, "the bias has sizes ",
              passed(f.bias) ? f.bias->sizes() : at::IntArrayRef(), " for ", f.columns(), " columns");
}

void need_factors(const Factors& f, int64_t most_dims = 2) {
  TORCH_CHECK(!f.turned_a, "transposeX1 is set; the left factor cannot be transposed");
  TORCH_CHECK(f.a.dim() >= 2 && f.a.dim() <= most_dims && f.b.dim() == 2 && elements(f.a, -1) == elements(f.right(), 0),
              "factors of ", f.a.sizes(), " and ", f.b.dim() == 2 ? f.right().sizes() : f.b.sizes(),
              " have no product; the left one has 2", most_dims > 2 ? " or 3" : "", " dimensions, the right one 2");
  need_bias(f);
  TORCH_CHECK(!passed(f.added) || f.added->sizes() == f.sizes(), "x3 has sizes ",
              passed(f.added) ? f.added->sizes() : at::IntArrayRef(), ", not ", f.sizes());
}

void need_axes(at::IntArrayRef axes, int64_t first, int64_t second) {
  const int64_t only[] = {first, second};
  TORCH_CHECK(axes.empty() || axes == at::IntArrayRef(only), "alltoAllAxes is ", axes, "; ", at::IntArrayRef(only),
              " is the only value");
}

int64_t total(at::IntArrayRef counts) { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); }

}  // namespace

void need_settings(const Settings& s) {
  TORCH_CHECK(s.reduce == "sum", "the reduction is '", std::string(s.reduce), "'; 'sum' is the only one");
  TORCH_CHECK(s.turn == 0, "commTurn is ", s.turn, "; 0 is the only value");
  TORCH_CHECK(s.stream == 1, "streamMode is ", s.stream, "; 1 is the only value");
  TORCH_CHECK(s.gather == 0, "gatherIndex is ", s.gather, "; 0, the left factor, is the only value");
  TORCH_CHECK(s.coding == 0, "commQuantMode is ", s.coding, "; 0 is the only value that is implemented");
  constexpr std::array<std::string_view, 4> kModes = {"", "ai_cpu", "ccu", "aiv"};
  TORCH_CHECK(std::find(kModes.begin(), kModes.end(), s.mode) != kModes.end(), "commMode is '", std::string(s.mode),
              "', not 'ai_cpu', 'ccu' or 'aiv'");
  TORCH_CHECK(s.block == 0, "blockSize is ", s.block, "; operands quantized by blocks are not implemented");
  need_absent("quantScale", s.result_scale, "a quantized result is not implemented");
  TORCH_CHECK(!asked(s.largest), "amaxOut is given; the largest magnitude is not implemented");
}

void need_block_sizes(const Settings& s, const Factors& f) {
  if (f.powers()) return need_mx_group(s.group);
  TORCH_CHECK(s.group == 0, "groupSize is ", s.group, "; operands quantized by blocks are not implemented");
}

// -- products

int64_t Factors::columns() const { return elements(right(), 1); }
bool Factors::powers() const { return of_powers(row) || of_powers(column); }
bool Factors::of_rows() const { return given(row) && (powers() || !small_float(a) || row->numel() != 1); }

std::vector<int64_t> Factors::sizes() const {
  Sizes all = a.sizes().vec();
  all.back() = columns();
  return all;
}

Factors Factors::of(const at::Tensor& rows, const at::Tensor& scales) const {
  Factors other = *this;
  other.a = rows.scalar_type() == a.scalar_type() ? rows : rows.view(a.scalar_type());
  if (of_rows()) other.row = powers() ? scales.view(at::kFloat8_e8m0fnu) : scales;
  return other;
}

namespace {

// Of 8-bit floats and MX operands, [rows, columns].
at::Tensor small_product(const Factors& f) {
  const at::Tensor a = f.a.flatten(0, -2);
  const auto bias = [&](const at::Tensor& value) { return given(f.bias) ? value + mx::floats(*f.bias) : value; };
  if (f.powers()) return bias(at::matmul(mx::values_of(a, f.row->flatten(0, -3), -1), mx_right(f.right(), *f.column)));
  at::Tensor value = at::matmul(mx::floats(a), mx::floats(f.right()));
  if (f.bias_first) value = bias(value);
  value = value * scale_values(f.column->flatten());
  if (given(f.row)) value = value * f.row->to(at::kFloat).reshape({-1, 1});
  return f.bias_first ? value : bias(value);
}

}  // namespace

void product(const Factors& f, at::Tensor out) {
  if (mx::is_small(f.a.scalar_type()) || is_hifloat8(f.a)) {
    at::Tensor value = small_product(f);
    if (given(f.added)) value = value + f.added->flatten(0, -2).to(at::kFloat);
    return put(out, value.view(out.sizes()));
  }
  if (f.a.scalar_type() != at::kChar) return put(out, sum_of(f));
  const auto flat = [](const Maybe& t) { return given(t) ? Maybe(t->flatten()) : Maybe(); };
  at::Tensor value = quantized_product(f.a.flatten(0, -2), f.right(), flat(f.row), flat(f.column), f.bias);
  if (given(f.added)) value.add_(f.added->flatten(0, -2).to(at::kDouble));
  put(out, value.view(out.sizes()));
}

void weight_product(const Factors& f, const Antiquant& q, at::Tensor out) {
  at::Tensor value = at::empty(out.sizes(), out.options().dtype(at::kFloat));
  weight_quant_matmul(f.a, f.b, q.scale, q.offset, {}, {}, given(f.bias) ? f.bias : Maybe(), q.group, value);
  if (given(f.added)) value.add_(f.added->to(at::kFloat));
  put(out, value);
}

// -- checks

void need_sum(const Factors& f, const at::Tensor& out) {
  need_factors(f, 3);
  need_sizes("output", out, f.sizes());
  need_scales(f, true);
}

void need_antiquant(const Factors& f, const Antiquant& q) {
  const int64_t k = f.b.size(0), n = f.b.size(1);
  TORCH_CHECK(q.group >= 0 && q.group % 32 == 0, "antiquantGroupSize is ", q.group, ", no multiple of 32");
  const int64_t grouped = q.group ? (k + q.group - 1) / q.group * n : n, has = q.scale.numel();
  TORCH_CHECK(has == 1 || has == n || has == grouped, "antiquantScale has ", has, " numbers, not 1, ", n,
              q.group ? " or " + std::to_string(grouped) : std::string());
  TORCH_CHECK(!passed(q.offset) || q.offset->sizes() == q.scale.sizes(), "antiquantOffset has sizes ",
              passed(q.offset) ? q.offset->sizes() : at::IntArrayRef(), ", not ", q.scale.sizes());
}

void need_gather(const Factors& f, int64_t ranks, const at::Tensor& out, const at::Tensor& gathered) {
  need_factors(f);
  need_contiguous("x1", f.a);
  need_sizes("output", out, {f.a.size(0) * ranks, f.columns()});
  if (asked(gathered)) need_sizes("gatherOut", gathered, times(f.a, ranks));
  need_scales(f);
  if (f.of_rows()) need_contiguous("x1Scale", *f.row);
}

void need_scatter(const Factors& f, int64_t ranks, const at::Tensor& out) {
  need_factors(f);
  need_share("the left factor's rows", f.a.size(0), ranks);
  need_sizes("output", out, {f.a.size(0) / ranks, f.columns()});
  need_scales(f);
}

void need_joined(const Factors& f, at::IntArrayRef axes, int64_t ranks, const at::Tensor& out,
                 const at::Tensor& joined) {
  need_axes(axes, -2, -1);
  TORCH_CHECK(!f.turned_a, "transposeX1 is set; the left factor cannot be transposed");
  TORCH_CHECK(f.a.dim() == 2, "x1 has sizes ", f.a.sizes(), ", not two dimensions");
  need_contiguous("x1", f.a);
  need_share("x1's rows", f.a.size(0), ranks);
  const Sizes sizes = joined_sizes(f.a, ranks);
  TORCH_CHECK(f.b.dim() == 2 && f.right().size(0) == sizes[1], "x2 of sizes ", f.right().sizes(), " for the ", sizes[1],
              " columns of all ranks");
  need_bias(f);
  need_sizes("output", out, {sizes[0], f.columns()});
  if (asked(joined)) need_sizes("alltoAllOut", joined, sizes);
}

void need_split(const Factors& f, at::IntArrayRef axes, int64_t ranks, const at::Tensor& out) {
  need_axes(axes, -1, -2);
  need_factors(f);
  need_share("x2's columns", f.columns(), ranks);
  need_sizes("output", out, {f.a.size(0) * ranks, f.columns() / ranks});
}

// -- exchanges

bool asked(const at::Tensor& t) { return t.defined() && t.numel() > 0; }

std::vector<int64_t> unless(const at::Tensor& asked_for, std::vector<int64_t> sizes) {
  return asked(asked_for) ? Sizes{0} : std::move(sizes);
}

const at::Tensor& either(const at::Tensor& asked_for, const at::Tensor& room) {
  return asked(asked_for) ? asked_for : room;
}

std::vector<int64_t> times(const at::Tensor& t, int64_t ranks) {
  Sizes all = t.sizes().vec();
  all[0] *= ranks;
  return all;
}

std::vector<int64_t> scales_of(const Factors& f, int64_t ranks) {
  if (!f.of_rows()) return {0};
  if (f.powers()) return times(*f.row, ranks);
  return {f.row->numel() * ranks};
}

at::ScalarType scale_type(const Factors& f) { return f.powers() ? at::kByte : at::kFloat; }

void gather_scales(const Peers& peers, const Factors& f, const at::Tensor& room) {
  if (f.of_rows()) peers.all_gather(bits(*f.row), room);
}

std::vector<int64_t> joined_sizes(const at::Tensor& a, int64_t ranks) { return {a.size(0) / ranks, a.size(1) * ranks}; }

void join_columns(const at::Tensor& parts, at::Tensor out) {
  if (!out.numel()) return;
  const int64_t rows = out.size(0), ranks = parts.size(0) / rows;
  put(out, parts.view({ranks, rows, parts.size(1)}).permute({1, 0, 2}).reshape(out.sizes()));
}

void split_columns(const Factors& f, at::Tensor out) {
  if (!out.numel()) return;
  const int64_t rows = f.a.size(0), parts = out.size(0) / rows;
  put(out, sum_of(f).view({rows, parts, out.size(1)}).permute({1, 0, 2}).reshape(out.sizes()));
}

// -- experts

namespace {

// The rows of each pair of rank and expert, `body(from, to, count)`: from where they lie by rank to where they lie by expert.
template <class Body>
void each_pair(at::IntArrayRef counts, int64_t experts, const Body& body) {
  const int64_t ranks = static_cast<int64_t>(counts.size()) / experts;
  Sizes starts;
  int64_t at = 0;
  for (const int64_t count : counts) starts.push_back(at), at += count;
  int64_t to = 0;
  for (int64_t e = 0; e < experts; e++) {
    for (int64_t r = 0; r < ranks; r++) {
      const size_t i = static_cast<size_t>(r * experts + e);
      if (counts[i]) body(starts[i], to, counts[i]);
      to += counts[i];
    }
  }
}

constexpr int64_t kMost = int64_t{1} << 40;  // rows; so no sum overflows

void need_counts(const char* name, at::IntArrayRef counts, size_t size) {
  TORCH_CHECK(counts.size() == size, name, " has ", counts.size(), " numbers; ", size,
              " are one for each expert of each rank");
  for (const int64_t count : counts)
    TORCH_CHECK(count >= 0 && count <= kMost, name, " has the number ", count, ", not 0 to ", kMost);
}

Factors shared_of(const Experts& e) {
  return {.a = *e.shared_x, .b = *e.shared_weight, .turned_b = e.shared_transposed};
}

}  // namespace

std::vector<int64_t> Experts::by_rank(at::IntArrayRef counts) const {
  Sizes rows(counts.size() / static_cast<size_t>(count()));
  for (size_t i = 0; i < counts.size(); i++) rows[i / static_cast<size_t>(count())] += counts[i];
  return rows;
}

int64_t Experts::columns() const { return mx::sizes_of(weight)[transposed ? 1 : 2]; }

std::vector<int64_t> Experts::arrived() const { return {total(received), x.size(1)}; }
std::vector<int64_t> Experts::made() const { return {total(sent), columns()}; }

void need_experts(const Experts& e, int64_t ranks, const char* name, const at::Tensor& out) {
  need_absent("sendCountsTensor", e.sent_tensor, "the counts are sendCounts");
  need_absent("recvCountsTensor", e.received_tensor, "the counts are recvCounts");
  TORCH_CHECK(e.ranks == ranks, "epWorldSize is ", e.ranks, ", and the group has ", ranks, " ranks");
  TORCH_CHECK(e.weight.dim() == 3 && e.weight.size(0) > 0, "the experts' weights have sizes ", e.weight.sizes(),
              ", not three dimensions");
  const int64_t inner = mx::sizes_of(e.weight)[e.transposed ? 2 : 1];
  TORCH_CHECK(e.x.dim() == 2 && elements(e.x, 1) == inner, "tokens of sizes ", e.x.sizes(), " for experts that take ",
              inner, " columns");
  const auto size = static_cast<size_t>(e.count() * ranks);
  need_counts("sendCounts", e.sent, size);
  need_counts("recvCounts", e.received, size);
  TORCH_CHECK(total(e.sent) == e.x.size(0), "the counts say ", total(e.sent), " tokens, and there are ", e.x.size(0));
  need_sizes(name, out, {total(e.received), e.columns()});
  TORCH_CHECK(given(e.shared_x) == given(e.shared_weight), "mmX and mmWeight are given together");
  if (!given(e.shared_x)) return;
  need_factors(shared_of(e));
  need_sizes("mmY", e.shared_out, shared_of(e).sizes());
}

void need_arrived(const Experts& e, bool wanted, const at::Tensor& permuted) {
  need_contiguous("gmmX", e.x);
  if (wanted || asked(permuted)) need_sizes("permuteOut", permuted, e.arrived());
}

void to_experts(const Experts& e, const at::Tensor& x, at::Tensor out) {
  each_pair(e.received, e.count(),
            [&](int64_t from, int64_t to, int64_t n) { out.narrow(0, to, n).copy_(x.narrow(0, from, n)); });
}

void to_ranks(const Experts& e, const at::Tensor& x, at::Tensor out) {
  each_pair(e.sent, e.count(),
            [&](int64_t from, int64_t to, int64_t n) { out.narrow(0, from, n).copy_(x.narrow(0, to, n)); });
}

void expert_products(const Experts& e, const at::Tensor& x, at::IntArrayRef counts, at::Tensor out) {
  int64_t from = 0;
  for (int64_t i = 0; i < e.count(); i++) {
    int64_t rows = 0;
    for (size_t at = static_cast<size_t>(i); at < counts.size(); at += static_cast<size_t>(e.count()))
      rows += counts[at];
    const Factors f{.a = x.narrow(0, from, rows), .b = e.weight[i], .turned_b = e.transposed};
    if (rows) product(f, out.narrow(0, from, rows));
    from += rows;
  }
}

void shared_product(const Experts& e) {
  if (given(e.shared_x)) product(shared_of(e), e.shared_out);
}

}  // namespace softnpu::ops::kernels

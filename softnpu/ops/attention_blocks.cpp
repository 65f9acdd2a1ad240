// See attention_blocks.h.
#include "softnpu/ops/attention_blocks.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <limits>

#include "softnpu/ops/drop_mask.h"
#include "softnpu/ops/gemm.h"
#include "softnpu/ops/kernels.h"
#include "softnpu/ops/softmax_rows.h"

namespace softnpu::ops::kernels {
namespace {

constexpr int64_t kFar = std::numeric_limits<int32_t>::max();
constexpr int64_t kBlock =
    int64_t{1} << 16;           // scores of a block: with what is computed from them they stay in a second-level cache
constexpr int64_t kFewest = 8;  // rows of queries, below which products of matrices are slow

int64_t near(int64_t distance) { return std::clamp(distance, -kFar, kFar); }

// Element b of a first dimension that may be shared by all.
Tensor of_batch(const Tensor& t, int64_t batch) { return t.select(0, t.size(0) > 1 ? batch : 0); }
Tensor part(const Tensor& t, int64_t dim, int64_t from, int64_t count) {
  return t.size(dim) == 1 ? t : t.narrow(dim, from, count);
}

int64_t columns_of(const Tensor& t, int64_t heads) { return t.size(-1) / heads; }

}  // namespace

int64_t Band::begin(int64_t row, int64_t keys) const { return std::clamp<int64_t>(row + diagonal - before, 0, keys); }
int64_t Band::end(int64_t row, int64_t keys) const {
  return std::clamp<int64_t>(std::max(row + diagonal + after + 1, prefix), 0, keys);
}

AttentionBlocks::AttentionBlocks(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options)
    : o_(options) {
  TORCH_CHECK(
      o_.layout == "BSH" || o_.layout == "SBH" || o_.layout == "BNSD" || o_.layout == "BSND" || o_.layout == "TND",
      "attention: the layout ", std::string(o_.layout), " is not one of BSH, SBH, BNSD, BSND, TND");
  TORCH_CHECK(o_.heads > 0, "attention: the number of heads is ", o_.heads);
  const int64_t dims = o_.layout == "BNSD" || o_.layout == "BSND" ? 4 : 3;
  for (const Tensor* t : {&q, &k, &v}) {
    TORCH_CHECK(t->dim() == dims, "attention: the layout ", std::string(o_.layout), " has ", dims,
                " dimensions, an operand ", t->dim());
  }
  type_ = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  columns_ = o_.layout == "BSH" || o_.layout == "SBH" ? q.size(2) / o_.heads : q.size(-1);
  TORCH_CHECK(columns_ > 0, "attention: a query of ", q.sizes(), " has no columns for ", o_.heads, " heads");
  kv_heads_ = o_.layout == "BSH" || o_.layout == "SBH" ? k.size(2) / columns_
              : o_.layout == "BNSD"                    ? k.size(1)
                                                       : k.size(-2);
  TORCH_CHECK(kv_heads_ > 0 && o_.heads % kv_heads_ == 0, "attention: ", o_.heads, " query heads and ", kv_heads_,
              " key heads");
  find_sequences(q, k);
}

void AttentionBlocks::find_sequences(const Tensor& q, const Tensor& k) {
  int64_t bits = 0;
  if (o_.layout == "TND") {
    TORCH_CHECK(!o_.q_ends.empty() && o_.q_ends.size() == o_.kv_ends.size(),
                "attention: the layout TND needs the ends of each sequence of query and key");
    for (size_t b = 0; b < o_.q_ends.size(); b++) {
      const int64_t q_from = b ? o_.q_ends[b - 1] : 0, kv_from = b ? o_.kv_ends[b - 1] : 0;
      TORCH_CHECK(
          q_from <= o_.q_ends[b] && kv_from <= o_.kv_ends[b] && o_.q_ends[b] <= q.size(0) && o_.kv_ends[b] <= k.size(0),
          "attention: the ends of sequence ", b, " do not lie in query and key");
      sequences_.push_back({int64_t(b), q_from, o_.q_ends[b], kv_from, o_.kv_ends[b], bits});
      bits += o_.heads * (o_.q_ends[b] - q_from) * (o_.kv_ends[b] - kv_from);
    }
    return;
  }
  const int batch = o_.layout == "SBH" ? 1 : 0, row = o_.layout == "SBH" ? 0 : o_.layout == "BNSD" ? 2 : 1;
  for (int64_t b = 0; b < q.size(batch); b++) {
    sequences_.push_back({b, 0, q.size(row), 0, k.size(row), bits});
    bits += o_.heads * q.size(row) * k.size(row);
  }
}

std::vector<Block> AttentionBlocks::heads() const {
  std::vector<Block> out;
  for (const Sequence& s : sequences_) {
    const int64_t n = s.queries(), m = s.keys(), weights = std::max<int64_t>(1, group() * n * m);
    const int64_t step = std::clamp<int64_t>(kBlock / weights, 1, kv_heads_);
    for (int64_t h = 0; h < kv_heads_; h += step) out.push_back({&s, h, std::min(step, kv_heads_ - h), 0, n, 0, m});
  }
  return out;
}

std::vector<Block> AttentionBlocks::rows(const Block& whole) const {
  const Sequence& s = *whole.sequence;
  const Band seen = band(s);
  const int64_t width = std::max<int64_t>(1, whole.heads * group() * s.keys());
  const int64_t step = std::max(kBlock / width, kFewest);
  std::vector<Block> out;
  for (int64_t row = 0; row < s.queries(); row += step) {
    Block b = whole;
    b.row = row;
    b.rows = std::min(step, s.queries() - row);
    b.key = seen.begin(row, s.keys());
    b.keys = std::max<int64_t>(seen.end(row + b.rows - 1, s.keys()) - b.key, 0);
    out.push_back(b);
  }
  return out;
}

Tensor AttentionBlocks::queries(const Tensor& t, const Block& b) const {
  const Sequence& s = *b.sequence;
  const auto by_head = [&](const Tensor& x) { return x.transpose(0, 1); };
  Tensor rows =
      o_.layout == "TND"    ? by_head(t.narrow(0, s.q_from, s.queries()))
      : o_.layout == "BNSD" ? t.select(0, s.batch)
      : o_.layout == "BSND"
          ? by_head(t.select(0, s.batch))
          : by_head(t.select(o_.layout == "BSH" ? 0 : 1, s.batch).unflatten(1, {o_.heads, columns_of(t, o_.heads)}));
  return rows.narrow(0, b.head * group(), b.heads * group()).narrow(1, b.row, b.rows);
}

Tensor AttentionBlocks::keys(const Tensor& t, const Block& b) const {
  const Sequence& s = *b.sequence;
  const auto by_head = [&](const Tensor& x) { return x.transpose(0, 1); };
  Tensor rows =
      o_.layout == "TND"    ? by_head(t.narrow(0, s.kv_from, s.keys()))
      : o_.layout == "BNSD" ? t.select(0, s.batch)
      : o_.layout == "BSND"
          ? by_head(t.select(0, s.batch))
          : by_head(t.select(o_.layout == "BSH" ? 0 : 1, s.batch).unflatten(1, {kv_heads_, columns_of(t, kv_heads_)}));
  return rows.narrow(0, b.head, b.heads).narrow(1, b.key, b.keys);
}

Tensor AttentionBlocks::statistic(const Tensor& t, const Block& b) const {
  const Sequence& s = *b.sequence;
  const Tensor rows = o_.layout == "TND" ? t.narrow(0, s.q_from, s.queries()).transpose(0, 1) : t.select(0, s.batch);
  return rows.narrow(0, b.head * group(), b.heads * group()).narrow(1, b.row, b.rows);
}

Tensor AttentionBlocks::query(const Tensor& q, const Block& b) const {
  const Tensor plain = queries(q, b).to(type_);
  return given(o_.q_rope) ? at::cat({plain, queries(*o_.q_rope, b).to(type_)}, 2) : plain.contiguous();
}

Tensor AttentionBlocks::key(const Tensor& k, const Block& b) const {
  const Tensor plain = keys(k, b).to(type_);
  return given(o_.k_rope) ? at::cat({plain, keys(*o_.k_rope, b).to(type_)}, 2) : plain;
}

Tensor AttentionBlocks::scores(const Tensor& query, const Tensor& key, const Block& b) const {
  const bool before_scale = given(o_.shift) && o_.shift_kind == 1;
  Tensor out = at::empty({b.heads * group(), b.rows, b.keys}, query.options());
  Tensor products = out.view({b.heads, group() * b.rows, b.keys});
  const Tensor joined = query.view({b.heads, group() * b.rows, query.size(2)});
  gemm_each(joined, key.transpose(1, 2), before_scale ? 1.0 : o_.scale, false, products);
  if (given(o_.shift)) {
    if (has_slopes()) {
      out.sub_(distance(b).mul(shift_view(*o_.shift, b).to(type_)));
    } else {
      out.add_(shift_view(*o_.shift, b));
    }
    if (before_scale) out.mul_(o_.scale);
  }
  hide(out, b);
  return out;
}

Band AttentionBlocks::band(const Sequence& s) const {
  const int64_t n = s.queries(), m = s.keys(), right = m - n, before = near(o_.before), after = near(o_.after);
  if (!given(o_.mask)) return {kFar, kFar, 0, 0};  // CANN's pages: without a mask no mode and no band counts
  // Sequences of which one is cut among devices: the last of those of mode 3, or the first of those of mode 2, has a band.
  const bool cut = s.batch == (o_.sparse == 7 ? static_cast<int64_t>(sequences_.size()) - 1 : 0);
  switch (o_.sparse) {
    case 8:
      if (cut) return {before, after, right, 0};
      [[fallthrough]];
    case 2:
      return {kFar, 0, 0, 0};
    case 7:
      if (cut) return {before, after, right, 0};
      [[fallthrough]];
    case 3:
      return {kFar, 0, right, 0};
    case 4:
      return {before, after, right, 0};
    case 5:
    case 6:
      TORCH_CHECK(size_t(s.batch) < o_.prefix.size(), "attention: a prefix for each sequence is needed");
      return {kFar, 0, right, o_.prefix[s.batch]};
    case 0:
      return {before, after, 0, 0};
    default:
      return {kFar, kFar, 0, 0};
  }
}

void AttentionBlocks::hide(Tensor& scores, const Block& b) const {
  constexpr double kHidden = -std::numeric_limits<double>::infinity();
  const Sequence& s = *b.sequence;
  const Band seen = band(s);
  const int64_t end = b.key + b.keys;
  const auto fill = [&]<class T>(T* to) {
    for (int64_t h = 0; h < scores.size(0); ++h) {
      for (int64_t i = b.row; i < b.row + b.rows; ++i, to += b.keys) {
        const int64_t first = std::clamp(seen.begin(i, s.keys()), b.key, end);
        const int64_t last = std::clamp(seen.end(i, s.keys()), first, end);
        std::fill(to, to + (first - b.key), T(kHidden));
        std::fill(to + (last - b.key), to + b.keys, T(kHidden));
      }
    }
  };
  type_ == at::kDouble ? fill(scores.mutable_data_ptr<double>()) : fill(scores.mutable_data_ptr<float>());
  if (o_.sparse > 1 || !given(o_.mask) || b.keys == 0) return;
  Tensor t = o_.mask->dim() == 4 ? of_batch(*o_.mask, s.batch) : *o_.mask;
  TORCH_CHECK(t.size(-2) >= s.queries() && t.size(-1) >= s.keys(), "attention: a mask of ", t.size(-2), " x ",
              t.size(-1), " for ", s.queries(), " queries and ", s.keys(), " keys");
  if (t.dim() == 3) t = part(t, 0, b.head * group(), b.heads * group());
  t = t.narrow(-2, b.row, b.rows).narrow(-1, b.key, b.keys).to(at::kBool);
  if (t.stride(-1) != 1) t = t.contiguous();
  t = t.expand(scores.sizes());
  const bool* hidden = t.const_data_ptr<bool>();
  const auto hide_rows = [&]<class T>(T* to) {
    for (int64_t h = 0; h < t.size(0); ++h) {
      for (int64_t i = 0; i < b.rows; ++i, to += b.keys) {
        hide_row(to, b.keys, hidden + h * t.stride(0) + i * t.stride(1));
      }
    }
  };
  type_ == at::kDouble ? hide_rows(scores.mutable_data_ptr<double>()) : hide_rows(scores.mutable_data_ptr<float>());
}

// Slopes as [heads, 1, 1], a bias as [heads, rows, keys], where 1 stands for any number of heads and rows.
Tensor AttentionBlocks::shift_view(const Tensor& t, const Block& b) const {
  const Sequence& s = *b.sequence;
  const int64_t from = b.head * group(), count = b.heads * group();
  if (has_slopes()) return (t.dim() == 2 ? of_batch(t, s.batch) : t).narrow(0, from, count).view({count, 1, 1});
  const Tensor matrix = t.dim() == 4 ? of_batch(t, s.batch) : t.dim() == 2 ? t.unsqueeze(0) : t;
  const Tensor rows = matrix.size(1) == 1 ? matrix : matrix.narrow(1, b.row, b.rows);
  return part(rows, 0, from, count).narrow(2, b.key, b.keys);
}

// [rows, keys], or its root.
Tensor AttentionBlocks::distance(const Block& b) const {
  const auto start = [](at::IntArrayRef starts) { return starts.empty() ? 0 : starts[0]; };
  const Tensor i = at::arange(b.row, b.row + b.rows, at::kLong).add_(start(o_.q_start)).unsqueeze(1);
  const Tensor j = at::arange(b.key, b.key + b.keys, at::kLong).add_(start(o_.kv_start)).unsqueeze(0);
  const Tensor out = (j - i).abs().to(type_);
  return o_.shift_kind == 3 ? out.sqrt() : out;
}

void AttentionBlocks::add_shift_gradient(Tensor& out, const Tensor& gradient, const Block& b) const {
  Tensor place = shift_view(out, b), values = gradient;
  if (has_slopes()) {
    values = values.mul(distance(b)).neg_().sum({1, 2}, true);
  } else {
    if (place.size(0) == 1 && values.size(0) > 1) values = values.sum(0, true);
    if (place.size(1) == 1 && values.size(1) > 1) values = values.sum(1, true);
    if (o_.shift_kind == 1) values = values.mul(o_.scale);
  }
  place.add_(values);
}

Tensor AttentionBlocks::sinks(const Block& b) const {
  if (!given(o_.sink)) return {};
  return o_.sink->narrow(0, b.head * group(), b.heads * group()).to(type_).contiguous().view({b.heads * group(), 1, 1});
}

KeptRows::KeptRows(const AttentionBlocks& call, const Block& b)
    : block_(b), group_(call.group()), heads_(call.options().heads) {
  const AttentionOptions& o = call.options();
  if (!given(o.drop) || o.keep >= 1) return;
  flags_ = o.drop->contiguous();
  table_ = at::empty({DropMask::kTable}, call.type());
  values_ = at::empty({b.keys}, call.type());
  const Sequence& s = *b.sequence;
  stays_.emplace(flags_, s.drop_from + heads_ * s.queries() * s.keys());
  const auto fill = [&]<class T>(T* table) { DropMask::fill_table(static_cast<T>(1 / o.keep), table); };
  call.type() == at::kDouble ? fill(table_.mutable_data_ptr<double>()) : fill(table_.mutable_data_ptr<float>());
}

template <class T>
const T* KeptRows::row(int64_t at, const T*) const {
  if (!stays_) return nullptr;
  const Sequence& s = *block_.sequence;
  const int64_t n = s.queries(), m = s.keys();
  const int64_t head = block_.head * group_ + at / block_.rows, row = block_.row + at % block_.rows;
  T* to = values_.mutable_data_ptr<T>();
  stays_->scale(s.drop_from + (head * n + row) * m + block_.key, block_.keys, table_.const_data_ptr<T>(), to);
  return to;
}
template const float* KeptRows::row(int64_t, const float*) const;
template const double* KeptRows::row(int64_t, const double*) const;

}  // namespace softnpu::ops::kernels

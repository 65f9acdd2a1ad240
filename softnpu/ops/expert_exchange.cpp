// See expert_exchange.h. Long because both ways share where a row lies.
#include "softnpu/ops/expert_exchange.h"

#include <ATen/ops/zeros.h>

#include <algorithm>

#include "softnpu/ops/kernels.h"
#include "softnpu/ops/mx_blocks.h"
#include "softnpu/ops/rounded.h"

namespace softnpu::ops::kernels {
namespace {

constexpr int64_t kRecord = 128;                                                    // numbers of a row
constexpr int64_t kMostExperts = int64_t{1} << 20, kMostTokens = int64_t{1} << 40;  // so no product overflows

// Which expert each choice of a token is, -1 where it takes no part; [tokens, choices] of int32.
at::Tensor chosen(const Layout& l) {
  const at::Tensor numbers = l.ids.to(at::kInt).contiguous();
  if (!given(l.mask)) return numbers;
  const at::Tensor active = l.mask->to(at::kBool);
  return numbers.masked_fill((active.dim() == 1 ? active.unsqueeze(1) : active).logical_not(), -1);
}

// Whether a token takes part at all.
bool active(const int32_t* numbers, int64_t choices) {
  return std::any_of(numbers, numbers + choices, [](int32_t n) { return n >= 0; });
}

// Data that does not fit is an error of its own rank, behind the exchange: the others, which took part in it, have no part in this.
void need_numbers(const Layout& l, const at::Tensor& numbers) {
  if (!numbers.numel()) return;
  const auto least = numbers.min().item<int64_t>(), most = numbers.max().item<int64_t>();
  TORCH_CHECK(least >= -1 && most < l.numbers(), "expertIds has the number ", least < -1 ? least : most, " of ",
              l.numbers(), " experts");
}

// For each of `rank`'s rows on the rank `at`: the token, the choice (-1 of a shared expert) and the expert there. In the order of its experts.
struct Row {
  int64_t token, choice, expert;
};
std::vector<Row> rows_between(const Layout& l, const int32_t* numbers, int64_t tokens, int64_t rank, int64_t at) {
  const int64_t choices = l.choices();
  std::vector<Row> rows;
  if (at < l.shared_ranks) {
    if (rank % l.copies() != at % l.copies()) return rows;  // another copy's
    for (int64_t t = 0; t < tokens; t++)
      if (active(numbers + t * choices, choices)) rows.push_back({t, -1, 0});
    return rows;
  }
  const int64_t count = l.on_rank(at), first = (at - l.shared_ranks) * count;
  for (int64_t e = 0; e < count; e++)
    for (int64_t t = 0; t < tokens; t++)
      for (int64_t k = 0; k < choices; k++)
        if (numbers[t * choices + k] == first + e) rows.push_back({t, k, e});
  return rows;
}

void need_shape(const char* name, const at::Tensor& t, at::IntArrayRef sizes) {
  TORCH_CHECK(t.sizes() == sizes, name, " has sizes ", t.sizes(), ", not ", sizes);
}

}  // namespace

int64_t Layout::weighted() const { return given(weights) ? most() : 0; }

int64_t Layout::window() const {
  const int64_t on_each = experts / (ranks - shared_ranks);
  return most() * std::max<int64_t>(1, std::min(on_each, choices()));
}

void need_layout(const Layout& l, const Reserved& reserved, const Peers& peers) {
  TORCH_CHECK(l.ranks == peers.ranks() && l.rank == peers.rank(), "rank ", l.rank, " of ", l.ranks,
              " is given (epRankId, epWorldSize), and the group has ", peers.ranks(), " ranks, of which this is ",
              peers.rank());
  TORCH_CHECK(l.shared_ranks >= 0 && l.shared_ranks < l.ranks, "sharedExpertRankNum is ", l.shared_ranks, " of ",
              l.ranks, " ranks");
  TORCH_CHECK(!l.shared_ranks || (l.shared > 0 && l.shared_ranks % l.shared == 0), "sharedExpertRankNum ",
              l.shared_ranks, " is no multiple of sharedExpertNum ", l.shared);
  for (const int64_t number : {l.experts, l.zero, l.copy, l.constant})
    TORCH_CHECK(number >= 0 && number <= kMostExperts, "a number of experts is ", number, ", not 0 to ", kMostExperts);
  TORCH_CHECK(l.experts > 0 && l.experts % (l.ranks - l.shared_ranks) == 0, "moeExpertNum ", l.experts,
              " is no multiple of ", l.ranks - l.shared_ranks, " ranks");
  TORCH_CHECK(l.ids.dim() == 2 && l.choices() > 0, "expertIds has sizes ", l.ids.sizes(), ", not [tokens, choices]");
  TORCH_CHECK(l.all_tokens >= 0 && l.all_tokens <= kMostTokens && l.all_tokens % l.ranks == 0 && l.most() >= l.tokens(),
              "globalBs is ", l.all_tokens, " for ", l.tokens(), " tokens on one of ", l.ranks, " ranks");
  TORCH_CHECK(!given(l.mask) || l.mask->sizes() == l.ids.sizes() || l.mask->sizes() == at::IntArrayRef{l.tokens()},
              "xActiveMask has sizes ", given(l.mask) ? l.mask->sizes() : at::IntArrayRef(), " for expertIds of sizes ",
              l.ids.sizes());
  if (given(l.weights)) need_shape("expertScales", *l.weights, l.ids.sizes());
  TORCH_CHECK(reserved.tp_ranks == 0 || reserved.tp_ranks == 1, "tpWorldSize is ", reserved.tp_ranks,
              "; 0 and 1, no tensor parallelism, are implemented");
  TORCH_CHECK(reserved.shard == 0, "expertShardType is ", reserved.shard, "; 0 is the only value");
  TORCH_CHECK(reserved.coding == 0, "commQuantMode is ", reserved.coding, "; 0 is the only value that is implemented");
  constexpr std::string_view kAlgorithms[] = {"", "fullmesh", "hierarchy", "fullmesh_v1", "fullmesh_v2"};
  TORCH_CHECK(std::find(std::begin(kAlgorithms), std::end(kAlgorithms), reserved.algorithm) != std::end(kAlgorithms),
              "commAlg is '", std::string(reserved.algorithm),
              "', not 'fullmesh', 'hierarchy', 'fullmesh_v1' or 'fullmesh_v2'");
  const std::pair<const char*, const Maybe&> absent[] = {{"elasticInfo", reserved.elastic},
                                                         {"performanceInfo", reserved.performance},
                                                         {"activationScale", reserved.activation},
                                                         {"weightScale", reserved.weight},
                                                         {"groupList", reserved.groups}};
  for (const auto& [name, tensor] : absent) TORCH_CHECK(!given(tensor), name, " is given, which is not implemented");
}

// -- dispatch

namespace {

// Whether tokens are quantized already.
bool small(const at::Tensor& x) { return mx::is_small(x.scalar_type()) || is_hifloat8(x); }

// Such tokens go with their scales.
bool scaled_tokens(const Dispatch& d) { return d.mode == 0 && small(d.x); }

// The type of rows that quantMode does not choose: hifloat8 is one of 16-bit tokens without a scale, too.
bool rows_of(const Dispatch& d) {
  const at::ScalarType x = d.x.scalar_type(), rows = d.rows.scalar_type();
  if (d.mode == 0) return rows == x || (is_hifloat8(d.rows) && (x == at::kHalf || x == at::kBFloat16));
  if (d.mode == 1) return rows == at::kChar || is_hifloat8(d.rows);
  return rows == at::kChar || rows == at::kFloat8_e4m3fn || rows == at::kFloat8_e5m2;
}

// quantMode 1: one factor for all, or of int8 one for each column, of all experts or of each.
void need_factors(const Dispatch& d, int64_t experts) {
  TORCH_CHECK(given(d.smooth) && d.smooth->scalar_type() == at::kFloat, "float32 scales are needed with quantMode 1");
  const at::IntArrayRef sizes = d.smooth->sizes();
  const int64_t columns = d.x.size(1);
  const bool each = sizes == at::IntArrayRef{columns} || sizes == at::IntArrayRef({experts, columns});
  TORCH_CHECK(sizes == at::IntArrayRef{1} || (each && !is_hifloat8(d.rows)), "scales have sizes ", sizes, " for ",
              experts, " experts and ", columns, " columns of ", d.rows.scalar_type());
}

// What a row of an expert is multiplied with: a number, or one for each column.
at::Tensor factors_of(const Dispatch& d, int64_t expert) {
  return d.smooth->dim() == 2 ? (*d.smooth)[expert] : *d.smooth;
}

// What each token's scales take.
int64_t scale_bytes(const Dispatch& d) { return d.smooth->size(1) * static_cast<int64_t>(d.smooth->element_size()); }

void need_token_scales(const Layout& l, const Dispatch& d, int64_t rows) {
  TORCH_CHECK(passed(d.smooth), "scales are needed with x of ", d.x.scalar_type());
  const at::Tensor& s = *d.smooth;
  const bool powers = s.scalar_type() == at::kFloat8_e8m0fnu;
  TORCH_CHECK(powers ? !is_hifloat8(d.x) : !mx::packed(d.x), "scales of ", s.scalar_type(), " do not go with x of ",
              powers ? "hifloat8" : "4-bit elements");
  TORCH_CHECK(s.dim() == 2 && s.size(0) == l.tokens() && s.size(1) <= mx::sizes_of(d.x)[1], "scales have sizes ",
              s.sizes(), " for tokens of ", at::IntArrayRef(mx::sizes_of(d.x)));
  need_last_pairs("x", d.x);
  need_last_pairs("expandX", d.rows);
  TORCH_CHECK(d.scales.defined() && d.scales.scalar_type() == s.scalar_type(), "dynamicScales is not of ",
              s.scalar_type(), ", as scales are");
  TORCH_CHECK(d.scales.is_contiguous() && d.scales.numel() >= rows * s.size(1), "dynamicScales has sizes ",
              d.scales.sizes(), ", not the contiguous ", rows, " x ", s.size(1));
}

}  // namespace

void need_dispatch(const Layout& l, const Dispatch& d) {
  const at::Tensor& x = d.x;
  TORCH_CHECK(x.dim() == 2 && x.size(0) == l.tokens(), "x has sizes ", x.sizes(), " for expertIds of sizes ",
              l.ids.sizes());
  TORCH_CHECK(d.mode >= 0 && d.mode <= 2, "quantMode is ", d.mode,
              "; 0 (none), 1 (scales that are given) and 2 (a scale a token) are implemented");
  TORCH_CHECK(d.mode != 1 || !d.places.defined(), "quantMode 1 is of later versions; 0 and 2 are this one's");
  const bool moved = scaled_tokens(d);
  TORCH_CHECK(d.mode || moved || !given(d.smooth), "scales are given, and quantMode is 0");
  TORCH_CHECK(d.mode == 0 || !small(x), "x of ", x.scalar_type(), " is quantized already; quantMode is ", d.mode);
  const at::ScalarType type = d.mode ? at::kChar : x.scalar_type();
  TORCH_CHECK(rows_of(d), "expandX is ", d.rows.scalar_type(), ", not ", type);
  const bool numbers = !given(d.smooth) || moved || d.smooth->scalar_type() == at::kFloat;
  TORCH_CHECK(numbers, "scales of ", given(d.smooth) ? d.smooth->scalar_type() : type,
              " go with tokens of 8 or 4 bits");
  TORCH_CHECK(d.mode != 2 || d.scales.scalar_type() == at::kFloat, "dynamicScales is not float32");
  const int64_t experts = l.experts + (l.shared_ranks ? l.shared : 0);
  if (d.mode == 1) need_factors(d, experts);
  if (d.mode == 2 && given(d.smooth)) need_shape("scales", *d.smooth, {experts, x.size(1)});
  TORCH_CHECK(d.count_kind == 0 || d.count_kind == 1, "expertTokenNumsType is ", d.count_kind, ", not 0 or 1");
  const bool common = l.rank < l.shared_ranks;  // and gets the tokens of every rank that has this copy
  const int64_t least =
      common ? l.most() * ((l.ranks - 1 - l.rank % l.copies()) / l.copies() + 1) : l.ranks * l.window();
  TORCH_CHECK(d.rows.dim() == 2 && d.rows.size(0) >= least && d.rows.size(1) == x.size(1), "expandX has sizes ",
              d.rows.sizes(), ", not [", least, ", ", x.size(1), "] or more rows");
  const auto need = [](const char* name, const at::Tensor& t, int64_t elements) {
    const int64_t has = t.defined() ? t.numel() : 0;
    TORCH_CHECK(has >= elements && (!elements || t.is_contiguous()), name, " has ", has,
                " elements, not the contiguous ", elements);
  };
  if (d.mode == 2) need("dynamicScales", d.scales, least);
  if (moved) need_token_scales(l, d, least);
  need("expertTokenNums", d.counts, l.local());
  need("epRecvCounts", d.ends, l.local() * l.ranks);
  if (d.records.defined()) need("assistInfoForCombine", d.records, d.rows.size(0) * kRecord);
  if (d.places.defined()) need("expandIdx", d.places, l.ids.numel());
  if (given(l.weights)) need("expandScales", d.weights, d.rows.size(0));
}

void pack_tokens(const Layout& l, const at::Tensor& x, at::Tensor tokens, at::Tensor numbers, at::Tensor factors) {
  const int64_t n = x.size(0);
  tokens.narrow(0, 0, n).copy_(moved_bits(x));
  tokens.narrow(0, n, tokens.size(0) - n).zero_();
  numbers.fill_(-1);
  numbers.narrow(0, 0, n).copy_(chosen(l));
  if (!given(l.weights)) return;
  factors.narrow(0, 0, n).copy_(*l.weights);
  factors.narrow(0, n, factors.size(0) - n).zero_();
}

std::vector<int64_t> token_scales(const Layout& l, const Dispatch& d, int64_t ranks) {
  if (!scaled_tokens(d)) return {0, 0};
  return {ranks * l.most(), scale_bytes(d)};
}

void pack_token_scales(const Dispatch& d, at::Tensor room) {
  if (!scaled_tokens(d)) return;
  room.zero_();
  room.narrow(0, 0, d.x.size(0)).copy_(d.smooth->contiguous().view(at::kByte));
}

void gather_token_scales(const Peers& peers, const at::Tensor& from, const at::Tensor& to) {
  if (from.numel()) peers.all_gather(from, to);
}

void gather_weights(const Peers& peers, const at::Tensor& from, const at::Tensor& to) {
  if (from.numel()) peers.all_gather(from, to);
}

void dispatch(const Layout& l, const Dispatch& d, const at::Tensor& tokens, const at::Tensor& numbers,
              const at::Tensor& factors, const at::Tensor& scales) {
  const int64_t most = l.most(), choices = l.choices(), experts = l.local();
  std::vector<std::vector<Row>> from;  // of each rank
  for (int64_t r = 0; r < l.ranks; r++)
    from.push_back(rows_between(l, numbers.const_data_ptr<int32_t>() + r * most * choices, most, r, l.rank));
  const bool weighted = factors.numel() > 0, records = d.records.defined();
  const int64_t first = l.rank < l.shared_ranks ? l.rank / l.copies()
                                                : (l.shared_ranks ? l.shared : 0) + (l.rank - l.shared_ranks) * experts;
  for (const at::Tensor& t : {d.records, d.scales, d.weights, d.ends, d.tp_ends})
    if (t.defined()) bits(t).zero_();
  const bool moved = scaled_tokens(d);
  const at::Tensor rows = moved_bits(d.rows), kept = moved ? d.scales.view(at::kByte).flatten() : at::Tensor();
  std::vector<int64_t> counts, ends;
  int64_t row = 0;
  for (int64_t e = 0; e < experts; e++) {
    const int64_t begin = row;
    for (int64_t r = 0; r < l.ranks; r++) {
      for (const Row& at : from[static_cast<size_t>(r)]) {
        if (at.expert != e) continue;
        const at::Tensor token = tokens[r * most + at.token];
        at::Tensor place = d.rows.narrow(0, row, 1);
        if (d.mode == 1) {
          put_rounded(place, (token.to(at::kFloat) * factors_of(d, first + e)).unsqueeze(0));
        } else if (d.mode == 0 && !moved && is_hifloat8(d.rows)) {
          put(place, token.unsqueeze(0));
        } else if (d.mode) {
          at::Tensor value = token.to(at::kFloat);
          if (given(d.smooth)) value = value * factors_of(d, first + e);
          d.scales.view(-1).narrow(0, row, 1).copy_(put_dynamic_rows(place, value.unsqueeze(0)).flatten());
        } else {
          rows[row].copy_(token);
          if (moved) {
            const at::Tensor scale = scales[r * most + at.token];
            kept.narrow(0, row * scale.size(0), scale.size(0)).copy_(scale);
          }
        }
        if (weighted && at.choice >= 0) d.weights.view(-1)[row].copy_(factors[r * most + at.token][at.choice]);
        if (records) {
          int32_t* const record = d.records.mutable_data_ptr<int32_t>() + row * kRecord;
          record[0] = static_cast<int32_t>(r), record[1] = static_cast<int32_t>(at.token);
          record[2] = static_cast<int32_t>(at.choice < 0 ? choices + first : at.choice);
        }
        row++;
      }
      ends.push_back(row);
    }
    counts.push_back(d.count_kind == 0 ? row : row - begin);
  }
  for (size_t i = 0; i < counts.size(); i++) d.counts.view(-1)[static_cast<int64_t>(i)].fill_(counts[i]);
  for (size_t i = 0; i < ends.size(); i++) d.ends.view(-1)[static_cast<int64_t>(i)].fill_(ends[i]);
  const at::Tensor mine = chosen(l);
  need_numbers(l, mine);
  if (!d.places.defined()) return;
  // How many of this rank's choices before it were of the same expert.
  const int32_t* const wanted = mine.const_data_ptr<int32_t>();
  std::vector<int64_t> seen(static_cast<size_t>(l.experts));
  for (int64_t i = 0; i < mine.numel(); i++) {
    const bool known = wanted[i] >= 0 && wanted[i] < l.experts;
    d.places.view(-1)[i].fill_(known ? seen[static_cast<size_t>(wanted[i])]++ : 0);
  }
}

// -- combine

void need_combine(const Layout& l, const Results& results, at::IntArrayRef out) {
  const at::Tensor &rows = results.rows, &ends = results.ends;
  TORCH_CHECK(rows.dim() == 2, "expandX has sizes ", rows.sizes(), ", not [rows, columns]");
  const int64_t n = l.tokens(), h = rows.size(1);
  TORCH_CHECK(ends.numel() >= l.local() * l.ranks, "epSendCounts has ", ends.numel(), " elements for ", l.local(),
              " experts and ", l.ranks, " ranks");
  need_shape("expertScales", *l.weights, l.ids.sizes());
  const Maybe& shared = results.shared;
  TORCH_CHECK(!given(shared) || (shared->numel() == n * h && shared->size(-1) == h), "sharedExpertX has sizes ",
              given(shared) ? shared->sizes() : at::IntArrayRef(), " for ", n, " tokens of ", h, " columns");
  TORCH_CHECK((!l.copy && !l.constant) || passed(results.x), "oriX is needed for experts that copy or are constant");
  if (given(results.x)) need_shape("oriX", *results.x, {n, h});
  for (const Maybe* t : {&results.alpha1, &results.alpha2, &results.v}) {
    TORCH_CHECK(!l.constant || given(*t), "constExpertAlpha1, constExpertAlpha2 and constExpertV are needed for ",
                l.constant, " constant experts");
    if (l.constant) need_shape("constExpertAlpha1, constExpertAlpha2 or constExpertV", **t, {l.constant, h});
  }
  TORCH_CHECK(!out.empty() && c10::multiply_integers(out) == n * h && out.back() == h, "the result has sizes ", out,
              " for ", n, " tokens of ", h, " columns");
}

namespace {

// Of `ends`, which say where the rows of each of this rank's experts and each rank end: body(rank, place in its window, row, rows).
// Says whether they are within the rows and the windows.
template <class Body>
bool each_part(const Layout& l, const Results& results, const Body& body) {
  const at::Tensor list = results.ends.flatten().to(at::kLong).contiguous();
  const int64_t* const end = list.const_data_ptr<int64_t>();
  std::vector<int64_t> used(static_cast<size_t>(l.ranks));
  int64_t from = 0;
  for (int64_t i = 0; i < l.local() * l.ranks; i++) {
    int64_t& at = used[static_cast<size_t>(i % l.ranks)];
    if (end[i] < from || end[i] > results.rows.size(0)) return false;
    const int64_t n = end[i] - from;
    if (at + n > l.window()) return false;
    if (n) body(i % l.ranks, at, from, n);
    at += n;
    from = end[i];
  }
  return true;
}

}  // namespace

void pack_results(const Layout& l, const Results& results, at::Tensor windows) {
  windows.zero_();
  each_part(l, results, [&](int64_t rank, int64_t at, int64_t from, int64_t n) {
    windows[rank].narrow(0, at, n).copy_(results.rows.narrow(0, from, n));
  });
}

namespace {

// The sum in fp32, [tokens, columns].
at::Tensor combined(const Layout& l, const Results& results, const at::Tensor& windows) {
  const int64_t n = l.tokens(), choices = l.choices(), h = windows.size(2);
  const at::Tensor mine = chosen(l), factors = l.weights->to(at::kFloat);
  need_numbers(l, mine);
  TORCH_CHECK(each_part(l, results, [](int64_t, int64_t, int64_t, int64_t) {}),
              "epSendCounts is not of a dispatch with "
              "these sizes: it descends, or ends beyond the ",
              results.rows.size(0), " rows of expandX, or beyond ", l.window(), " rows of one rank");
  const int32_t* const wanted = mine.const_data_ptr<int32_t>();
  at::Tensor sum = at::zeros({n, h}, windows.options().dtype(at::kFloat));
  for (int64_t r = 0; r < l.ranks; r++) {
    int64_t at = 0;
    for (const Row& row : rows_between(l, wanted, n, l.rank, r)) {
      at::Tensor value = windows[r][at++].to(at::kFloat);
      if (row.choice >= 0) value = value * factors[row.token][row.choice];
      sum[row.token].add_(value);
    }
  }
  const int64_t copies = l.experts + l.zero, constants = copies + l.copy;
  for (int64_t i = 0; i < mine.numel(); i++) {
    const int64_t token = i / choices, number = wanted[i];
    if (number < copies) continue;
    at::Tensor value = (*results.x)[token].to(at::kFloat);
    if (number >= constants) {
      const int64_t c = number - constants;
      value = (*results.alpha1)[c].to(at::kFloat) * value +
              (*results.alpha2)[c].to(at::kFloat) * (*results.v)[c].to(at::kFloat);
    }
    sum[token].add_(value * factors[token][i % choices]);
  }
  if (given(results.shared)) sum.add_(results.shared->reshape({n, h}).to(at::kFloat));
  return sum;
}

}  // namespace

void combine(const Layout& l, const Results& results, const at::Tensor& windows, at::Tensor out) {
  put(out, combined(l, results, windows).view(out.sizes()));
}

void need_norm(const Layout& l, const Results& results, const Normalized& n) {
  const int64_t tokens = l.tokens(), h = results.rows.size(1);
  TORCH_CHECK(n.residual.numel() == tokens * h && n.residual.size(-1) == h, "residualX has sizes ", n.residual.sizes(),
              " for ", tokens, " tokens of ", h, " columns");
  need_shape("gamma", n.gamma, {h});
  TORCH_CHECK(n.y.numel() == tokens * h && n.x.numel() == tokens * h && n.rstd.numel() == tokens, "results of sizes ",
              n.y.sizes(), ", ", n.rstd.sizes(), " and ", n.x.sizes(), " for ", tokens, " tokens of ", h, " columns");
}

void combine_norm(const Layout& l, const Results& results, const at::Tensor& windows, const Normalized& n) {
  at::Tensor sum = combined(l, results, windows), y = n.y, rstd = n.rstd, x = n.x;
  sum.add_(n.residual.reshape(sum.sizes()).to(at::kFloat));
  const at::Tensor inverse = sum.square().mean(-1, true).add_(n.eps).rsqrt_();
  put(rstd, inverse.view(rstd.sizes()));
  put(x, sum.view(x.sizes()));
  put(y, (sum * inverse * n.gamma.to(at::kFloat)).view(y.sizes()));
}

}  // namespace softnpu::ops::kernels

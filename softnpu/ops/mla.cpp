// Queries and latent rows. See mla.h; where rows go is mla_cache.cpp.
#include "softnpu/ops/mla.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/where.h>

#include "softnpu/ops/kernels.h"
#include "softnpu/ops/mx_blocks.h"
#include "softnpu/ops/rounded.h"
#include "softnpu/ops/shapes.h"

namespace softnpu::ops::kernels {
namespace {

constexpr int64_t kBlock = 32;  // numbers that share an exponent

bool quantized(int64_t weights) { return weights > 1; }

// The modes that older functions have no parameters for.
MlaForm form_of(const MlaRows& r, const MlaWeights& w, const MlaScales& s, MlaForm f) {
  if (f.weights == kByTypes) {
    f.weights = r.x.scalar_type() == at::kChar ? 2 : w.uq_qr.scalar_type() == at::kChar ? 1 : 0;
  }
  if (f.cache == kByTypes) f.cache = !given(s.ckv) ? 0 : f.weights == 2 ? 1 : 2;
  if (f.query_mode == kByTypes) f.query_mode = f.cache == 1;
  return f;
}

// Blocks of the last dimension times their powers of two.
Tensor scaled_blocks(const Tensor& x, const Tensor& scale) {
  const Tensor blocks = x.to(at::kFloat).unflatten(-1, {-1, kBlock});
  return (blocks * scale.to(at::kFloat).unsqueeze(-1)).flatten(-2);
}

// The product in float32 of operands that are quantized as `weights` says.
Tensor product(const Tensor& x, const OptionalTensor& x_scale, const Tensor& w, const OptionalTensor& w_scale,
               int64_t weights) {
  if (weights == 0) return at::matmul(wide(x), wide(w));
  if (weights == 3) return at::matmul(scaled_blocks(x, *x_scale), scaled_blocks(w.t(), *w_scale).t());
  // Sums of int8 are exact in float64.
  const auto values = [](const Tensor& t) { return t.scalar_type() == at::kChar ? t.to(at::kDouble) : mx::floats(t); };
  return at::matmul(values(x), values(w)).to(at::kFloat) * *x_scale * *w_scale;
}

Tensor normed(const Tensor& x, const Tensor& gamma, double eps) {
  return x / (x * x).mean(-1, /*keepdim=*/true).add(eps).sqrt() * wide(gamma);
}

// Pairs are neighbours, and the result has them as halves.
Tensor turned(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  const Tensor a = x.slice(-1, 0, std::nullopt, 2), b = x.slice(-1, 1, std::nullopt, 2);
  return at::cat({a, b}, -1) * cos + at::cat({-b, a}, -1) * sin;
}

// What lies between two products has the type of the rows. float16 would overflow there: the page, which has no rows of it, asks for
// none of that.
Tensor between(const Tensor& x, at::ScalarType plain) { return plain == at::kHalf ? x : wide(x.to(plain)); }

Tensor rows_of(const Tensor& t) { return t.dim() == 3 ? t.flatten(0, 1) : t; }

// c^Q in the form that the second product takes.
struct Latent {
  Tensor value;
  OptionalTensor scale;
};
Latent latent_query(const Tensor& c, const MlaWeights& w, const MlaScales& s, at::ScalarType plain, int64_t weights) {
  if (weights == 0) return {c.to(plain), std::nullopt};
  if (weights == 3) {
    const int64_t blocks = c.size(1) / kBlock;
    Tensor value = at::empty(c.sizes(), c.options().dtype(at::kFloat8_e4m3fn));
    Tensor pairs = at::empty({c.size(0), (blocks + 1) / 2, 2}, c.options().dtype(at::kFloat8_e8m0fnu));
    mx_quant(c.to(plain), -1, MxForm{.round = "rint"}, value, pairs);
    return {value, pairs.flatten(-2).narrow(-1, 0, blocks).contiguous()};
  }
  const auto [value, scale] = by_row(given(s.smooth) ? c * *s.smooth : c, w.uq_qr.scalar_type());
  return {value, scale};
}

void need_given(const char* name, const OptionalTensor& t, bool wanted, IntArrayRef sizes) {
  TORCH_CHECK(given(t) == wanted, name, wanted ? " is needed" : " has no meaning", " with these modes");
  if (wanted) TORCH_CHECK(t->numel() == c10::multiply_integers(sizes), name, " is ", t->sizes(), ", not ", sizes);
}

void check_types(const MlaRows& r, const MlaWeights& w, const MlaForm& f) {
  const auto plain = r.cos.scalar_type();
  const at::ScalarType small = f.weights == 1 || f.weights == 2 ? at::kChar
                               : f.weights == 5                 ? kHifloat8
                                                                : at::kFloat8_e4m3fn;
  const auto need = [&](const char* name, const Tensor& t, bool narrow) {
    const auto type = narrow ? small : plain;
    TORCH_CHECK(t.scalar_type() == type, name, " is ", t.scalar_type(), ", not ", type,
                " as the modes and ropeCos say");
  };
  need("tokenX", r.x, quantized(f.weights));
  need("weightDq", w.dq, quantized(f.weights));
  need("weightDkvKr", w.dkv_kr, quantized(f.weights));
  need("weightUqQr", w.uq_qr, f.weights > 0);
  need("weightUk", w.uk, false);
  need("ropeSin", r.sin, false);
}

void check_form(const MlaForm& f) {
  need_number("weightQuantMode", f.weights, {0, 1, 2, 3, 4, 5});
  need_number("kvCacheQuantMode", f.cache, {0, 1, 2, 3});
  const bool fits = f.cache == 0 || (f.weights == 1 && f.cache > 1) || (quantized(f.weights) && f.cache != 2);
  TORCH_CHECK(fits, "kvCacheQuantMode ", f.cache, " does not go with weightQuantMode ", f.weights);
  TORCH_CHECK(f.query_mode == (f.cache == 1), "queryQuantMode is ", f.query_mode, ", and kvCacheQuantMode ", f.cache);
  TORCH_CHECK(f.merged == (f.cache == 3) && f.scales_merged == (f.cache == 3),
              "ckvkrRepoMode and quantScaleRepoMode are 1 where kvCacheQuantMode is 3 and 0 elsewhere");
}

void check_scales(const MlaRows& r, const MlaWeights& w, const MlaScales& s, const MlaForm& f) {
  const bool all = quantized(f.weights), blocks = f.weights == 3;
  const int64_t tokens = r.x.numel() / std::max<int64_t>(r.x.size(-1), 1);
  const auto by_column = [&](const Tensor& of) {
    return blocks ? std::vector<int64_t>{of.size(1), of.size(0) / kBlock} : std::vector<int64_t>{1, of.size(1)};
  };
  need_given("dequantScaleX", s.x, all && tokens > 0, {tokens, blocks ? r.x.size(-1) / kBlock : 1});
  need_given("dequantScaleWDq", s.dq, all, by_column(w.dq));
  need_given("dequantScaleWDkvKr", s.dkv_kr, all, by_column(w.dkv_kr));
  need_given("dequantScaleWUqQr", s.uq_qr, f.weights > 0, by_column(w.uq_qr));
  if (given(s.smooth)) need_given("smoothScalesCq", s.smooth, f.weights != 0 && !blocks, {1, w.dq.size(1)});
  const bool scaled = f.cache == 1 || f.cache == 2;
  TORCH_CHECK(given(s.ckv) == scaled, "quantScaleCkv is given where kvCacheQuantMode is 1 or 2, which is ", f.cache);
  TORCH_CHECK(f.cache != 2 || s.ckv->numel() == w.uk.size(2), "quantScaleCkv is ", s.ckv->sizes(),
              ", not one of each of ", w.uk.size(2), " columns");
  need_given("quantScaleCkr", s.ckr, f.cache == 2, {1, r.cos.size(-1)});
}

std::vector<int64_t> with_last(const Tensor& x, std::initializer_list<int64_t> last) {
  std::vector<int64_t> sizes(x.sizes().begin(), x.sizes().end() - 1);
  sizes.insert(sizes.end(), last);
  return sizes;
}

}  // namespace

Tensor as_small(const Tensor& x, at::ScalarType type) {
  Tensor kept = at::empty(x.sizes(), x.options().dtype(type));
  put_rounded(kept, x);
  return kept;
}

SmallRows by_row(const Tensor& x, at::ScalarType type) {
  Tensor value = at::empty(x.sizes(), x.options().dtype(type));
  const Tensor scale = put_dynamic_rows(value, x);
  return {value, scale};
}

void check_mla(const MlaRows& r, const MlaWeights& w, const MlaCaches& caches, const MlaScales& s, const MlaForm& said,
               const MlaResults& out) {
  const MlaForm f = form_of(r, w, s, said);
  check_form(f);
  need_absent("kNopeClipAlpha", r.clip);
  need_dims("tokenX", r.x, {2, 3});
  need_dims("weightUk", w.uk, {3});
  need_dims("weightDq", w.dq, {2});
  need_dims("ropeCos", r.cos, {r.x.dim()});
  const int64_t heads = w.uk.size(0), columns = w.uk.size(1), latent = w.uk.size(2), turns = r.cos.size(-1);
  const int64_t low = w.dq.size(1);
  need_sizes("ropeCos", r.cos, with_last(r.x, {turns}));
  need_sizes("ropeSin", r.sin, with_last(r.x, {turns}));
  TORCH_CHECK(turns % 2 == 0, "ropeCos must have an even number of columns, got ", turns);
  need_sizes("weightDq", w.dq, {r.x.size(-1), low});
  need_sizes("weightUqQr", w.uq_qr, {low, heads * (columns + turns)});
  need_sizes("weightDkvKr", w.dkv_kr, {r.x.size(-1), latent + turns});
  need_sizes("rmsnormGammaCq", w.gamma_cq, {low});
  need_sizes("rmsnormGammaCkv", w.gamma_ckv, {latent});
  check_types(r, w, f);
  check_scales(r, w, s, f);
  check_mla_caches(r, w, caches, f);
  need_sizes("query", out.query, with_last(r.x, {heads, latent}));
  need_sizes("queryRope", out.rope, with_last(r.x, {heads, turns}));
  if (f.query_mode && out.scale.defined()) {
    TORCH_CHECK(out.scale.numel() == out.query.numel() / std::max<int64_t>(latent, 1), "dequantScaleQNope is ",
                out.scale.sizes(), ", not one of each head of each token");
  }
  if (out.norm) need_result("queryNorm", *out.norm, with_last(r.x, {low}));
}

void mla_prolog(const MlaRows& r, const MlaWeights& w, const MlaCaches& caches, const MlaScales& s, const MlaForm& said,
                const MlaResults& out) {
  const MlaForm f = form_of(r, w, s, said);
  const at::ScalarType plain = r.cos.scalar_type();
  const Tensor x = rows_of(r.x), cos = wide(rows_of(r.cos)), sin = wide(rows_of(r.sin));
  if (x.size(0) == 0) return;
  const int64_t first = quantized(f.weights) ? f.weights : 0;
  const int64_t heads = w.uk.size(0), columns = w.uk.size(1), latent = w.uk.size(2), turns = cos.size(1);

  Tensor c = product(x, s.x, w.dq, s.dq, first);
  if (!first) c = between(c, plain);
  c = normed(c, w.gamma_cq, f.eps_cq) * f.query;
  const Latent q = latent_query(c, w, s, plain, f.weights);
  Tensor up = product(q.value, q.scale, w.uq_qr, s.uq_qr, f.weights).view({x.size(0), heads, columns + turns});
  if (f.weights == 0) up = between(up, plain);
  const Tensor plain_part = between(up.narrow(-1, 0, columns), plain).transpose(0, 1);
  Tensor query = at::matmul(plain_part, wide(w.uk)).transpose(0, 1).to(plain).contiguous();
  Tensor rope = turned(up.narrow(-1, columns, turns), cos.unsqueeze(1), sin.unsqueeze(1)).to(plain);
  if (f.query_mode) {
    const auto found = by_row(wide(query), r.x.scalar_type());
    query = found.value;
    rope = (wide(rope) * s.ckv->flatten().narrow(0, 0, 1) / found.scale).to(plain);
    if (out.scale.defined()) out.scale.copy_(found.scale.view(out.scale.sizes()));
  }
  put(out.query, query);
  out.rope.copy_(rope.view(out.rope.sizes()));
  if (out.norm && out.norm->defined() && out.norm->numel() != 0) {
    put(*out.norm, q.value);
    if (q.scale && out.norm_scale && out.norm_scale->defined()) {
      out.norm_scale->copy_(q.scale->view(out.norm_scale->sizes()));
    }
  }

  const Tensor down = product(x, s.x, w.dkv_kr, s.dkv_kr, first);
  const Tensor key = normed(down.narrow(-1, 0, latent), w.gamma_ckv, f.eps_ckv) * f.key;
  put_latent(r, caches, s, f, key, turned(down.narrow(-1, latent, turns), cos, sin));
}

}  // namespace softnpu::ops::kernels

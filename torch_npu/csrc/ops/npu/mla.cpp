// Queries and latent rows of multi-head latent attention. See mla.h; where rows go is mla_cache.cpp.
#include "csrc/ops/npu/mla.h"

#include <ATen/TensorIndexing.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "csrc/ops/npu/mla_cache.h"
#include "csrc/ops/npu/params.h"
#include "csrc/ops/npu/sizes.h"
#include "csrc/ops/npu/wide.h"
#include "npu_ops.h"

namespace npu::ops {
namespace {

using at::Tensor;

constexpr int64_t kBlock = 32;  // numbers that share an exponent

bool quantized(int64_t weights) { return weights > 1; }

// A number as large as `largest` becomes the largest of the type.
struct Quantized {
  Tensor value, scale;
};
Quantized by_row(const Tensor& x, at::ScalarType type) {
  const bool whole = type == at::kChar;
  const Tensor scale = x.abs().amax(-1, /*keepdim=*/true) / (whole ? 127.0 : 448.0);
  const Tensor share = x / at::where(scale.gt(0), scale, 1);
  return {(whole ? share.round() : share).to(type), scale};
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
  const auto type = x.scalar_type() == at::kChar ? at::kDouble : at::kFloat;
  return at::matmul(x.to(type), w.to(type)).to(at::kFloat) * *x_scale * *w_scale;
}

Tensor normed(const Tensor& x, const Tensor& gamma, double eps) {
  return x / (x * x).mean(-1, /*keepdim=*/true).add(eps).sqrt() * wide(gamma);
}

// Pairs are neighbours, and the result has them as halves.
Tensor turned(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  const Tensor a = x.slice(-1, 0, std::nullopt, 2), b = x.slice(-1, 1, std::nullopt, 2);
  return at::cat({a, b}, -1) * cos + at::cat({-b, a}, -1) * sin;
}

Tensor rows_of(const Tensor& t) { return t.dim() == 3 ? t.flatten(0, 1) : t; }

void need_given(const char* op, const char* name, const OptionalTensor& t, bool wanted, const Sizes& sizes,
                const char* when) {
  TORCH_CHECK_VALUE(given(t) == wanted, op, ": ", name, wanted ? " is needed " : " has no meaning unless ", when);
  if (wanted) need_sizes(op, name, t, sizes);
}

void check_types(const char* op, const MlaRows& r, const MlaWeights& w, const MlaModes& m) {
  need_same_type(op, "rope_sin", r.sin, "rope_cos", r.cos);
  const auto plain = r.cos.scalar_type();
  TORCH_CHECK(at::isFloatingType(plain) && r.cos.element_size() > 1, op, ": rope_cos is ", plain,
              ", not a floating type of 16 bits or more");
  const at::ScalarType small = m.weights == 1 || m.weights == 2 ? at::kChar : at::kFloat8_e4m3fn;
  const auto type = [&](bool narrow) { return narrow ? small : plain; };
  need_type(op, "token_x", r.x, {type(quantized(m.weights))});
  need_type(op, "weight_dq", w.dq, {type(quantized(m.weights))});
  need_type(op, "weight_dkv_kr", w.dkv_kr, {type(quantized(m.weights))});
  need_type(op, "weight_uq_qr", w.uq_qr, {type(m.weights > 0)});
  need_type(op, "weight_uk", w.uk, {plain});
}

void check_scales(const char* op, const MlaRows& r, const MlaWeights& w, const MlaScales& s, const MlaModes& m) {
  const bool all = quantized(m.weights), blocks = m.weights == 3;
  const Sizes x = sizes_of(rows_of(r.x)), dq = sizes_of(w.dq), uq = sizes_of(w.uq_qr), kv = sizes_of(w.dkv_kr);
  const auto by_column = [&](const Sizes& of) { return blocks ? Sizes{of[1], of[0] / kBlock} : Sizes{1, of[1]}; };
  const char* const whole = "weight_quant_mode is 2, 3 or 4";
  need_given(op, "dequant_scale_x", s.x, all, {x[0], blocks ? x[1] / kBlock : c10::SymInt(1)}, whole);
  need_given(op, "dequant_scale_w_dq", s.dq, all, by_column(dq), whole);
  need_given(op, "dequant_scale_w_dkv_kr", s.dkv_kr, all, by_column(kv), whole);
  need_given(op, "dequant_scale_w_uq_qr", s.uq_qr, m.weights > 0, by_column(uq), "weight_quant_mode is 1, 2, 3 or 4");
  for (const auto& [name, scale] : {std::pair{"dequant_scale_x", &s.x},
                                    {"dequant_scale_w_dq", &s.dq},
                                    {"dequant_scale_w_dkv_kr", &s.dkv_kr},
                                    {"dequant_scale_w_uq_qr", &s.uq_qr}}) {
    need_type(op, name, *scale, {blocks ? at::kFloat8_e8m0fnu : at::kFloat});
  }
  if (m.weights == 0 || blocks) {
    TORCH_CHECK_VALUE(!given(s.smooth), op, ": smooth_scales_cq has no meaning unless weight_quant_mode is 1, 2 or 4");
  } else {
    need_sizes(op, "smooth_scales_cq", s.smooth, {1, dq[1]});
  }
  const bool scaled = m.cache == 1 || m.cache == 2;
  TORCH_CHECK_VALUE(given(s.ckv) == scaled, op,
                    ": quant_scale_ckv is given where kv_cache_quant_mode is 1 or 2, which is ", m.cache);
  need_elements(op, "quant_scale_ckv", s.ckv, m.cache == 1 ? Sizes{1, w.uk.sym_size(2)} : Sizes{w.uk.sym_size(2)});
  need_given(op, "quant_scale_ckr", s.ckr, m.cache == 2, {1, r.cos.sym_size(-1)}, "kv_cache_quant_mode is 2");
}

void check_modes(const char* op, const MlaModes& m) {
  TORCH_CHECK_NOT_IMPLEMENTED(m.weights != 5, op, ": weight_quant_mode 5 is of hifloat8, which PyTorch does not have");
  check_number(op, "weight_quant_mode", m.weights, {0, 1, 2, 3, 4});
  check_number(op, "kv_cache_quant_mode", m.cache, {0, 1, 2, 3});
  const bool fits = m.cache == 0 || (m.weights == 1 && m.cache > 1) || (quantized(m.weights) && m.cache != 2);
  TORCH_CHECK_VALUE(fits, op, ": kv_cache_quant_mode ", m.cache, " does not go with weight_quant_mode ", m.weights);
  TORCH_CHECK_VALUE(m.query == (m.cache == 1), op,
                    ": query_quant_mode is 1 where kv_cache_quant_mode is 1 and 0 elsewhere, not ", m.query);
  TORCH_CHECK_VALUE(m.merged == (m.cache == 3) && m.scales_merged == (m.cache == 3), op,
                    ": ckvkr_repo_mode and quant_scale_repo_mode are 1 where kv_cache_quant_mode is 3 and 0 elsewhere");
}

void check_rows(const char* op, const MlaRows& r, const MlaWeights& w) {
  need_dims(op, "token_x", r.x, {2, 3});
  need_dims(op, "weight_uk", w.uk, {3});
  need_dims(op, "rope_cos", r.cos, {r.x.dim()});
  need_dims(op, "weight_dq", w.dq, {2});
  Sizes angles = sizes_of(r.x);
  angles.back() = r.cos.sym_size(-1);
  need_sizes(op, "rope_cos", r.cos, angles);
  need_sizes(op, "rope_sin", r.sin, angles);
  TORCH_CHECK_VALUE(angles.back() % 2 == 0, op, ": rope_cos must have an even number of columns, got ", angles.back());
  const c10::SymInt heads = w.uk.sym_size(0), latent = w.uk.sym_size(2), low = w.dq.sym_size(1);
  need_sizes(op, "weight_dq", w.dq, {r.x.sym_size(-1), low});
  need_sizes(op, "weight_uq_qr", w.uq_qr, {low, heads * (w.uk.sym_size(1) + angles.back())});
  need_sizes(op, "weight_dkv_kr", w.dkv_kr, {r.x.sym_size(-1), latent + angles.back()});
  need_sizes(op, "rmsnorm_gamma_cq", w.gamma_cq, {low});
  need_sizes(op, "rmsnorm_gamma_ckv", w.gamma_ckv, {latent});
}

// c^Q in the form that the second product takes.
struct Latent {
  Tensor value;
  OptionalTensor scale;
};
Latent latent_query(const Tensor& c, const MlaWeights& w, const MlaScales& s, at::ScalarType plain, int64_t weights) {
  if (weights == 0) return {c.to(plain), std::nullopt};
  if (weights == 3) {
    const auto type = static_cast<int64_t>(at::kFloat8_e4m3fn);
    const auto [value, pairs] = npu_dynamic_mx_quant(c.to(plain), -1, "rint", type, kBlock, 0, 0, 0);
    const Tensor scale = pairs.flatten(-2).narrow_symint(-1, 0, w.dq.sym_size(1) / kBlock);
    return {value, scale.contiguous().view(at::kFloat8_e8m0fnu)};
  }
  const auto [value, scale] = by_row(given(s.smooth) ? c * *s.smooth : c, w.uq_qr.scalar_type());
  return {value, scale};
}

}  // namespace

MlaModes mla_modes(const char* op, const MlaRows& r, const MlaWeights& w, const MlaScales& s, bool whole) {
  TORCH_CHECK_NOT_IMPLEMENTED(whole || r.x.scalar_type() != at::kChar, op,
                              ": token_x of int8 is not implemented; npu_mla_prolog_v3 takes it");
  const int64_t weights = r.x.scalar_type() == at::kChar ? 2 : w.uq_qr.scalar_type() == at::kChar ? 1 : 0;
  const int64_t cache = !given(s.ckv) ? 0 : weights == 2 ? 1 : 2;
  return {weights, cache, cache == 1, 0, 0, 128, false};
}

MlaQuery mla_prolog(const char* op, const MlaRows& r, const MlaWeights& w, const MlaCaches& caches, const MlaScales& s,
                    const MlaNumbers& n, const MlaModes& m) {
  const c10::impl::ExcludeDispatchKeyGuard exact(c10::autocast_dispatch_keyset);
  check_modes(op, m);
  check_rows(op, r, w);
  check_types(op, r, w, m);
  check_scales(op, r, w, s, m);
  const at::ScalarType plain = r.cos.scalar_type();
  const Tensor x = rows_of(r.x), cos = wide(rows_of(r.cos)), sin = wide(rows_of(r.sin));
  const int64_t first = quantized(m.weights) ? m.weights : 0;
  const c10::SymInt heads = w.uk.sym_size(0), columns = w.uk.sym_size(1), turns = cos.sym_size(1);

  Tensor c = product(x, s.x, w.dq, s.dq, first);
  if (!first) c = wide(c.to(plain));
  c = normed(c, w.gamma_cq, n.eps_cq) * n.query;
  const Latent q = latent_query(c, w, s, plain, m.weights);
  Tensor up =
      product(q.value, q.scale, w.uq_qr, s.uq_qr, m.weights).view_symint({x.sym_size(0), heads, columns + turns});
  if (m.weights == 0) up = wide(up.to(plain));
  const Tensor plain_part = wide(up.narrow_symint(-1, 0, columns).to(plain)).transpose(0, 1);
  Tensor query = at::matmul(plain_part, wide(w.uk)).transpose(0, 1).to(plain).contiguous();
  Tensor rope = turned(up.narrow_symint(-1, columns, turns), cos.unsqueeze(1), sin.unsqueeze(1)).to(plain);
  const auto nothing = [&](at::ScalarType type) { return at::empty({0}, cos.options().dtype(type)); };
  Tensor scale = nothing(at::kFloat);
  if (m.query) {
    auto found = by_row(wide(query), r.x.scalar_type());
    query = found.value;
    scale = found.scale;
    rope = (wide(rope) * s.ckv->flatten().narrow(0, 0, 1) / scale).to(plain);
  }

  const Tensor down = product(x, s.x, w.dkv_kr, s.dkv_kr, first);
  const c10::SymInt latent = w.uk.sym_size(2);
  const Tensor key = normed(down.narrow_symint(-1, 0, latent), w.gamma_ckv, n.eps_ckv) * n.key;
  put_latent(op, r, caches, s, m, key, turned(down.narrow_symint(-1, latent, turns), cos, sin));

  const auto shaped = [&](const Tensor& t) {
    return r.x.dim() == 3 ? t.unflatten_symint(0, {r.x.sym_size(0), r.x.sym_size(1)}) : t;
  };
  const auto scale_type = m.weights == 3 ? at::kFloat8_e8m0fnu : at::kFloat;
  return {shaped(query), shaped(rope), scale, m.norm ? shaped(q.value) : nothing(w.uq_qr.scalar_type()),
          m.norm && q.scale ? *q.scale : nothing(scale_type)};
}

Four mla_prolog_v1(const MlaRows& r, const MlaWeights& w, const MlaCaches& c, const MlaScales& s, const MlaNumbers& n) {
  const char* const op = "npu_mla_prolog";
  const MlaQuery q = mla_prolog(op, r, w, c, s, n, mla_modes(op, r, w, s, /*whole=*/false));
  return {q.query, q.rope, c.kv, c.kr};
}

Five mla_prolog_v2(const MlaRows& r, const MlaWeights& w, const MlaCaches& c, const MlaScales& s, const MlaNumbers& n) {
  const char* const op = "npu_mla_prolog_v2";
  const MlaModes modes = mla_modes(op, r, w, s, /*whole=*/true);
  const MlaQuery q = mla_prolog(op, r, w, c, s, n, modes);
  return {q.query, q.rope, c.kv, c.kr, modes.query ? q.scale : at::zeros({1}, q.scale.options())};
}

Five mla_prolog_v3(const MlaRows& r, const MlaWeights& w, const MlaCaches& c, const MlaScales& s, const MlaNumbers& n,
                   const MlaModes& m) {
  const MlaQuery q = mla_prolog("npu_mla_prolog_v3", r, w, c, s, n, m);
  return {q.query, q.rope, q.scale, q.norm, q.norm_scale};
}

Seven mla_prolog_of_copies(const MlaRows& r, const MlaWeights& w, const MlaCaches& c, const MlaScales& s,
                           const MlaNumbers& n, const MlaModes& m) {
  const Tensor kv = c.kv.clone(), kr = c.kr.clone();
  const MlaQuery q = mla_prolog("npu_mla_prolog_v3_functional", r, w, {kv, kr, c.mode}, s, n, m);
  return {q.query, q.rope, q.scale, q.norm, q.norm_scale, kv, kr};
}

}  // namespace npu::ops

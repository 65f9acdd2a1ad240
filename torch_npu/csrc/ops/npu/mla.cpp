// Sizes, types and modes of the prolog of multi-head latent attention, and its call. See mla.h; what is of caches is mla_cache.cpp.
#include "csrc/ops/npu/mla.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/npu/hifloat8.h"
#include "csrc/ops/npu/mla_cache.h"
#include "csrc/ops/npu/params.h"
#include "csrc/ops/npu/sizes.h"
#include "npu_ops.h"

namespace npu::ops {
namespace {

using at::Tensor;

constexpr int64_t kBlock = 32;  // numbers that share an exponent

bool quantized(int64_t weights) { return weights > 1; }

c10::SymInt tokens_of(const Tensor& x) { return x.dim() == 3 ? x.sym_size(0) * x.sym_size(1) : x.sym_size(0); }

Sizes with_last(const Tensor& x, std::initializer_list<c10::SymInt> last) {
  Sizes sizes = sizes_of(x);
  sizes.pop_back();
  sizes.append(last.begin(), last.end());
  return sizes;
}

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
  const at::ScalarType small = m.weights == 1 || m.weights == 2 ? at::kChar
                               : m.weights == 5                 ? kHifloat8Codes
                                                                : at::kFloat8_e4m3fn;
  if (m.weights == 5) {
    for (const auto& [name, t] :
         {std::pair{"token_x", &r.x}, {"weight_dq", &w.dq}, {"weight_dkv_kr", &w.dkv_kr}, {"weight_uq_qr", &w.uq_qr}}) {
      need_name(op, name, *t);
    }
  }
  const auto type = [&](bool narrow) { return narrow ? small : plain; };
  need_type(op, "token_x", r.x, {type(quantized(m.weights))});
  need_type(op, "weight_dq", w.dq, {type(quantized(m.weights))});
  need_type(op, "weight_dkv_kr", w.dkv_kr, {type(quantized(m.weights))});
  need_type(op, "weight_uq_qr", w.uq_qr, {type(m.weights > 0)});
  need_type(op, "weight_uk", w.uk, {plain});
}

void check_scales(const char* op, const MlaRows& r, const MlaWeights& w, const MlaScales& s, const MlaModes& m) {
  const bool all = quantized(m.weights), blocks = m.weights == 3;
  const Sizes x = Sizes{tokens_of(r.x), r.x.sym_size(-1)}, dq = sizes_of(w.dq), uq = sizes_of(w.uq_qr),
              kv = sizes_of(w.dkv_kr);
  const auto by_column = [&](const Sizes& of) { return blocks ? Sizes{of[1], of[0] / kBlock} : Sizes{1, of[1]}; };
  const char* const whole = "weight_quant_mode is 2, 3, 4 or 5";
  need_given(op, "dequant_scale_x", s.x, all, {x[0], blocks ? x[1] / kBlock : c10::SymInt(1)}, whole);
  need_given(op, "dequant_scale_w_dq", s.dq, all, by_column(dq), whole);
  need_given(op, "dequant_scale_w_dkv_kr", s.dkv_kr, all, by_column(kv), whole);
  need_given(op, "dequant_scale_w_uq_qr", s.uq_qr, m.weights > 0, by_column(uq),
             "weight_quant_mode is 1, 2, 3, 4 or 5");
  for (const auto& [name, scale] : {std::pair{"dequant_scale_x", &s.x},
                                    {"dequant_scale_w_dq", &s.dq},
                                    {"dequant_scale_w_dkv_kr", &s.dkv_kr},
                                    {"dequant_scale_w_uq_qr", &s.uq_qr}}) {
    need_type(op, name, *scale, {blocks ? at::kFloat8_e8m0fnu : at::kFloat});
  }
  if (m.weights == 0 || blocks) {
    TORCH_CHECK_VALUE(!given(s.smooth), op,
                      ": smooth_scales_cq has no meaning unless weight_quant_mode is 1, 2, 4 or 5");
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
  check_number(op, "weight_quant_mode", m.weights, {0, 1, 2, 3, 4, 5});
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

}  // namespace

MlaModes mla_modes(const char* op, const MlaRows& r, const MlaWeights& w, const MlaScales& s, bool whole) {
  TORCH_CHECK_NOT_IMPLEMENTED(whole || r.x.scalar_type() != at::kChar, op,
                              ": token_x of int8 is not implemented; npu_mla_prolog_v3 takes it");
  const int64_t weights = r.x.scalar_type() == at::kChar ? 2 : w.uq_qr.scalar_type() == at::kChar ? 1 : 0;
  const int64_t cache = !given(s.ckv) ? 0 : weights == 2 ? 1 : 2;
  return {weights, cache, cache == 1, 0, 0, 128, false};
}

void check_mla_types(const char* op, const MlaRows& r, const MlaWeights& w, const MlaCaches& c, const MlaTypes& t) {
  check_dtypes(op, {{"token_x_dtype", t.x, r.x},
                    {"weight_dq_dtype", t.dq, w.dq},
                    {"weight_uq_qr_dtype", t.uq_qr, w.uq_qr},
                    {"weight_dkv_kr_dtype", t.dkv_kr, w.dkv_kr},
                    {"kv_cache_dtype", t.kv, c.kv}});
}

void check_mla(const char* op, const MlaRows& r, const MlaWeights& w, const MlaCaches& caches, const MlaScales& s,
               const MlaModes& m) {
  check_modes(op, m);
  check_rows(op, r, w);
  check_types(op, r, w, m);
  check_scales(op, r, w, s, m);
  check_latent(op, r, w, caches, s, m);
}

Result mla_query(const MlaRows& r, const MlaWeights& w, const MlaModes& m) {
  return {with_last(r.x, {w.uk.sym_size(0), w.uk.sym_size(2)}),
          m.query ? stored(r.x.scalar_type()) : r.cos.scalar_type()};
}
Result mla_rope(const MlaRows& r, const MlaWeights& w) {
  return {with_last(r.x, {w.uk.sym_size(0), r.cos.sym_size(-1)}), r.cos.scalar_type()};
}
Result mla_scale(const MlaRows& r, const MlaWeights& w, const MlaModes& m) {
  return m.query ? sized({tokens_of(r.x), w.uk.sym_size(0), 1}, at::kFloat) : sized({0}, at::kFloat);
}
Result mla_norm(const MlaRows& r, const MlaWeights& w, const MlaModes& m) {
  const auto type = m.weights == 0 ? r.cos.scalar_type() : stored(w.uq_qr.scalar_type());
  return m.norm ? Result{with_last(r.x, {w.dq.sym_size(1)}), type} : sized({0}, stored(w.uq_qr.scalar_type()));
}
Result mla_norm_scale(const MlaRows& r, const MlaWeights& w, const MlaModes& m) {
  const auto type = m.weights == 3 ? at::kFloat8_e8m0fnu : at::kFloat;
  if (!m.norm || m.weights == 0) return sized({0}, type);
  return sized({tokens_of(r.x), m.weights == 3 ? w.dq.sym_size(1) / kBlock : c10::SymInt(1)}, type);
}

void mla_prolog_into(const MlaRows& r, const MlaWeights& w, const MlaCaches& c, const MlaScales& s, const MlaNumbers& n,
                     const MlaModes& m, const MlaQuery& q) {
  const std::optional<Tensor> none;
  const Tensor query = m.query ? written_as(q.query, r.x.scalar_type()) : q.query;
  const Tensor norm = written_as(q.norm, m.weights ? w.uq_qr.scalar_type() : q.norm.scalar_type());
  ACLNN(aclnnMlaPrologV3WeightNz)
  (r.x, w.dq, w.uq_qr, w.uk, w.dkv_kr, w.gamma_cq, w.gamma_ckv, r.sin, r.cos, c.kv, c.kr, r.index, s.x, s.dq, s.uq_qr,
   s.dkv_kr, s.ckv, s.ckr, s.smooth, r.ends, none, n.eps_cq, n.eps_ckv, c.mode, m.weights, m.cache, m.query, m.merged,
   m.scales_merged, m.tile, n.query, n.key, query, q.rope, q.scale, norm, q.norm_scale);
}

void mla_prolog_of_copies(const MlaRows& r, const MlaWeights& w, const MlaCaches& c, const MlaScales& s,
                          const MlaNumbers& n, const MlaModes& m, const MlaCopies& o) {
  const Tensor kv = written_as(o.kv, c.kv.scalar_type());
  kv.copy_(c.kv);
  o.kr.copy_(c.kr);
  mla_prolog_into(r, w, {kv, o.kr, c.mode}, s, n, m, {o.query, o.rope, o.scale, o.norm, o.norm_scale});
}

namespace {

// By npu_mla_prolog_v3, which is said to write its caches; the older operators are not, and so are composed of it.
MlaQuery by_v3(const MlaRows& r, const MlaWeights& w, const MlaCaches& c, const MlaScales& s, const MlaNumbers& n,
               const MlaModes& m) {
  Tensor kv = c.kv, kr = c.kr;
  auto [query, rope, scale, norm, norm_scale] =
      npu_mla_prolog_v3(r.x, w.dq, w.uq_qr, w.uk, w.dkv_kr, w.gamma_cq, w.gamma_ckv, r.sin, r.cos, kv, kr, r.index, s.x,
                        s.dq, s.uq_qr, s.dkv_kr, s.ckv, s.ckr, s.smooth, r.ends, std::nullopt, n.eps_cq, n.eps_ckv,
                        c.mode, m.norm, m.weights, m.cache, m.query, m.merged, m.scales_merged, m.tile, n.query, n.key,
                        std::nullopt, std::nullopt, std::nullopt, std::nullopt, std::nullopt);
  return {query, rope, scale, norm, norm_scale};
}

}  // namespace

Four mla_prolog_v1(const MlaRows& r, const MlaWeights& w, const MlaCaches& c, const MlaScales& s, const MlaNumbers& n) {
  const char* const op = "npu_mla_prolog";
  const MlaModes modes = mla_modes(op, r, w, s, /*whole=*/false);
  check_mla(op, r, w, c, s, modes);
  const MlaQuery q = by_v3(r, w, c, s, n, modes);
  return {q.query, q.rope, c.kv, c.kr};
}

Five mla_prolog_v2(const MlaRows& r, const MlaWeights& w, const MlaCaches& c, const MlaScales& s, const MlaNumbers& n) {
  const char* const op = "npu_mla_prolog_v2";
  const MlaModes modes = mla_modes(op, r, w, s, /*whole=*/true);
  check_mla(op, r, w, c, s, modes);
  const MlaQuery q = by_v3(r, w, c, s, n, modes);
  return {q.query, q.rope, c.kv, c.kr, modes.query ? q.scale : at::zeros({1}, q.scale.options())};
}

}  // namespace npu::ops

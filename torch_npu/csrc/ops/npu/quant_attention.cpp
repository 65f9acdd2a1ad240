// npu_quant_fusion_attention and its gradient. Hand-written because the first returns numbers, as npu_fusion_attention does; of what the vendor's
// operators return beside, dropout, biases and rotary columns, these have nothing.
#include <ATen/core/Tensor.h>

#include "csrc/core/device.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/npu/hifloat8.h"
#include "csrc/ops/npu/params.h"
#include "csrc/ops/npu/sizes.h"
#include "csrc/ops/structured.h"
#include "npu_ops.h"

namespace npu::ops::kernels {
namespace {

using OptionalInt = std::optional<int64_t>;
using Seven = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
using Forward = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, int64_t, int64_t, int64_t>;
constexpr const char *kForward = "npu_quant_fusion_attention", *kBackward = "npu_quant_fusion_attention_backward";

struct Call {
  const char* op;
  const at::Tensor &query, &key, &value;
  int64_t heads;
  std::string_view layout;
  const at::Tensor &q_scale, &k_scale, &v_scale;
  const OptionalTensor& p_scale;
  OptionalInt type;

  int64_t rows() const { return layout == "BSND" ? 1 : 2; }  // the dimension of a sequence
  int64_t head() const { return layout == "BSND" ? 2 : 1; }
};

void need_operand(const Call& c, const char* name, const at::Tensor& t) {
  need_dims(c.op, name, t, {4});
  if (names_hifloat8(c.type)) return need_type(c.op, name, t, {at::kByte});
  need_type(c.op, name, t, {at::kFloat8_e4m3fn, at::kFloat8_e5m2});
  need_same_type(c.op, "query", c.query, name, t);
}

// A number for so many rows of a head.
void need_scale(const Call& c, const char* name, const at::Tensor& scale, const at::Tensor& of, int64_t rows) {
  need_type(c.op, name, scale, {at::kFloat});
  need_sizes(c.op, name, scale,
             {of.sym_size(0), of.sym_size(c.head()), (of.sym_size(c.rows()) + (rows - 1)) / rows, 1});
}

void need_one(const char* op, const char* name, const OptionalTensor& t) {
  need_type(op, name, t, {at::kFloat});
  need_elements(op, name, t, {1});
}

// Scales of the query's, the key's and the value's rows.
void check(const Call& c, int64_t q_rows, int64_t k_rows, int64_t v_rows) {
  check_word(c.op, "input_layout", c.layout, {"BSND", "BNSD"});
  TORCH_CHECK_NOT_IMPLEMENTED(!c.type || names_hifloat8(c.type), c.op, ": query_dtype ", *c.type,
                              " is not implemented; 290, hifloat8 in uint8, is, else leave it out");
  for (const auto& [name, t] : {std::pair{"query", &c.query}, {"key", &c.key}, {"value", &c.value}}) {
    need_operand(c, name, *t);
  }
  const c10::SymInt heads = c.query.sym_size(c.head()), shared = c.key.sym_size(c.head());
  TORCH_SYM_CHECK(heads.sym_eq(c.heads), c.op, ": head_num is ", c.heads, ", query has ", heads, " heads");
  TORCH_SYM_CHECK(shared.sym_gt(0).sym_and((heads % shared).sym_eq(0)), c.op, ": key has ", shared, " heads, of which ",
                  heads, " of query is no multiple");
  TORCH_SYM_CHECK(c.key.sym_size(c.rows()).sym_gt(0), c.op, ": key of ", c.key.sym_sizes(), " has no rows");
  Sizes sizes = sizes_of(c.key);
  sizes[0] = c.query.sym_size(0);
  sizes[3] = c.query.sym_size(3);
  need_sizes(c.op, "key", c.key, sizes);
  sizes[3] = -1;
  need_sizes(c.op, "value", c.value, sizes);
  TORCH_SYM_CHECK(c.value.sym_size(3).sym_le(c.query.sym_size(3)), c.op, ": value has ", c.value.sym_size(3),
                  " columns, query has ", c.query.sym_size(3));
  need_scale(c, "d_scale_q", c.q_scale, c.query, q_rows);
  need_scale(c, "d_scale_k", c.k_scale, c.key, k_rows);
  need_scale(c, "d_scale_v", c.v_scale, c.value, v_rows);
  need_one(c.op, "p_scale", c.p_scale);
}

// Where softmax's largest numbers and sums lie.
Sizes statistic(const Call& c) {
  return {c.query.sym_size(0), c.query.sym_size(c.head()), c.query.sym_size(c.rows()), 1};
}

// How many products of a query and a key there are: of a dropout, which these operators do not have, the number of its bits.
int64_t weights(const Call& c) {
  const c10::SymInt rows = c.query.sym_size(0) * c.query.sym_size(c.head()) * c.query.sym_size(c.rows());
  return (rows * c.key.sym_size(c.rows())).guard_int(__FILE__, __LINE__);
}

at::Tensor read(const Call& c, const at::Tensor& t) { return read_as(t, c.type); }

template <class Made>
Forward forward(const Call& c, const Made& made) {
  check(c, 128, 256, 512);
  return {made(sized(with_size(c.query, 3, c.value.sym_size(3)), at::kBFloat16)),
          made(sized(statistic(c), at::kFloat)),
          made(sized(statistic(c), at::kFloat)),
          made(nothing(at::kBFloat16)),
          0,
          0,
          weights(c)};
}

struct Saved {
  const at::Tensor &dy, &dy_scale;
  const OptionalTensor &ds_scale, &largest, &total, &out;
};

template <class Made>
Seven backward(const Call& c, const Saved& saved, const Made& made) {
  check(c, 512, 512, 512);
  TORCH_CHECK_VALUE(given(saved.largest) && given(saved.total) && given(saved.out), c.op,
                    ": softmax_max, softmax_sum and attention_in, results of the forward pass, are needed");
  TORCH_SYM_CHECK(c.key.sym_size(c.head()).sym_eq(c.heads), c.op, ": key has ", c.key.sym_size(c.head()),
                  " heads, as many as query's ", c.heads, " are expected");
  Sizes sizes = sizes_of(c.query);
  sizes[3] = c.value.sym_size(3);
  need_operand(c, "dy", saved.dy);
  need_sizes(c.op, "dy", saved.dy, sizes);
  need_type(c.op, "attention_in", saved.out, {at::kBFloat16});
  need_sizes(c.op, "attention_in", saved.out, sizes);
  need_scale(c, "d_scale_dy", saved.dy_scale, c.query, 512);
  need_one(c.op, "ds_scale", saved.ds_scale);
  for (const auto& [name, t] : {std::pair{"softmax_max", &saved.largest}, {"softmax_sum", &saved.total}}) {
    need_type(c.op, name, *t, {at::kFloat});
    need_sizes(c.op, name, *t, statistic(c));
  }
  const auto none = [&] { return made(nothing(at::kBFloat16)); };
  return {made(like(c.query, at::kBFloat16)),
          made(like(c.key, at::kBFloat16)),
          made(like(c.value, at::kBFloat16)),
          none(),
          none(),
          none(),
          none()};
}

}  // namespace

Forward quant_fusion_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                               int64_t head_num, std::string_view input_layout, const at::Tensor& d_scale_q,
                               const at::Tensor& d_scale_k, const at::Tensor& d_scale_v, const OptionalTensor& p_scale,
                               double scale, OptionalInt query_dtype) {
  const NPUGuard guard(first_device(query));
  const Call c{kForward,  query,     key,       value,   head_num,   input_layout,
               d_scale_q, d_scale_k, d_scale_v, p_scale, query_dtype};
  Forward out = forward(c, [](const Result& r) { return on_device(r); });
  ACLNN(aclnnQuantFlashAttentionScore)
  (read(c, query), read(c, key), read(c, value), nullptr, d_scale_q, d_scale_k, d_scale_v, p_scale, scale, INT32_MAX,
   INT32_MAX, head_num, input_layout, 0, std::get<1>(out), std::get<2>(out), nullptr, std::get<0>(out));
  return out;
}

Forward quant_fusion_attention_meta(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                    int64_t head_num, std::string_view input_layout, const at::Tensor& d_scale_q,
                                    const at::Tensor& d_scale_k, const at::Tensor& d_scale_v,
                                    const OptionalTensor& p_scale, double, OptionalInt query_dtype) {
  return forward(
      {kForward, query, key, value, head_num, input_layout, d_scale_q, d_scale_k, d_scale_v, p_scale, query_dtype},
      [](const Result& r) { return on_meta(r); });
}

Seven quant_fusion_attention_backward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                      const at::Tensor& dy, int64_t head_num, std::string_view input_layout,
                                      const at::Tensor& d_scale_q, const at::Tensor& d_scale_k,
                                      const at::Tensor& d_scale_v, const at::Tensor& d_scale_dy,
                                      const OptionalTensor& p_scale, const OptionalTensor& ds_scale,
                                      const OptionalTensor& softmax_max, const OptionalTensor& softmax_sum,
                                      const OptionalTensor& attention_in, double scale_value, OptionalInt query_dtype) {
  const NPUGuard guard(first_device(query));
  const Call c{kBackward, query,     key,       value,   head_num,   input_layout,
               d_scale_q, d_scale_k, d_scale_v, p_scale, query_dtype};
  Seven out = backward(c, {dy, d_scale_dy, ds_scale, softmax_max, softmax_sum, attention_in},
                       [](const Result& r) { return on_device(r); });
  ACLNN(aclnnQuantFlashAttentionScoreGrad)
  (read(c, query), read(c, key), read(c, value), read(c, dy), nullptr, softmax_max, softmax_sum, attention_in,
   d_scale_q, d_scale_k, d_scale_v, d_scale_dy, ds_scale, p_scale, scale_value, INT32_MAX, INT32_MAX, head_num,
   input_layout, 0, 1, std::get<0>(out), std::get<1>(out), std::get<2>(out));
  return out;
}

Seven quant_fusion_attention_backward_meta(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                           const at::Tensor& dy, int64_t head_num, std::string_view input_layout,
                                           const at::Tensor& d_scale_q, const at::Tensor& d_scale_k,
                                           const at::Tensor& d_scale_v, const at::Tensor& d_scale_dy,
                                           const OptionalTensor& p_scale, const OptionalTensor& ds_scale,
                                           const OptionalTensor& softmax_max, const OptionalTensor& softmax_sum,
                                           const OptionalTensor& attention_in, double, OptionalInt query_dtype) {
  return backward(
      {kBackward, query, key, value, head_num, input_layout, d_scale_q, d_scale_k, d_scale_v, p_scale, query_dtype},
      {dy, d_scale_dy, ds_scale, softmax_max, softmax_sum, attention_in}, [](const Result& r) { return on_meta(r); });
}

}  // namespace npu::ops::kernels

// The third version of npu_fusion_attention, whose lengths and random state are tensors. Their numbers are read from the device: a call waits
// for what is queued. Who calls it: rows of ops/npu.yaml.
#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>

#include "csrc/core/device.h"
#include "csrc/ops/npu/attention.h"
#include "csrc/ops/npu/sizes.h"
#include "csrc/ops/structured.h"
#include "npu_ops.h"

namespace npu::ops::kernels {
namespace {

using Six = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
using Five = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
using Numbers = std::optional<std::vector<int64_t>>;

Numbers read(const OptionalTensor& t) {
  if (!given(t)) return std::nullopt;
  const at::Tensor host = t->to(at::kCPU).to(at::kLong).contiguous();
  return std::vector<int64_t>(host.const_data_ptr<int64_t>(), host.const_data_ptr<int64_t>() + host.numel());
}
at::OptionalIntArrayRef ref(const Numbers& n) { return n ? at::OptionalIntArrayRef(*n) : std::nullopt; }
int64_t first(const OptionalTensor& t) { return given(t) ? t->item<int64_t>() : 0; }
at::Tensor number(int64_t value, const at::Tensor& like) {
  return at::full({1}, value, like.options().dtype(at::kLong));
}

}  // namespace

Six fusion_attention_v3(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, int64_t head_num,
                        std::string_view input_layout, const OptionalTensor& pse, const OptionalTensor& padding_mask,
                        const OptionalTensor& atten_mask, double scale, double keep_prob, int64_t pre_tockens,
                        int64_t next_tockens, int64_t inner_precise, at::OptionalSymIntArrayRef prefix,
                        const OptionalTensor& actual_seq_qlen, const OptionalTensor& actual_seq_kvlen,
                        int64_t sparse_mode, bool gen_mask_parallel, bool sync, std::string_view softmax_layout,
                        const OptionalTensor& sink) {
  const Numbers q_ends = read(actual_seq_qlen), kv_ends = read(actual_seq_kvlen);
  const auto [out, maximum, sum, softmax, seed, offset, weights] =
      npu_fusion_attention(query, key, value, head_num, input_layout, pse, padding_mask, atten_mask, scale, keep_prob,
                           pre_tockens, next_tockens, inner_precise, plain(prefix), ref(q_ends), ref(kv_ends),
                           sparse_mode, gen_mask_parallel, sync, softmax_layout, sink, std::nullopt, 0, 0);
  return {out, maximum, sum, softmax, number(seed, query), number(offset, query)};
}

Six fusion_attention_v3_meta(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, int64_t head_num,
                             std::string_view input_layout, const OptionalTensor& pse,
                             const OptionalTensor& padding_mask, const OptionalTensor& atten_mask, double scale,
                             double keep_prob, int64_t pre_tockens, int64_t next_tockens, int64_t inner_precise,
                             at::OptionalSymIntArrayRef prefix, const OptionalTensor& actual_seq_qlen,
                             const OptionalTensor& actual_seq_kvlen, int64_t sparse_mode, bool, bool,
                             std::string_view softmax_layout, const OptionalTensor& sink) {
  check_attention_v3({.query = query,
                      .key = key,
                      .value = value,
                      .heads = head_num,
                      .layout = input_layout,
                      .pse = pse,
                      .padding_mask = padding_mask,
                      .atten_mask = atten_mask,
                      .sink = sink,
                      .scale = scale,
                      .keep_prob = keep_prob,
                      .before = pre_tockens,
                      .after = next_tockens,
                      .inner_precise = inner_precise,
                      .sparse_mode = sparse_mode,
                      .softmax_layout = softmax_layout},
                     prefix);
  check_ends_v3(input_layout, actual_seq_qlen, actual_seq_kvlen);
  const AttentionSizes s = attention_sizes(query, key, value, head_num, input_layout);
  const at::Tensor seed = on_meta(sized({1}, at::kLong));
  return {on_meta(sized(s.out, query.scalar_type())),
          on_meta(sized(s.statistic, at::kFloat)),
          on_meta(sized(s.statistic, at::kFloat)),
          on_meta(nothing(query.scalar_type())),
          seed,
          on_meta(sized({1}, at::kLong))};
}

Five fusion_attention_grad_v3(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                              const at::Tensor& dy, int64_t head_num, std::string_view input_layout,
                              const OptionalTensor& pse, const OptionalTensor& padding_mask,
                              const OptionalTensor& atten_mask, const OptionalTensor& softmax_max,
                              const OptionalTensor& softmax_sum, const OptionalTensor& softmax_in,
                              const OptionalTensor& attention_in, double scale_value, double keep_prob,
                              int64_t pre_tockens, int64_t next_tockens, int64_t inner_precise,
                              const OptionalTensor& seed, const OptionalTensor& offset,
                              at::OptionalSymIntArrayRef prefix, const OptionalTensor& actual_seq_qlen,
                              const OptionalTensor& actual_seq_kvlen, int64_t sparse_mode, bool gen_mask_parallel,
                              bool sync, std::string_view softmax_layout, const OptionalTensor& sink) {
  const Numbers q_ends = read(actual_seq_qlen), kv_ends = read(actual_seq_kvlen);
  const bool drops = keep_prob < 1;
  return npu_fusion_attention_grad(query, key, value, dy, head_num, input_layout, pse, padding_mask, atten_mask,
                                   softmax_max, softmax_sum, softmax_in, attention_in, scale_value, keep_prob,
                                   pre_tockens, next_tockens, inner_precise, drops ? first(seed) : 0,
                                   drops ? first(offset) : 0, 0, plain(prefix), ref(q_ends), ref(kv_ends), sparse_mode,
                                   gen_mask_parallel, sync, softmax_layout, sink);
}

}  // namespace npu::ops::kernels

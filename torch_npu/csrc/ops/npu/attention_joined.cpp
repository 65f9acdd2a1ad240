// What is asked of operators that join results of attention: npu_attention_update, npu_ring_attention_update. See sizes.h.
#include "csrc/ops/npu/sizes.h"

namespace npu::ops {

void check_parts(at::TensorList logs, at::TensorList parts, int64_t kind) {
  constexpr const char* op = "npu_attention_update";
  check_number(op, "update_type", kind, {0, 1});
  TORCH_CHECK(!logs.empty() && logs.size() == parts.size(), op, ": ", logs.size(), " logarithms and ", parts.size(),
              " results");
  need_dims(op, "local_out", parts[0], {2});
  for (size_t i = 0; i < parts.size(); ++i) {
    need_sizes(op, "local_out", parts[i], sizes_of(parts[0]));
    need_same_type(op, "local_out[0]", parts[0], "another of local_out", parts[i]);
    need_sizes(op, "lse", logs[i], {parts[0].sym_size(0)});
  }
}

void check_ring(const at::Tensor& before, const at::Tensor& before_max, const at::Tensor& before_sum,
                const at::Tensor& now, const at::Tensor& now_max, const at::Tensor& now_sum, const OptionalTensor& ends,
                std::string_view layout) {
  constexpr const char* op = "npu_ring_attention_update";
  check_word(op, "input_layout", layout, {"SBH", "TND"});
  need_dims(op, "prev_attn_out", before, {3});
  need_sizes(op, "cur_attn_out", now, sizes_of(before));
  need_dims(op, "prev_softmax_max", before_max, {layout == "SBH" ? 4 : 3});
  for (const at::Tensor* t : {&before_sum, &now_max, &now_sum}) {
    need_sizes(op, "a softmax_max or softmax_sum", *t, sizes_of(before_max));
  }
  need_integers(op, "actual_seq_qlen", ends);
  const c10::SymInt rows = layout == "SBH" ? before.sym_size(0) * before.sym_size(1) : before.sym_size(0);
  const c10::SymInt heads = layout == "SBH" ? before_max.sym_size(1) : before.sym_size(1);
  need_elements(op, "prev_softmax_max", before_max, {rows * heads * before_max.sym_size(-1)});
}

}  // namespace npu::ops

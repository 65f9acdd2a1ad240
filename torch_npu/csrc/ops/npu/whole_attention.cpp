// Attention of inference whose operands are int8: see quant.h.
#include "csrc/core/type_name.h"
#include "csrc/ops/npu/quant.h"
#include "csrc/ops/npu/sizes.h"

namespace npu::ops {

void check_whole_attention(const char* op, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                           std::string_view layout, const AttentionFactors& scales,
                           std::initializer_list<WithoutIntegers> without) {
  const bool whole = query.scalar_type() == at::kChar;
  for (const auto& [name, t] : {std::pair{scales.first, &scales.deq_scale1},
                                {scales.between, &scales.quant_scale1},
                                {scales.second, &scales.deq_scale2}}) {
    TORCH_CHECK(whole || !given(*t), op, ": ", name, " goes with query of int8, which is of ", type_name(query),
                "; leave it out");
    TORCH_CHECK_VALUE(!whole || given(*t), op, ": ", name, " is needed with query of int8");
    need_elements(op, name, *t, {1});
    if (t == &scales.quant_scale1) {
      need_type(op, name, *t, {at::kFloat});
    } else {
      need_type(op, name, *t, {at::kFloat, at::kLong, at::kUInt64});
    }
  }
  if (!whole) return;
  need_type(op, "key", key, {at::kChar});
  need_type(op, "value", value, {at::kChar});
  check_word(op, "input_layout of int8 operands", layout, {"BSH", "BNSD", "BSND", "BNSD_BSND"});
  for (const WithoutIntegers& t : without) {
    TORCH_CHECK(!given(t.tensor), op, ": ", t.name, " does not go with query of int8; leave it out");
  }
  const int64_t rows = layout.starts_with("BNSD") ? 2 : 1;
  if (query.dim() <= rows) return;  // refused behind
  TORCH_SYM_CHECK(query.sym_size(rows).sym_ne(1), op,
                  ": query of int8 has one row a sequence, which CANN decodes with ",
                  "a floating query alone; convert it");
}

at::ScalarType attention_type(const at::Tensor& query, const OptionalTensor& out_scale) {
  if (given(out_scale)) return at::kChar;
  return query.scalar_type() == at::kChar ? at::kHalf : query.scalar_type();
}

}  // namespace npu::ops

// Rows of experts: sizes and checks, see sizes.h.
#include "csrc/ops/npu/sizes.h"

namespace npu::ops {

c10::SymInt expert_row_count(const at::Tensor& experts, int64_t active, int64_t capacity, int64_t count,
                             int64_t padded) {
  if (padded == 1) return count * capacity;
  const c10::SymInt all = experts.sym_numel();
  return active > 0 ? all.min(active) : all;
}

Sizes expert_rows(const at::Tensor& x, const at::Tensor& experts, int64_t active, int64_t capacity, int64_t count,
                  int64_t padded) {
  if (padded == 1) return {count, capacity, x.sym_size(1)};
  return {expert_row_count(experts, active, capacity, count, padded), x.sym_size(1)};
}

int64_t expert_span(at::IntArrayRef range, int64_t count) {
  const int64_t span = range.size() == 2 ? range[1] - range[0] : count;
  TORCH_CHECK_VALUE(span > 0, "npu_moe_init_routing_v2: the range of experts is empty; give active_expert_range or ",
                    "expert_num");
  return span;
}

void check_expert_rows(const char* op, const at::Tensor& x, const at::Tensor& experts, int64_t padded, int64_t mode,
                       const OptionalTensor& scale, const OptionalTensor& offset) {
  TORCH_CHECK(x.dim() == 2 && experts.dim() == 2, op, ": x and expert_idx have two dimensions, not ", x.dim(), " and ",
              experts.dim());
  TORCH_SYM_CHECK(x.sym_size(0).sym_eq(experts.sym_size(0)), op, ": ", x.sym_size(0), " rows and experts of ",
                  experts.sym_size(0));
  TORCH_CHECK_VALUE(padded == 0 || padded == 1, op, ": drop_pad_mode is 0 or 1, not ", padded);
  check_number(op, "quant_mode", mode, {-1, 0, 1});
  TORCH_CHECK(mode != 0 || (given(scale) && given(offset)), op, ": static quantization needs scale and offset");
}

c10::SymInt map_rows(const at::Tensor& tokens, const at::Tensor& map, std::optional<int64_t> wanted, bool padded) {
  const c10::SymInt count = wanted ? c10::SymInt(*wanted) : tokens.sym_size(0), each = map.sym_size(padded ? 1 : 0);
  return count / each * each;
}

void check_map(const char* op, const at::Tensor& tokens, const at::Tensor& map, const OptionalTensor& probs) {
  TORCH_CHECK(tokens.dim() == 2 && map.dim() == 2, op, ": tokens and routing_map have two dimensions, not ",
              tokens.dim(), " and ", map.dim());
  TORCH_CHECK(!given(probs) || probs->sym_sizes() == map.sym_sizes(), op, ": probs and routing_map differ in sizes");
  TORCH_SYM_CHECK(map.sym_numel().sym_gt(0), op, ": the routing map has no elements");
}

}  // namespace npu::ops

// See barrier.h.
#include "softnpu/ops/barrier.h"

#include "hccl/soft.h"
#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {
namespace {

int64_t first(const OptionalTensor& t) { return t->flatten()[0].item().toLong(); }

}  // namespace

void need_barrier(int64_t ranks, int64_t world_size) {
  TORCH_CHECK(ranks == world_size, "worldSize is ", world_size, ", and the group has ", ranks, " ranks");
}

void begin_barrier(const OptionalTensor& time_out, const OptionalTensor& elastic_info, Tensor& limit) {
  const int64_t us = given(time_out) ? first(time_out) : 0;
  const bool wrong = (given(time_out) && us <= 0) || (given(elastic_info) && first(elastic_info) != 0);
  limit.fill_(wrong ? ANYCEND_HCCL_NOT_ENTERED : given(time_out) ? (us + 999) / 1000 : ANYCEND_HCCL_OWN_LIMIT);
}

void end_barrier(const OptionalTensor& time_out, const OptionalTensor& elastic_info) {
  TORCH_CHECK(!given(time_out) || first(time_out) > 0, "timeOut is ", first(time_out), " us, not positive");
  TORCH_CHECK_NOT_IMPLEMENTED(!given(elastic_info) || first(elastic_info) == 0,
                              "elasticInfo says that ranks have left the group; make a group of those that remain");
}

}  // namespace softnpu::ops::kernels

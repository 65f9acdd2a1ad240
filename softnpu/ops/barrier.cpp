// See barrier.h.
#include "softnpu/ops/barrier.h"

#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {
namespace {

int64_t first(const OptionalTensor& t) { return t->flatten()[0].item().toLong(); }

}  // namespace

void need_barrier(int64_t ranks, int64_t world_size) {
  TORCH_CHECK(ranks == world_size, "worldSize is ", world_size, ", and the group has ", ranks, " ranks");
}

void begin_barrier(const Peers& members, const OptionalTensor& time_out, Tensor& former) {
  if (!given(time_out)) return;
  const int64_t us = first(time_out);
  TORCH_CHECK(us > 0, "timeOut is ", us, " us, not positive");
  former.fill_(members.limit());
  members.set_limit((us + 999) / 1000);
}

void end_barrier(const Peers& members, const OptionalTensor& time_out, const OptionalTensor& elastic_info,
                 const Tensor& former) {
  if (given(time_out)) members.set_limit(former.item().toLong());
  TORCH_CHECK_NOT_IMPLEMENTED(!given(elastic_info) || first(elastic_info) == 0,
                              "elasticInfo says that ranks have left the group; make a group of those that remain");
}

}  // namespace softnpu::ops::kernels

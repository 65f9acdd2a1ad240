// Bodies of dynamic.h.
#include "csrc/ops/dynamic.h"

#include "csrc/cann/api.h"
#include "csrc/cann/error.h"
#include "csrc/core/empty.h"
#include "csrc/core/stream.h"
#include "csrc/core/sync_debug.h"

namespace npu {

DynamicOutput::DynamicOutput(at::IntArrayRef largest, at::ScalarType type) : room_(empty(largest, type)) {
  at::Tensor unused;
  handle_ = detail::make_tensor(room_, unused);
}

at::Tensor DynamicOutput::take() const {
  int64_t* dims = nullptr;
  uint64_t count = 0;
  NPU_CHECK(cann::acl().aclGetViewShape(handle_, &dims, &count));
  const c10::DimVector sizes(dims, dims + count);
  delete[] dims;  // CANN's contract: the caller frees it
  if (sizes == room_.sizes()) return room_;
  at::Tensor result = empty(sizes, room_.scalar_type());  // a small result must not keep the large room alive
  if (result.numel()) result.copy_(room_.as_strided(sizes, result.strides()));
  return result;
}

void synchronize_current_stream() {
  about_to_wait();
  wait_for(current_raw_stream());
}

}  // namespace npu

// ProcessGroupHCCL's messages, over a communicator of the two ranks or of all (connect.cpp). Each peer has a stream for sends and one
// for receives (lanes.h), so that no order of isend and irecv among ranks blocks, batched or not. Tags are not carried: messages of a pair arrive in the order they were sent.
#include "csrc/cann/api.h"
#include "csrc/distributed/check.h"
#include "csrc/distributed/group.h"
#include "csrc/distributed/layout.h"
#include "csrc/distributed/reduction.h"
#include "csrc/distributed/types.h"

namespace npu::distributed {

using c10d::OpType;

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::send(Tensors& tensors, int peer, int) {
  check_one(tensors, "send");
  check_root(peer);
  return launch_message(
      {OpType::SEND, "hccl:send", tensors, tensors, c10d::kUnsetTimeout, true, {Lane::kSend, peer}},
      [&](HcclComm comm, uint32_t number, aclrtStream stream) -> Steps {
        const at::Tensor buffer = as_real(tensors[0]).contiguous();
        const HcclDataType type = hccl_type(buffer.scalar_type());
        return {
            [=] { HCCL_CHECK(cann::hccl().HcclSend(buffer.data_ptr(), count(buffer), type, number, comm, stream)); },
            {}};
      });
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::recv(Tensors& tensors, int peer, int) {
  check_one(tensors, "recv");
  check_root(peer);
  const at::Tensor tensor = as_real(tensors[0]);
  return launch_message(
      {OpType::RECV, "hccl:recv", tensors, tensors, c10d::kUnsetTimeout, true, {Lane::kRecv, peer}},
      [&](HcclComm comm, uint32_t number, aclrtStream stream) -> Steps {
        const at::Tensor buffer = tensor.is_contiguous() ? tensor : empty_like_flat(tensor, count(tensor));
        const HcclDataType type = hccl_type(buffer.scalar_type());
        return {
            [=] { HCCL_CHECK(cann::hccl().HcclRecv(buffer.data_ptr(), count(buffer), type, number, comm, stream)); },
            copy_back(buffer, tensor)};
      });
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::recvAnysource(Tensors&, int) {
  C10_THROW_ERROR(NotImplementedError,
                  "ProcessGroupHCCL: HCCL cannot receive from any source; name the rank in recv(src=...)");
}

}  // namespace npu::distributed

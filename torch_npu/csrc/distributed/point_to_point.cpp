// ProcessGroupHCCL's messages. Sends and receives have a stream each, so that an isend followed by an irecv on both sides does not
// wait for itself. Tags are not carried: messages of a pair arrive in the order they were sent.
#include "csrc/cann/api.h"
#include "csrc/distributed/check.h"
#include "csrc/distributed/group.h"
#include "csrc/distributed/reduction.h"
#include "csrc/distributed/types.h"

namespace npu::distributed {

using c10d::OpType;

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::send(Tensors& tensors, int peer, int) {
  check_one(tensors, "send");
  check_root(peer);
  return launch(
      {OpType::SEND, "hccl:send", tensors, tensors, c10d::kUnsetTimeout, true, kSend},
      [&](HcclComm comm, aclrtStream stream) -> After {
        const at::Tensor buffer = as_real(tensors[0]).contiguous();
        HCCL_CHECK(cann::hccl().HcclSend(buffer.data_ptr(), static_cast<uint64_t>(buffer.numel()),
                                         hccl_type(buffer.scalar_type()), static_cast<uint32_t>(peer), comm, stream));
        return [buffer] {};
      });
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::recv(Tensors& tensors, int peer, int) {
  check_one(tensors, "recv");
  check_root(peer);
  const at::Tensor tensor = as_real(tensors[0]);
  return launch(
      {OpType::RECV, "hccl:recv", tensors, tensors, c10d::kUnsetTimeout, true, kRecv},
      [&](HcclComm comm, aclrtStream stream) -> After {
        const at::Tensor buffer = tensor.is_contiguous() ? tensor : tensor.contiguous();
        HCCL_CHECK(cann::hccl().HcclRecv(buffer.data_ptr(), static_cast<uint64_t>(buffer.numel()),
                                         hccl_type(buffer.scalar_type()), static_cast<uint32_t>(peer), comm, stream));
        if (buffer.is_same(tensor)) return {};
        return [tensor, buffer]() mutable { tensor.copy_(buffer); };
      });
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::recvAnysource(Tensors&, int) {
  C10_THROW_ERROR(NotImplementedError,
                  "ProcessGroupHCCL: HCCL cannot receive from any source; name the rank in recv(src=...)");
}

// HCCL has no gather: everybody sends to the root, in one batch there.
ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::gather(TensorLists& outputs, Tensors& inputs,
                                                   const c10d::GatherOptions& opts) {
  check_one(inputs, "gather");
  check_root(opts.rootRank);
  const bool root = rank_ == opts.rootRank;
  TORCH_CHECK_VALUE(!root || (outputs.size() == 1 && static_cast<int>(outputs[0].size()) == size_),
                    "ProcessGroupHCCL: gather: the root gives one output for each of the ", size_, " ranks");
  Tensors all = root ? outputs[0] : Tensors{};
  Tensors results = all;
  all.push_back(inputs[0]);
  return launch(
      {OpType::GATHER, "hccl:gather", std::move(all), results, opts.timeout, opts.asyncOp},
      [&](HcclComm comm, aclrtStream stream) -> After {
        const at::Tensor mine = as_real(inputs[0]).contiguous();
        std::vector<HcclSendRecvItem> items;
        Tensors buffers;
        auto item = [&](HcclSendRecvType kind, const at::Tensor& t, int peer) {
          items.push_back({kind, t.data_ptr(), static_cast<uint64_t>(t.numel()), hccl_type(t.scalar_type()),
                           static_cast<uint32_t>(peer)});
        };
        if (!root)
          item(HCCL_SEND, mine, static_cast<int>(opts.rootRank));
        else
          for (int r = 0; r < size_; ++r) {
            buffers.push_back(r == rank_ ? mine : as_real(results[static_cast<size_t>(r)]).contiguous());
            if (r != rank_) item(HCCL_RECV, buffers.back(), r);
          }
        if (!items.empty())
          HCCL_CHECK(HCCL_OPTIONAL(HcclBatchSendRecv)(items.data(), static_cast<uint32_t>(items.size()), comm, stream));
        return [mine, buffers, results] {
          for (size_t i = 0; i < results.size(); ++i) {
            at::Tensor to = as_real(results[i]);
            if (to.data_ptr() != buffers[i].data_ptr()) to.copy_(buffers[i].view(to.sizes()));
          }
        };
      });
}

}  // namespace npu::distributed

// ProcessGroupHCCL's all-to-all, and gather, which HCCL has not: everybody sends to one. As a collective it keeps its place among
// collectives, and its messages do not mix with those of send and recv.
#include "csrc/cann/api.h"
#include "csrc/distributed/check.h"
#include "csrc/distributed/group.h"
#include "csrc/distributed/layout.h"
#include "csrc/distributed/reduction.h"
#include "csrc/distributed/types.h"

namespace npu::distributed {
namespace {

using c10d::OpType;
using Tensors = ProcessGroupHCCL::Tensors;

std::function<void()> all_to_all_v(const at::Tensor& send, const Counts& out, const at::Tensor& recv, const Counts& in,
                                   HcclComm comm, aclrtStream stream) {
  const HcclDataType type = hccl_type(send.scalar_type());
  return [=, exchange = HCCL_OPTIONAL(HcclAlltoAllV)] {
    const HcclResult result = exchange(send.data_ptr(), out.counts.data(), out.displacements.data(), type,
                                       recv.data_ptr(), in.counts.data(), in.displacements.data(), type, comm, stream);
    if (result != HCCL_SUCCESS) throw_hccl(result, "HcclAlltoAllV");
  };
}

}  // namespace

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                          std::vector<int64_t>& output_splits,
                                                          std::vector<int64_t>& input_splits,
                                                          const c10d::AllToAllOptions& opts) {
  check_device(output, "all_to_all's output"), check_device(input, "all_to_all's input");
  TORCH_CHECK(output.scalar_type() == input.scalar_type(),
              "ProcessGroupHCCL: all_to_all: input and output have different types");
  TORCH_CHECK(output.is_contiguous() && input.is_contiguous(),
              "ProcessGroupHCCL: all_to_all: input and output must be contiguous");
  return launch({OpType::ALLTOALL_BASE, "hccl:all_to_all", {input, output}, {output}, opts.timeout, opts.asyncOp},
                [&](HcclComm comm, aclrtStream stream) -> Steps {
                  const at::Tensor send = as_real(input), recv = as_real(output);
                  const HcclDataType type = hccl_type(send.scalar_type());
                  const Counts out = counts_of_splits(input_splits, send, size_, "input"),
                               in = counts_of_splits(output_splits, recv, size_, "output");
                  if (!input_splits.empty() || !output_splits.empty())
                    return {all_to_all_v(send, out, recv, in, comm, stream), {}};
                  return {[=, exchange = HCCL_OPTIONAL(HcclAlltoAll)] {
                            const HcclResult result = exchange(send.data_ptr(), out.counts[0], type, recv.data_ptr(),
                                                               in.counts[0], type, comm, stream);
                            if (result != HCCL_SUCCESS) throw_hccl(result, "HcclAlltoAll");
                          },
                          {}};
                });
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::alltoall(Tensors& outputs, Tensors& inputs,
                                                     const c10d::AllToAllOptions& opts) {
  TORCH_CHECK_VALUE(static_cast<int>(outputs.size()) == size_ && static_cast<int>(inputs.size()) == size_,
                    "ProcessGroupHCCL: all_to_all: one input and one output for each of the ", size_,
                    " ranks are expected");
  Tensors all = inputs;
  all.insert(all.end(), outputs.begin(), outputs.end());
  for (const at::Tensor& t : all) check_device(t, "all_to_all's tensors"), check_type(t, inputs[0]);
  return launch({OpType::ALLTOALL, "hccl:all_to_all", std::move(all), outputs, opts.timeout, opts.asyncOp},
                [&](HcclComm comm, aclrtStream stream) -> Steps {
                  const Counts out = counts_of(inputs), in = counts_of(outputs);
                  const at::Tensor send = flat(inputs, inputs[0]), recv = empty_like_flat(outputs[0], in.total);
                  return {all_to_all_v(send, out, recv, in, comm, stream),
                          [recv, to = outputs] { unflatten(recv, to); }};
                });
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::gather(TensorLists& outputs, Tensors& inputs,
                                                   const c10d::GatherOptions& opts) {
  check_one(inputs, "gather");
  check_root(opts.rootRank);
  const bool root = rank_ == opts.rootRank;
  TORCH_CHECK_VALUE(!root || (outputs.size() == 1 && static_cast<int>(outputs[0].size()) == size_),
                    "ProcessGroupHCCL: gather: the root gives one output for each of the ", size_, " ranks");
  const Tensors results = root ? outputs[0] : Tensors{};
  for (const at::Tensor& t : results) check_device(t, "gather's outputs"), check_type(t, inputs[0]);
  Tensors all = results;
  all.push_back(inputs[0]);
  return launch({OpType::GATHER, "hccl:gather", std::move(all), results, opts.timeout, opts.asyncOp},
                [&](HcclComm comm, aclrtStream stream) -> Steps {
                  const at::Tensor send = as_real(inputs[0]).contiguous();
                  Counts out, in = counts_of(results);
                  for (int r = 0; r < size_; ++r) {
                    out.add(r == opts.rootRank ? count(send) : 0);
                    if (!root) in.add(0);
                  }
                  const at::Tensor recv = empty_like_flat(send, in.total);
                  Steps steps{all_to_all_v(send, out, recv, in, comm, stream), {}};
                  if (root) steps.after = [recv, results] { unflatten(recv, results); };
                  return steps;
                });
}

}  // namespace npu::distributed

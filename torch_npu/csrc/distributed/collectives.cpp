// ProcessGroupHCCL's collectives: tensors → one call of HCCL, with what must come before and after it. All-to-all and gather are
// in exchange.cpp.
#include <ATen/ops/empty.h>

#include "csrc/cann/api.h"
#include "csrc/core/device.h"
#include "csrc/core/recovery.h"
#include "csrc/distributed/check.h"
#include "csrc/distributed/group.h"
#include "csrc/distributed/layout.h"
#include "csrc/distributed/reduction.h"
#include "csrc/distributed/types.h"

namespace npu::distributed {
namespace {

using c10d::OpType;
using Tensors = ProcessGroupHCCL::Tensors;

void check_pairs(const Tensors& outputs, const Tensors& inputs) {
  TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "ProcessGroupHCCL: ", outputs.size(), " outputs for ",
                    inputs.size(), " inputs");
}

}  // namespace

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) {
  check_one(tensors, "broadcast");
  check_root(opts.rootRank);
  if (rank_ == opts.rootRank) refuse_unsafe(tensors[0]);
  const at::Tensor tensor = as_real(tensors[0]);
  const auto root = static_cast<uint32_t>(opts.rootRank);
  return launch(
      {OpType::BROADCAST, "hccl:broadcast", tensors, tensors, opts.timeout, opts.asyncOp},
      [&](HcclComm comm, aclrtStream stream) -> Steps {
        const at::Tensor buffer = tensor.contiguous();
        const HcclDataType type = hccl_type(buffer.scalar_type());
        return {
            [=] { HCCL_CHECK(cann::hccl().HcclBroadcast(buffer.data_ptr(), count(buffer), type, root, comm, stream)); },
            copy_back(buffer, tensor)};
      });
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  check_one(tensors, "all_reduce");
  const Reduction reduction(opts.reduceOp, size_);
  const at::Tensor tensor = as_real(tensors[0]);
  return launch(
      {OpType::ALLREDUCE, "hccl:all_reduce", reduction.with_factor(tensors), tensors, opts.timeout, opts.asyncOp},
      [&](HcclComm comm, aclrtStream stream) -> Steps {
        const at::Tensor buffer = reduction.prepare(tensors[0]);
        const HcclDataType type = hccl_type(buffer.scalar_type());
        return {[=] {
                  HCCL_CHECK(cann::hccl().HcclAllReduce(buffer.data_ptr(), buffer.data_ptr(), count(buffer), type,
                                                        reduction.op(), comm, stream));
                },
                reduction.finish(buffer, tensor)};
      });
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::allreduce_coalesced(Tensors& tensors,
                                                                const c10d::AllreduceCoalescedOptions& opts) {
  Together together(*this);
  for (at::Tensor& t : tensors) {
    Tensors one{t};
    allreduce(one, opts);
  }
  return together.end();
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::reduce(Tensors& tensors, const c10d::ReduceOptions& opts) {
  check_one(tensors, "reduce");
  check_root(opts.rootRank);
  const Reduction reduction(opts.reduceOp, size_);
  const at::Tensor tensor = as_real(tensors[0]);
  const auto root = static_cast<uint32_t>(opts.rootRank);
  return launch({OpType::REDUCE, "hccl:reduce", reduction.with_factor(tensors), tensors, opts.timeout, opts.asyncOp},
                [&](HcclComm comm, aclrtStream stream) -> Steps {
                  const at::Tensor buffer = reduction.prepare(tensors[0]);
                  const HcclDataType type = hccl_type(buffer.scalar_type());
                  const auto reduce = HCCL_OPTIONAL(HcclReduce);
                  Steps steps;
                  steps.issue = [=] {
                    const HcclResult result = reduce(buffer.data_ptr(), buffer.data_ptr(), count(buffer), type,
                                                     reduction.op(), root, comm, stream);
                    if (result != HCCL_SUCCESS) throw_hccl(result, "HcclReduce");
                  };
                  if (rank_ == opts.rootRank) steps.after = reduction.finish(buffer, tensor);
                  return steps;
                });
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                            const c10d::AllgatherOptions& opts) {
  check_device(output, "all_gather's output"), check_device(input, "all_gather's input");
  TORCH_CHECK(output.scalar_type() == input.scalar_type(),
              "ProcessGroupHCCL: all_gather: input and output have different types");
  TORCH_CHECK(output.numel() == input.numel() * size_, "ProcessGroupHCCL: all_gather: the output must have ", size_,
              " times the input's elements");
  TORCH_CHECK(output.is_contiguous(), "ProcessGroupHCCL: all_gather: the output must be contiguous");
  return launch(
      {OpType::_ALLGATHER_BASE, "hccl:all_gather_into_tensor", {input, output}, {output}, opts.timeout, opts.asyncOp},
      [&](HcclComm comm, aclrtStream stream) -> Steps {
        const at::Tensor send = as_real(input).contiguous(), recv = as_real(output);
        const HcclDataType type = hccl_type(send.scalar_type());
        return {
            [=] {
              HCCL_CHECK(cann::hccl().HcclAllGather(send.data_ptr(), recv.data_ptr(), count(send), type, comm, stream));
            },
            {}};
      });
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                            const c10d::AllgatherOptions& opts) {
  check_pairs(outputs, inputs);
  Together together(*this);
  for (size_t i = 0; i < inputs.size(); ++i) _allgather_base(outputs[i], inputs[i], opts);
  return together.end();
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::allgather(TensorLists& outputs, Tensors& inputs,
                                                      const c10d::AllgatherOptions& opts) {
  check_one(inputs, "all_gather");
  TORCH_CHECK_VALUE(outputs.size() == 1 && static_cast<int>(outputs[0].size()) == size_,
                    "ProcessGroupHCCL: all_gather: one output for each of the ", size_, " ranks is expected");
  for (const at::Tensor& t : outputs[0]) check_device(t, "all_gather's outputs"), check_type(t, inputs[0]);
  const Counts pieces = counts_of(outputs[0]);
  TORCH_CHECK_VALUE(pieces.counts[static_cast<size_t>(rank_)] == count(as_real(inputs[0])),
                    "ProcessGroupHCCL: all_gather: this rank's output must have its input's size");
  Tensors all = outputs[0];
  all.push_back(inputs[0]);
  return launch(
      {OpType::ALLGATHER, "hccl:all_gather", std::move(all), outputs[0], opts.timeout, opts.asyncOp},
      [&](HcclComm comm, aclrtStream stream) -> Steps {
        const at::Tensor send = as_real(inputs[0]).contiguous(), recv = empty_like_flat(inputs[0], pieces.total);
        const HcclDataType type = hccl_type(send.scalar_type());
        Steps steps;
        if (all_equal(pieces))
          steps.issue = [=] {
            HCCL_CHECK(cann::hccl().HcclAllGather(send.data_ptr(), recv.data_ptr(), count(send), type, comm, stream));
          };
        else
          steps.issue = [=, gather = HCCL_OPTIONAL(HcclAllGatherV)] {
            const HcclResult result = gather(send.data_ptr(), count(send), recv.data_ptr(), pieces.counts.data(),
                                             pieces.displacements.data(), type, comm, stream);
            if (result != HCCL_SUCCESS) throw_hccl(result, "HcclAllGatherV");
          };
        steps.after = [recv, to = outputs[0]] { unflatten(recv, to); };
        return steps;
      });
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                                 const c10d::ReduceScatterOptions& opts) {
  check_device(output, "reduce_scatter's output"), check_device(input, "reduce_scatter's input");
  TORCH_CHECK(output.scalar_type() == input.scalar_type(),
              "ProcessGroupHCCL: reduce_scatter: input and output have different types");
  TORCH_CHECK(input.numel() == output.numel() * size_, "ProcessGroupHCCL: reduce_scatter: the input must have ", size_,
              " times the output's elements");
  const Reduction reduction(opts.reduceOp, size_);
  return launch({OpType::_REDUCE_SCATTER_BASE,
                 "hccl:reduce_scatter_tensor",
                 reduction.with_factor({input, output}),
                 {output},
                 opts.timeout,
                 opts.asyncOp},
                [&](HcclComm comm, aclrtStream stream) -> Steps {
                  const at::Tensor send = reduction.prepare(input), to = as_real(output);
                  const bool direct = to.is_contiguous() && to.scalar_type() == send.scalar_type();
                  const at::Tensor recv = direct ? to : empty_like_flat(send, count(to));
                  const HcclDataType type = hccl_type(send.scalar_type());
                  return {[=] {
                            HCCL_CHECK(cann::hccl().HcclReduceScatter(send.data_ptr(), recv.data_ptr(), count(recv),
                                                                      type, reduction.op(), comm, stream));
                          },
                          reduction.finish(recv, to)};
                });
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                            const c10d::ReduceScatterOptions& opts) {
  check_pairs(outputs, inputs);
  Together together(*this);
  for (size_t i = 0; i < inputs.size(); ++i) _reduce_scatter_base(outputs[i], inputs[i], opts);
  return together.end();
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                                           const c10d::ReduceScatterOptions& opts) {
  check_one(outputs, "reduce_scatter");
  TORCH_CHECK_VALUE(inputs.size() == 1 && static_cast<int>(inputs[0].size()) == size_,
                    "ProcessGroupHCCL: reduce_scatter: one input for each of the ", size_, " ranks is expected");
  for (const at::Tensor& t : inputs[0]) check_device(t, "reduce_scatter's inputs"), check_type(t, outputs[0]);
  const Counts pieces = counts_of(inputs[0]);
  TORCH_CHECK_VALUE(pieces.counts[static_cast<size_t>(rank_)] == count(as_real(outputs[0])),
                    "ProcessGroupHCCL: reduce_scatter: this rank's input must have its output's size");
  const Reduction reduction(opts.reduceOp, size_);
  Tensors all = inputs[0];
  all.push_back(outputs[0]);
  return launch({OpType::REDUCE_SCATTER, "hccl:reduce_scatter", reduction.with_factor(std::move(all)), outputs,
                 opts.timeout, opts.asyncOp},
                [&](HcclComm comm, aclrtStream stream) -> Steps {
                  const at::Tensor send = reduction.prepare(flat(inputs[0], outputs[0])), to = as_real(outputs[0]);
                  const at::Tensor recv = empty_like_flat(send, count(to));
                  const HcclDataType type = hccl_type(send.scalar_type());
                  Steps steps;
                  if (all_equal(pieces))
                    steps.issue = [=] {
                      HCCL_CHECK(cann::hccl().HcclReduceScatter(send.data_ptr(), recv.data_ptr(), count(recv), type,
                                                                reduction.op(), comm, stream));
                    };
                  else
                    steps.issue = [=, scatter = HCCL_OPTIONAL(HcclReduceScatterV)] {
                      const HcclResult result =
                          scatter(send.data_ptr(), pieces.counts.data(), pieces.displacements.data(), recv.data_ptr(),
                                  count(recv), type, reduction.op(), comm, stream);
                      if (result != HCCL_SUCCESS) throw_hccl(result, "HcclReduceScatterV");
                    };
                  steps.after = reduction.finish(recv, to);
                  return steps;
                });
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::scatter(Tensors& outputs, TensorLists& inputs,
                                                    const c10d::ScatterOptions& opts) {
  check_one(outputs, "scatter");
  check_root(opts.rootRank);
  const bool root = rank_ == opts.rootRank;
  TORCH_CHECK_VALUE(!root || (inputs.size() == 1 && static_cast<int>(inputs[0].size()) == size_),
                    "ProcessGroupHCCL: scatter: the root gives one input for each of the ", size_, " ranks");
  Tensors all = root ? inputs[0] : Tensors{};
  all.push_back(outputs[0]);
  for (const at::Tensor& t : all) {
    TORCH_CHECK(t.numel() == outputs[0].numel(),
                "ProcessGroupHCCL: scatter: inputs and output must have the same size");
    check_type(t, outputs[0]);
  }
  return launch({OpType::SCATTER, "hccl:scatter", std::move(all), outputs, opts.timeout, opts.asyncOp},
                [&](HcclComm comm, aclrtStream stream) -> Steps {
                  const at::Tensor send = root ? flat(inputs[0], outputs[0]) : at::Tensor(), to = as_real(outputs[0]);
                  const at::Tensor recv = to.is_contiguous() ? to : empty_like_flat(to, count(to));
                  const HcclDataType type = hccl_type(recv.scalar_type());
                  const auto from = static_cast<uint32_t>(opts.rootRank);
                  return {[=, scatter = HCCL_OPTIONAL(HcclScatter)] {
                            const HcclResult result = scatter(send.defined() ? send.data_ptr() : nullptr,
                                                              recv.data_ptr(), count(recv), type, from, comm, stream);
                            if (result != HCCL_SUCCESS) throw_hccl(result, "HcclScatter");
                          },
                          copy_back(recv, to)};
                });
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::barrier(const c10d::BarrierOptions& opts) {
  const int64_t asked = opts.device_ids.empty() ? own_device() : opts.device_ids[0];
  TORCH_CHECK_VALUE(asked >= 0 && asked < device_count(),
                    "ProcessGroupHCCL: barrier: device_ids: there is no npu:", asked);
  const auto index = static_cast<c10::DeviceIndex>(asked);
  const NPUGuard guard(index);
  const at::Tensor word =
      at::empty({1}, at::TensorOptions().dtype(at::kInt).device(c10::Device(c10::DeviceType::PrivateUse1, index)));
  return launch({OpType::BARRIER, "hccl:barrier", {word}, {}, opts.timeout, true, {}, true},
                [&](HcclComm comm, aclrtStream stream) -> Steps {
                  return {[=] {
                            HCCL_CHECK(cann::hccl().HcclAllReduce(word.data_ptr(), word.data_ptr(), 1,
                                                                  HCCL_DATA_TYPE_INT32, HCCL_REDUCE_SUM, comm, stream));
                          },
                          {}};
                });
}

}  // namespace npu::distributed

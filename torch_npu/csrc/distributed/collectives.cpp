// ProcessGroupHCCL's collectives: tensors → one call of HCCL, with what must come before and after it.
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <numeric>

#include "csrc/cann/api.h"
#include "csrc/core/device.h"
#include "csrc/distributed/check.h"
#include "csrc/distributed/group.h"
#include "csrc/distributed/reduction.h"
#include "csrc/distributed/types.h"

namespace npu::distributed {
namespace {

using c10d::OpType;
using Tensors = ProcessGroupHCCL::Tensors;

uint64_t count(const at::Tensor& t) { return static_cast<uint64_t>(t.numel()); }

// The contents one behind the other.
at::Tensor flat(const Tensors& tensors) {
  Tensors parts;
  for (const at::Tensor& t : tensors) parts.push_back(as_real(t).reshape({-1}));
  return at::cat(parts);
}

void unflatten(const at::Tensor& from, const Tensors& to) {
  int64_t at = 0;
  for (const at::Tensor& t : to) {
    const at::Tensor part = as_real(t);
    const_cast<at::Tensor&>(part).copy_(from.narrow(0, at, part.numel()).view(part.sizes()));
    at += part.numel();
  }
}

struct Counts {  // and displacements, in elements
  std::vector<uint64_t> counts, displacements;
  uint64_t total = 0;
  void add(uint64_t n) {
    counts.push_back(n);
    displacements.push_back(total);
    total += n;
  }
};

Counts counts_of(const Tensors& tensors) {
  Counts c;
  for (const at::Tensor& t : tensors) c.add(count(as_real(t)));
  return c;
}

bool all_equal(const Counts& c) {
  return std::all_of(c.counts.begin(), c.counts.end(), [&](uint64_t n) { return n == c.counts[0]; });
}

Counts counts_of_splits(const std::vector<int64_t>& splits, const at::Tensor& tensor, int ranks, const char* what) {
  Counts c;
  const int64_t rows = tensor.dim() ? tensor.size(0) : 0;
  const auto row = static_cast<uint64_t>(rows ? tensor.numel() / rows : 0);
  if (splits.empty()) {
    TORCH_CHECK(rows % ranks == 0, "ProcessGroupHCCL: all_to_all: ", what, " of ", rows,
                " rows does not split evenly over ", ranks, " ranks");
    for (int r = 0; r < ranks; ++r) c.add(static_cast<uint64_t>(rows / ranks) * row);
    return c;
  }
  TORCH_CHECK(static_cast<int>(splits.size()) == ranks, "ProcessGroupHCCL: all_to_all: ", splits.size(), " ", what,
              " splits for ", ranks, " ranks");
  TORCH_CHECK(std::accumulate(splits.begin(), splits.end(), int64_t{0}) == rows, "ProcessGroupHCCL: all_to_all: the ",
              what, " splits do not add up to its ", rows, " rows");
  for (int64_t s : splits) c.add(static_cast<uint64_t>(s) * row);
  return c;
}

at::Tensor empty_like_flat(const at::Tensor& model, uint64_t n) {
  return at::empty({static_cast<int64_t>(n)}, as_real(model).options().memory_format(c10::nullopt));
}

}  // namespace

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) {
  check_one(tensors, "broadcast");
  check_root(opts.rootRank);
  const at::Tensor tensor = as_real(tensors[0]);
  return launch(
      {OpType::BROADCAST, "hccl:broadcast", tensors, tensors, opts.timeout, opts.asyncOp},
      [&](HcclComm comm, aclrtStream stream) -> After {
        const at::Tensor buffer = dense(tensor) ? tensor : tensor.contiguous();
        HCCL_CHECK(cann::hccl().HcclBroadcast(buffer.data_ptr(), count(buffer), hccl_type(buffer.scalar_type()),
                                              static_cast<uint32_t>(opts.rootRank), comm, stream));
        if (buffer.is_same(tensor)) return {};
        return [tensor, buffer]() mutable { tensor.copy_(buffer); };
      });
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  check_one(tensors, "all_reduce");
  const auto op = opts.reduceOp;
  const at::Tensor tensor = as_real(tensors[0]);
  return launch({OpType::ALLREDUCE, "hccl:all_reduce", tensors, tensors, opts.timeout, opts.asyncOp},
                [&](HcclComm comm, aclrtStream stream) -> After {
                  at::Tensor buffer = reducible(tensors[0], op);
                  HCCL_CHECK(cann::hccl().HcclAllReduce(buffer.data_ptr(), buffer.data_ptr(), count(buffer),
                                                        hccl_type(buffer.scalar_type()), hccl_op(op), comm, stream));
                  const bool copied = buffer.data_ptr() != tensor.data_ptr();
                  if (!copied && op.op_ != c10d::ReduceOp::AVG) return {};
                  return [=, this]() mutable {
                    finish_reduction(buffer, op, size_);
                    if (copied) tensor.copy_(buffer);
                  };
                });
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::allreduce_coalesced(Tensors& tensors,
                                                                const c10d::AllreduceCoalescedOptions& opts) {
  startCoalescing();
  for (at::Tensor& t : tensors) {
    Tensors one{t};
    allreduce(one, opts);
  }
  return endCoalescing();
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::reduce(Tensors& tensors, const c10d::ReduceOptions& opts) {
  check_one(tensors, "reduce");
  check_root(opts.rootRank);
  const auto op = opts.reduceOp;
  const at::Tensor tensor = as_real(tensors[0]);
  return launch({OpType::REDUCE, "hccl:reduce", tensors, tensors, opts.timeout, opts.asyncOp},
                [&](HcclComm comm, aclrtStream stream) -> After {
                  at::Tensor buffer = reducible(tensors[0], op);
                  HCCL_CHECK(HCCL_OPTIONAL(HcclReduce)(buffer.data_ptr(), buffer.data_ptr(), count(buffer),
                                                       hccl_type(buffer.scalar_type()), hccl_op(op),
                                                       static_cast<uint32_t>(opts.rootRank), comm, stream));
                  if (rank_ != opts.rootRank) return {};
                  return [=, this]() mutable {
                    finish_reduction(buffer, op, size_);
                    if (buffer.data_ptr() != tensor.data_ptr()) tensor.copy_(buffer);
                  };
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
      [&](HcclComm comm, aclrtStream stream) -> After {
        const at::Tensor send = as_real(input).contiguous(), recv = as_real(output);
        HCCL_CHECK(cann::hccl().HcclAllGather(send.data_ptr(), recv.data_ptr(), count(send),
                                              hccl_type(send.scalar_type()), comm, stream));
        return {};
      });
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                            const c10d::AllgatherOptions& opts) {
  startCoalescing();
  for (size_t i = 0; i < inputs.size(); ++i) _allgather_base(outputs[i], inputs[i], opts);
  return endCoalescing();
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::allgather(TensorLists& outputs, Tensors& inputs,
                                                      const c10d::AllgatherOptions& opts) {
  check_one(inputs, "all_gather");
  TORCH_CHECK_VALUE(outputs.size() == 1 && static_cast<int>(outputs[0].size()) == size_,
                    "ProcessGroupHCCL: all_gather: one output for each of the ", size_, " ranks is expected");
  for (const at::Tensor& t : outputs[0]) check_device(t, "all_gather's outputs");
  const Counts pieces = counts_of(outputs[0]);
  Tensors all = outputs[0];
  all.push_back(inputs[0]);
  return launch(
      {OpType::ALLGATHER, "hccl:all_gather", std::move(all), outputs[0], opts.timeout, opts.asyncOp},
      [&](HcclComm comm, aclrtStream stream) -> After {
        const at::Tensor send = as_real(inputs[0]).contiguous(), recv = empty_like_flat(inputs[0], pieces.total);
        const HcclDataType type = hccl_type(send.scalar_type());
        if (all_equal(pieces))
          HCCL_CHECK(cann::hccl().HcclAllGather(send.data_ptr(), recv.data_ptr(), count(send), type, comm, stream));
        else
          HCCL_CHECK(HCCL_OPTIONAL(HcclAllGatherV)(send.data_ptr(), count(send), recv.data_ptr(), pieces.counts.data(),
                                                   pieces.displacements.data(), type, comm, stream));
        return [recv, to = outputs[0]] { unflatten(recv, to); };
      });
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                                 const c10d::ReduceScatterOptions& opts) {
  check_device(output, "reduce_scatter's output"), check_device(input, "reduce_scatter's input");
  TORCH_CHECK(output.scalar_type() == input.scalar_type(),
              "ProcessGroupHCCL: reduce_scatter: input and output have different types");
  TORCH_CHECK(input.numel() == output.numel() * size_, "ProcessGroupHCCL: reduce_scatter: the input must have ", size_,
              " times the output's elements");
  const auto op = opts.reduceOp;
  return launch({OpType::_REDUCE_SCATTER_BASE,
                 "hccl:reduce_scatter_tensor",
                 {input, output},
                 {output},
                 opts.timeout,
                 opts.asyncOp},
                [&](HcclComm comm, aclrtStream stream) -> After {
                  const at::Tensor send = reducible(input.contiguous(), op), to = as_real(output);
                  const bool direct = to.is_contiguous() && to.scalar_type() == send.scalar_type();
                  at::Tensor recv = direct ? to : empty_like_flat(send, count(to));
                  HCCL_CHECK(cann::hccl().HcclReduceScatter(send.data_ptr(), recv.data_ptr(), count(recv),
                                                            hccl_type(send.scalar_type()), hccl_op(op), comm, stream));
                  return [=, this]() mutable {
                    finish_reduction(recv, op, size_);
                    if (!direct) to.copy_(recv.view(to.sizes()));
                  };
                });
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                            const c10d::ReduceScatterOptions& opts) {
  startCoalescing();
  for (size_t i = 0; i < inputs.size(); ++i) _reduce_scatter_base(outputs[i], inputs[i], opts);
  return endCoalescing();
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                                           const c10d::ReduceScatterOptions& opts) {
  check_one(outputs, "reduce_scatter");
  TORCH_CHECK_VALUE(inputs.size() == 1 && static_cast<int>(inputs[0].size()) == size_,
                    "ProcessGroupHCCL: reduce_scatter: one input for each of the ", size_, " ranks is expected");
  for (const at::Tensor& t : inputs[0]) check_device(t, "reduce_scatter's inputs");
  const Counts pieces = counts_of(inputs[0]);
  const auto op = opts.reduceOp;
  Tensors all = inputs[0];
  all.push_back(outputs[0]);
  return launch({OpType::REDUCE_SCATTER, "hccl:reduce_scatter", std::move(all), outputs, opts.timeout, opts.asyncOp},
                [&](HcclComm comm, aclrtStream stream) -> After {
                  const at::Tensor send = reducible(flat(inputs[0]), op), to = as_real(outputs[0]);
                  at::Tensor recv = empty_like_flat(send, count(to));
                  const HcclDataType type = hccl_type(send.scalar_type());
                  if (all_equal(pieces))
                    HCCL_CHECK(cann::hccl().HcclReduceScatter(send.data_ptr(), recv.data_ptr(), count(recv), type,
                                                              hccl_op(op), comm, stream));
                  else
                    HCCL_CHECK(HCCL_OPTIONAL(HcclReduceScatterV)(send.data_ptr(), pieces.counts.data(),
                                                                 pieces.displacements.data(), recv.data_ptr(),
                                                                 count(recv), type, hccl_op(op), comm, stream));
                  return [=, this]() mutable {
                    finish_reduction(recv, op, size_);
                    to.copy_(recv.view(to.sizes()));
                  };
                });
}

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
                [&](HcclComm comm, aclrtStream stream) -> After {
                  const at::Tensor send = as_real(input), recv = as_real(output);
                  const HcclDataType type = hccl_type(send.scalar_type());
                  const Counts out = counts_of_splits(input_splits, send, size_, "input"),
                               in = counts_of_splits(output_splits, recv, size_, "output");
                  if (input_splits.empty() && output_splits.empty())
                    HCCL_CHECK(HCCL_OPTIONAL(HcclAlltoAll)(send.data_ptr(), out.counts[0], type, recv.data_ptr(),
                                                           in.counts[0], type, comm, stream));
                  else
                    HCCL_CHECK(HCCL_OPTIONAL(HcclAlltoAllV)(
                        send.data_ptr(), out.counts.data(), out.displacements.data(), type, recv.data_ptr(),
                        in.counts.data(), in.displacements.data(), type, comm, stream));
                  return {};
                });
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::alltoall(Tensors& outputs, Tensors& inputs,
                                                     const c10d::AllToAllOptions& opts) {
  TORCH_CHECK_VALUE(static_cast<int>(outputs.size()) == size_ && static_cast<int>(inputs.size()) == size_,
                    "ProcessGroupHCCL: all_to_all: one input and one output for each of the ", size_,
                    " ranks are expected");
  Tensors all = inputs;
  all.insert(all.end(), outputs.begin(), outputs.end());
  for (const at::Tensor& t : all) check_device(t, "all_to_all's tensors");
  return launch({OpType::ALLTOALL, "hccl:all_to_all", std::move(all), outputs, opts.timeout, opts.asyncOp},
                [&](HcclComm comm, aclrtStream stream) -> After {
                  const Counts out = counts_of(inputs), in = counts_of(outputs);
                  const at::Tensor send = flat(inputs), recv = empty_like_flat(outputs[0], in.total);
                  const HcclDataType type = hccl_type(send.scalar_type());
                  HCCL_CHECK(HCCL_OPTIONAL(HcclAlltoAllV)(send.data_ptr(), out.counts.data(), out.displacements.data(),
                                                          type, recv.data_ptr(), in.counts.data(),
                                                          in.displacements.data(), type, comm, stream));
                  return [recv, to = outputs] { unflatten(recv, to); };
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
  for (const at::Tensor& t : all)
    TORCH_CHECK(t.numel() == outputs[0].numel(),
                "ProcessGroupHCCL: scatter: inputs and output must have the same size");
  return launch({OpType::SCATTER, "hccl:scatter", std::move(all), outputs, opts.timeout, opts.asyncOp},
                [&](HcclComm comm, aclrtStream stream) -> After {
                  const at::Tensor send = root ? flat(inputs[0]) : at::Tensor(), to = as_real(outputs[0]);
                  const at::Tensor recv = to.is_contiguous() ? to : empty_like_flat(to, count(to));
                  HCCL_CHECK(HCCL_OPTIONAL(HcclScatter)(root ? send.data_ptr() : nullptr, recv.data_ptr(), count(recv),
                                                        hccl_type(recv.scalar_type()),
                                                        static_cast<uint32_t>(opts.rootRank), comm, stream));
                  if (recv.is_same(to)) return {};
                  return [to, recv]() mutable { to.copy_(recv.view(to.sizes())); };
                });
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::barrier(const c10d::BarrierOptions& opts) {
  c10::DeviceIndex index = current_device();
  if (!opts.device_ids.empty())
    index = static_cast<c10::DeviceIndex>(opts.device_ids[0]);
  else if (getBoundDeviceId())
    index = getBoundDeviceId()->index();
  else if (last_device_)
    index = *last_device_;
  const NPUGuard guard(index);
  const at::Tensor word =
      at::empty({1}, at::TensorOptions().dtype(at::kInt).device(c10::Device(c10::DeviceType::PrivateUse1, index)));
  return launch({OpType::BARRIER, "hccl:barrier", {word}, {}, opts.timeout, true, kCollective, true},
                [&](HcclComm comm, aclrtStream stream) -> After {
                  HCCL_CHECK(cann::hccl().HcclAllReduce(word.data_ptr(), word.data_ptr(), 1, HCCL_DATA_TYPE_INT32,
                                                        HCCL_REDUCE_SUM, comm, stream));
                  return [word] {};  // its memory is given back on the stream that used it
                });
}

}  // namespace npu::distributed

// See peers.h.
#include "softnpu/ops/peers.h"

#include <dlfcn.h>

#include <string>
#include <vector>

#include "acl/api.h"
#include "hccl/api.h"
#include "hccl/soft.h"

namespace softnpu::ops {
namespace {

// The communicator was made by the library that the process has loaded, under whatever path.
void* symbol(const char* name) {
  void* const library = dlopen("libhccl.so", RTLD_NOW | RTLD_NOLOAD);
  TORCH_CHECK(library,
              "there is no group: call torch.distributed.init_process_group('hccl') first; the group's name is what "
              "get_hccl_comm_name of its backend gives");
  void* const found = dlsym(library, name);
  dlclose(library);  // the count that RTLD_NOLOAD took
  TORCH_CHECK(found, "the libhccl.so that is loaded has no ", name);
  return found;
}

void check(HcclResult result, const char* name) {
  if (result == HCCL_SUCCESS) return;
  const char* text = aclGetRecentErrMsg();
  TORCH_CHECK(false, text && *text ? text : name, " (HcclResult ", static_cast<int>(result), ")");
}

// Looked up once each: a library that has communicators stays.
#define CALL(name, ...)                                                        \
  do {                                                                         \
    static const auto call = reinterpret_cast<decltype(&name)>(symbol(#name)); \
    check(call(__VA_ARGS__), #name);                                           \
  } while (false)

HcclDataType type_of(const at::Tensor& t) {
  switch (t.scalar_type()) {
    case at::kHalf:
      return HCCL_DATA_TYPE_FP16;
    case at::kBFloat16:
      return HCCL_DATA_TYPE_BFP16;
    case at::kFloat:
      return HCCL_DATA_TYPE_FP32;
    case at::kInt:
      return HCCL_DATA_TYPE_INT32;
    case at::kLong:
      return HCCL_DATA_TYPE_INT64;
    case at::kChar:
      return HCCL_DATA_TYPE_INT8;
    case at::kByte:
      return HCCL_DATA_TYPE_UINT8;
    case at::ScalarType::Bits8:  // hifloat8.h
      return HCCL_DATA_TYPE_HIF8;
    default:
      TORCH_CHECK(false, "a group does not exchange tensors of ", t.scalar_type());
  }
}

void need_dense(const at::Tensor& from, const at::Tensor& to) {
  TORCH_CHECK(from.is_contiguous() && to.is_contiguous(), "what a group exchanges must be contiguous");
  TORCH_CHECK(from.scalar_type() == to.scalar_type(), "a group receives ", to.scalar_type(), " where ",
              from.scalar_type(), " is sent");
}

uint64_t count(const at::Tensor& t) { return static_cast<uint64_t>(t.numel()); }

}  // namespace

Peers::Peers(std::string_view group) {
  const std::string name(group);
  TORCH_CHECK(!name.empty() && name.size() < COMM_NAME_MAX_LENGTH, "the group's name '", name, "' has ", name.size(),
              " characters, not 1 to ", COMM_NAME_MAX_LENGTH - 1,
              "; get_hccl_comm_name of the process group's backend gives it");
  uint32_t ranks = 0, rank = 0;
  CALL(HcomGetCommHandleByGroup, name.c_str(), &comm_);
  CALL(HcclGetRankSize, comm_, &ranks);
  CALL(HcclGetRankId, comm_, &rank);
  ranks_ = ranks, rank_ = rank;
}

void Peers::all_reduce(const at::Tensor& from, const at::Tensor& to) const {
  need_dense(from, to);
  CALL(HcclAllReduce, from.data_ptr(), to.data_ptr(), count(from), type_of(from), HCCL_REDUCE_SUM, comm_, stream_);
}

void Peers::all_gather(const at::Tensor& from, const at::Tensor& to) const {
  need_dense(from, to);
  TORCH_INTERNAL_ASSERT(to.numel() == from.numel() * ranks_);
  CALL(HcclAllGather, from.data_ptr(), to.data_ptr(), count(from), type_of(from), comm_, stream_);
}

void Peers::reduce_scatter(const at::Tensor& from, const at::Tensor& to) const {
  need_dense(from, to);
  TORCH_INTERNAL_ASSERT(from.numel() == to.numel() * ranks_);
  CALL(HcclReduceScatter, from.data_ptr(), to.data_ptr(), count(to), type_of(from), HCCL_REDUCE_SUM, comm_, stream_);
}

void Peers::all_to_all(const at::Tensor& from, const at::Tensor& to) const {
  need_dense(from, to);
  TORCH_INTERNAL_ASSERT(from.numel() == to.numel());
  const uint64_t part = count(from) / static_cast<uint64_t>(ranks_);
  CALL(HcclAlltoAll, from.data_ptr(), part, type_of(from), to.data_ptr(), part, type_of(to), comm_, stream_);
}

void Peers::all_to_all_v(const at::Tensor& from, at::IntArrayRef sent, const at::Tensor& to,
                         at::IntArrayRef received) const {
  need_dense(from, to);
  const size_t n = static_cast<size_t>(ranks_);
  TORCH_INTERNAL_ASSERT(sent.size() == n && received.size() == n);
  std::vector<uint64_t> rows[4];  // counts and offsets of what is sent, and of what is received; in elements
  for (int side = 0; side < 2; side++) {
    const uint64_t row = static_cast<uint64_t>((side ? to : from).size(1));
    uint64_t at = 0;
    for (const int64_t rows_of_rank : side ? received : sent) {
      const uint64_t elements = static_cast<uint64_t>(rows_of_rank) * row;
      rows[2 * side].push_back(elements);
      rows[2 * side + 1].push_back(at);
      at += elements;
    }
  }
  CALL(HcclAlltoAllV, from.data_ptr(), rows[0].data(), rows[1].data(), type_of(from), to.data_ptr(), rows[2].data(),
       rows[3].data(), type_of(to), comm_, stream_);
}

void Peers::barrier() const { CALL(HcclBarrier, comm_, stream_); }

void Peers::barrier(const at::Tensor& limit) const {
  TORCH_INTERNAL_ASSERT(limit.scalar_type() == at::kLong && limit.numel() == 1);
  CALL(softnpuHcclBarrierWithin, comm_, static_cast<const int64_t*>(limit.const_data_ptr()), stream_);
}

#undef CALL

}  // namespace softnpu::ops

// A collective as data: which bytes of which rank's send buffer become which bytes of whose receive buffer. The collectives only
// write this down (collectives/*.cpp); how it is carried out is the same for all (execute.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hccl/types.h"

namespace softnpu::hccl {

constexpr uint32_t kAll = ~0u;

struct Segment {
  uint32_t from, to;  // a rank; from kAll: reduced over all ranks in rank order; to kAll: to every rank
  uint64_t from_offset, to_offset, bytes;
};

// Whose data a rank needs before it can work on a small message. Large messages need everybody: they are written where they belong.
enum class Needs : uint8_t { kEverybody, kRoot, kNobody };

struct Call;
// The counts and offsets that `rank` gave (uneven collectives): four rows of `ranks` numbers, in bytes.
struct Tables {
  const uint64_t* (*of)(const void* context, uint32_t rank);
  const void* context;
  const uint64_t* operator()(uint32_t rank) const { return of(context, rank); }
};
enum Row : uint32_t { kSendBytes, kSendOffset, kRecvBytes, kRecvOffset };

using Plan = void (*)(const Call& call, uint32_t ranks, const Tables& tables, std::vector<Segment>& out);

struct Call {
  const char* name;  // "HcclAllReduce"
  HcclCMDType kind;
  HcclDataType type;
  HcclReduceOp op = HCCL_REDUCE_RESERVED;
  uint32_t root = 0;
  uint64_t count = 0;  // as the caller gave it; compared over the ranks
  const void* send = nullptr;
  void* recv = nullptr;
  uint64_t send_bytes = 0, recv_bytes = 0;
  uint64_t largest_send = 0;  // of any rank: decides, the same for all, whether the payload goes into the slot
  Needs needs = Needs::kEverybody;
  bool uneven = false;  // ranks do not know each other's sizes: each decides for itself, and counts are not compared
  std::vector<uint64_t> table = {};
  Plan plan = nullptr;
  const int64_t* limit_ms = nullptr;  // of hccl/soft.h, read when it runs; null: the communicator's limit
};

// One message of a batch.
struct Transfer {
  bool send;
  uint32_t peer;
  void* buffer;
  uint64_t bytes;
  HcclDataType type;
};

}  // namespace softnpu::hccl

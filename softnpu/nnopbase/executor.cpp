// aclOpExecutor's C API, its slow paths, and the addresses that graph update may change.
#include "softnpu/nnopbase/executor.h"

#include <cstdlib>
#include <new>

#include "acl/api.h"
#include "softnpu/nnopbase/error.h"

namespace nnopbase {
NNOPBASE_DEFINE_SLAB(Executors)

void* arena_grow(aclOpExecutor* e, size_t bytes) {
  constexpr size_t kHeader = 16;
  size_t size = bytes + kHeader > 8192 ? bytes + kHeader : 8192;
  auto* chunk = static_cast<Chunk*>(std::aligned_alloc(16, (size + 15) & ~size_t(15)));
  if (!chunk) throw std::bad_alloc();
  chunk->next = e->chunks;
  e->chunks = chunk;
  char* at = reinterpret_cast<char*>(chunk) + kHeader;
  e->next = at + bytes;
  e->end = reinterpret_cast<char*>(chunk) + size;
  return at;
}

void free_executor(aclOpExecutor* e) noexcept {
  while (Chunk* chunk = e->chunks) {
    e->chunks = chunk->next;
    std::free(chunk);
  }
  Executors::free(e);
}

namespace {

enum class Side { kAny, kInput, kOutput };

bool wanted(const Arg& arg, Side side) { return side == Side::kAny || arg.out == (side == Side::kOutput); }

// Tensors are counted by parameter, as declared, null ones too.
aclnnStatus set_address(const char* name, aclOpExecutor* handle, size_t index, aclTensor* tensor, void* address,
                        Side side) {
  aclOpExecutor* e = Executors::find(handle);
  if (!e) return bad_handle(name, "executor");
  for (int i = 0; i < e->nargs; i++) {
    Arg& arg = e->args[i];
    if (arg.kind != Kind::kTensor || !wanted(arg, side) || index-- != 0) continue;
    const aclTensor* t = Tensors::find(tensor);
    arg.tensor->data = static_cast<char*>(address) + (t ? t->offset * arg.tensor->item : 0);
    return 0;
  }
  return report(ACLNN_ERR_PARAM_INVALID, "aclSet*TensorAddr: the executor has no tensor of that index");
}

aclnnStatus set_address_in_list(const char* name, aclOpExecutor* handle, size_t index, size_t member, void* address,
                                Side side) {
  aclOpExecutor* e = Executors::find(handle);
  if (!e) return bad_handle(name, "executor");
  for (int i = 0; i < e->nargs; i++) {
    Arg& arg = e->args[i];
    bool list = arg.kind == Kind::kTensors;
    if ((!list && arg.kind != Kind::kTensor) || !wanted(arg, side) || index-- != 0) continue;
    if (!list || member >= arg.count || !arg.tensors[member]) break;
    arg.tensors[member]->data = static_cast<char*>(address);
    return 0;
  }
  return report(ACLNN_ERR_PARAM_INVALID, "aclSetDynamic*TensorAddr: the executor has no list member of that index");
}

}  // namespace
}  // namespace nnopbase

using namespace nnopbase;

extern "C" {

NNOPBASE_API aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor) {
  aclOpExecutor* e = Executors::find(executor);
  if (!e || e->launched) return bad_handle("aclSetAclOpExecutorRepeatable", "executor");
  e->repeatable = true;
  return 0;
}

NNOPBASE_API aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor) {
  if (!executor) return null_argument("aclDestroyAclOpExecutor", "executor");
  aclOpExecutor* e = Executors::find(executor);
  if (!e || e->launched)
    return bad_handle("aclDestroyAclOpExecutor", "executor");  // a launched one belongs to its task
  e->launched = true;
  release_executor(e);
  return 0;
}

#define SET_ADDRESS(name, side)                                                                               \
  NNOPBASE_API aclnnStatus name(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* addr) { \
    return set_address(#name, executor, index, tensor, addr, side);                                           \
  }
#define SET_LIST_ADDRESS(name, side)                                                                 \
  NNOPBASE_API aclnnStatus name(aclOpExecutor* executor, size_t irIndex, const size_t relativeIndex, \
                                aclTensorList* tensors, void* addr) {                                \
    return set_address_in_list(#name, executor, irIndex, relativeIndex, addr, side);                 \
  }
SET_ADDRESS(aclSetTensorAddr, Side::kAny)
SET_ADDRESS(aclSetInputTensorAddr, Side::kInput)
SET_ADDRESS(aclSetOutputTensorAddr, Side::kOutput)
SET_ADDRESS(AclSetTensorAddr, Side::kAny)
SET_ADDRESS(AclSetInputTensorAddr, Side::kInput)
SET_ADDRESS(AclSetOutputTensorAddr, Side::kOutput)
SET_LIST_ADDRESS(aclSetDynamicTensorAddr, Side::kAny)
SET_LIST_ADDRESS(aclSetDynamicInputTensorAddr, Side::kInput)
SET_LIST_ADDRESS(aclSetDynamicOutputTensorAddr, Side::kOutput)
SET_LIST_ADDRESS(AclSetDynamicTensorAddr, Side::kAny)
SET_LIST_ADDRESS(AclSetDynamicInputTensorAddr, Side::kInput)
SET_LIST_ADDRESS(AclSetDynamicOutputTensorAddr, Side::kOutput)

NNOPBASE_API aclnnStatus aclnnInit(const char* configPath) { return 0; }
NNOPBASE_API aclnnStatus aclnnFinalize() { return 0; }

}  // extern "C"

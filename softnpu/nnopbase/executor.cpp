// aclOpExecutor's C API, its slow paths, and the addresses that graph update may change.
#include "softnpu/nnopbase/executor.h"

#include <cstdlib>
#include <cstring>
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

void release_executor(aclOpExecutor* e) noexcept {
  while (Chunk* chunk = e->chunks) {
    e->chunks = chunk->next;
    std::free(chunk);
  }
  Executors::free(e);
}

namespace {

template <class T>
T* copied(aclOpExecutor* to, const T* from, size_t bytes) {
  return from ? static_cast<T*>(std::memcpy(arena(to, bytes), from, bytes)) : nullptr;
}

// Points the argument's values into the arena of `to`.
void copy_values(aclOpExecutor* to, Arg& a) {
  switch (a.kind) {
    case Kind::kTensor:
      if (a.tensor) a.tensor = copied(to, a.tensor, a.tensor->bytes());
      break;
    case Kind::kTensors:
      a.tensors = copied(to, a.tensors, a.count * sizeof(TensorCopy*));
      for (uint32_t i = 0; i < a.count; i++) {
        if (a.tensors[i]) a.tensors[i] = copied(to, a.tensors[i], a.tensors[i]->bytes());
      }
      break;
    case Kind::kScalar:
      a.scalar = copied(to, a.scalar, sizeof(ScalarCopy));
      break;
    case Kind::kScalars:
      a.scalars = copied(to, a.scalars, a.count * sizeof(ScalarCopy));
      break;
    case Kind::kInts:
      a.ints = copied(to, a.ints, a.count * sizeof(int64_t));
      break;
    case Kind::kFloats:
      a.floats = copied(to, a.floats, a.count * sizeof(float));
      break;
    case Kind::kBools:
      a.bools = copied(to, a.bools, a.count * sizeof(bool));
      break;
    case Kind::kString:
      a.string = copied(to, a.string, a.count + 1);
      break;
    case Kind::kNull:
    case Kind::kInt:
    case Kind::kDouble:
      break;
  }
}

}  // namespace

aclOpExecutor* copy_executor(const aclOpExecutor& from) noexcept {
  aclOpExecutor* to = nullptr;
  try {
    to = make_executor(from.op, from.nargs);
    if (!to) return nullptr;
    to->elements = from.elements;
    to->largest = from.largest;
    for (int i = 0; i < from.nargs; i++) {
      to->args[i] = from.args[i];
      copy_values(to, to->args[i]);
    }
    to->nargs = from.nargs;
    return to;
  } catch (const std::bad_alloc&) {
    if (to) release_executor(to);
    return nullptr;
  }
}

namespace {

enum class Side { kAny, kInput, kOutput };

bool wanted(const Arg& arg, Side side) { return side == Side::kAny || arg.out == (side == Side::kOutput); }

// The executor of a call that changes an address; null with the status to return if there is none. A launched one belongs
// to its task.
aclOpExecutor* changeable(const char* name, const aclOpExecutor* executor, const void* tensor, aclnnStatus* status) {
  aclOpExecutor* e = Executors::find(executor);
  if (!executor || !tensor) {
    *status = null_argument(name, executor ? "tensor" : "executor");
  } else if (!e || e->launched) {
    *status = bad_handle(name, "executor");
  } else {
    return e;
  }
  return nullptr;
}

void move(TensorCopy* tensor, void* address) { tensor->data = static_cast<char*>(address) + tensor->offset; }

// Tensors are counted by parameter, as declared, null ones too.
aclnnStatus set_address(const char* name, aclOpExecutor* handle, size_t index, aclTensor* tensor, void* address,
                        Side side) {
  aclnnStatus status = 0;
  aclOpExecutor* e = changeable(name, handle, tensor, &status);
  if (!e) return status;
  if (!Tensors::find(tensor)) return bad_handle(name, "tensor");
  for (int i = 0; i < e->nargs; i++) {
    Arg& arg = e->args[i];
    if (arg.kind != Kind::kTensor || !wanted(arg, side) || index-- != 0) continue;
    if (!arg.tensor) break;
    move(arg.tensor, address);
    return 0;
  }
  return report(ACLNN_ERR_PARAM_INVALID, "aclSet*TensorAddr: the executor has no tensor of that index");
}

aclnnStatus set_address_in_list(const char* name, aclOpExecutor* handle, size_t index, size_t member,
                                aclTensorList* list, void* address, Side side) {
  aclnnStatus status = 0;
  aclOpExecutor* e = changeable(name, handle, list, &status);
  if (!e) return status;
  if (!TensorLists::find(list)) return bad_handle(name, "tensors");
  for (int i = 0; i < e->nargs; i++) {
    Arg& arg = e->args[i];
    bool is_list = arg.kind == Kind::kTensors;
    if ((!is_list && arg.kind != Kind::kTensor) || !wanted(arg, side) || index-- != 0) continue;
    if (!is_list || member >= arg.count || !arg.tensors[member]) break;
    move(arg.tensors[member], address);
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
    return set_address_in_list(#name, executor, irIndex, relativeIndex, tensors, addr, side);        \
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

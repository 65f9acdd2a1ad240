// aclOpExecutor: the closure between the two phases of an aclnn call. It owns copies of everything the caller described
// (the caller destroys its handles as soon as phase two has returned) and knows nothing of what will run.
// Who uses it: softnpu/ops fills it in phase one and runs it in phase two. What it is not: the queue (runtime/enqueue.h).
//
// Life: it has one owner. Phase one gives it to the caller, phase two of an ordinary executor to the task, whose drop frees
// it. A repeatable one (aclSetAclOpExecutorRepeatable) stays the caller's, and each launch gives the task a copy of its own:
// what aclSet*TensorAddr changes later is not seen by work that is queued already. A task may run many times (graph replay):
// running changes nothing here.
#pragma once

#include <cstdint>

#include "softnpu/nnopbase/handles.h"

namespace nnopbase {

enum class Kind : uint8_t {
  kNull,
  kTensor,
  kScalar,
  kInts,
  kFloats,
  kBools,
  kTensors,
  kScalars,
  kInt,
  kDouble,
  kString
};

// A copy of an aclTensor: sizes and strides follow it in the executor's arena.
struct TensorCopy {
  char* data;  // the first element: the offset is applied
  int64_t numel;
  int64_t offset;     // bytes from the storage's address to `data`
  aclTensor* handle;  // the caller's; only outputs whose shape depends on data look at it again
  int32_t dtype;      // aclDataType
  uint8_t ndim;
  uint8_t item;  // bytes of an element
  bool contiguous;
  int8_t format;

  int64_t* dims() { return reinterpret_cast<int64_t*>(this + 1); }
  const int64_t* sizes() const { return reinterpret_cast<const int64_t*>(this + 1); }
  const int64_t* strides() const { return sizes() + ndim; }
  size_t bytes() const { return sizeof(TensorCopy) + 2 * ndim * sizeof(int64_t); }
};

struct ScalarCopy {
  int32_t dtype;
  alignas(16) unsigned char value[16];
};

// One argument, in the order of the declaration.
struct Arg {
  Kind kind;
  bool in;         // read
  bool out;        // written; both: changed in place
  uint32_t count;  // of lists and arrays; length of a string
  union {
    TensorCopy* tensor;
    TensorCopy** tensors;  // a null member is a null pointer
    ScalarCopy* scalar;
    ScalarCopy* scalars;
    const int64_t* ints;
    const float* floats;
    const bool* bools;
    const char* string;
    int64_t i;
    double d;
  };
};
static_assert(sizeof(Arg) == 16);

struct Chunk {
  Chunk* next;
};

}  // namespace nnopbase

struct aclOpExecutor : nnopbase::Slot {
  uint16_t nargs;
  bool repeatable;
  bool launched;
  const void* op;  // softnpu/ops' description of the operator
  nnopbase::Arg* args;
  int64_t elements;  // of all tensors together: what the cost estimate is made from
  int64_t largest;   // elements of the largest tensor
  char* next;        // arena: bump pointer and end
  char* end;
  nnopbase::Chunk* chunks;  // what did not fit into the slot
  int32_t threads;          // ATen threads for a wide kernel
  int32_t spare;
  alignas(16) char room[928];
};
static_assert(sizeof(aclOpExecutor) <= 1024);

namespace nnopbase {

using Executors = Slab<aclOpExecutor, 0xa8, 1024, 1 << 20>;
NNOPBASE_DECLARE_SLAB(Executors)

NNOPBASE_API void* arena_grow(aclOpExecutor* executor, size_t bytes);  // throws std::bad_alloc
NNOPBASE_API void release_executor(aclOpExecutor* executor) noexcept;  // by its owner
// Another with the same arguments; null if too many executors are alive or the host is out of memory.
NNOPBASE_API aclOpExecutor* copy_executor(const aclOpExecutor& executor) noexcept;

inline void* arena(aclOpExecutor* executor, size_t bytes) {
  bytes = (bytes + 15) & ~size_t(15);
  char* at = executor->next;
  if (bytes > size_t(executor->end - at)) return arena_grow(executor, bytes);
  executor->next = at + bytes;
  return at;
}

// Null if too many executors are alive.
inline aclOpExecutor* make_executor(const void* op, uint16_t nargs) {
  aclOpExecutor* e = Executors::make();
  if (!e) return nullptr;
  e->nargs = 0;
  e->repeatable = e->launched = false;
  e->op = op;
  e->elements = e->largest = 0;
  e->next = e->room;
  e->end = e->room + sizeof e->room;
  e->chunks = nullptr;
  e->args = static_cast<Arg*>(arena(e, nargs * sizeof(Arg)));
  return e;
}

inline TensorCopy* copy_tensor(aclOpExecutor* e, const aclTensor* t, aclTensor* handle) {
  auto* copy = static_cast<TensorCopy*>(arena(e, sizeof(TensorCopy) + 2 * t->ndim * sizeof(int64_t)));
  int item = item_size(t->dtype);
  copy->offset = t->offset * item;
  copy->data = static_cast<char*>(t->data) + copy->offset;
  copy->numel = t->numel;
  copy->handle = handle;
  copy->dtype = t->dtype;
  copy->ndim = t->ndim;
  copy->item = static_cast<uint8_t>(item);
  copy->contiguous = t->contiguous;
  copy->format = static_cast<int8_t>(t->format);
  int64_t* dims = copy->dims();
  for (int i = 0; i < 2 * t->ndim; i++) dims[i] = t->dims[i];
  if (__builtin_add_overflow(e->elements, t->numel, &e->elements)) e->elements = INT64_MAX;
  if (t->numel > e->largest) e->largest = t->numel;
  return copy;
}

}  // namespace nnopbase

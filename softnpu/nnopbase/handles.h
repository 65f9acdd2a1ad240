// What the opaque handles of the aclnn meta API are inside. Who includes it: nnopbase, and softnpu/ops (which reads
// descriptors directly). What it is not: the C API (acl/api.h) or what an executor keeps (executor.h: copies).
#pragma once

#include <cstdint>
#include <cstring>

#include "acl/types.h"
#include "softnpu/nnopbase/slab.h"

// A view on device memory. `dims` holds sizes, then strides, then the storage's sizes.
struct aclTensor : nnopbase::Slot {
  int32_t dtype;   // aclDataType
  int32_t format;  // aclFormat: kept as a tag, data is always ND
  uint8_t ndim;
  uint8_t storage_ndim;
  bool contiguous;
  bool initialized;
  int64_t offset;  // in elements, from `data`
  void* data;      // start of the storage
  int64_t numel;
  int64_t* dims;  // inline_dims, or new[] for more than kInline numbers
  static constexpr int kInline = 24;
  int64_t inline_dims[kInline];

  const int64_t* sizes() const { return dims; }
  const int64_t* strides() const { return dims + ndim; }
  const int64_t* storage_sizes() const { return dims + 2 * ndim; }
};
static_assert(sizeof(aclTensor) <= 256);

struct aclScalar : nnopbase::Slot {
  int32_t dtype;
  alignas(16) unsigned char value[16];
};

// Arrays keep up to kInline bytes in the slot.
template <class T>
struct Array : nnopbase::Slot {
  T* values;
  uint64_t size;
  static constexpr uint64_t kInline = 96 / sizeof(T);
  T inline_values[kInline];
};
struct aclIntArray : Array<int64_t> {};
struct aclFloatArray : Array<float> {};
struct aclBoolArray : Array<bool> {};
struct aclTensorList : Array<aclTensor*> {};  // owns its members
struct aclScalarList : Array<aclScalar*> {};  // owns its members

namespace nnopbase {

using Tensors = Slab<aclTensor, 0xa1, 256, 1 << 20>;
using Scalars = Slab<aclScalar, 0xa2, 64, 1 << 20>;
using IntArrays = Slab<aclIntArray, 0xa3, 128, 1 << 18>;
using FloatArrays = Slab<aclFloatArray, 0xa4, 128, 1 << 16>;
using BoolArrays = Slab<aclBoolArray, 0xa5, 128, 1 << 16>;
using TensorLists = Slab<aclTensorList, 0xa6, 128, 1 << 16>;
using ScalarLists = Slab<aclScalarList, 0xa7, 128, 1 << 16>;
NNOPBASE_DECLARE_SLAB(Tensors)
NNOPBASE_DECLARE_SLAB(Scalars)
NNOPBASE_DECLARE_SLAB(IntArrays)
NNOPBASE_DECLARE_SLAB(FloatArrays)
NNOPBASE_DECLARE_SLAB(BoolArrays)
NNOPBASE_DECLARE_SLAB(TensorLists)
NNOPBASE_DECLARE_SLAB(ScalarLists)

// Bytes of one element; 0 for a type that has none of its own (ACL_STRING, packed 4-bit types count as 1).
inline int item_size(int32_t dtype) {
  static constexpr uint8_t kSizes[42] = {4, 2, 1, 4, 1, 0, 2, 2, 4, 8, 8, 8, 1, 0, 0, 0, 8, 16, 0, 0, 0,
                                         0, 0, 0, 0, 0, 0, 2, 0, 1, 1, 0, 0, 4, 1, 1, 1, 1, 1,  1, 1, 1};
  return dtype >= 0 && dtype < 42 ? kSizes[dtype] : 0;
}

// Writes a result's shape into the caller's handle (operators whose output shape depends on data). The tensor becomes
// contiguous. False if the handle is no longer alive or the rank does not fit it.
NNOPBASE_API bool set_view_shape(aclTensor* handle, const int64_t* sizes, int ndim) noexcept;

}  // namespace nnopbase

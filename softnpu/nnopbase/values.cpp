// aclScalar and the arrays of numbers: make, read, destroy.
#include <algorithm>

#include "acl/api.h"
#include "softnpu/nnopbase/error.h"
#include "softnpu/nnopbase/handles.h"

namespace nnopbase {
NNOPBASE_DEFINE_SLAB(Scalars)
NNOPBASE_DEFINE_SLAB(IntArrays)
NNOPBASE_DEFINE_SLAB(FloatArrays)
NNOPBASE_DEFINE_SLAB(BoolArrays)
NNOPBASE_DEFINE_SLAB(ScalarLists)

namespace {

constexpr uint64_t kMaxValues = 1 << 24;

template <class Pool, class Handle, class T>
Handle* make_array(const T* from, uint64_t size, const char* function) {
  if (struck(function)) return nullptr;
  if (size && !from) {
    null_argument(function, "value");
    return nullptr;
  }
  if (size > kMaxValues) return report_null("an array of more than 16777216 values");
  Handle* array = Pool::make();
  if (!array) return report_null("too many live arrays");
  array->size = size;
  array->values = size <= Handle::kInline ? array->inline_values : new (std::nothrow) T[size];
  if (!array->values) {
    Pool::free(array);
    return report_null("out of host memory");
  }
  std::copy_n(from, size, array->values);
  return Pool::handle(array);
}

template <class Pool, class Handle>
void free_array(Handle* array) {
  if (array->values != array->inline_values) delete[] array->values;
  Pool::free(array);
}

template <class Pool>
aclnnStatus destroy_array(const void* handle, const char* function) {
  if (!handle) return 0;
  auto* array = Pool::find(handle);
  if (!array) return bad_handle(function, "array");
  if (const aclnnStatus status = struck(function)) return status;
  free_array<Pool>(array);
  return 0;
}

template <class Pool>
aclnnStatus array_size(const void* handle, uint64_t* size, const char* function) {
  if (!size) return null_argument(function, "size");
  auto* array = Pool::find(handle);
  if (!array) return bad_handle(function, "array");
  *size = array->size;
  return 0;
}

}  // namespace
}  // namespace nnopbase

using namespace nnopbase;

extern "C" {

NNOPBASE_API aclScalar* aclCreateScalar(void* value, aclDataType dataType) {
  int bytes = item_size(dataType);
  if (!value || !bytes) return report_null("aclCreateScalar: value is null, or a type without a size");
  if (struck("aclCreateScalar")) return nullptr;
  aclScalar* scalar = Scalars::make();
  if (!scalar) return report_null("aclCreateScalar: too many live scalars");
  scalar->dtype = dataType;
  std::memcpy(scalar->value, value, bytes);
  return Scalars::handle(scalar);
}

NNOPBASE_API aclnnStatus aclDestroyScalar(const aclScalar* scalar) {
  if (!scalar) return 0;
  aclScalar* slot = Scalars::find(scalar);
  if (!slot) return bad_handle("aclDestroyScalar", "scalar");
  if (const aclnnStatus status = struck("aclDestroyScalar")) return status;
  Scalars::free(slot);
  return 0;
}

NNOPBASE_API aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size) {
  return make_array<IntArrays, aclIntArray>(value, size, "aclCreateIntArray");
}
NNOPBASE_API aclFloatArray* aclCreateFloatArray(const float* value, uint64_t size) {
  return make_array<FloatArrays, aclFloatArray>(value, size, "aclCreateFloatArray");
}
NNOPBASE_API aclBoolArray* aclCreateBoolArray(const bool* value, uint64_t size) {
  return make_array<BoolArrays, aclBoolArray>(value, size, "aclCreateBoolArray");
}
NNOPBASE_API aclScalarList* aclCreateScalarList(const aclScalar** value, uint64_t size) {
  return make_array<ScalarLists, aclScalarList>(const_cast<aclScalar**>(value), size, "aclCreateScalarList");
}

NNOPBASE_API aclnnStatus aclDestroyIntArray(const aclIntArray* array) {
  return destroy_array<IntArrays>(array, "aclDestroyIntArray");
}
NNOPBASE_API aclnnStatus aclDestroyFloatArray(const aclFloatArray* array) {
  return destroy_array<FloatArrays>(array, "aclDestroyFloatArray");
}
NNOPBASE_API aclnnStatus aclDestroyBoolArray(const aclBoolArray* array) {
  return destroy_array<BoolArrays>(array, "aclDestroyBoolArray");
}
NNOPBASE_API aclnnStatus aclDestroyScalarList(const aclScalarList* array) {
  if (!array) return 0;
  aclScalarList* list = ScalarLists::find(array);
  if (!list) return bad_handle("aclDestroyScalarList", "array");
  if (const aclnnStatus status = struck("aclDestroyScalarList")) return status;
  for (uint64_t i = 0; i < list->size; i++) {
    if (aclScalar* scalar = list->values[i] ? Scalars::find(list->values[i]) : nullptr) Scalars::free(scalar);
  }
  free_array<ScalarLists>(list);
  return 0;
}

NNOPBASE_API aclnnStatus aclGetIntArraySize(const aclIntArray* array, uint64_t* size) {
  return array_size<IntArrays>(array, size, "aclGetIntArraySize");
}
NNOPBASE_API aclnnStatus aclGetFloatArraySize(const aclFloatArray* array, uint64_t* size) {
  return array_size<FloatArrays>(array, size, "aclGetFloatArraySize");
}
NNOPBASE_API aclnnStatus aclGetBoolArraySize(const aclBoolArray* array, uint64_t* size) {
  return array_size<BoolArrays>(array, size, "aclGetBoolArraySize");
}
NNOPBASE_API aclnnStatus aclGetScalarListSize(const aclScalarList* scalarList, uint64_t* size) {
  return array_size<ScalarLists>(scalarList, size, "aclGetScalarListSize");
}

}  // extern "C"

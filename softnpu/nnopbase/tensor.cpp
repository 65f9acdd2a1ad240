// aclTensor and aclTensorList: make, read, change, destroy.
#include <algorithm>

#include "acl/api.h"
#include "softnpu/nnopbase/error.h"
#include "softnpu/nnopbase/handles.h"

namespace nnopbase {
NNOPBASE_DEFINE_SLAB(Tensors)
NNOPBASE_DEFINE_SLAB(TensorLists)

namespace {

constexpr uint64_t kMaxList = 1 << 24;

// Do the elements end beyond 2^63 bytes? `last` is the place of the last one.
bool passes_64_bits(int64_t last, int64_t numel, int32_t dtype) {
  int64_t bytes;
  return __builtin_add_overflow(std::max(last, numel - 1), int64_t{1}, &bytes) ||
         __builtin_mul_overflow(bytes, int64_t{item_size(dtype)}, &bytes);
}

// Fills a description in; or says why it describes no tensor. Whatever passes can be reckoned with in 64 bits: the number of
// elements, their bytes, and the place of the last one. Inline: eleven arguments would be copied once more for each tensor.
__attribute__((always_inline)) inline const char* fill(aclTensor* t, const int64_t* sizes, uint64_t ndim, int32_t dtype,
                                                       const int64_t* strides, int64_t offset, int32_t format,
                                                       const int64_t* storage, uint64_t storage_ndim, void* data) {
  if ((ndim && !sizes) || (storage_ndim && !storage)) return "dims are missing";
  if (ndim > 64 || storage_ndim > 64) return "more than 64 dimensions";
  if (offset < 0) return "the offset is negative";
  size_t numbers = 2 * ndim + storage_ndim;
  int64_t* dims = numbers <= aclTensor::kInline ? t->inline_dims : new (std::nothrow) int64_t[numbers];
  if (!dims) return "out of host memory";
  int64_t numel = 1, last = offset, signs = 0;
  bool contiguous = true, overflow = false;
  for (int i = static_cast<int>(ndim) - 1; i >= 0; i--) {
    const int64_t size = sizes[i], stride = strides ? strides[i] : std::max<int64_t>(numel, 0);
    signs |= size | stride;
    contiguous &= size == 1 || stride == numel;
    dims[i] = size;
    dims[ndim + i] = stride;
    int64_t reach;
    if (__builtin_mul_overflow(size - 1, stride, &reach) || __builtin_add_overflow(last, reach, &last) ||
        __builtin_mul_overflow(numel, size, &numel)) {
      overflow = true;
    }
  }
  // Far from the end, whatever the type: elements have 16 bytes at most.
  if (__builtin_expect(static_cast<uint64_t>(last | numel) >> 58, 0))
    overflow = overflow || passes_64_bits(last, numel, dtype);
  const char* wrong = signs < 0 ? "a size or a stride is negative" : nullptr;
  if (__builtin_expect(overflow, 0) && !wrong) {
    if (std::find(sizes, sizes + ndim, 0) == sizes + ndim) wrong = "the elements pass 2^63 bytes";
    numel = 0;  // of elements that are not there
  }
  if (__builtin_expect(wrong != nullptr, 0)) {
    if (dims != t->inline_dims) delete[] dims;
    return wrong;
  }
  for (uint64_t i = 0; i < storage_ndim; i++) dims[2 * ndim + i] = storage[i];  // one or two: no call
  t->dims = dims;
  t->dtype = dtype;
  t->format = format;
  t->ndim = static_cast<uint8_t>(ndim);
  t->storage_ndim = static_cast<uint8_t>(storage_ndim);
  t->offset = offset;
  t->data = data;
  t->numel = numel;
  t->contiguous = contiguous || numel == 0;
  t->initialized = true;
  return nullptr;
}

void clear(aclTensor* t) {
  if (t->initialized && t->dims != t->inline_dims) delete[] t->dims;
  t->initialized = false;
}

aclnnStatus bad_description(const char* function, const char* wrong) {
  char text[120];
  std::snprintf(text, sizeof text, "%s: %s", function, wrong);
  return report(ACLNN_ERR_PARAM_INVALID, text);
}

aclnnStatus numbers_out(const int64_t* from, int count, int64_t** out, uint64_t* size) {
  // The caller frees it with delete[].
  *out = new (std::nothrow) int64_t[count ? count : 1];
  if (!*out) return report(ACLNN_ERR_INNER, "out of host memory");
  std::copy_n(from, count, *out);
  *size = static_cast<uint64_t>(count);
  return 0;
}

}  // namespace

bool set_view_shape(aclTensor* handle, const int64_t* sizes, int ndim) noexcept {
  aclTensor* t = Tensors::find(handle);
  if (!t || 2 * ndim + t->storage_ndim > aclTensor::kInline || t->dims != t->inline_dims) return false;
  int64_t storage[aclTensor::kInline];
  std::copy_n(t->storage_sizes(), t->storage_ndim, storage);
  return !fill(t, sizes, ndim, t->dtype, nullptr, t->offset, t->format, storage, t->storage_ndim, t->data);
}

}  // namespace nnopbase

using nnopbase::bad_handle;
using nnopbase::null_argument;
using nnopbase::TensorLists;
using nnopbase::Tensors;

extern "C" {

NNOPBASE_API aclTensor* aclCreateTensor(const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType,
                                        const int64_t* stride, int64_t offset, aclFormat format,
                                        const int64_t* storageDims, uint64_t storageDimsNum, void* tensorData) {
  if (nnopbase::struck("aclCreateTensor")) return nullptr;
  aclTensor* t = Tensors::make();
  if (!t) return nnopbase::report_null("aclCreateTensor: too many live tensors");
  if (const char* wrong = nnopbase::fill(t, viewDims, viewDimsNum, dataType, stride, offset, format, storageDims,
                                         storageDimsNum, tensorData)) {
    t->initialized = false;
    Tensors::free(t);
    nnopbase::bad_description("aclCreateTensor", wrong);
    return nullptr;
  }
  return Tensors::handle(t);
}

NNOPBASE_API aclnnStatus aclInitTensor(aclTensor* tensor, const int64_t* viewDims, uint64_t viewDimsNum,
                                       aclDataType dataType, const int64_t* stride, int64_t offset, aclFormat format,
                                       const int64_t* storageDims, uint64_t storageDimsNum, void* tensorDataAddr) {
  aclTensor* t = Tensors::find(tensor);
  if (!t) return bad_handle("aclInitTensor", "tensor");
  int64_t* old = t->initialized && t->dims != t->inline_dims ? t->dims : nullptr;
  int64_t kept[aclTensor::kInline];
  std::copy_n(t->inline_dims, aclTensor::kInline, kept);
  if (const char* wrong = nnopbase::fill(t, viewDims, viewDimsNum, dataType, stride, offset, format, storageDims,
                                         storageDimsNum, tensorDataAddr)) {
    std::copy_n(kept, aclTensor::kInline, t->inline_dims);  // as it was
    return nnopbase::bad_description("aclInitTensor", wrong);
  }
  delete[] old;
  return 0;
}

NNOPBASE_API aclnnStatus aclDestroyTensor(const aclTensor* tensor) {
  if (!tensor) return 0;
  aclTensor* t = Tensors::find(tensor);
  if (!t) return bad_handle("aclDestroyTensor", "tensor");
  if (const aclnnStatus status = nnopbase::struck("aclDestroyTensor")) return status;
  nnopbase::clear(t);
  Tensors::free(t);
  return 0;
}

NNOPBASE_API aclnnStatus aclGetViewShape(const aclTensor* tensor, int64_t** viewDims, uint64_t* viewDimsNum) {
  if (!viewDims || !viewDimsNum) return null_argument("aclGetViewShape", "viewDims");
  if (const aclnnStatus status = nnopbase::struck("aclGetViewShape")) return status;
  aclTensor* t = Tensors::find(tensor);
  return t ? nnopbase::numbers_out(t->sizes(), t->ndim, viewDims, viewDimsNum)
           : bad_handle("aclGetViewShape", "tensor");
}

NNOPBASE_API aclnnStatus aclGetViewStrides(const aclTensor* tensor, int64_t** stridesValue, uint64_t* stridesNum) {
  if (!stridesValue || !stridesNum) return null_argument("aclGetViewStrides", "stridesValue");
  aclTensor* t = Tensors::find(tensor);
  return t ? nnopbase::numbers_out(t->strides(), t->ndim, stridesValue, stridesNum)
           : bad_handle("aclGetViewStrides", "tensor");
}

NNOPBASE_API aclnnStatus aclGetStorageShape(const aclTensor* tensor, int64_t** storageDims, uint64_t* storageDimsNum) {
  if (!storageDims || !storageDimsNum) return null_argument("aclGetStorageShape", "storageDims");
  aclTensor* t = Tensors::find(tensor);
  return t ? nnopbase::numbers_out(t->storage_sizes(), t->storage_ndim, storageDims, storageDimsNum)
           : bad_handle("aclGetStorageShape", "tensor");
}

NNOPBASE_API aclnnStatus aclGetViewOffset(const aclTensor* tensor, int64_t* offset) {
  if (!offset) return null_argument("aclGetViewOffset", "offset");
  aclTensor* t = Tensors::find(tensor);
  if (!t) return bad_handle("aclGetViewOffset", "tensor");
  *offset = t->offset;
  return 0;
}

NNOPBASE_API aclnnStatus aclGetFormat(const aclTensor* tensor, aclFormat* format) {
  if (!format) return null_argument("aclGetFormat", "format");
  aclTensor* t = Tensors::find(tensor);
  if (!t) return bad_handle("aclGetFormat", "tensor");
  *format = static_cast<aclFormat>(t->format);
  return 0;
}

NNOPBASE_API aclnnStatus aclGetDataType(const aclTensor* tensor, aclDataType* dataType) {
  if (!dataType) return null_argument("aclGetDataType", "dataType");
  aclTensor* t = Tensors::find(tensor);
  if (!t) return bad_handle("aclGetDataType", "tensor");
  *dataType = static_cast<aclDataType>(t->dtype);
  return 0;
}

NNOPBASE_API aclnnStatus aclGetRawTensorAddr(const aclTensor* tensor, void** addr) {
  if (!addr) return null_argument("aclGetRawTensorAddr", "addr");
  aclTensor* t = Tensors::find(tensor);
  if (!t) return bad_handle("aclGetRawTensorAddr", "tensor");
  *addr = t->data;
  return 0;
}

NNOPBASE_API aclnnStatus aclSetRawTensorAddr(aclTensor* tensor, void* addr) {
  aclTensor* t = Tensors::find(tensor);
  if (!t) return bad_handle("aclSetRawTensorAddr", "tensor");
  t->data = addr;
  return 0;
}

NNOPBASE_API aclTensorList* aclCreateTensorList(const aclTensor** value, uint64_t size) {
  if (size && !value) return nnopbase::report_null("aclCreateTensorList: value is null");
  if (size > nnopbase::kMaxList) return nnopbase::report_null("aclCreateTensorList: more than 16777216 members");
  for (uint64_t i = 0; i < size; i++) {
    if (value[i] && !Tensors::find(value[i]))
      return nnopbase::report_null("aclCreateTensorList: a member is not a live tensor");
  }
  if (nnopbase::struck("aclCreateTensorList")) return nullptr;
  aclTensorList* list = TensorLists::make();
  if (!list) return nnopbase::report_null("aclCreateTensorList: too many live lists");
  list->size = size;
  list->values = size <= aclTensorList::kInline ? list->inline_values : new (std::nothrow) aclTensor*[size];
  if (!list->values) {
    TensorLists::free(list);
    return nnopbase::report_null("aclCreateTensorList: out of host memory");
  }
  for (uint64_t i = 0; i < size; i++) list->values[i] = const_cast<aclTensor*>(value[i]);
  return TensorLists::handle(list);
}

NNOPBASE_API aclnnStatus aclDestroyTensorList(const aclTensorList* array) {
  if (!array) return 0;
  aclTensorList* list = TensorLists::find(array);
  if (!list) return bad_handle("aclDestroyTensorList", "array");
  if (const aclnnStatus status = nnopbase::struck("aclDestroyTensorList")) return status;
  // A list owns its members; one that is in the list twice, or was destroyed by its own name, is gone already.
  for (uint64_t i = 0; i < list->size; i++) {
    if (aclTensor* t = list->values[i] ? Tensors::find(list->values[i]) : nullptr) {
      nnopbase::clear(t);
      Tensors::free(t);
    }
  }
  if (list->values != list->inline_values) delete[] list->values;
  TensorLists::free(list);
  return 0;
}

NNOPBASE_API aclnnStatus aclGetTensorListSize(const aclTensorList* tensorList, uint64_t* size) {
  if (!size) return null_argument("aclGetTensorListSize", "size");
  aclTensorList* list = TensorLists::find(tensorList);
  if (!list) return bad_handle("aclGetTensorListSize", "tensorList");
  *size = list->size;
  return 0;
}

}  // extern "C"

// Exports: descriptions of tensors and buffers for operators called by name.
#include "acl/api.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/handle.h"
#include "softnpu/runtime/tensor_desc.h"

using namespace softnpu;

namespace {

TensorDesc& of(const aclTensorDesc* desc) { return slab<TensorDesc>().get(desc); }
DataBuffer& of(const aclDataBuffer* buffer) { return slab<DataBuffer>().get(buffer); }

constexpr int kMostDims = 128;
std::vector<int64_t> dims_of(int count, const int64_t* dims) {
  if (count < 0 || count > kMostDims) fail(ACL_ERROR_INVALID_PARAM, "numDims is %d, not 0 to %d", count, kMostDims);
  if (count > 0) need(dims, "dims");
  return count > 0 ? std::vector<int64_t>(dims, dims + count) : std::vector<int64_t>();
}

// What a getter returns when its handle is not live: the value says nothing, the message says why.
template <class T, class Body>
T answer(const char* call, T otherwise, Body&& body) {
  T value = otherwise;
  guarded(call, [&] { value = body(); });
  return value;
}

size_t bytes_of(aclDataType type) {
  switch (int(type)) {
    case ACL_FLOAT:
    case ACL_INT32:
    case ACL_UINT32:
      return 4;
    case ACL_FLOAT16:
    case ACL_INT16:
    case ACL_UINT16:
    case ACL_BF16:
      return 2;
    case ACL_INT8:
    case ACL_UINT8:
    case ACL_BOOL:
      return 1;
    case ACL_INT64:
    case ACL_UINT64:
    case ACL_DOUBLE:
    case ACL_COMPLEX64:
      return 8;
    case ACL_COMPLEX128:
      return 16;
    default:
      return 0;
  }
}

size_t elements(const TensorDesc& desc) {
  size_t count = 1;
  for (int64_t n : desc.shape) count *= n < 0 ? 0 : size_t(n);
  return count;
}

int64_t dim(const TensorDesc& desc, size_t index) {
  if (index >= desc.shape.size())
    fail(ACL_ERROR_INVALID_PARAM, "index %zu of a tensor with %zu dimensions", index, desc.shape.size());
  return desc.shape[index];
}

}  // namespace

SOFTNPU_EXPORT aclTensorDesc* aclCreateTensorDesc(aclDataType dataType, int numDims, const int64_t* dims,
                                                  aclFormat format) {
  return answer<aclTensorDesc*>(__func__, nullptr, [&] {
    auto shape = dims_of(numDims, dims);
    TensorDesc* desc = slab<TensorDesc>().take();
    *desc =
        TensorDesc{dataType, format, format, format, shape, shape, shape, {}, {}, {}, nullptr, 0, ACL_MEMTYPE_DEVICE};
    return static_cast<aclTensorDesc*>(slab<TensorDesc>().publish(desc));
  });
}
SOFTNPU_EXPORT void aclDestroyTensorDesc(const aclTensorDesc* desc) {
  if (desc == nullptr) return;
  guarded(__func__, [&] { slab<TensorDesc>().recycle(&slab<TensorDesc>().remove(const_cast<aclTensorDesc*>(desc))); });
}

SOFTNPU_EXPORT aclDataType aclGetTensorDescType(const aclTensorDesc* desc) {
  return answer(__func__, ACL_DT_UNDEFINED, [&] { return of(desc).type; });
}
SOFTNPU_EXPORT aclFormat aclGetTensorDescFormat(const aclTensorDesc* desc) {
  return answer(__func__, ACL_FORMAT_UNDEFINED, [&] { return of(desc).format; });
}
SOFTNPU_EXPORT size_t aclGetTensorDescSize(const aclTensorDesc* desc) {
  return answer<size_t>(__func__, 0, [&] { return elements(of(desc)) * bytes_of(of(desc).type); });
}
SOFTNPU_EXPORT size_t aclGetTensorDescElementCount(const aclTensorDesc* desc) {
  return answer<size_t>(__func__, 0, [&] { return elements(of(desc)); });
}
SOFTNPU_EXPORT size_t aclGetTensorDescNumDims(const aclTensorDesc* desc) {
  return answer<size_t>(__func__, 0, [&] { return of(desc).shape.size(); });
}
SOFTNPU_EXPORT int64_t aclGetTensorDescDim(const aclTensorDesc* desc, size_t index) {
  return answer<int64_t>(__func__, -1, [&] { return dim(of(desc), index); });
}
SOFTNPU_EXPORT aclError aclGetTensorDescDimV2(const aclTensorDesc* desc, size_t index, int64_t* dimSize) {
  return guarded(__func__, [&] {
    need(dimSize, "dimSize");
    *dimSize = dim(of(desc), index);
  });
}
SOFTNPU_EXPORT const char* aclGetTensorDescName(aclTensorDesc* desc) {
  return answer<const char*>(__func__, "", [&] { return of(desc).name.c_str(); });
}
SOFTNPU_EXPORT void* aclGetTensorDescAddress(const aclTensorDesc* desc) {
  return answer<void*>(__func__, nullptr, [&] { return of(desc).constant; });
}

SOFTNPU_EXPORT void aclSetTensorDescName(aclTensorDesc* desc, const char* name) {
  guarded(__func__, [&] { of(desc).name = name ? name : ""; });
}
SOFTNPU_EXPORT aclError aclSetTensorFormat(aclTensorDesc* desc, aclFormat format) {
  return guarded(__func__, [&] { of(desc).storage_format = format; });
}
SOFTNPU_EXPORT aclError aclSetTensorStorageFormat(aclTensorDesc* desc, aclFormat format) {
  return guarded(__func__, [&] { of(desc).storage_format = format; });
}
SOFTNPU_EXPORT aclError aclSetTensorOriginFormat(aclTensorDesc* desc, aclFormat format) {
  return guarded(__func__, [&] { of(desc).origin_format = format; });
}
SOFTNPU_EXPORT aclError aclSetTensorShape(aclTensorDesc* desc, int numDims, const int64_t* dims) {
  return guarded(__func__, [&] { of(desc).storage_shape = dims_of(numDims, dims); });
}
SOFTNPU_EXPORT aclError aclSetTensorStorageShape(aclTensorDesc* desc, int numDims, const int64_t* dims) {
  return guarded(__func__, [&] { of(desc).storage_shape = dims_of(numDims, dims); });
}
SOFTNPU_EXPORT aclError aclSetTensorOriginShape(aclTensorDesc* desc, int numDims, const int64_t* dims) {
  return guarded(__func__, [&] { of(desc).origin_shape = dims_of(numDims, dims); });
}
SOFTNPU_EXPORT aclError aclSetTensorDynamicInput(aclTensorDesc* desc, const char* dynamicInputName) {
  return guarded(__func__, [&] {
    need(dynamicInputName, "dynamicInputName");
    of(desc).dynamic_input = dynamicInputName;
  });
}
SOFTNPU_EXPORT aclError aclSetTensorConst(aclTensorDesc* desc, void* dataBuffer, size_t length) {
  return guarded(__func__, [&] {
    need(dataBuffer, "dataBuffer");
    if (length == 0) fail(ACL_ERROR_INVALID_PARAM, "length is 0");
    of(desc).constant = dataBuffer;
    of(desc).constant_size = length;
  });
}
SOFTNPU_EXPORT aclError aclSetTensorPlaceMent(aclTensorDesc* desc, aclMemType memType) {
  return guarded(__func__, [&] { of(desc).placement = memType; });
}

SOFTNPU_EXPORT aclDataBuffer* aclCreateDataBuffer(void* data, size_t size) {
  return answer<aclDataBuffer*>(__func__, nullptr, [&] {
    DataBuffer* buffer = slab<DataBuffer>().take();
    *buffer = DataBuffer{data, size};
    return static_cast<aclDataBuffer*>(slab<DataBuffer>().publish(buffer));
  });
}
SOFTNPU_EXPORT aclError aclDestroyDataBuffer(const aclDataBuffer* dataBuffer) {
  return guarded(__func__, [&] {
    slab<DataBuffer>().recycle(&slab<DataBuffer>().remove(const_cast<aclDataBuffer*>(dataBuffer)));
  });
}
SOFTNPU_EXPORT aclError aclUpdateDataBuffer(aclDataBuffer* dataBuffer, void* data, size_t size) {
  return guarded(__func__, [&] { of(dataBuffer) = DataBuffer{data, size}; });
}
SOFTNPU_EXPORT void* aclGetDataBufferAddr(const aclDataBuffer* dataBuffer) {
  return answer<void*>(__func__, nullptr, [&] { return of(dataBuffer).data; });
}
SOFTNPU_EXPORT uint32_t aclGetDataBufferSize(const aclDataBuffer* dataBuffer) {
  return answer<uint32_t>(__func__, 0, [&] { return uint32_t(of(dataBuffer).size); });
}
SOFTNPU_EXPORT size_t aclGetDataBufferSizeV2(const aclDataBuffer* dataBuffer) {
  return answer<size_t>(__func__, 0, [&] { return of(dataBuffer).size; });
}

// See types.h.
#include "softnpu/graph_engine/types.h"

namespace softnpu::graph {
namespace {

struct Type {
  aclDataType type;
  int proto;
  int bytes;
  const char* name;
};
constexpr Type kTypes[] = {
    {ACL_FLOAT, 1, 4, "float32"},
    {ACL_FLOAT16, 2, 2, "float16"},
    {ACL_INT8, 3, 1, "int8"},
    {ACL_UINT8, 4, 1, "uint8"},
    {ACL_INT16, 5, 2, "int16"},
    {ACL_UINT16, 6, 2, "uint16"},
    {ACL_INT32, 7, 4, "int32"},
    {ACL_INT64, 8, 8, "int64"},
    {ACL_UINT32, 9, 4, "uint32"},
    {ACL_UINT64, 10, 8, "uint64"},
    {ACL_BOOL, 11, 1, "bool"},
    {ACL_DOUBLE, 12, 8, "float64"},
    {ACL_STRING, 13, 0, "string"},
    {ACL_COMPLEX64, 16, 8, "complex64"},
    {ACL_COMPLEX128, 17, 16, "complex128"},
    {ACL_BF16, 27, 2, "bfloat16"},
    {ACL_INT4, 28, 0, "int4"},
    {ACL_UINT1, 29, 0, "uint1"},
    {ACL_COMPLEX32, 32, 4, "complex32"},
    {ACL_HIFLOAT8, 33, 1, "hifloat8"},
    {ACL_FLOAT8_E5M2, 34, 1, "float8_e5m2"},
    {ACL_FLOAT8_E4M3FN, 35, 1, "float8_e4m3fn"},
    {ACL_FLOAT8_E8M0, 36, 1, "float8_e8m0"},
};

const Type* find(aclDataType type) noexcept {
  for (const Type& row : kTypes)
    if (row.type == type) return &row;
  return nullptr;
}

}  // namespace

int64_t bytes_of(aclDataType type) noexcept {
  const Type* row = find(type);
  return row ? row->bytes : 0;
}

std::string name_of(aclDataType type) {
  const Type* row = find(type);
  return row ? row->name : "data type " + std::to_string(static_cast<int>(type));
}

aclDataType type_of_proto(int64_t proto) noexcept {
  for (const Type& row : kTypes)
    if (row.proto == proto) return row.type;
  return ACL_DT_UNDEFINED;
}

std::string text_of(const Dims& dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); i++) text += (i ? ", " : "") + std::to_string(dims[i]);
  return text + "]";
}

int64_t elements_of(const Dims& dims) noexcept {
  int64_t n = 1;
  bool empty = false;
  for (int64_t dim : dims) {
    if (dim < 0) return -1;
    if (dim == 0) empty = true;
    if (dim > 0 && __builtin_mul_overflow(n, dim, &n)) return -1;
  }
  return empty ? 0 : n;
}

}  // namespace softnpu::graph

// The ge names of an operator package's host side: data types, formats, statuses. What it is not: the graph engine. Values are ACL's.
#pragma once

#include <cstdint>
#include <string>

namespace ge {

using graphStatus = uint32_t;
using Status = uint32_t;
inline constexpr graphStatus GRAPH_SUCCESS = 0, GRAPH_FAILED = 0xFFFFFFFF, GRAPH_PARAM_INVALID = 50331649,
                             GRAPH_NOT_CHANGED = 1343242304;
inline constexpr graphStatus SUCCESS = 0, FAILED = 0xFFFFFFFF;

enum DataType {
  DT_FLOAT = 0,
  DT_FLOAT16 = 1,
  DT_INT8 = 2,
  DT_INT32 = 3,
  DT_UINT8 = 4,
  DT_INT16 = 6,
  DT_UINT16 = 7,
  DT_UINT32 = 8,
  DT_INT64 = 9,
  DT_UINT64 = 10,
  DT_DOUBLE = 11,
  DT_BOOL = 12,
  DT_STRING = 13,
  DT_COMPLEX64 = 16,
  DT_COMPLEX128 = 17,
  DT_BF16 = 27,
  DT_UNDEFINED = 28,
  DT_INT4 = 29,
  DT_UINT1 = 30,
  DT_HIFLOAT8 = 34,
  DT_FLOAT8_E5M2 = 35,
  DT_FLOAT8_E4M3FN = 36,
};
enum Format {
  FORMAT_NCHW = 0,
  FORMAT_NHWC = 1,
  FORMAT_ND = 2,
  FORMAT_NC1HWC0 = 3,
  FORMAT_FRACTAL_Z = 4,
  FORMAT_NCDHW = 30,
  FORMAT_NDHWC = 27,
  FORMAT_FRACTAL_NZ = 29,
  FORMAT_NDC1HWC0 = 32,
  FORMAT_FRACTAL_Z_3D = 33,
  FORMAT_NCL = 47,
  FORMAT_RESERVED = 40,
};

// Bytes of an element; -1 for a type that has none.
inline int GetSizeByDataType(DataType type) {
  switch (type) {
    case DT_INT8:
    case DT_UINT8:
    case DT_BOOL:
    case DT_HIFLOAT8:
    case DT_FLOAT8_E5M2:
    case DT_FLOAT8_E4M3FN:
      return 1;
    case DT_FLOAT16:
    case DT_BF16:
    case DT_INT16:
    case DT_UINT16:
      return 2;
    case DT_FLOAT:
    case DT_INT32:
    case DT_UINT32:
      return 4;
    case DT_INT64:
    case DT_UINT64:
    case DT_DOUBLE:
    case DT_COMPLEX64:
      return 8;
    case DT_COMPLEX128:
      return 16;
    default:
      return -1;
  }
}

class AscendString {
 public:
  AscendString() = default;
  AscendString(const char* text) : text_(text ? text : "") {}
  const char* GetString() const { return text_.c_str(); }
  size_t GetLength() const { return text_.size(); }
  bool operator==(const AscendString& other) const { return text_ == other.text_; }
  bool operator<(const AscendString& other) const { return text_ < other.text_; }

 private:
  std::string text_;
};

struct TypeUtils {
  static std::string DataTypeToSerialString(DataType type) { return "DT_" + std::to_string(static_cast<int>(type)); }
  static std::string FormatToSerialString(Format format) {
    return "FORMAT_" + std::to_string(static_cast<int>(format));
  }
};

}  // namespace ge

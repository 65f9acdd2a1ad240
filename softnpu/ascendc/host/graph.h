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
  DT_FLOAT8_E8M0 = 37,
  DT_FLOAT6_E3M2 = 38,
  DT_FLOAT6_E2M3 = 39,
  DT_FLOAT4_E2M1 = 40,
  DT_FLOAT4_E1M2 = 41,
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
    case DT_FLOAT8_E8M0:
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

// The names above, of formats without FORMAT_. What has no name here is given with its number.
struct TypeUtils {
  static std::string DataTypeToSerialString(DataType type) {
#define ASCENDC_NAME(name) \
  {                        \
    name, #name            \
  }
    static constexpr Named<DataType> kAll[] = {
        ASCENDC_NAME(DT_FLOAT),         ASCENDC_NAME(DT_FLOAT16),     ASCENDC_NAME(DT_INT8),
        ASCENDC_NAME(DT_INT32),         ASCENDC_NAME(DT_UINT8),       ASCENDC_NAME(DT_INT16),
        ASCENDC_NAME(DT_UINT16),        ASCENDC_NAME(DT_UINT32),      ASCENDC_NAME(DT_INT64),
        ASCENDC_NAME(DT_UINT64),        ASCENDC_NAME(DT_DOUBLE),      ASCENDC_NAME(DT_BOOL),
        ASCENDC_NAME(DT_STRING),        ASCENDC_NAME(DT_COMPLEX64),   ASCENDC_NAME(DT_COMPLEX128),
        ASCENDC_NAME(DT_BF16),          ASCENDC_NAME(DT_UNDEFINED),   ASCENDC_NAME(DT_INT4),
        ASCENDC_NAME(DT_UINT1),         ASCENDC_NAME(DT_HIFLOAT8),    ASCENDC_NAME(DT_FLOAT8_E5M2),
        ASCENDC_NAME(DT_FLOAT8_E4M3FN), ASCENDC_NAME(DT_FLOAT8_E8M0), ASCENDC_NAME(DT_FLOAT6_E3M2),
        ASCENDC_NAME(DT_FLOAT6_E2M3),   ASCENDC_NAME(DT_FLOAT4_E2M1), ASCENDC_NAME(DT_FLOAT4_E1M2)};
#undef ASCENDC_NAME
    return name_of(kAll, type, "DT_");
  }
  static std::string FormatToSerialString(Format format) {
#define ASCENDC_NAME(name) \
  {                        \
    FORMAT_##name, #name   \
  }
    static constexpr Named<Format> kAll[] = {
        ASCENDC_NAME(NCHW),      ASCENDC_NAME(NHWC),         ASCENDC_NAME(ND),    ASCENDC_NAME(NC1HWC0),
        ASCENDC_NAME(FRACTAL_Z), ASCENDC_NAME(NCDHW),        ASCENDC_NAME(NDHWC), ASCENDC_NAME(FRACTAL_NZ),
        ASCENDC_NAME(NDC1HWC0),  ASCENDC_NAME(FRACTAL_Z_3D), ASCENDC_NAME(NCL),   ASCENDC_NAME(RESERVED)};
#undef ASCENDC_NAME
    return name_of(kAll, format, "FORMAT_");
  }

 private:
  template <class T>
  struct Named {
    T value;
    const char* name;
  };
  template <class T, size_t n>
  static std::string name_of(const Named<T> (&all)[n], T value, const char* prefix) {
    for (const Named<T>& one : all)
      if (one.value == value) return one.name;
    return prefix + std::to_string(static_cast<int>(value));
  }
};

}  // namespace ge

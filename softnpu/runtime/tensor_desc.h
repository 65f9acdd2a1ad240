// Descriptions for operators called by name (aclop): a tensor's, a buffer's, an operator's attributes. What they are not: the
// aclTensor of aclnn, which is nnopbase's. Who uses it: api_tensor_desc.cpp, api_op_attributes.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "acl/types.h"

namespace softnpu {

struct TensorDesc {
  static constexpr uint8_t kMagic = 0x91;
  static constexpr uint32_t kMaxCount = 1 << 18;
  static constexpr const char* kNoun = "tensor description";

  aclDataType type;
  aclFormat format, storage_format, origin_format;
  std::vector<int64_t> shape, storage_shape, origin_shape;
  std::vector<std::pair<int64_t, int64_t>> ranges;
  std::string name, dynamic_input;
  void* constant;
  size_t constant_size;
  aclMemType placement;
};

struct DataBuffer {
  static constexpr uint8_t kMagic = 0x92;
  static constexpr uint32_t kMaxCount = 1 << 18;
  static constexpr const char* kNoun = "data buffer";

  void* data;
  size_t size;
};

// Attributes are kept as text: nothing computes with them, messages may.
struct OpAttributes {
  static constexpr uint8_t kMagic = 0x93;
  static constexpr uint32_t kMaxCount = 1 << 16;
  static constexpr const char* kNoun = "attribute list";

  std::vector<std::pair<std::string, std::string>> values;
};

}  // namespace softnpu

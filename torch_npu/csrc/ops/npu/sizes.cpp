// Refusals of arguments: see sizes.h.
#include "csrc/ops/npu/sizes.h"

#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <sstream>

#include "csrc/core/type_name.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/npu/numbered_type.h"

namespace npu::ops {
namespace {

constexpr int64_t kVendor = 256;  // the vendor's number of a type is CANN's and this
constexpr int64_t kVendorInt4 = kVendor + ACL_INT4;

// Whether the number, PyTorch's or the vendor's, is that of the type or of PyTorch's quantized type of the same bytes.
bool names(int64_t number, at::ScalarType type) {
  if (number >= kVendor) return number == kVendor + acl_dtype(type);
  const auto named = static_cast<at::ScalarType>(number);
  const bool whole = named == at::kQInt8 || named == at::kQUInt8 || named == at::kQInt32;
  return named == type || (whole && at::toUnderlying(named) == type);
}

}  // namespace

bool names_nibbles(int64_t number) { return number == kVendorInt4 || number == static_cast<int64_t>(at::kQUInt4x2); }

void refuse_given(const char* op, const char* name, const OptionalTensor& value) {
  TORCH_CHECK_NOT_IMPLEMENTED(!given(value), op, ": ", name, " is not implemented; leave it out");
}

void refuse_given(const char* op, std::initializer_list<NamedTensor> tensors) {
  for (const NamedTensor& t : tensors) refuse_given(op, t.name, t.tensor);
}

void check_dtypes(const char* op, std::initializer_list<NamedType> types) {
  for (const NamedType& t : types) {
    if (!t.type) continue;
    const at::TensorList tensors = t.of.tensors();
    TORCH_CHECK_VALUE(!tensors.empty(), op, ": ", t.name, " says how a tensor is read that is not given; leave it out");
    for (const at::Tensor& tensor : tensors) {
      const bool packed = t.reading == Reading::kPacked && tensor.scalar_type() == at::kInt;
      TORCH_CHECK_NOT_IMPLEMENTED(names(*t.type, tensor.scalar_type()) || (packed && names_nibbles(*t.type)), op, ": ",
                                  t.name, " ", numbered_type(*t.type), " is not implemented for a tensor of ",
                                  type_name(tensor), ", whose bytes are read as nothing else; leave it out");
    }
  }
}

void check_result_type(const char* op, const char* name, const std::optional<int64_t>& type, at::ScalarType made) {
  TORCH_CHECK_NOT_IMPLEMENTED(!type || names(*type, made), op, ": ", name, " ", numbered_type(*type),
                              " is not implemented, the result is ", type_name(made),
                              "; leave it out and convert the result");
}

void check_word(const char* op, const char* name, std::string_view value,
                std::initializer_list<std::string_view> known) {
  if (std::find(known.begin(), known.end(), value) != known.end()) return;
  std::ostringstream words;
  for (std::string_view word : known) words << (words.tellp() > 0 ? ", " : "") << '"' << word << '"';
  TORCH_CHECK_VALUE(false, op, ": ", name, " is one of ", words.str(), ", not \"", value, '"');
}

void check_number(const char* op, const char* name, int64_t value, std::initializer_list<int64_t> known) {
  if (std::find(known.begin(), known.end(), value) != known.end()) return;
  std::ostringstream numbers;
  for (int64_t number : known) numbers << (numbers.tellp() > 0 ? ", " : "") << number;
  TORCH_CHECK_NOT_IMPLEMENTED(false, op, ": ", name, " ", value, " is not implemented; ", numbers.str(),
                              known.size() == 1 ? " is" : " are");
}

std::string numbered_type(int64_t number) {
  if (number < 0 || number >= static_cast<int64_t>(at::ScalarType::Undefined)) return std::to_string(number);
  return type_name(static_cast<at::ScalarType>(number));
}

void check_type(const char* op, const char* name, int64_t number, std::initializer_list<at::ScalarType> known) {
  const auto is = [&](at::ScalarType type) { return number == static_cast<int64_t>(type); };
  if (std::any_of(known.begin(), known.end(), is)) return;
  std::string types;
  for (at::ScalarType type : known) types += (types.empty() ? "" : ", ") + type_name(type);
  TORCH_CHECK_NOT_IMPLEMENTED(false, op, ": ", name, " ", numbered_type(number), " is not implemented; ", types,
                              known.size() == 1 ? " is" : " are");
}

void check_int8(const char* op, const char* name, const std::optional<int64_t>& type) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      !type || *type == static_cast<int64_t>(at::kChar) || *type == static_cast<int64_t>(at::kQInt8), op, ": ", name,
      " ", numbered_type(*type), " is not implemented; int8 is");
}

at::ScalarType eight_bits(const char* op, const std::optional<int64_t>& type) {
  switch (type.value_or(static_cast<int64_t>(at::kChar))) {
    case static_cast<int64_t>(at::kChar):
    case static_cast<int64_t>(at::kQInt8):
      return at::kChar;
    case static_cast<int64_t>(at::kFloat8_e5m2):
    case 291:
      return at::kFloat8_e5m2;
    case static_cast<int64_t>(at::kFloat8_e4m3fn):
    case 292:
      return at::kFloat8_e4m3fn;
    default:
      TORCH_CHECK_NOT_IMPLEMENTED(false, op, ": the type ", numbered_type(*type),
                                  " is not implemented; int8, float8_e5m2 and ", "float8_e4m3fn are");
  }
}

}  // namespace npu::ops

// Refusals of arguments: see sizes.h.
#include "csrc/ops/npu/sizes.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <sstream>

namespace npu::ops {

void refuse_given(const char* op, const char* name, const OptionalTensor& value) {
  TORCH_CHECK_NOT_IMPLEMENTED(!given(value), op, ": ", name, " is not implemented; leave it out");
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
  TORCH_CHECK_NOT_IMPLEMENTED(false, op, ": ", name, " ", value, " is not implemented; ", numbers.str(), " are");
}

void check_int8(const char* op, const std::optional<int64_t>& type) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      !type || *type == static_cast<int64_t>(at::kChar) || *type == static_cast<int64_t>(at::kQInt8), op,
      ": another type than int8 is not implemented");
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
      TORCH_CHECK_NOT_IMPLEMENTED(false, op, ": the type ", *type, " is not implemented; int8, float8_e5m2 and ",
                                  "float8_e4m3fn are");
  }
}

}  // namespace npu::ops

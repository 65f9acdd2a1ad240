// See ascend_string.h.
#include "softnpu/graph_engine/ascend_string.h"

#include <cstring>

namespace ge {

AscendString::AscendString(const char* text) : text_(text ? std::make_shared<std::string>(text) : nullptr) {}
const char* AscendString::GetString() const { return text_ ? text_->c_str() : ""; }
bool AscendString::operator<(const AscendString& other) const {
  return std::strcmp(GetString(), other.GetString()) < 0;
}
bool AscendString::operator==(const AscendString& other) const {
  return std::strcmp(GetString(), other.GetString()) == 0;
}

}  // namespace ge

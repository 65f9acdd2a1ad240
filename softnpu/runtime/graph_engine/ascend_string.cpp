// ge::AscendString, the string that crosses CANN's C++ borders: clients make constants of it while they are loaded, so it works.
// Its layout is part of the interface: one shared pointer, copied by code inlined in the client.
#include <cstring>
#include <memory>
#include <string>

#include "softnpu/runtime/stub.h"

namespace ge {

class SOFTNPU_STUB AscendString {
 public:
  explicit AscendString(const char* text);
  const char* GetString() const;
  bool operator<(const AscendString& other) const;
  bool operator==(const AscendString& other) const;

 private:
  std::shared_ptr<std::string> text_;
};
static_assert(sizeof(AscendString) == 16);

AscendString::AscendString(const char* text) : text_(text ? std::make_shared<std::string>(text) : nullptr) {}
const char* AscendString::GetString() const { return text_ ? text_->c_str() : ""; }
bool AscendString::operator<(const AscendString& other) const {
  return std::strcmp(GetString(), other.GetString()) < 0;
}
bool AscendString::operator==(const AscendString& other) const {
  return std::strcmp(GetString(), other.GetString()) == 0;
}

}  // namespace ge

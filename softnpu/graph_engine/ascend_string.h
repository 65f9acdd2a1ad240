// ge::AscendString, the string that crosses CANN's C++ borders: clients make constants of it while they are loaded.
// Its layout is part of the interface: one shared pointer, copied by code inlined in the client.
#pragma once

#include <memory>
#include <string>

#include "softnpu/graph_engine/types.h"

namespace ge {

class GE_EXPORT AscendString {
 public:
  explicit AscendString(const char* text);
  const char* GetString() const;
  bool operator<(const AscendString& other) const;
  bool operator==(const AscendString& other) const;

 private:
  std::shared_ptr<std::string> text_;
};
static_assert(sizeof(AscendString) == 16);

}  // namespace ge

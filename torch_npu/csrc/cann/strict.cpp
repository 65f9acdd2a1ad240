#include "csrc/cann/strict.h"

#include "acl/soft.h"
#include "csrc/cann/library.h"

namespace cann {

bool takes_documented_types_only() {
  static const bool only = [] {
    const auto strict =
        reinterpret_cast<decltype(&::softnpuStrict)>(find_symbol(open_library("ascendcl"), "softnpuStrict"));
    return !strict || strict() != 0;
  }();
  return only;
}

}  // namespace cann

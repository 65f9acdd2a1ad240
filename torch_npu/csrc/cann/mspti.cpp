#include "csrc/cann/mspti.h"

#include <cstring>

#include "csrc/cann/api.h"
#include "csrc/cann/library.h"

namespace cann {
namespace {

Mspti loaded() {
  acl();  // both work on the libascendcl that is loaded
  Mspti table;
  for (const char* wanted : {"mspti", "ms_tools_ext"}) {
    void* handle = try_open_library(wanted);
#define X(symbol, library, required)     \
  if (std::strcmp(library, wanted) == 0) \
    table.symbol = reinterpret_cast<decltype(table.symbol)>(find_symbol(handle, #symbol));
#include "cann_mspti_table.inc"
#undef X
  }
  return table;
}

}  // namespace

const Mspti& mspti() {
  static const Mspti* const table = new Mspti(loaded());
  return *table;
}

}  // namespace cann

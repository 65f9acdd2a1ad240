#include "csrc/cann/later.h"

#include "csrc/cann/library.h"

namespace cann {

const LaterApi& later() {
  static const LaterApi table = [] {
    LaterApi made;
#define X(symbol, library) \
  made.symbol = reinterpret_cast<decltype(made.symbol)>(find_symbol(open_library(library), #symbol));
#include "cann_later_table.inc"
#undef X
    return made;
  }();
  return table;
}

}  // namespace cann

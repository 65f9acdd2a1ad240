// See error.h.
#include "softnpu/graph_engine/error.h"

namespace softnpu::graph {
namespace {
thread_local std::string recent;
}

void note_error(std::string_view text) noexcept {
  try {
    recent = text;
    for (char& c : recent)  // names in a damaged graph may be anything, also what no encoding has
      if ((static_cast<signed char>(c) < ' ' && c != '\n') || c == '\x7f') c = '?';
  } catch (...) {
    recent.clear();
  }
}

const char* recent_error() noexcept { return recent.c_str(); }

}  // namespace softnpu::graph

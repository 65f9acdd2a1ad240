// A failure inside the graph engine, and the calling thread's recent message, which ge::GEGetErrorMsg returns. What it is not: the
// recent message of acl* calls. Thrown inside, caught by `guarded` at each export: no exception crosses the border.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "softnpu/graph_engine/recent.h"
#include "softnpu/graph_engine/types.h"

namespace softnpu::graph {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline constexpr uint32_t kFailed = 0xFFFFFFFFu;  // FAILED and GRAPH_FAILED

// Kept by libgraph for both libraries (recent.h).
GE_EXPORT void note_error(std::string_view text) noexcept;

// Runs the body of an export. 0, or kFailed with the message noted.
template <typename Body>
uint32_t guarded(const char* function, Body&& body) noexcept {
  try {
    body();
    return 0;
  } catch (const std::exception& error) {
    try {
      note_error(std::string(function) + ": " + error.what());
    } catch (...) {
      note_error(function);
    }
  } catch (...) {
    note_error(function);
  }
  return kFailed;
}

}  // namespace softnpu::graph

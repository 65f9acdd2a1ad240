// ge::GEGetErrorMsg. Compiled for the C++ library's old std::string (CMakeLists.txt): that is what its clients bind and copy.
#include <string>

#include "softnpu/graph_engine/recent.h"

namespace ge {

__attribute__((visibility("default"))) std::string GEGetErrorMsg() { return softnpu::graph::recent_error(); }

}  // namespace ge

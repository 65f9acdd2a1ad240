#include "softnpu/runtime/graph_engine/refuse.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>

namespace softnpu {

void refuse_graph(const char* mangled) {
  int status = 0;
  std::unique_ptr<char, decltype(&std::free)> name(abi::__cxa_demangle(mangled, nullptr, nullptr, &status), &std::free);
  std::string text = status == 0 ? name.get() : mangled;
  text.resize(std::min(text.size(), text.find('(')));  // without the parameters
  throw std::runtime_error("graph mode is not supported by the software NPU (" + text +
                           "): run the model eagerly, or capture an NPUGraph");
}

}  // namespace softnpu

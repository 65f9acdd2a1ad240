#include "csrc/cann/checks.h"

#include <c10/util/Exception.h>

#include "csrc/cann/library.h"

namespace cann {

std::atomic<const Checks*> watched{nullptr};

decltype(&::softnpuPlace) place_function() {
  static const auto found = [] {
    void* library = try_open_library("ascendcl");
    return reinterpret_cast<decltype(&::softnpuPlace)>(library ? find_symbol(library, "softnpuPlace") : nullptr);
  }();
  return found;
}

const Checks& watch(bool race, bool memory) {
  static const Checks checks = [race, memory] {
    void* library = open_library("ascendcl");
    const auto find = [library]<class F>(F*& function, const char* name) {
      function = reinterpret_cast<F*>(find_symbol(library, name));
      TORCH_CHECK_NOT_IMPLEMENTED(function, "npu: ANYCEND_CHECK needs the software NPU, and this CANN has no ", name,
                                  ": unset ANYCEND_CHECK, or ANYCEND_CANN=soft");
    };
    Checks c{};
    c.race = race;
    c.memory = memory;
    find(c.place, "softnpuPlace");
    find(c.place_by, "softnpuPlaceBy");
    find(c.stream_number, "softnpuStreamNumber");
    find(c.block_given, "softnpuBlockGiven");
    find(c.block_back, "softnpuBlockBack");
    find(c.own_question, "softnpuOwnQuestion");
    find(c.block_over, "softnpuBlockOver");
    find(c.host, "softnpuRaceHost");
    find(c.owed, "softnpuRaceOwed");
    find(c.race_count, "softnpuRaceCount");
    find(c.race_report, "softnpuRaceReport");
    find(c.memory_count, "softnpuMemoryCount");
    find(c.memory_report, "softnpuMemoryReport");
    return c;
  }();
  watched.store(&checks, std::memory_order_release);
  return checks;
}

}  // namespace cann

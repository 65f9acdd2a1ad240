#include "csrc/cann/race.h"

#include <c10/util/Exception.h>

#include "csrc/cann/library.h"

namespace cann {

std::atomic<const Races*> watched_races{nullptr};

const Races& watch_races() {
  static const Races races = [] {
    void* library = open_library("ascendcl");
    const auto find = [library]<class F>(F*& function, const char* name) {
      function = reinterpret_cast<F*>(find_symbol(library, name));
      TORCH_CHECK_NOT_IMPLEMENTED(function, "npu: ANYCEND_CHECK=race needs the software NPU, and this CANN has no ",
                                  name, ": unset ANYCEND_CHECK, or ANYCEND_CANN=soft");
    };
    Races r{};
    find(r.place, "softnpuRacePlace");
    find(r.block, "softnpuRaceBlock");
    find(r.host, "softnpuRaceHost");
    find(r.count, "softnpuRaceCount");
    find(r.report, "softnpuRaceReport");
    return r;
  }();
  watched_races.store(&races, std::memory_order_release);
  return races;
}

}  // namespace cann

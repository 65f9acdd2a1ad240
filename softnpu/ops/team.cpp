// See team.h.
#include "softnpu/ops/team.h"

#include "softnpu/runtime/enqueue.h"

// From the OpenMP runtime that torch itself uses (OpenMP 5.0): the calling thread's team ends.
extern "C" int omp_pause_resource_all(int kind);

namespace softnpu::ops {

namespace {

constexpr int kSoft = 1;  // omp_pause_soft

void give_back_team() noexcept { omp_pause_resource_all(kSoft); }

[[maybe_unused]] const bool hooked = [] {
  on_compute_idle(give_back_team);
  return true;
}();

}  // namespace

void make_room_for_compute() noexcept {
  if (!on_compute_thread()) give_back_team();
}

}  // namespace softnpu::ops

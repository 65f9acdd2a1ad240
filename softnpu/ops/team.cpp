// One OpenMP team at a time. libgomp keeps a team of threads for each thread that ever ran a parallel loop, and as soon as
// there are more of them than CPUs every barrier goes to sleep instead of spinning: with the teams of the main thread and of
// the compute thread both alive an LSTM's step takes twice as long, on the NPU and on the CPU, and a graph's replay three to
// four times. So a thread that queues a wide task, whoever wrote its kernel, gives its own team back, and the compute thread
// gives back its own when it is idle; a team is made again at the thread's next parallel loop: a change from the CPU's to the
// NPU's loops and back was measured at 0.45 ms. Who calls it: the runtime (softnpu/runtime/enqueue.h).
#include "softnpu/runtime/enqueue.h"

// From the OpenMP runtime that torch itself uses (OpenMP 5.0): the calling thread's team ends. Costs 6 ns if it has none; does
// nothing inside of a parallel loop.
extern "C" int omp_pause_resource_all(int kind);

namespace softnpu::ops {

namespace {

constexpr int kSoft = 1;  // omp_pause_soft

void give_back_team() noexcept { omp_pause_resource_all(kSoft); }

[[maybe_unused]] const bool hooked = [] {
  before_compute(give_back_team);
  on_compute_idle(give_back_team);
  return true;
}();

}  // namespace

}  // namespace softnpu::ops

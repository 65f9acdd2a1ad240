// One OpenMP team at a time. libgomp keeps a team of threads for each thread that ever ran a parallel loop, and as soon as
// there are more of them than CPUs every barrier goes to sleep instead of spinning: with the teams of the main thread and of
// the compute thread both alive an LSTM's step takes twice as long, on the NPU and on the CPU. So a thread that queues a
// wide kernel gives its own team back, and the compute thread gives back its own when it is idle; a team is made again
// at the thread's next parallel loop: a change from the CPU's to the NPU's loops and back was measured at 0.45 ms.
#pragma once

namespace softnpu::ops {

// The calling thread is about to leave the work to the compute thread. Costs a few nanoseconds if it has no team; does
// nothing on the compute thread and inside of a parallel loop.
void make_room_for_compute() noexcept;

}  // namespace softnpu::ops

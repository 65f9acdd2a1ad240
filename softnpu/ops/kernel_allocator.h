// torch's CPU allocator, as long as a kernel runs on the thread: what the kernel's Place wants comes from there, large blocks
// from KeptMemory, the rest, and everything outside of kernels, from the allocator that was there before.
#pragma once

namespace softnpu::ops {

namespace kernels {
class Place;
}

// What the calling thread is doing; one thread-local read for each allocation of the process.
struct KernelMemory {
  bool running = false;  // set by KernelGuard
  kernels::Place* place = nullptr;
  static KernelMemory& of_thread() noexcept;
};

}  // namespace softnpu::ops

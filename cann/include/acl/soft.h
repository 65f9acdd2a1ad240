// What the software NPU's libascendcl exports beyond CANN: work that a client compiled for the processor itself, put on a
// stream as a kernel is. What it is not: CANN's ABI (acl/api.h); a vendor's library has no such symbol, and a client that
// finds none knows that device memory is not the processor's. Who calls it: the plugin's csrc/cann, by name.
#pragma once

#include "acl/types.h"

#ifdef __cplusplus
extern "C" {
#endif

// What a kernel is like, which decides its thread: at most ~20 us on one thread; longer on one thread; uses OpenMP's threads.
typedef enum softnpuKernelCost { SOFTNPU_TINY = 0, SOFTNPU_SERIAL = 1, SOFTNPU_WIDE = 2 } softnpuKernelCost;

// `run` returns 0, or something else after it has written a sentence into `message`. It may be called many times (graphs); `drop`
// is called once, after the last run, also when the launch fails. Neither may throw. `name` outlives `state`.
typedef struct softnpuKernel {
  int (*run)(void* state, char* message, size_t room);
  void (*drop)(void* state);
  void* state;
  const char* name;
  softnpuKernelCost cost;
} softnpuKernel;

aclError softnpuLaunchKernel(aclrtStream stream, const softnpuKernel* kernel);

#ifdef __cplusplus
}
#endif

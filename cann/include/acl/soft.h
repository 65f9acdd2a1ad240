// What the software NPU's libascendcl exports beyond CANN: work that a client compiled for the processor itself, put on a
// stream as a kernel is; whether it is strict; and what clients tell the race detector and the memory checker. What it is not: CANN's ABI (acl/api.h); a vendor's library has no such symbol, and a client that
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

// 1 where ANYCEND_STRICT=1 refuses what the documentation of the chosen chip does not name; otherwise a kernel takes all types that it
// computes, and a client need not convert them.
int softnpuStrict(void);

aclError softnpuLaunchKernel(aclrtStream stream, const softnpuKernel* kernel);

// The race detector (ANYCEND_CHECK=race) and the memory checker (ANYCEND_CHECK=memory), for clients that know more than the calls of CANN
// tell. Without them these do nothing.
// The line of the program that the calling thread is at, in memory that stays; null: not known.
void softnpuPlace(const char* place);
// Finds it for a thread that has told none, when it calls aclrtMemcpy, aclrtMemset or another of their kind, or gives a block back.
// may_wait 0: the thread may hold locks of the client's. Null: not known.
void softnpuPlaceBy(const char* (*find)(int may_wait));
// By which number the program knows the stream, for reports.
void softnpuStreamNumber(aclrtStream stream, int number);
// An allocator of the client's gives out the first `asked` of `bytes` of device memory, to be reused in the order of that stream.
void softnpuBlockGiven(const void* address, uint64_t asked, uint64_t bytes, aclrtStream stream);
// It has the memory back.
void softnpuBlockBack(const void* address);
// Until the call with 0 the calling thread waits and asks for the client's library (an allocator that reclaims, a watchdog), not for the
// program: that makes no order. Returns what was so before.
int softnpuOwnQuestion(int own);
// The allocator has seen that what was put before this event's record is over: for this memory it is in order with whatever follows.
void softnpuBlockOver(const void* address, uint64_t bytes, aclrtEvent event);
// The host reads or writes a view of pinned memory now: sizes and strides in elements of `item` bytes. Other memory is ignored. Returns
// null, or, where races are errors, the report of one that it completes.
const char* softnpuRaceHost(const char* name, const void* address, int dims, const int64_t* sizes,
                            const int64_t* strides, int item, int write);
// That report where the client cannot raise it: the next task fails with it; where there is none, the process ends with status 1.
void softnpuRaceOwed(const char* report);
// What each has found so far, and the text of the n-th, which stays; null when there are fewer.
uint64_t softnpuRaceCount(void);
const char* softnpuRaceReport(uint64_t n);
uint64_t softnpuMemoryCount(void);
const char* softnpuMemoryReport(uint64_t n);

#ifdef __cplusplus
}
#endif

// The C border between a compiled kernel and libsoftnpu_ascendc.so, which owns the threads that blocks run on and the cores' memory.
// What it is not: CANN's ABI. Included by the kernels' headers and by the library; both say which version they were built for.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SOFTNPU_ASCENDC_VERSION 1

typedef struct softnpuAscendcChip {
  char name[32];
  uint32_t architecture;  // 2201: dav-2201
  uint32_t unified_buffer, l1, l0a, l0b, l0c;
  uint64_t l2;
  uint32_t vector_cores, cube_cores;
} softnpuAscendcChip;

// A launch as a block sees it. `launch` is the library's own.
typedef struct softnpuAscendcBlock {
  uint32_t index, blocks;
  uint8_t* unified_buffer;  // aligned to 64 bytes; what it holds at first is what another kernel left
  const softnpuAscendcChip* chip;
  void* launch;
  uint32_t checks;  // bit 0: ANYCEND_CHECK=kernel
} softnpuAscendcBlock;

// `run` is called once a block, on several threads at once, and returns 0, or 1 after it has written a sentence into `message`.
typedef struct softnpuAscendcKernel {
  uint32_t version;       // SOFTNPU_ASCENDC_VERSION
  uint32_t architecture;  // that the kernel was compiled for
  const char* name;       // outlives `state`
  uint32_t blocks;
  int (*run)(void* state, const softnpuAscendcBlock* block, char* message, size_t room);
  void (*drop)(void* state);
  void* state;
} softnpuAscendcKernel;

// Puts the kernel on the stream; an aclError. `drop` is called once in any case.
uint32_t softnpuAscendcLaunch(void* stream, const softnpuAscendcKernel* kernel);
// All blocks of the launch meet. 0, or 1 when another block has failed.
int softnpuAscendcMeet(void* launch);
// A word of the launch's own, set to 0 at its start (IBSet, CrossCoreSetFlag): add, or wait until it has reached `least` and subtract.
int softnpuAscendcSignal(void* launch, uint32_t word, int32_t add);
int softnpuAscendcAwait(void* launch, uint32_t word, int32_t least);
// One writer at a time to global memory, of all kernels: what SetAtomicAdd and its like need.
void softnpuAscendcLockAtomics(void);
void softnpuAscendcUnlockAtomics(void);
// With ANYCEND_CHECK=kernel: is this memory of the device's? Else an error's text.
int softnpuAscendcOwned(const void* pointer, size_t bytes, char* message, size_t room);
// The chip, or null when there is none (ANYCEND_SOC names no chip).
const softnpuAscendcChip* softnpuAscendcGetChip(void);
// For aclnn functions of packages. The values of an aclIntArray (kind 0), aclFloatArray (1) or aclBoolArray (2): 0, or 1 if it is none.
int softnpuAscendcArray(const void* array, int kind, const void** values, uint64_t* size);
// The sentence that aclGetRecentErrMsg gives next.
void softnpuAscendcMessage(const char* text);

#ifdef __cplusplus
}
#endif

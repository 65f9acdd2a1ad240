// The C border between a compiled kernel and libsoftnpu_ascendc.so, which owns the threads that blocks run on and the cores' memory.
// What it is not: CANN's ABI. Included by the kernels' headers and by the library; both say which version they were built for.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SOFTNPU_ASCENDC_VERSION 2

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

#define SOFTNPU_ASCENDC_MOST_BLOCKS 65535u
// Puts the kernel on the stream; an aclError. `drop` is called once in any case.
uint32_t softnpuAscendcLaunch(void* stream, const softnpuAscendcKernel* kernel);
// All blocks of the launch meet. 0, or 1 when another block has failed: the block ends then with its place and this sentence, so that the
// library can say where blocks waited that no other comes to.
#define SOFTNPU_ASCENDC_FOLLOWS "another block of the kernel failed"
int softnpuAscendcMeet(void* launch);
// A word of the launch's own, set to 0 at its start: add, or wait until it has reached `least`.
int softnpuAscendcSignal(void* launch, uint32_t word, int32_t add);
int softnpuAscendcAwait(void* launch, uint32_t word, int32_t least);
// `teller`, one of `tellers`, has come to the gate once more. Each time all of them have, the `count` words from `first` on rise by 1.
int softnpuAscendcArrive(void* launch, uint32_t gate, uint32_t teller, uint32_t tellers, uint32_t first,
                         uint32_t count);
// Of a block that reads the same global memory over and over, as one does that waits for another block's word: lets others run. 0, or 1
// when another block has failed or the device's tasks are being aborted.
int softnpuAscendcGiveWay(void* launch);
// The calling thread's, of one process whatever libraries launch and are launched: the launch that calls a kernel, and the core that runs one.
typedef struct softnpuAscendcThread {
  void *launch, *core;
} softnpuAscendcThread;
softnpuAscendcThread* softnpuAscendcThisThread(void);
// One writer at a time to global memory, of all kernels: what SetAtomicAdd and its like need.
void softnpuAscendcLockAtomics(void);
void softnpuAscendcUnlockAtomics(void);
// With ANYCEND_CHECK=kernel: is this memory of the device's? Else an error's text.
int softnpuAscendcOwned(const void* pointer, size_t bytes, char* message, size_t room);
// With ANYCEND_CHECK=kernel: order by way of global memory, of all blocks of the launch. A use is `count` pieces of `bytes`, from `start`
// on, `step` bytes from one to the next, by instruction `when` of a unit of a block; `known` says how far each unit of that block has come
// for it. Where nothing orders it after another use, the call returns 1 and writes that one to `other`, its start and bytes where both meet.
// `value`, of pieces `value_step` apart: what will be written, or null; what is there already may be written by several blocks.
#define SOFTNPU_ASCENDC_UNITS 8
#define SOFTNPU_ASCENDC_SCALAR 0
enum { SOFTNPU_ASCENDC_READS, SOFTNPU_ASCENDC_WRITES, SOFTNPU_ASCENDC_ADDS };
typedef struct softnpuAscendcUse {
  const void* start;
  uint64_t bytes, count, step;
  uint32_t kind, block, unit, when;
  const char* what;  // the instruction and its place, which outlive the launch
  const char* file;
  int32_t line;
} softnpuAscendcUse;
// Held around a use and what it writes, so that values are compared with what other blocks wrote.
void softnpuAscendcLockUses(void* launch);
void softnpuAscendcUnlockUses(void* launch);
int softnpuAscendcUseGlobal(void* launch, const softnpuAscendcUse* use, const uint32_t* known, const void* value,
                            uint64_t value_step, softnpuAscendcUse* other);
// Where there is no memory for that, the launch fails, and these say nothing.
// What a block has seen becomes known by a word (`clock`: its own units), and to another block by the same word.
void softnpuAscendcTell(void* launch, uint64_t word, uint32_t block, const uint32_t* clock);
void softnpuAscendcHear(void* launch, uint64_t word, uint32_t block);
// The chip, or null when there is none (ANYCEND_SOC names no chip).
const softnpuAscendcChip* softnpuAscendcGetChip(void);
// For aclnn functions of packages. The values of an aclIntArray (kind 0), aclFloatArray (1) or aclBoolArray (2): 0, or 1 if it is none.
int softnpuAscendcArray(const void* array, int kind, const void** values, uint64_t* size);
// The sentence that aclGetRecentErrMsg gives next.
void softnpuAscendcMessage(const char* text);
// That sentence, which stays there; of this thread, until it asks again.
const char* softnpuAscendcRecent(void);

#ifdef __cplusplus
}
#endif

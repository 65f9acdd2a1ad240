// Exports: a compiled kernel becomes a task of a stream (softnpuLaunchKernel of libascendcl), and what its blocks ask of each other.
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>

#include "acl/soft.h"
#include "softnpu/ascendc/include/ascendc/runtime.h"
#include "softnpu/ascendc/runtime/chip.h"
#include "softnpu/ascendc/runtime/run.h"
#include "softnpu/runtime/enqueue.h"
#include "softnpu/runtime/extent.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

using softnpu::ascendc::Run;
using softnpu::ascendc::Uses;

namespace {

constexpr uint32_t kMostBlocks = SOFTNPU_ASCENDC_MOST_BLOCKS;
constexpr uint32_t kInvalidParam = 100000, kBadAlloc = 200000;

// ANYCEND_CHECK is a list: libascendcl refuses names that it does not know.
bool kernel_check() noexcept {
  static const bool on = [] {
    const char* v = getenv("ANYCEND_CHECK");
    for (const char* at = v; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : nullptr)
      if (strncmp(at, "kernel", 6) == 0 && (at[6] == 0 || at[6] == ',')) return true;
    return false;
  }();
  return on;
}

struct Task {
  softnpuAscendcKernel kernel;
  const softnpuAscendcChip* chip;
  int device;

  static int run(void* state, char* message, size_t room) noexcept {
    const Task& task = *static_cast<Task*>(state);
    Run run(task.kernel, *task.chip, task.device, kernel_check());
    const std::string error = run.go();
    if (error.empty()) return 0;
    snprintf(message, room, "%s", error.c_str());
    return 1;
  }
  static void drop(void* state) noexcept {
    auto* task = static_cast<Task*>(state);
    if (task->kernel.drop) task->kernel.drop(task->kernel.state);
    delete task;
  }
};

uint32_t refuse(const softnpuAscendcKernel& kernel, const char* format, ...) __attribute__((format(printf, 2, 3)));
uint32_t refuse(const softnpuAscendcKernel& kernel, const char* format, ...) {
  char text[400], message[500];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  snprintf(message, sizeof message, "%s: %s", kernel.name, text);
  softnpu::set_error_message(message);
  if (kernel.drop) kernel.drop(kernel.state);
  return kInvalidParam;
}

// What the kernel checker keeps takes memory, and no exception crosses the border to kernels.
template <class F>
void kept(void* launch, F f) noexcept {
  Run& run = *static_cast<Run*>(launch);
  try {
    f(run.uses());
  } catch (const std::exception&) {
    run.give_up(
        "there is no memory for the kernel checker (ANYCEND_CHECK=kernel): run fewer or smaller blocks with it");
  }
}

std::mutex& atomics() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

}  // namespace

EXPORT uint32_t softnpuAscendcLaunch(void* stream, const softnpuAscendcKernel* kernel) {
  if (kernel->version != SOFTNPU_ASCENDC_VERSION)
    return refuse(*kernel,
                  "compiled for version %u of the software NPU's kernel interface, and this is %u: compile it again",
                  kernel->version, SOFTNPU_ASCENDC_VERSION);
  if (kernel->blocks < 1 || kernel->blocks > kMostBlocks)
    return refuse(*kernel, "a launch has 1 to %u blocks, and this one has %u", kMostBlocks, kernel->blocks);
  const softnpuAscendcChip* chip = softnpu::ascendc::chip();
  if (chip == nullptr) return refuse(*kernel, "the device's chip runs no kernels: ANYCEND_SOC names one that does");
  if (chip->architecture != kernel->architecture)
    return refuse(*kernel,
                  "compiled for dav-%u, and %s is dav-%u: compile with --npu-arch=dav-%u, or choose another chip with "
                  "ANYCEND_SOC",
                  kernel->architecture, chip->name, chip->architecture, chip->architecture);
  if (const uint32_t status = softnpu::ascendc::Stops::listen()) {
    if (kernel->drop) kernel->drop(kernel->state);
    return status;
  }
  auto* task = new (std::nothrow) Task{*kernel, chip, softnpu::stream_device(stream)};
  if (task == nullptr) {
    refuse(*kernel, "there is no memory for the launch");
    return kBadAlloc;
  }
  const softnpuKernel described{Task::run, Task::drop, task, task->kernel.name, SOFTNPU_SERIAL};
  return static_cast<uint32_t>(softnpuLaunchKernel(stream, &described));
}

EXPORT softnpuAscendcThread* softnpuAscendcThisThread() {
  thread_local softnpuAscendcThread thread{};
  return &thread;
}

EXPORT int softnpuAscendcMeet(void* launch) { return !static_cast<Run*>(launch)->meet(); }
EXPORT int softnpuAscendcSignal(void* launch, uint32_t word, int32_t add) {
  return !static_cast<Run*>(launch)->signal(word, add);
}
EXPORT int softnpuAscendcAwait(void* launch, uint32_t word, int32_t least) {
  return !static_cast<Run*>(launch)->await(word, least);
}
EXPORT int softnpuAscendcArrive(void* launch, uint32_t gate, uint32_t teller, uint32_t tellers, uint32_t first,
                                uint32_t count) {
  return !static_cast<Run*>(launch)->arrive(gate, teller, tellers, first, count);
}

EXPORT int softnpuAscendcGiveWay(void* launch) { return !static_cast<Run*>(launch)->give_way(); }

EXPORT void softnpuAscendcLockUses(void* launch) { static_cast<Run*>(launch)->uses().mutex().lock(); }
EXPORT void softnpuAscendcUnlockUses(void* launch) { static_cast<Run*>(launch)->uses().mutex().unlock(); }
EXPORT int softnpuAscendcUseGlobal(void* launch, const softnpuAscendcUse* use, const uint32_t* known, const void* value,
                                   uint64_t value_step, softnpuAscendcUse* other) {
  bool ordered = true;  // also where nothing can be kept: the run fails then, for that reason
  kept(launch,
       [&](Uses& uses) { ordered = uses.add(*use, known, static_cast<const uint8_t*>(value), value_step, other); });
  return !ordered;
}
EXPORT void softnpuAscendcTell(void* launch, uint64_t word, uint32_t block, const uint32_t* clock) {
  kept(launch, [&](Uses& uses) {
    const std::lock_guard lock(uses.mutex());
    uses.tell(word, block, clock);
  });
}
EXPORT void softnpuAscendcHear(void* launch, uint64_t word, uint32_t block) {
  kept(launch, [&](Uses& uses) {
    const std::lock_guard lock(uses.mutex());
    uses.hear(word, block);
  });
}

EXPORT void softnpuAscendcLockAtomics(void) { atomics().lock(); }
EXPORT void softnpuAscendcUnlockAtomics(void) { atomics().unlock(); }

EXPORT int softnpuAscendcOwned(const void* pointer, size_t bytes, char* message, size_t room) {
  const uint64_t there = softnpu::device_bytes_from(pointer);
  if (there != softnpu::kHostMemory && there >= bytes) return 0;
  if (there == softnpu::kHostMemory)
    snprintf(message, room, "%p is no device memory: give the kernel a pointer of the device's", pointer);
  else if (there == 0)
    snprintf(message, room, "%p is global memory that was freed, or none", pointer);
  else
    snprintf(message, room, "%zu bytes from %p on leave their allocation, of which %llu bytes are left", bytes, pointer,
             static_cast<unsigned long long>(there));
  return 1;
}

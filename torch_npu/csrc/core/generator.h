// The random number generator of a device: Philox, counter-based. Its whole state is a seed and an offset, 16 bytes as
// CUDA's; kernels take both, so results depend on neither threads nor streams.
//     const PhiloxSlice slice = next_philox(generator, numel);     // pass slice.seed, slice.offset to the kernel
// In a graph's capture the seed lies in device memory, so that each replay draws other numbers (draw_philox).
// What it is not: the random kernels. Who calls it: csrc/ops, graph.cpp, hooks.cpp, csrc/python.
#pragma once

#include <ATen/core/Generator.h>

#include <optional>

#include "csrc/cann/export.h"

namespace npu {

struct PhiloxSlice {
  int64_t seed;
  int64_t offset;
};

// Reserves `count` random numbers of the generator (the current device's default one if none is given; its device must be
// the current one). Offsets are multiples of 4: one Philox round makes four 32-bit numbers. Thread-safe. In a capture: an error.
PhiloxSlice next_philox(const std::optional<at::Generator>& generator, uint64_t count);

// For operators that can take their seed from memory: where `captured` is set, offset counts from captured->offset.
struct CapturedPhilox;
struct PhiloxDraw : PhiloxSlice {
  const CapturedPhilox* captured = nullptr;
};
PhiloxDraw draw_philox(const std::optional<at::Generator>& generator, uint64_t count);

// Whether what one draws the other does not draw again. Both are of an npu device.
bool share_state(const c10::GeneratorImpl& a, const c10::GeneratorImpl& b);

// -1: the current device.
NPU_API const at::Generator& default_generator(c10::DeviceIndex index = -1);
at::Generator new_generator(c10::DeviceIndex index = -1);

}  // namespace npu

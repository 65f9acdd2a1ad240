// The memories of a core: the vector core's unified buffer; the cube core's L1, L0A, L0B, L0C and bias table. What it is not: who has
// which part of them (core.h, pipe.h). Those of the cube are a thread's own, made when a kernel first asks for them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <new>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#include "ascendc/enums.h"
#include "ascendc/runtime.h"

namespace AscendC::detail {

enum Space : uint8_t { kUnified, kL1, kL0A, kL0B, kL0C, kBias, kSpaces };

constexpr bool of_cube(TPosition p) {
  return p == TPosition::A1 || p == TPosition::A2 || p == TPosition::B1 || p == TPosition::B2 || p == TPosition::C1 ||
         p == TPosition::C2 || p == TPosition::CO1;
}
constexpr Space space_of(TPosition p) {
  switch (p) {
    case TPosition::A1:
    case TPosition::B1:
    case TPosition::C1:
      return kL1;
    case TPosition::A2:
      return kL0A;
    case TPosition::B2:
      return kL0B;
    case TPosition::CO1:
      return kL0C;
    case TPosition::C2:
      return kBias;
    default:
      return kUnified;
  }
}
inline const char* space_name(Space s) {
  constexpr const char* kNames[] = {"unified buffer", "L1 buffer",  "L0A buffer",
                                    "L0B buffer",     "L0C buffer", "bias table"};
  return kNames[s];
}
inline uint32_t space_bytes(const softnpuAscendcChip& chip, Space s) {
  const uint32_t bytes[] = {chip.unified_buffer, chip.l1, chip.l0a, chip.l0b, chip.l0c, 1024};
  return bytes[s];
}

// A kernel that is compiled with -fsanitize=address: what may not be touched, and what may.
inline void hide([[maybe_unused]] const void* p, [[maybe_unused]] size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  __asan_poison_memory_region(p, bytes);
#endif
}
inline void show([[maybe_unused]] const void* p, [[maybe_unused]] size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  __asan_unpoison_memory_region(p, bytes);
#endif
}

struct CubeMemories {
  uint8_t* of[kSpaces] = {};
  CubeMemories() = default;
  ~CubeMemories() {
    for (uint8_t* p : of) ::operator delete(p, std::align_val_t(512));
  }
  CubeMemories(const CubeMemories&) = delete;
  CubeMemories& operator=(const CubeMemories&) = delete;
};
inline uint8_t* cube_memory(const softnpuAscendcChip& chip, Space s) {
  thread_local CubeMemories memories;
  uint8_t*& memory = memories.of[s];
  if (memory == nullptr) {
    memory = static_cast<uint8_t*>(::operator new(space_bytes(chip, s), std::align_val_t(512)));
    std::fill_n(memory, space_bytes(chip, s), uint8_t{0});
  }
  return memory;
}

}  // namespace AscendC::detail

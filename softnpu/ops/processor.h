// What differs between processors: which loops are compiled several times, and the register that flushes denormals. A
// kernel's own form for one processor stands in a file of its own (gemm_x86.cpp, half_arm.cpp, ...), which CMakeLists.txt chooses.
// Who uses it: loops of this room, and what guards them.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace softnpu::ops {

// A loop compiled for three generations of x86; the loader chooses. An Arm processor's baseline has the vectors that it needs, and
// g++ 12 makes no clones there.
#if defined(__x86_64__)
#define CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CLONES
#endif

// The calling thread's floating-point control register, and its bits that make denormals zero.
#if defined(__x86_64__)
using FloatControl = unsigned;
constexpr FloatControl kFlushesDenormals = 0x8040;  // MXCSR: flush-to-zero, denormals-are-zero
inline FloatControl float_control() { return _mm_getcsr(); }
inline void set_float_control(FloatControl bits) { _mm_setcsr(bits); }
#elif defined(__aarch64__)
using FloatControl = uint64_t;
constexpr FloatControl kFlushesDenormals = 1u << 24 | 1u << 19;  // FPCR: FZ, and FZ16 for halves
inline FloatControl float_control() {
  FloatControl bits;
  asm volatile("mrs %0, fpcr" : "=r"(bits));
  return bits;
}
inline void set_float_control(FloatControl bits) { asm volatile("msr fpcr, %0" : : "r"(bits)); }
#else
#error "softnpu/ops/processor.h knows x86-64 and aarch64: add this processor's floating-point control register"
#endif

}  // namespace softnpu::ops

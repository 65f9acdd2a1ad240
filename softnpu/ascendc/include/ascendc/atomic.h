// SetAtomicAdd, SetAtomicMax, SetAtomicMin, SetAtomicNone: what a copy to global memory does with what is there. Real between blocks:
// one such copy at a time writes. What it is not: the copy (copy.h). Called by kernels.
#pragma once

#include "ascendc/arithmetic.h"
#include "ascendc/core.h"
#include "ascendc/types.h"

namespace AscendC {
namespace detail {

template <class T>
void set_atomic(Core::Atomic kind, const char* what, Site at) {
  static_assert(one_of<T, float, half, int8_t, int16_t, int32_t, bfloat16_t>,
                "atomics take float, half, int8_t, int16_t, int32_t, bfloat16_t");
  Core& c = core(at, what);
  c.atomic = kind;
  c.atomic_bytes = sizeof(T);
  c.atomic_at = at;
}

class AtomicSection {
 public:
  AtomicSection() { softnpuAscendcLockAtomics(); }
  ~AtomicSection() { softnpuAscendcUnlockAtomics(); }
  AtomicSection(const AtomicSection&) = delete;
  AtomicSection& operator=(const AtomicSection&) = delete;
};

// Writes n elements to global memory as the core's atomic mode says.
template <class T>
void store(Core& c, T* to, const T* from, size_t n) {
  if (c.atomic == Core::Atomic::kNone) {
    memcpy(static_cast<void*>(to), from, n * sizeof(T));
    return;
  }
  if constexpr (is_float<T> || one_of<T, int8_t, int16_t, int32_t>) {
    const AtomicSection section;
    for (size_t i = 0; i < n; ++i)
      to[i] = c.atomic == Core::Atomic::kAdd   ? add(to[i], from[i])
              : c.atomic == Core::Atomic::kMax ? max(to[i], from[i])
                                               : min(to[i], from[i]);
  }
}

template <class T>
void need_atomic_type(const Core& c, const char* what, Site at) {
  if (c.atomic == Core::Atomic::kNone) return;
  if (sizeof(T) != c.atomic_bytes || !(is_float<T> || one_of<T, int8_t, int16_t, int32_t>))
    fail(at, what,
         "the type of the copy is not the one of SetAtomicAdd, SetAtomicMax or SetAtomicMin: SetAtomicNone comes "
         "before other copies");
}

}  // namespace detail

template <class T>
void SetAtomicAdd(ASCENDC_AT) {
  detail::set_atomic<T>(detail::Core::Atomic::kAdd, "SetAtomicAdd", at);
}
template <class T>
void SetAtomicMax(ASCENDC_AT) {
  detail::set_atomic<T>(detail::Core::Atomic::kMax, "SetAtomicMax", at);
}
template <class T>
void SetAtomicMin(ASCENDC_AT) {
  detail::set_atomic<T>(detail::Core::Atomic::kMin, "SetAtomicMin", at);
}
inline void SetAtomicNone(ASCENDC_AT) { detail::core(at, "SetAtomicNone").atomic = detail::Core::Atomic::kNone; }

}  // namespace AscendC

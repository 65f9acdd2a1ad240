// Words of the chip's own compiler that kernels use beside the API: which core this is, the clock, the end. Called by kernels.
// What it is not: its vector and cube instructions. Flags and barriers in its words are in sync.h, atomics in atomic.h.
#pragma once

#include "ascendc/sync.h"
#include "ascendc/system.h"

// The block, and the vector core of the block: GetBlockIdx() of a vector core is get_block_idx() * get_subblockdim() + get_subblockid().
// Templates, so that a kernel's own functions of these names are taken first.
template <class = void>
int64_t get_block_idx(ASCENDC_AT) {
  return AscendC::detail::core(at, "get_block_idx").group;
}
template <class = void>
int64_t get_block_num(ASCENDC_AT) {
  return AscendC::detail::core(at, "get_block_num").groups;
}
template <class = void>
int64_t get_subblockid(ASCENDC_AT) {
  return AscendC::detail::core(at, "get_subblockid").sub;
}
template <class = void>
int64_t get_subblockdim(ASCENDC_AT) {
  return AscendC::detail::core(at, "get_subblockdim").ratio;
}
template <class = void>
int64_t get_sys_cnt() {
  return AscendC::GetSystemCycle();
}
template <class = void>
void trap(ASCENDC_AT) {
  AscendC::Trap(at);
}
// As DataCacheCleanAndInvalid: there is no cache of the core's own.
template <class... A>
void dcci(const volatile void*, A...) {}

// The kind of core, asked as `if (g_coreType == AscendC::AIV)`. One compilation serves both kinds, so bisheng makes `if` of `if constexpr`.
namespace AscendC {
namespace detail {
enum CoreKind : int { kCubeKind = 1, kVectorKind = 2 };
struct CurrentCore {
  operator int() const { return on_cube_core("g_coreType") ? kCubeKind : kVectorKind; }
  friend bool operator==(const CurrentCore& core, CoreKind kind) { return static_cast<int>(core) == kind; }
};
}  // namespace detail
inline constexpr detail::CoreKind AIC = detail::kCubeKind, AIV = detail::kVectorKind;
}  // namespace AscendC
inline constexpr AscendC::detail::CurrentCore g_coreType;
namespace AscendC {
using ::g_coreType;
}

// What a kernel asks of its core: which block it is, the mask register, the clock. Called by kernels. What it is not: order (sync.h).
#pragma once

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <type_traits>

#include "ascendc/global_tensor.h"

#define ASSERT(condition)                                                                                              \
  do {                                                                                                                 \
    if (!(condition)) ::AscendC::detail::fail(::AscendC::detail::Site::here(), "ASSERT", #condition " does not hold"); \
  } while (false)
#define PRINTF printf
#if defined(ASCENDC_DUMP) && ASCENDC_DUMP == 0  // the user wants neither ascendc_assert nor assert
#define ascendc_assert(condition, ...) static_cast<void>(0)
#else
#define ascendc_assert(condition, ...)                                                                            \
  (static_cast<bool>(condition) ? static_cast<void>(0)                                                            \
                                : ::AscendC::detail::assert_failed(::AscendC::detail::Site::here(), __FUNCTION__, \
                                                                   #condition __VA_OPT__(, ) __VA_ARGS__))
#endif
#include "assert.h"

namespace AscendC::detail {

// As printf takes it: C++ makes no double of half and bfloat16_t by itself.
template <class T>
inline constexpr bool is_printed_as_double = std::is_same_v<T, half> || std::is_same_v<T, bfloat16_t>;
template <class T>
auto printed(T value) {
  if constexpr (is_printed_as_double<T>)
    return static_cast<double>(static_cast<float>(value));
  else
    return value;
}

}  // namespace AscendC::detail

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-security"
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
template <class... A>
  requires(AscendC::detail::is_printed_as_double<A> || ...)
int printf(const char* text, A... given) {
  return ::printf(text, AscendC::detail::printed(given)...);
}
#pragma GCC diagnostic pop

namespace AscendC {

using ::printf;

namespace detail {

// assert(...) and ascendc_assert(...): in a kernel the block's error, on the host's side what the C library does.
[[noreturn]] inline void assert_failed(Site at, const char* function, const char* condition,
                                       const std::string& text = "") {
  const std::string said = text.empty() ? "" : ": " + text.substr(0, text.find_last_not_of(" \n") + 1);
  if (t_core) fail(at, "assert", condition + (" does not hold" + said));
  fprintf(stderr, "%s:%d: %s: Assertion `%s' failed%s\n", at.file, at.line, function, condition, said.c_str());
  abort();
}
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-security"
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
template <class... A>
[[noreturn]] void assert_failed(Site at, const char* function, const char* condition, const char* text, A... given) {
  if constexpr (sizeof...(A) == 0)
    assert_failed(at, function, condition, std::string(text));  // no format: it may have a %
  else
    assert_failed(at, function, condition, format(text, printed(given)...));
}
#pragma GCC diagnostic pop

}  // namespace detail

inline int64_t GetBlockIdx(ASCENDC_AT) { return detail::core(at, "GetBlockIdx").number(); }
inline int64_t GetBlockNum(ASCENDC_AT) { return detail::core(at, "GetBlockNum").groups; }
// In a mixed kernel a block is a cube core and one or two vector cores; in others it is one core.
inline int64_t GetSubBlockIdx(ASCENDC_AT) { return detail::core(at, "GetSubBlockIdx").sub; }
inline int64_t GetSubBlockNum(ASCENDC_AT) { return detail::core(at, "GetSubBlockNum").ratio; }
inline int64_t GetTaskRation(ASCENDC_AT) {
  const detail::Core& c = detail::core(at, "GetTaskRation");
  return c.cube() ? 1 : c.ratio;
}

// Memory of the system's own, which nothing here needs: an address that is not null, and not to be read or written.
inline GM_ADDR GetSysWorkSpacePtr() {
  static const uint8_t kNone[64] = {};
  return const_cast<GM_ADDR>(kNone);
}
// The system's part of the workspace is the hardware's: nothing here uses one.
inline void SetSysWorkspace(GM_ADDR) {}
// The part of the workspace that is the user's: all of it.
inline GM_ADDR GetUserWorkspace(GM_ADDR workspace) { return workspace; }

// The state that a kernel begins with.
inline void InitSocState(ASCENDC_AT) {
  detail::Core& c = detail::core(at, "InitSocState");
  c.atomic = detail::Core::Atomic::kNone;
  c.mask[0] = c.mask[1] = ~0ull;
  c.counter = false;
}

// 50 MHz, as on the chips.
inline int64_t GetSystemCycle() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (now.tv_sec * int64_t{1000000000} + now.tv_nsec) / 20;
}

inline void Trap(ASCENDC_AT) { detail::fail(at, "Trap", "the kernel stopped itself"); }

// The mask register, which instructions with isSetMask = false use.
inline void SetMaskCount(ASCENDC_AT) { detail::core(at, "SetMaskCount").counter = true; }
inline void SetMaskNorm(ASCENDC_AT) { detail::core(at, "SetMaskNorm").counter = false; }
inline void ResetMask(ASCENDC_AT) {
  detail::Core& c = detail::core(at, "ResetMask");
  c.mask[0] = c.mask[1] = ~0ull;
}
template <class T, MaskMode mode = MaskMode::NORMAL>
void SetVectorMask(uint64_t maskHigh, uint64_t maskLow, ASCENDC_AT) {
  detail::Core& c = detail::core(at, "SetVectorMask");
  c.mask[0] = maskLow;
  c.mask[1] = maskHigh;
}
// The first `len` elements of a repeat; in counter mode `len` elements in all.
template <class T, MaskMode mode = MaskMode::NORMAL>
void SetVectorMask(int32_t len, ASCENDC_AT) {
  detail::Core& c = detail::core(at, "SetVectorMask");
  if (mode == MaskMode::COUNTER) {
    if (len < 0) detail::fail(at, "SetVectorMask", "fewer than no elements");
    c.mask[0] = static_cast<uint64_t>(len);
    c.mask[1] = 0;
    return;
  }
  if (len < 0 || len > 128)
    detail::fail(at, "SetVectorMask", detail::format("%d elements: a repeat has 0 to 128", len));
  c.mask[0] = len >= 64 ? ~0ull : (1ull << len) - 1;
  c.mask[1] = len >= 128 ? ~0ull : len > 64 ? (1ull << (len - 64)) - 1 : 0;
}

// Elements that the last GatherMask kept.
inline int64_t GetGatherMaskRemainCount(ASCENDC_AT) {
  return static_cast<int64_t>(detail::core(at, "GetGatherMaskRemainCount").rsvd);
}

// One memory without caches of the core's own: what was written is there.
enum class CacheLine : uint64_t { SINGLE_CACHE_LINE = 0, ENTIRE_DATA_CACHE };
enum class DcciDst : uint64_t { CACHELINE_ALL = 0, CACHELINE_UB, CACHELINE_OUT, CACHELINE_ATOMIC };
template <class T, CacheLine entire = CacheLine::SINGLE_CACHE_LINE, DcciDst dst = DcciDst::CACHELINE_ALL>
void DataCacheCleanAndInvalid(const GlobalTensor<T>&) {}

}  // namespace AscendC

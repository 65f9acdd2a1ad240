// SIMT functions (the 950): VF_CALL and asc_vf_call run a function once a thread; what a thread asks for and what threads do together.
// What it is not: the threads (threads.h); kernels of SIMT alone. Called by kernels.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <type_traits>
#include <utility>

#include "ascendc/arithmetic.h"
#include "ascendc/global_order.h"
#include "ascendc/threads.h"
#include "ascendc/types.h"

#define __simt_vf__
#define __simt_callee__
#define LAUNCH_BOUND(threads)
#define __launch_bounds__(...)

namespace AscendC {
namespace detail {

template <class...>
constexpr bool simt_here = __NPU_ARCH__ == 3510;

// A tensor's address in the unified buffer becomes one of this machine. The checker counts the rest of its buffer as written by the
// vector unit (or read, where the pointer is to const): what the threads do with it, plain C++, it does not see.
template <class T>
T simt_argument(T value, Core& c, const char* what, Site at) {
  if constexpr (std::is_pointer_v<T>) {
    const auto address = reinterpret_cast<uintptr_t>(value);
    if (static_cast<intptr_t>(address) < 0)
      fail(at, what,
           format("address %lld of the unified buffer: the tensor's offset is negative",
                  static_cast<long long>(address)));
    if (address >= c.block.chip->unified_buffer) return value;
    for (const Room& r : c.rooms)
      if (r.space() == kUnified && address >= r.start && address < r.start + r.bytes())
        c.hazards.use(kVector, kUnified, static_cast<uint32_t>(address),
                      r.start + r.bytes() - static_cast<uint32_t>(address), !std::is_const_v<std::remove_pointer_t<T>>);
    return reinterpret_cast<T>(c.block.unified_buffer + address);
  } else {
    return value;
  }
}

template <auto function, class... A>
void simt_run(const char* what, dim3 threads, A... given) {
  const Site at = threads.at;
  Core& c = core(at, what);
  c.be(Core::Kind::kVectorCore, what, what, at);
  const uint64_t n = uint64_t{threads.x} * threads.y * threads.z;
  if (n == 0 || std::max({threads.x, threads.y, threads.z}) > kMostThreads || n > kMostThreads)
    fail(at, what, format("%u x %u x %u threads: 1 to %u are possible", threads.x, threads.y, threads.z, kMostThreads));
  c.hazards.issue(kVector, what, at);
#if __NPU_ARCH__ == 3510
  blockDim = threads;
  blockIdx = {c.number(), 0, 0};
  gridDim = {c.groups * c.ratio};
#endif
  auto body = [... a = simt_argument(given, c, what, at)]() { function(a...); };
  Threads(threads, static_cast<uint32_t>(n), [](void* f) { (*static_cast<decltype(body)*>(f))(); }, &body).run();
}

// What the lanes of a warp brought, by lane; lanes that have returned bring nothing.
template <class T>
struct WarpLanes {
  WarpLanes(T value, const char* what, Site at) : threads(Threads::running(what, at)) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8, "warp functions take numbers of 1 to 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof(T));
    brought = &threads.meet(bits, at);
  }
  bool has(uint32_t lane) const { return brought->lanes >> lane & 1; }
  T of(uint32_t lane) const {
    T value;
    memcpy(&value, &brought->values[lane], sizeof(T));
    return value;
  }
  template <class F>
  T all(F f) const {
    uint32_t lane = static_cast<uint32_t>(std::countr_zero(brought->lanes));
    T result = of(lane);
    while (++lane < kLanes)
      if (has(lane)) result = f(result, of(lane));
    return result;
  }
  // Another lane's, of the same stretch of `width` lanes; this lane's own where there is none.
  T from(int64_t lane, int32_t width, const char* what, Site at) const {
    if (width < 1 || width > 32 || !std::has_single_bit(static_cast<uint32_t>(width)))
      fail(at, what, format("a width of %d: it is 1, 2, 4, 8, 16 or 32", width));
    const int64_t own = threads.lane(), first = own - own % width;
    const bool there = lane >= first && lane < first + width && has(static_cast<uint32_t>(lane));
    return of(static_cast<uint32_t>(there ? lane : own));
  }
  Threads& threads;
  const Threads::Brought* brought;
};

template <class T, class F>
T simt_atomic(T* address, F f) {
  static_assert(one_of<T, int32_t, uint32_t, int64_t, uint64_t, long long, unsigned long long, float>,
                "atomics of threads take int32_t, uint32_t, int64_t, uint64_t, float");
  read_at(core({}, "an atomic of threads"), address, "an atomic of threads", {});
  std::atomic_ref<T> place(*address);
  T before = place.load();
  while (!place.compare_exchange_weak(before, f(before))) {
  }
  return before;
}

}  // namespace detail

namespace Simt {
using Dim3 = ::dim3;

template <auto function, class... A>
void VF_CALL(Dim3 threads, A... given) {
  static_assert(detail::simt_here<A...>, "VF_CALL: SIMT functions are of the 950: --npu-arch=dav-3510");
  detail::simt_run<function>("VF_CALL", threads, given...);
}

#if __NPU_ARCH__ == 3510
template <int32_t direction = 0>
uint32_t GetThreadIdx() {
  return direction == 0 ? threadIdx.x : direction == 1 ? threadIdx.y : threadIdx.z;
}
template <int32_t direction = 0>
uint32_t GetThreadNum() {
  return direction == 0 ? blockDim.x : direction == 1 ? blockDim.y : blockDim.z;
}
inline uint32_t GetBlockIdx() { return blockIdx.x; }
inline uint32_t GetBlockNum() { return gridDim.x; }
#endif
inline constexpr int32_t GetWarpSize() { return detail::kLanes; }
inline uint32_t GetLaneId(ASCENDC_AT) { return detail::Threads::running("GetLaneId", at).lane(); }
inline uint32_t GetWarpId(ASCENDC_AT) { return detail::Threads::running("GetWarpId", at).number() / detail::kLanes; }

inline void ThreadBarrier(ASCENDC_AT) { detail::Threads::running("ThreadBarrier", at).barrier(); }
inline void ThreadFence() { std::atomic_thread_fence(std::memory_order_seq_cst); }

inline uint32_t WarpBallotSync(int32_t predicate, ASCENDC_AT) {
  const detail::WarpLanes<int32_t> lanes(predicate, "WarpBallotSync", at);
  uint32_t bits = 0;
  for (uint32_t i = 0; i < detail::kLanes; ++i) bits |= (lanes.has(i) && lanes.of(i) != 0 ? 1u : 0u) << i;
  return bits;
}
inline uint32_t WarpActiveMask(ASCENDC_AT) {
  return detail::WarpLanes<int32_t>(0, "WarpActiveMask", at).brought->lanes;
}
inline int32_t WarpAllSync(int32_t predicate, ASCENDC_AT) {
  const detail::WarpLanes<int32_t> lanes(predicate != 0, "WarpAllSync", at);
  return lanes.all([](int32_t a, int32_t b) { return a & b; });
}
inline int32_t WarpAnySync(int32_t predicate, ASCENDC_AT) {
  const detail::WarpLanes<int32_t> lanes(predicate != 0, "WarpAnySync", at);
  return lanes.all([](int32_t a, int32_t b) { return a | b; });
}
template <class T>
T WarpShflSync(T value, int32_t lane, int32_t width = 32, ASCENDC_AT) {
  const detail::WarpLanes<T> lanes(value, "WarpShflSync", at);
  const int32_t own = static_cast<int32_t>(lanes.threads.lane()), n = std::max(width, 1);
  return lanes.from(own - own % n + (lane % n + n) % n, width, "WarpShflSync", at);
}
template <class T>
T WarpShflUpSync(T value, uint32_t delta, int32_t width = 32, ASCENDC_AT) {
  const detail::WarpLanes<T> lanes(value, "WarpShflUpSync", at);
  return lanes.from(int64_t{lanes.threads.lane()} - delta, width, "WarpShflUpSync", at);
}
template <class T>
T WarpShflDownSync(T value, uint32_t delta, int32_t width = 32, ASCENDC_AT) {
  const detail::WarpLanes<T> lanes(value, "WarpShflDownSync", at);
  return lanes.from(int64_t{lanes.threads.lane()} + delta, width, "WarpShflDownSync", at);
}
template <class T>
T WarpShflXorSync(T value, int32_t mask, int32_t width = 32, ASCENDC_AT) {
  const detail::WarpLanes<T> lanes(value, "WarpShflXorSync", at);
  return lanes.from(static_cast<int32_t>(lanes.threads.lane()) ^ mask, width, "WarpShflXorSync", at);
}
template <class T>
T WarpReduceAddSync(T value, ASCENDC_AT) {
  return detail::WarpLanes<T>(value, "WarpReduceAddSync", at).all([](T a, T b) { return static_cast<T>(a + b); });
}
template <class T>
T WarpReduceMaxSync(T value, ASCENDC_AT) {
  return detail::WarpLanes<T>(value, "WarpReduceMaxSync", at).all([](T a, T b) { return a < b ? b : a; });
}
template <class T>
T WarpReduceMinSync(T value, ASCENDC_AT) {
  return detail::WarpLanes<T>(value, "WarpReduceMinSync", at).all([](T a, T b) { return b < a ? b : a; });
}

// Each gives what was there before. They are atomic for the processor, too: other blocks run at the same time.
#define ASCENDC_ATOMIC(Name, after)                                                \
  template <class T>                                                               \
  T Name(T* address, std::type_identity_t<T> value) {                              \
    return detail::simt_atomic(address, [value](T before) -> T { return after; }); \
  }
ASCENDC_ATOMIC(AtomicAdd, before + value)
ASCENDC_ATOMIC(AtomicSub, before - value)
ASCENDC_ATOMIC(AtomicExch, (static_cast<void>(before), value))
ASCENDC_ATOMIC(AtomicMax, before < value ? value : before)
ASCENDC_ATOMIC(AtomicMin, value < before ? value : before)
ASCENDC_ATOMIC(AtomicAnd, before& value)
ASCENDC_ATOMIC(AtomicOr, before | value)
ASCENDC_ATOMIC(AtomicXor, before ^ value)
#undef ASCENDC_ATOMIC
template <class T>
T AtomicCas(T* address, std::type_identity_t<T> compare, std::type_identity_t<T> value) {
  return detail::simt_atomic(address, [=](T before) -> T { return before == compare ? value : before; });
}

template <class T>
T Max(T a, T b) {
  return a < b ? b : a;
}
template <class T>
T Min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
T Abs(T a) {
  return detail::magnitude(a);
}
inline float Floor(float a) { return std::floor(a); }
inline float Ceil(float a) { return std::ceil(a); }
inline float Rint(float a) { return std::rint(a); }
inline float Round(float a) { return std::round(a); }
inline float Trunc(float a) { return std::trunc(a); }
inline float Sqrt(float a) { return std::sqrt(a); }
inline float Exp(float a) { return std::exp(a); }
inline float Log(float a) { return std::log(a); }
inline float Sin(float a) { return std::sin(a); }
inline float Cos(float a) { return std::cos(a); }
inline float Tanh(float a) { return std::tanh(a); }
inline float Pow(float a, float b) { return std::pow(a, b); }
inline float Fma(float a, float b, float c) { return std::fma(a, b, c); }
inline int32_t Popc(uint32_t a) { return std::popcount(a); }
inline int32_t Popc(int32_t a) { return std::popcount(static_cast<uint32_t>(a)); }
inline int32_t Popc(uint64_t a) { return std::popcount(a); }
inline int32_t Clz(uint32_t a) { return std::countl_zero(a); }
inline int32_t Clz(int32_t a) { return std::countl_zero(static_cast<uint32_t>(a)); }

}  // namespace Simt
}  // namespace AscendC

// The same in the language's own names.
#if __NPU_ARCH__ == 3510
template <auto function, class... A>
void asc_vf_call(dim3 threads, A... given) {
  AscendC::detail::simt_run<function>("asc_vf_call", threads, given...);
}
inline void asc_syncthreads(ASCENDC_AT) { AscendC::Simt::ThreadBarrier(at); }
inline void asc_threadfence() { AscendC::Simt::ThreadFence(); }
#define ASCENDC_SAME(name, Name)                   \
  template <class T, class... A>                   \
  auto name(T* address, A... value) {              \
    return AscendC::Simt::Name(address, value...); \
  }
ASCENDC_SAME(asc_atomic_add, AtomicAdd)
ASCENDC_SAME(asc_atomic_sub, AtomicSub)
ASCENDC_SAME(asc_atomic_exch, AtomicExch)
ASCENDC_SAME(asc_atomic_max, AtomicMax)
ASCENDC_SAME(asc_atomic_min, AtomicMin)
ASCENDC_SAME(asc_atomic_and, AtomicAnd)
ASCENDC_SAME(asc_atomic_or, AtomicOr)
ASCENDC_SAME(asc_atomic_xor, AtomicXor)
ASCENDC_SAME(asc_atomic_cas, AtomicCas)
#undef ASCENDC_SAME
#define ASCENDC_SAME(name, Name)           \
  template <class T>                       \
  auto name(T value, ASCENDC_AT) {         \
    return AscendC::Simt::Name(value, at); \
  }
ASCENDC_SAME(asc_all, WarpAllSync)
ASCENDC_SAME(asc_any, WarpAnySync)
ASCENDC_SAME(asc_ballot, WarpBallotSync)
ASCENDC_SAME(asc_reduce_add, WarpReduceAddSync)
ASCENDC_SAME(asc_reduce_max, WarpReduceMaxSync)
ASCENDC_SAME(asc_reduce_min, WarpReduceMinSync)
#undef ASCENDC_SAME
#define ASCENDC_SAME(name, Name)                            \
  template <class T, class L>                               \
  T name(T value, L lane, int32_t width = 32, ASCENDC_AT) { \
    return AscendC::Simt::Name(value, lane, width, at);     \
  }
ASCENDC_SAME(asc_shfl, WarpShflSync)
ASCENDC_SAME(asc_shfl_up, WarpShflUpSync)
ASCENDC_SAME(asc_shfl_down, WarpShflDownSync)
ASCENDC_SAME(asc_shfl_xor, WarpShflXorSync)
#undef ASCENDC_SAME
// One memory, one cache: there is nothing to hint at.
template <class T>
T asc_ldcg(const T* address, ASCENDC_AT) {
  AscendC::detail::read_at(AscendC::detail::core(at, "asc_ldcg"), address, "asc_ldcg", at);
  return AscendC::detail::load(address);
}
template <class T>
T asc_ldca(const T* address, ASCENDC_AT) {
  AscendC::detail::read_at(AscendC::detail::core(at, "asc_ldca"), address, "asc_ldca", at);
  return AscendC::detail::load(address);
}
template <class T>
void asc_stcg(T* address, std::type_identity_t<T> value) {
  *address = value;
}
template <class T>
void asc_stwt(T* address, std::type_identity_t<T> value) {
  *address = value;
}
#endif

// Words of the kernel language that mean nothing to g++, or something else. What it is not: the API. Included by all kernels.
#pragma once

#include <cstddef>
#include <cstdint>

#define __aicore__
#define __gm__
#define __ubuf__
#define __cbuf__
#define __ca__
#define __cb__
#define __cc__
#define __fbuf__
#ifdef ASCENDC_WORDS  // `bisheng` reads these where the preprocessor has left them, and takes them out
#define __global__ __global__
#define __cube__ __cube__
#define __vector__ __vector__
#define __mix__(...) __mix__(__VA_ARGS__)
#else
#define __global__
#define __cube__
#define __vector__
#define __mix__(...)
#endif
#define __schedmode__(...)  // how the chip shares its cores among kernels
#define __sync_noalias__
#define __sync_alias__

using GM_ADDR = uint8_t*;
#define __GM_ADDR GM_ADDR

// The architecture that the compiler was told (--npu-arch=dav-2201); kernels ask for it in #if.
#ifndef __NPU_ARCH__
#define __NPU_ARCH__ 2201
#endif
#if __NPU_ARCH__ == 2201
#define __CCE_AICORE__ 220
#ifdef ASCENDC_CUBE_CORE  // --cce-aicore-arch=dav-c220-cube
#define __DAV_C220_CUBE__ 1
#else
#define __DAV_C220_VEC__ 1
#endif
#elif __NPU_ARCH__ == 3510
#define __CCE_AICORE__ 310
#elif __NPU_ARCH__ == 1001
#define __CCE_AICORE__ 100
#endif

// Used as `if ASCEND_IS_AIC {`.
#define ASCEND_IS_AIV (!::AscendC::detail::on_cube_core("ASCEND_IS_AIV"))
#define ASCEND_IS_AIC (::AscendC::detail::on_cube_core("ASCEND_IS_AIC"))

// Which cores a kernel runs on. `bisheng` reads it in the kernel's body, too, since a mixed kernel's blocks are groups of cores.
enum KernelMetaType {
  KERNEL_TYPE_AIV_ONLY,
  KERNEL_TYPE_AIC_ONLY,
  KERNEL_TYPE_MIX_AIV_1_0,
  KERNEL_TYPE_MIX_AIC_1_0,
  KERNEL_TYPE_MIX_AIC_1_1,
  KERNEL_TYPE_MIX_AIC_1_2,
  KERNEL_TYPE_AICORE,
};
#define KERNEL_TASK_TYPE_DEFAULT(type)                                                                      \
  static_assert((type) != KERNEL_TYPE_AICORE, #type ": the chips of this architecture have no such cores"); \
  ::AscendC::detail::state_type(type, #type)

// Names of the API that the software NPU does not have: using one is an error at compile time that names it. What it is not: complete;
// what is neither here nor implemented, `bisheng` speaks of after the compiler's errors (compiler/explain.py). Included by kernel_operator.h.
#pragma once

#include "ascendc/types.h"

namespace AscendC {
namespace detail {
// Whatever a call gives. It is worse than any other match, so that a kernel's own function of the name is its own.
struct Anything {
  template <class... T>
  Anything(T&&...);
};
}  // namespace detail

#define ASCENDC_ANYTHING                                                                                             \
  detail::Anything = {}, detail::Anything = {}, detail::Anything = {}, detail::Anything = {}, detail::Anything = {}, \
  detail::Anything = {}, detail::Anything = {}, detail::Anything = {}, detail::Anything = {}, detail::Anything = {}, \
  detail::Anything = {}, detail::Anything = {}
#define ASCENDC_REFUSAL(Name, why, first, ...)                                                             \
  template <__VA_ARGS__>                                                                                   \
  void Name(ASCENDC_ANYTHING) {                                                                            \
    static_assert(detail::never<first>, #Name ": the software NPU has no " why " (anycend docs ascendc)"); \
  }
// With any template arguments: types, values, or values after types.
#define ASCENDC_REFUSED(Name, why)                                             \
  ASCENDC_REFUSAL(Name, why, T..., class... T)                                 \
  ASCENDC_REFUSAL(Name, why, decltype(V), auto V, auto... W)                   \
  ASCENDC_REFUSAL(Name, why, decltype(V), class T, auto V, auto... W)          \
  ASCENDC_REFUSAL(Name, why, decltype(V), class T, class U, auto V, auto... W) \
  ASCENDC_REFUSAL(Name, why, decltype(V), class T, class U, class X, auto V, auto... W)
#define ASCENDC_REFUSED_TYPE(Name, why)                                                                   \
  template <class... A>                                                                                   \
  struct Name {                                                                                           \
    static_assert(detail::never<A...>, #Name ": the software NPU has no " why " (anycend docs ascendc)"); \
  };
#define ASCENDC_REFUSED_VALUES(Name, why)                                                                           \
  template <auto... A>                                                                                              \
  struct Name {                                                                                                     \
    static_assert(detail::never<decltype(A)...>, #Name ": the software NPU has no " why " (anycend docs ascendc)"); \
  };

#define ASCENDC_CUBE "such form of the cube's instructions"
ASCENDC_REFUSED(LoadDataWithTranspose, ASCENDC_CUBE)
ASCENDC_REFUSED(SetFixPipeConfig, ASCENDC_CUBE)
ASCENDC_REFUSED(LoadDataWithSparse, ASCENDC_CUBE)
ASCENDC_REFUSED(LoadImageToLocal, ASCENDC_CUBE)
ASCENDC_REFUSED(MmadWithSparse, ASCENDC_CUBE)
ASCENDC_REFUSED(InitConstValue, ASCENDC_CUBE)
ASCENDC_REFUSED(BroadCastVecToMM, ASCENDC_CUBE)
ASCENDC_REFUSED(Conv2D, ASCENDC_CUBE)
ASCENDC_REFUSED(Gemm, ASCENDC_CUBE)
#define ASCENDC_HIGH "such high-level function"
ASCENDC_REFUSED(Pad, ASCENDC_HIGH)
ASCENDC_REFUSED(DropOut, ASCENDC_HIGH)
ASCENDC_REFUSED(SoftmaxFlash, ASCENDC_HIGH)
ASCENDC_REFUSED(SoftmaxFlashV3, ASCENDC_HIGH)
ASCENDC_REFUSED(LogSoftMax, ASCENDC_HIGH)
ASCENDC_REFUSED(LayerNormGrad, ASCENDC_HIGH)
ASCENDC_REFUSED(LayerNormGradBeta, ASCENDC_HIGH)
ASCENDC_REFUSED(BatchNorm, ASCENDC_HIGH)
ASCENDC_REFUSED(DeepNorm, ASCENDC_HIGH)
ASCENDC_REFUSED(GroupNorm, ASCENDC_HIGH)
ASCENDC_REFUSED(Normalize, ASCENDC_HIGH)
ASCENDC_REFUSED(WelfordUpdate, ASCENDC_HIGH)
ASCENDC_REFUSED(WelfordFinalize, ASCENDC_HIGH)
ASCENDC_REFUSED(ReduceXorSum, ASCENDC_HIGH)
ASCENDC_REFUSED(Digamma, ASCENDC_HIGH)
ASCENDC_REFUSED(Clamp, ASCENDC_HIGH)
ASCENDC_REFUSED(SelectWithBytesMask, ASCENDC_HIGH)
ASCENDC_REFUSED(AscendQuant, ASCENDC_HIGH)
ASCENDC_REFUSED(AscendDequant, ASCENDC_HIGH)
ASCENDC_REFUSED(AscendAntiQuant, ASCENDC_HIGH)
ASCENDC_REFUSED(ConfusionTranspose, ASCENDC_HIGH)
ASCENDC_REFUSED(TransData, ASCENDC_HIGH)
ASCENDC_REFUSED(Arange, ASCENDC_HIGH)
ASCENDC_REFUSED(DumpTensor, "tensor dumps; printf works")
ASCENDC_REFUSED(SetHcclContext, "communication inside kernels")
ASCENDC_REFUSED(GetHcclContext, "communication inside kernels")
ASCENDC_REFUSED_TYPE(LoadData3DParamsV1, ASCENDC_CUBE)
ASCENDC_REFUSED_TYPE(LoadData3DParamsV2, ASCENDC_CUBE)
ASCENDC_REFUSED_VALUES(Hccl, "communication inside kernels")
ASCENDC_REFUSED_VALUES(TBufPool, "TBufPool")
#undef ASCENDC_CUBE
#undef ASCENDC_HIGH
#undef ASCENDC_REFUSED
#undef ASCENDC_REFUSED_TYPE
#undef ASCENDC_REFUSED_VALUES
#undef ASCENDC_REFUSAL
#undef ASCENDC_ANYTHING

}  // namespace AscendC

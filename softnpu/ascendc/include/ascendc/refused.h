// Names of the API that the software NPU does not have: using one is an error at compile time that names it. What it is not: complete;
// a name that is neither here nor implemented is the compiler's own "not a member of AscendC". Included by kernel_operator.h.
#pragma once

namespace AscendC {
namespace detail {
template <class...>
inline constexpr bool never = false;
}

#define ASCENDC_REFUSED(Name, why)                                                                   \
  template <class... A>                                                                              \
  void Name(A&&...) {                                                                                \
    static_assert(detail::never<A...>, #Name ": the software NPU has no " why " (docs/ascendc.md)"); \
  }
#define ASCENDC_REFUSED_TYPE(Name, why)                                                              \
  template <class... A>                                                                              \
  struct Name {                                                                                      \
    static_assert(detail::never<A...>, #Name ": the software NPU has no " why " (docs/ascendc.md)"); \
  };

#define ASCENDC_CUBE "cube unit; it runs kernels of the vector cores alone"
ASCENDC_REFUSED(Mmad, ASCENDC_CUBE)
ASCENDC_REFUSED(LoadData, ASCENDC_CUBE)
ASCENDC_REFUSED(LoadDataWithTranspose, ASCENDC_CUBE)
ASCENDC_REFUSED(Fixpipe, ASCENDC_CUBE)
ASCENDC_REFUSED(SetFixPipeConfig, ASCENDC_CUBE)
ASCENDC_REFUSED(Conv2D, ASCENDC_CUBE)
ASCENDC_REFUSED(Gemm, ASCENDC_CUBE)
#define ASCENDC_HIGH "high-level vector functions yet"
ASCENDC_REFUSED(SoftMax, ASCENDC_HIGH)
ASCENDC_REFUSED(SimpleSoftMax, ASCENDC_HIGH)
ASCENDC_REFUSED(SoftmaxFlashV2, ASCENDC_HIGH)
ASCENDC_REFUSED(LayerNorm, ASCENDC_HIGH)
ASCENDC_REFUSED(RmsNorm, ASCENDC_HIGH)
ASCENDC_REFUSED(Sin, ASCENDC_HIGH)
ASCENDC_REFUSED(Cos, ASCENDC_HIGH)
ASCENDC_REFUSED(Tanh, ASCENDC_HIGH)
ASCENDC_REFUSED(Sigmoid, ASCENDC_HIGH)
ASCENDC_REFUSED(Silu, ASCENDC_HIGH)
ASCENDC_REFUSED(Gelu, ASCENDC_HIGH)
ASCENDC_REFUSED(SwiGLU, ASCENDC_HIGH)
ASCENDC_REFUSED(Power, ASCENDC_HIGH)
ASCENDC_REFUSED(Log, ASCENDC_HIGH)
ASCENDC_REFUSED(Erf, ASCENDC_HIGH)
ASCENDC_REFUSED(TopK, ASCENDC_HIGH)
ASCENDC_REFUSED(Broadcast, ASCENDC_HIGH)
ASCENDC_REFUSED(Sum, ASCENDC_HIGH)
ASCENDC_REFUSED(Mean, ASCENDC_HIGH)
ASCENDC_REFUSED(Floor, ASCENDC_HIGH)
ASCENDC_REFUSED(Pad, ASCENDC_HIGH)
ASCENDC_REFUSED(DropOut, ASCENDC_HIGH)
ASCENDC_REFUSED(DumpTensor, "tensor dumps; printf works")
ASCENDC_REFUSED(GetSysWorkSpacePtr, "system workspace; pass a workspace of your own as an argument")
ASCENDC_REFUSED(GetUserWorkspace, "system workspace; pass a workspace of your own as an argument")
ASCENDC_REFUSED(SetHcclContext, "communication inside kernels")
ASCENDC_REFUSED(GetHcclContext, "communication inside kernels")
ASCENDC_REFUSED_TYPE(Hccl, "communication inside kernels")
ASCENDC_REFUSED_TYPE(Matmul, ASCENDC_CUBE)
ASCENDC_REFUSED_TYPE(MatmulImpl, ASCENDC_CUBE)
ASCENDC_REFUSED_TYPE(TBufPool, "TBufPool")
#undef ASCENDC_CUBE
#undef ASCENDC_HIGH
#undef ASCENDC_REFUSED
#undef ASCENDC_REFUSED_TYPE

}  // namespace AscendC

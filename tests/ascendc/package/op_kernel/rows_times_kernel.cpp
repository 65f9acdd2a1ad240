// The kernel of rows_times. It does not say which cores it is for: opp_build sees the Matmul object.
#include "kernel_operator.h"
#include "lib/matmul_intf.h"
using namespace AscendC;

extern "C" __global__ __aicore__ void rows_times(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(t, tiling);
  TPipe pipe;
  const TCubeTiling& p = t.product;
  matmul::Matmul<matmul::MatmulType<TPosition::GM, CubeFormat::ND, DTYPE_A>,
                 matmul::MatmulType<TPosition::GM, CubeFormat::ND, DTYPE_B>,
                 matmul::MatmulType<TPosition::GM, CubeFormat::ND, DTYPE_C>>
      product;
  REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), product, &p);
  const int32_t across = (p.N + p.singleCoreN - 1) / p.singleCoreN, core = GetBlockIdx() / GetTaskRation();
  if (GetSubBlockIdx() != 0 || core >= static_cast<int32_t>(t.cores)) return;
  const int32_t row = core / across * p.singleCoreM, column = core % across * p.singleCoreN;
  GlobalTensor<DTYPE_A> ga;
  GlobalTensor<DTYPE_B> gb;
  GlobalTensor<DTYPE_C> gc;
  ga.SetGlobalBuffer((__gm__ DTYPE_A*)a);
  gb.SetGlobalBuffer((__gm__ DTYPE_B*)b);
  gc.SetGlobalBuffer((__gm__ DTYPE_C*)c);
  product.SetTensorA(ga[row * p.Ka]);
  product.SetTensorB(gb[column]);
  product.SetTail(p.M - row < p.singleCoreM ? p.M - row : p.singleCoreM,
                  p.N - column < p.singleCoreN ? p.N - column : p.singleCoreN);
  product.IterateAll(gc[row * p.N + column]);
  product.End();
}

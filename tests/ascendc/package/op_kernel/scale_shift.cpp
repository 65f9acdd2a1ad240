// The kernel of scale_shift: tiles of `each` numbers, the last of any length; with the key 2 the product is taken twice.
#include "kernel_operator.h"
using namespace AscendC;

extern "C" __global__ __aicore__ void scale_shift(GM_ADDR x, GM_ADDR bias_row, GM_ADDR y, GM_ADDR count,
                                                  GM_ADDR workspace, GM_ADDR tiling) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
  GET_TILING_DATA(t, tiling);
  using T = DTYPE_X;
#if ORIG_DTYPE_X == DT_FLOAT16
  static_assert(sizeof(T) == 2);
#elif ORIG_DTYPE_X == DT_FLOAT
  static_assert(sizeof(T) == 4);
#else
#error "another type"
#endif
  TPipe pipe;
  TBuf<> bx, bb;
  pipe.InitBuffer(bx, t.part.each * sizeof(T));
  pipe.InitBuffer(bb, t.part.each * sizeof(T));
  GlobalTensor<T> gx, gb, gy;
  gx.SetGlobalBuffer((__gm__ T*)x);
  gb.SetGlobalBuffer((__gm__ T*)bias_row);
  gy.SetGlobalBuffer((__gm__ T*)y);
  GlobalTensor<int32_t> user, counts;
  user.SetGlobalBuffer((__gm__ int32_t*)GetUserWorkspace(workspace));
  counts.SetGlobalBuffer((__gm__ int32_t*)count);
  const auto a = bx.Get<T>(), b = bb.Get<T>();
  const uint32_t each = static_cast<uint32_t>(t.part.each);
  int32_t done = 0;
  for (uint32_t i = GetBlockIdx() * each; i < t.total; i += GetBlockNum() * each) {
    const uint32_t n = t.total - i < each ? t.total - i : each;
    const DataCopyExtParams piece(1, n * sizeof(T), 0, 0, 0);
    PipeBarrier<PIPE_ALL>();
    DataCopyPad(a, gx[i], piece, DataCopyPadExtParams<T>());
    if (t.hasBias) DataCopyPad(b, gb[i], piece, DataCopyPadExtParams<T>());
    PipeBarrier<PIPE_ALL>();
    Muls(a, a, static_cast<T>(t.scale), n);
    PipeBarrier<PIPE_V>();
    if (TILING_KEY_IS(2)) Muls(a, a, static_cast<T>(t.scale), n);
    PipeBarrier<PIPE_V>();
    if (t.hasBias) Add(a, a, b, n);
    PipeBarrier<PIPE_V>();
    Adds(a, a, static_cast<T>(static_cast<float>(t.steps[0] + t.steps[1] + t.steps[2])), n);
    PipeBarrier<PIPE_V>();
    if (t.part.negate) Muls(a, a, static_cast<T>(-1.0f), n);
    PipeBarrier<PIPE_ALL>();
    DataCopyPad(gy[i], a, piece);
    done += static_cast<int32_t>(n);
  }
  user.SetValue(GetBlockIdx() * 16, done);  // by way of the workspace
  counts.SetValue(GetBlockIdx(), counts.GetValue(GetBlockIdx()) + user.GetValue(GetBlockIdx() * 16));
}

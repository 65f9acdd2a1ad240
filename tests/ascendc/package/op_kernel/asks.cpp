// The kernel of asks does nothing.
#include "kernel_operator.h"

extern "C" __global__ __aicore__ void asks(GM_ADDR x, GM_ADDR z, GM_ADDR w, GM_ADDR y, GM_ADDR workspace,
                                           GM_ADDR tiling) {}

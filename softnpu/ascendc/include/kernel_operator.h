// The header that kernel sources include: the AscendC API on this machine's processor; the Matmul object is lib/matmul_intf.h.
// What it is not: the vendor's header; what is missing is refused by name (ascendc/refused.h, docs/ascendc.md).
// Who includes it: users' kernels, compiled by the command `bisheng` of this room.
#pragma once

#include "ascendc/letters.h"  // the first

#include "ascendc/activation.h"
#include "ascendc/atomic.h"
#include "ascendc/cast.h"
#include "ascendc/compare.h"
#include "ascendc/copy.h"
#include "ascendc/cube.h"
#include "ascendc/fill.h"
#include "ascendc/gather.h"
#include "ascendc/high_math.h"
#include "ascendc/high_reduce.h"
#include "ascendc/intrinsics.h"
#include "ascendc/launch.h"
#include "ascendc/macros.h"
#include "ascendc/normalization.h"
#include "ascendc/pipe.h"
#include "ascendc/queue.h"
#include "ascendc/reduce.h"
#include "ascendc/refused.h"
#include "ascendc/reg.h"
#include "ascendc/scalars.h"
#include "ascendc/select.h"
#include "ascendc/simt.h"
#include "ascendc/softmax.h"
#include "ascendc/sort.h"
#include "ascendc/standard.h"
#include "ascendc/sync.h"
#include "ascendc/system.h"
#include "ascendc/transpose.h"
#include "ascendc/unpad.h"
#include "ascendc/vector_binary.h"
#include "ascendc/vector_fused.h"
#include "ascendc/vector_scalar.h"
#include "ascendc/vector_unary.h"

#include "ascendc/letters_end.h"  // the last

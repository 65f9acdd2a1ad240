// The one walk over the tensors of a call. What it is not: the walk of phase one, which goes by parameter (plan.cpp, types.cpp).
// Who calls it: what looks at all tensors alike: descriptions, checks of memory, rehearsals.
#pragma once

#include "softnpu/nnopbase/executor.h"

namespace softnpu::ops {

// Calls body(argument, tensor) for each tensor that was given, alone or in a list.
template <class Body>
void each_tensor(const aclOpExecutor& e, const Body& body) {
  for (int i = 0; i < e.nargs; i++) {
    const nnopbase::Arg& a = e.args[i];
    if (a.kind == nnopbase::Kind::kTensor && a.tensor) body(a, *a.tensor);
    for (uint32_t k = 0; a.kind == nnopbase::Kind::kTensors && k < a.count; k++) {
      if (a.tensors[k]) body(a, *a.tensors[k]);
    }
  }
}

}  // namespace softnpu::ops

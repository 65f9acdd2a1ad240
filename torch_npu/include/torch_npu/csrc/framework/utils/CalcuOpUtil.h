// Included by extensions by habit, and nothing of it is used: the vendor's library exports none of its names. So it only includes what comes
// with it.
#pragma once

#include "torch_npu/csrc/framework/OpCommand.h"

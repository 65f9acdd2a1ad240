// OpAdapter.h and the generator, for operators that draw random numbers.
#pragma once

#include "torch_npu/csrc/aten/NPUGeneratorImpl.h"
#include "torch_npu/csrc/framework/utils/OpAdapter.h"

// Another path of the same.
#pragma once

#include "torch_npu/csrc/extension/exec_npu_cmd.h"

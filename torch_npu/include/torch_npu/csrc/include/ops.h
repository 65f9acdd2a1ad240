// Where the vendor's C++ functions of the NPU's own operators are declared (op-plugin, ops.h). Extensions include it by habit
// (MindSpeed's all do) and call aclnn functions. There are no such functions here: the operators are torch.ops.npu.*, in C++ by PyTorch's
// dispatcher. So it only includes what comes with it.
#pragma once

#include "torch_npu/csrc/framework/utils/OpPreparation.h"

// The name by which op-plugin's examples include EXEC_NPU_CMD_EXT.
#pragma once

#include "torch_npu/csrc/extension/exec_npu_cmd.h"

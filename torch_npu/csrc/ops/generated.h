// What every generated shard includes. Nobody else does.
#pragma once

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include "csrc/core/device.h"
#include "csrc/core/empty.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/device_check.h"
#include "csrc/ops/foreach.h"
#include "csrc/ops/int32.h"
#include "csrc/ops/max_pool2d.h"
#include "csrc/ops/meta.h"
#include "csrc/ops/operands.h"
#include "csrc/ops/params.h"
#include "csrc/ops/structured.h"

// What every shard generated from ops/npu.yaml includes. Nobody else does.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

#include "csrc/core/device.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/npu/attention.h"
#include "csrc/ops/npu/autograd.h"
#include "csrc/ops/npu/boxes.h"
#include "csrc/ops/npu/compose.h"
#include "csrc/ops/npu/convolutions.h"
#include "csrc/ops/npu/delta.h"
#include "csrc/ops/npu/detect.h"
#include "csrc/ops/npu/dispatch.h"
#include "csrc/ops/npu/distributed_experts.h"
#include "csrc/ops/npu/group_products.h"
#include "csrc/ops/npu/hyper.h"
#include "csrc/ops/npu/indexer.h"
#include "csrc/ops/npu/into.h"
#include "csrc/ops/npu/legacy.h"
#include "csrc/ops/npu/mx.h"
#include "csrc/ops/npu/nsa.h"
#include "csrc/ops/npu/params.h"
#include "csrc/ops/npu/parts.h"
#include "csrc/ops/npu/recurrent.h"
#include "csrc/ops/npu/result.h"
#include "csrc/ops/npu/rotated.h"
#include "csrc/ops/npu/sizes.h"
#include "csrc/ops/npu/sparse_attention.h"
#include "csrc/ops/npu/vision.h"
#include "csrc/ops/npu/vocabulary.h"
#include "csrc/ops/params.h"
#include "csrc/ops/structured.h"

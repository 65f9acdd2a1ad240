"""torch_npu.contrib.function: functions by the vendor's names, on the NPU's operators or composed of PyTorch's."""

from torch_npu.contrib.function.anchor_generator import npu_single_level_responsible_flags
from torch_npu.contrib.function.bbox_coder import (
    npu_bbox_coder_decode_xywh2xyxy,
    npu_bbox_coder_encode_xyxy2xywh,
    npu_bbox_coder_encode_yolo,
)
from torch_npu.contrib.function.fused_attention import npu_fused_attention, npu_fused_attention_with_layernorm
from torch_npu.contrib.function.nms import npu_batched_multiclass_nms, npu_multiclass_nms
from torch_npu.contrib.function.npu_functional import (
    dropout_with_byte_mask,
    fuse_add_softmax_dropout,
    matmul_transpose,
    npu_fast_condition_index_put,
    roll,
)

__all__ = [
    "dropout_with_byte_mask",
    "fuse_add_softmax_dropout",
    "matmul_transpose",
    "npu_batched_multiclass_nms",
    "npu_bbox_coder_decode_xywh2xyxy",
    "npu_bbox_coder_encode_xyxy2xywh",
    "npu_bbox_coder_encode_yolo",
    "npu_fast_condition_index_put",
    "npu_fused_attention",
    "npu_fused_attention_with_layernorm",
    "npu_multiclass_nms",
    "npu_single_level_responsible_flags",
    "roll",
]

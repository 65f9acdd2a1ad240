"""What helps programs: functions and modules of the vendor's name, apex, ColossalAI, programs written for CUDA.

Nothing here acts before it is imported by name; functions and modules are imported when they are first asked for.
"""

from __future__ import annotations

import importlib
from typing import Any

_FUNCTIONS = {
    "dropout_with_byte_mask", "fuse_add_softmax_dropout", "matmul_transpose", "npu_batched_multiclass_nms",
    "npu_bbox_coder_decode_xywh2xyxy", "npu_bbox_coder_encode_xyxy2xywh", "npu_bbox_coder_encode_yolo",
    "npu_fast_condition_index_put", "npu_fused_attention", "npu_fused_attention_with_layernorm", "npu_multiclass_nms",
    "npu_single_level_responsible_flags", "roll",
}  # fmt: skip
_MODULES = {
    "ChannelShuffle", "DropoutWithByteMask", "Focus", "LabelSmoothingCrossEntropy", "LinearA8W8Quant", "LinearQuant",
    "LinearWeightQuant", "ModulatedDeformConv", "MultiheadAttention", "NpuCachedDropout", "NpuDropPath",
    "NpuFairseqDropout", "PSROIPool", "Prefetcher", "QuantConv2d", "ROIAlign",
}  # fmt: skip
_PACKAGES = {"apex", "function", "module"}

__all__ = sorted((_FUNCTIONS | _MODULES) - {"DropoutWithByteMask", "QuantConv2d", "dropout_with_byte_mask"})


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"torch_npu.contrib.{name}")
    if name in __all__:
        return getattr(
            importlib.import_module(f"torch_npu.contrib.{'function' if name in _FUNCTIONS else 'module'}"), name
        )
    raise AttributeError(f"module 'torch_npu.contrib' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})

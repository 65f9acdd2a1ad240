"""torch.npu.FloatTensor and its kin: the old tensor types, for programs that still name them.

`torch.npu.FloatTensor(2, 3)` makes an uninitialized tensor, `torch.npu.FloatTensor([1, 2])` one with these values,
`isinstance(x, torch.npu.FloatTensor)` asks for type and device, `x.type(torch.npu.FloatTensor)` converts. They are no
classes of tensors; new code says dtype= and device=.
"""

from __future__ import annotations

from typing import Any

import torch

_DTYPES = {
    "BFloat16Tensor": torch.bfloat16,
    "BoolTensor": torch.bool,
    "ByteTensor": torch.uint8,
    "CharTensor": torch.int8,
    "DoubleTensor": torch.float64,
    "FloatTensor": torch.float32,
    "HalfTensor": torch.float16,
    "IntTensor": torch.int32,
    "LongTensor": torch.int64,
    "ShortTensor": torch.int16,
}
__all__ = list(_DTYPES)


class _TensorType(type):
    __module__, __qualname__ = "torch", "tensortype"  # the class of torch.FloatTensor: Dynamo asks for its name
    dtype: torch.dtype

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, torch.Tensor) and instance.dtype is cls.dtype and instance.device.type == "npu"

    def __call__(cls, *args: Any, device: Any = None) -> torch.Tensor:
        device = torch.device("npu" if device is None else device)
        if device.type != "npu":
            raise RuntimeError(f"legacy constructor expects device type: npu but device type: {device.type} was passed")
        sizes = args[0] if len(args) == 1 and isinstance(args[0], torch.Size) else args
        if all(isinstance(size, int) and not isinstance(size, bool) for size in sizes):
            return torch.empty(tuple(sizes) or (0,), dtype=cls.dtype, device=device)
        if len(args) != 1:
            raise TypeError(f"{cls.__module__}.{cls.__qualname__} takes sizes, or one sequence, array or tensor")
        return torch.as_tensor(args[0], dtype=cls.dtype, device=device)


def _make(name: str, dtype: torch.dtype) -> _TensorType:
    # Tensor.type reads the whole name from the type object, as it is for torch.FloatTensor.
    return _TensorType(f"torch.npu.{name}", (), {"__module__": "torch.npu", "__qualname__": name, "dtype": dtype})


globals().update({name: _make(name, dtype) for name, dtype in _DTYPES.items()})

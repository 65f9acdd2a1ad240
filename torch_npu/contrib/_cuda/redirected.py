"""Built-in functions that take "cuda" for "npu" among their arguments (csrc/python/redirect.h). One row a function.

Not here, because the C++ alias serves them: every factory, Tensor.to, Module.to, torch.device, torch.tensor.
"""

from __future__ import annotations

import torch

import torch_npu._C as _C

_ROWS = (
    # An int is an index of the accelerator, which is the npu; the method then insists on a cuda device.
    (torch._C.TensorBase.cuda, "to_cuda"),
    # These ask CUDA's hooks, which are fixed when torch is imported.
    (torch._C.TensorBase.pin_memory, "device"),
    (torch._C.TensorBase.is_pinned, "device"),
    (torch._C.TensorBase.type, "device"),
    (torch.Generator, "device"),
    # Storage.cuda() and torch.load end here.
    (torch.UntypedStorage, "device"),
    # A stream or event of the cuda type would not be equal to the npu's.
    (torch.Stream, "device"),
    (torch.Event, "device"),
    # Autocast for cuda is autocast for npu, in every thread and for tensors made before, too.
    (torch.set_autocast_enabled, "autocast"),
    (torch.is_autocast_enabled, "autocast"),
    (torch.set_autocast_dtype, "autocast"),
    (torch.get_autocast_dtype, "autocast"),
)


def install() -> None:
    for function, rule in _ROWS:
        _C._redirect(function, rule)

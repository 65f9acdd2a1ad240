"""One line more, behind PyTorch's own message, where a program for GPUs ends with an error that has a remedy here.

PyTorch's functions and messages stay as they are: the line is printed where an exception that nobody caught ends the
program (sys.excepthook, what was there before is called first). _startup puts it there.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from types import TracebackType

_TRANSFER = (
    "`from torch_npu.contrib import transfer_to_npu` at the program's top, or TORCH_TRANSFER_TO_NPU=1 in its "
    "environment, makes cuda mean the npu (anycend docs transfer_to_npu)"
)
_NO_GPU = f"this machine has no GPU; the device here is npu. {_TRANSFER}"
_HCCL = f"the backend of npu tensors is hccl. {_TRANSFER}"
# What an error says, of a PyTorch without CUDA and of one with it → what to do.
_REMEDIES = {
    "Torch not compiled with CUDA enabled": f"this PyTorch has no CUDA; the device here is npu. {_TRANSFER}",
    "Found no NVIDIA driver on your system": _NO_GPU,
    "CUDA driver version is insufficient for CUDA runtime version": _NO_GPU,
    "Attempting to deserialize object on a CUDA device": (
        f'torch.load(file, map_location="npu") puts what was saved on cuda on the npu. {_TRANSFER}'
    ),
    "Cannot get CUDA generator without ATen_cuda library": f'it is torch.Generator("npu") here. {_TRANSFER}',
    "Distributed package doesn't have NCCL built in": _HCCL,
    "ProcessGroupNCCL is only supported with GPUs, no GPUs found": _HCCL,
    "No backend type associated with device type cpu": (
        "the group carries npu tensors only: move the tensor with .npu(), or make the group with "
        'init_process_group("cpu:gloo,npu:hccl")'
    ),
}


def remedy(message: str) -> str | None:
    """The line for an error's message; None where there is none."""
    return next((line for said, line in _REMEDIES.items() if said in message), None)


def install() -> None:
    """Puts it into sys.excepthook. What the traceback shows is looked through: the error and those it came from."""
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        before(kind, error, trace)
        shown, seen = error, set[int]()
        while shown is not None and id(shown) not in seen:
            seen.add(id(shown))
            if line := remedy(str(shown)):
                print(f"npu: {line}", file=sys.stderr)
                return
            shown = shown.__cause__ or (None if shown.__suppress_context__ else shown.__context__)

    sys.excepthook = hook


_LEVELS = {"debug": 0, "info": 1, "warning": 2, "warn": 2, "error": 3, "null": 4, "none": 4}
_SATURATED = "results keep infinities and NaN, which it would make the largest number and zero; unset it"
_SILENT = "errors of the hardware that nobody reports are not looked for; unset it"
# A variable, the values that another PyTorch for NPUs obeys and this one does not, and what that means.
_UNLIKE = (
    ("INF_NAN_MODE_ENABLE", "0", _SATURATED),
    ("INF_NAN_MODE_FORCE_DISABLE", "1", _SATURATED),
    ("NPU_ASD_ENABLE", "[1-3]", _SILENT),
    ("NPU_ASD_CONFIG", "(.*,)?enable:(true|1)(,.*)?", _SILENT),
)


def warn_of_variables() -> None:
    """What a variable asks for and does not get, where a program would go on without a word."""
    warn_of_hidden_devices()
    level = os.environ.get("ASCEND_GLOBAL_LOG_LEVEL", "")
    if not re.fullmatch("[0-4]?", level):
        number = _LEVELS.get(level.strip().lower())
        levels = "a number: 0 debug, 1 info, 2 warning, 3 error, 4 nothing" if number is None else str(number)
        said = f"npu: ASCEND_GLOBAL_LOG_LEVEL={level} is no level, and 3 is used; set {levels}"
        warnings.warn(said, stacklevel=2)
    for name, values, what in _UNLIKE:
        if re.fullmatch(values, value := os.environ.get(name, "")):
            warnings.warn(f"npu: {name}={value} has no effect: {what} (anycend docs tuning)", stacklevel=2)


def warn_of_hidden_devices() -> None:
    """ASCEND_RT_VISIBLE_DEVICES=1,0 is one device: CANN reads ids up to the first that does not ascend."""
    text = os.environ.get("ASCEND_RT_VISIBLE_DEVICES", "")
    if re.fullmatch(r"\d+(,\d+)+", text):
        ids = [int(part) for part in text.split(",")]
        if wrong := next((i for i in range(1, len(ids)) if ids[i] <= ids[i - 1]), 0):
            warnings.warn(
                f"npu: ASCEND_RT_VISIBLE_DEVICES={text}: ids must ascend, and reading stops before {ids[wrong]}, so "
                f"that the process sees {wrong} of {len(ids)}; set {','.join(map(str, sorted(set(ids))))}",
                stacklevel=2,
            )

"""One line more, behind PyTorch's own message, where a program for GPUs ends with an error that has a remedy here.

PyTorch's functions and messages stay as they are: the line is printed where an exception that nobody caught ends the
program (sys.excepthook), or behind PyTorch's warning that it leaves mixed precision out (warnings.showwarning); what
was there before is called first. _startup puts both there.
"""

from __future__ import annotations

import difflib
import multiprocessing
import os
import re
import sys
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

_TRANSFER = (
    "`from torch_npu.contrib import transfer_to_npu` at the program's top, or TORCH_TRANSFER_TO_NPU=1 in its "
    "environment, makes cuda mean the npu (anycend docs transfer_to_npu)"
)
_NO_GPU = f"this machine has no GPU; the device here is npu. {_TRANSFER}"
_NO_CUDA = f"this PyTorch has no CUDA; the device here is npu. {_TRANSFER}"
_HCCL = f"the backend of npu tensors is hccl. {_TRANSFER}"
# What an error says, of a PyTorch without CUDA and of one with it → what to do.
_REMEDIES = {
    "Torch not compiled with CUDA enabled": _NO_CUDA,
    "module 'torch._C' has no attribute '_cuda_": _NO_CUDA,
    "torch.cuda.Stream requires CUDA support": _NO_CUDA,
    "Tried to instantiate dummy base class CUDAGraph": _NO_CUDA,
    "NVTX functions not installed": _NO_CUDA,
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


def _near(name: str, right: str) -> bool:
    return bool(difflib.get_close_matches(name.lower(), [right], 1, 0.6))


def _device_type(found: re.Match[str]) -> str | None:
    return 'a device here is "npu", or "npu:0" with its number' if _near(found[1], "npu") else None


def _device_number(found: re.Match[str]) -> str:
    right = f'"npu:{found[1]}"' if re.fullmatch("0|[1-9][0-9]*", found[1]) else '"npu:0"'
    return f"a device's number follows a colon: {right}"


def _backend(found: re.Match[str]) -> str | None:
    return _HCCL.partition(". ")[0] if _near(found[1], "hccl") else None


def _none_visible(_: re.Match[str]) -> str | None:
    set_to = os.environ.get("ASCEND_RT_VISIBLE_DEVICES")
    if set_to is None:
        return None
    return f"ASCEND_RT_VISIBLE_DEVICES={set_to} shows none; give ids from 0 on, such as 0,1, or unset it"


# The same of names that are spelled nearly so, and of a setting; None where another name was meant.
_SPELLINGS: tuple[tuple[str, Callable[[re.Match[str]], str | None]], ...] = (
    (r"device type at start of device string: (\w+)", _device_type),
    (r"Invalid device string: '(?i:npu):?([^']*)'", _device_number),
    (r"Unknown backend type (\w+)", _backend),
    ("this process sees no npu device", _none_visible),
)


def remedy(message: str) -> str | None:
    """The line for an error's message; None where there is none."""
    for said, line in _REMEDIES.items():
        if said in message:
            return line
    return next((told for said, line in _SPELLINGS if (m := re.search(said, message)) and (told := line(m))), None)


def _of_cuda(error: BaseException) -> str:
    """Its message. Of classes that a PyTorch without CUDA cannot make, which do not say whose they are, CUDA's own."""
    said, trace = str(error), error.__traceback__
    if said.startswith("Tried to instantiate dummy base class"):
        while trace is not None:
            if trace.tb_frame.f_globals.get("__name__", "").startswith("torch.cuda"):
                return "Torch not compiled with CUDA enabled"
            trace = trace.tb_next
    return said


def install() -> None:
    """Puts it into sys.excepthook. What the traceback shows is looked through: the error and those it came from."""
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        before(kind, error, trace)
        # PyTorch's words for a plugin that refuses name the switch that turns it off; why it refuses stands far above.
        if str(error).startswith("Failed to load the backend extension") and str(error.__cause__).startswith("npu: "):
            print(error.__cause__, file=sys.stderr)
            return
        shown, seen = error, set[int]()
        while shown is not None and id(shown) not in seen:
            seen.add(id(shown))
            if line := remedy(_of_cuda(shown)):
                print(f"npu: {line}", file=sys.stderr)
                return
            shown = shown.__cause__ or (None if shown.__suppress_context__ else shown.__context__)

    sys.excepthook = hook
    _install_behind_warnings()


# What PyTorch warns of, and how to get it on the npu. torch.cuda.amp's names warn through these.
_LEFT_OUT = {
    "CUDA is not available or torch_xla is imported. Disabling autocast": 'torch.autocast("npu")',
    "GradScaler is enabled, but CUDA is not available": 'torch.amp.GradScaler("npu")',
}


def _install_behind_warnings() -> None:
    """Into warnings.showwarning. Mixed precision that is left out is a warning of PyTorch's, and the program goes on in
    fp32; each line comes once."""
    before, told = warnings.showwarning, set[str]()

    def show(message: Warning | str, category: type[Warning], filename: str, lineno: int, file: TextIO | None = None,
             line: str | None = None) -> None:  # fmt: skip
        before(message, category, filename, lineno, file, line)
        for said, right in _LEFT_OUT.items():
            if said in str(message) and right not in told and (out := file or sys.stderr) is not None:
                told.add(right)
                print(
                    f"npu: of npu tensors it is {right}; they are computed in their own types now. {_TRANSFER}",
                    file=out,
                )

    warnings.showwarning = show


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


def _devices() -> int | None:
    """How many devices the software NPU has; None where a toolkit is named, whose driver would have to be asked."""
    choice = os.environ.get("ANYCEND_CANN") or "auto"
    home = os.environ.get("ASCEND_HOME_PATH") or os.environ.get("ASCEND_TOOLKIT_HOME")
    ours = not home or os.path.isfile(os.path.join(home, "share", "info", "anycend", "version.info"))
    number = os.environ.get("ANYCEND_DEVICES") or "8"
    return int(number) if (choice == "soft" or (choice == "auto" and ours)) and number.isdecimal() else None


def warn_of_hidden_devices() -> None:
    """ASCEND_RT_VISIBLE_DEVICES=1,0 is one device: CANN reads ids up to what is none, or does not ascend."""
    text = os.environ.get("ASCEND_RT_VISIBLE_DEVICES", "")
    words, there, shown, why = text.removesuffix(",").split(","), _devices(), list[int](), ""
    for word in words if text else ():
        number = re.match("[0-9]+", word)
        if number and there is not None and int(number[0]) >= there:
            why = f"there is no device {number[0]}, of {there}, and reading stops before it"
        elif number and shown and int(number[0]) <= shown[-1]:
            why = f"ids must ascend, and reading stops before {number[0]}"
        elif number:
            shown.append(int(number[0]))
        if not why and (number is None or number[0] != word):
            why = f"{word!r} is no number, and reading stops there"
        if why:
            break
    if why:
        known = sorted({int(number) for number in re.findall("[0-9]+", text)})
        right = ",".join(str(number) for number in known if there is None or number < there)
        warnings.warn(
            f"npu: ASCEND_RT_VISIBLE_DEVICES={text}: {why}, so that the process sees {len(shown)} of {len(words)}; "
            + (f"set {right}" if right else "give ids from 0 on, such as 0,1, or unset it"),
            stacklevel=2,
        )


_asked_of_cuda_devices = False


def warn_of_cuda_devices() -> None:
    """Where "cuda" means the npu, CUDA_VISIBLE_DEVICES chooses no NPU: said once, by a program's first process."""
    global _asked_of_cuda_devices
    text, ours = os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("ASCEND_RT_VISIBLE_DEVICES")
    if _asked_of_cuda_devices or text is None or ours is not None or multiprocessing.parent_process() is not None:
        return
    _asked_of_cuda_devices = True
    ids = sorted({int(number) for number in text.split(",")}) if re.fullmatch(r"\d+(,\d+)*", text) else []
    right = f"ASCEND_RT_VISIBLE_DEVICES{'=' if ids else ''}{','.join(map(str, ids))}"
    warnings.warn(
        f"npu: CUDA_VISIBLE_DEVICES={text} chooses no NPU; {right} does, set before the program uses a device "
        "(anycend docs transfer_to_npu)",
        stacklevel=2,
    )

"""A plugin with faults, to test the runner: mul kills its process, sub never answers, div counts as a fallback."""

import os
import signal
import time
from types import SimpleNamespace

import torch

_fallbacks: dict[str, int] = {}
_div = torch.div


def _crash(*args: object, **kwargs: object) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def _hang(*args: object, **kwargs: object) -> None:
    time.sleep(600)


def _count(*args: object, **kwargs: object) -> torch.Tensor:
    _fallbacks["aten::div"] = _fallbacks.get("aten::div", 0) + 1
    return _div(*args, **kwargs)


torch.mul, torch.sub, torch.div = _crash, _hang, _count
npu = SimpleNamespace(fallback_counts=lambda: _fallbacks)

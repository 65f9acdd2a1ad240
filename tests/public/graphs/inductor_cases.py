"""The tests of PyTorch's test_torchinductor for one device more, made by that file's own copy_tests. Collected by
child.py, whose OPTIONS say where the checkout is, which class the tests come from and which device they are for.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import torch

from tests.public.graphs import child, missing

DEVICE = child.OPTIONS["side"]
module_name, template = child.OPTIONS["template"]
folder = Path(child.OPTIONS["checkout"]) / "test"
sys.path.insert(0, str(folder))
missing.supply(folder.joinpath(*module_name.split(".")).with_suffix(".py"))
theirs = importlib.import_module(module_name)
shared = sys.modules["inductor.test_torchinductor"]


def check(case, model, example_inputs, kwargs=None, *, check_lowp=True, rtol=None, **how):
    """What the file's check for GPUs does: model and inputs to the device; then once more in half precision. The CPU is
    checked in the same way, which the file does not do: a control that is asked less would say less.
    """
    copied = [how.pop(name, True) for name in ("copy_to_gpu", "copy_to_cuda")]
    model = model.to(DEVICE) if hasattr(model, "to") else model
    if all(copied):
        clone = getattr(shared, "clone_preserve_strides_offset", None) or shared.clone_preserve_strides
        example_inputs = tuple(clone(x, device=DEVICE) for x in example_inputs)
    shared.check_model(case, model, example_inputs, kwargs, rtol=rtol, **how)
    if not check_lowp:
        return

    def halved(x):
        if not isinstance(x, torch.Tensor) or x.dtype != torch.float:
            return x
        return torch.empty_strided(x.size(), x.stride(), device=DEVICE, dtype=torch.half).copy_(x)

    model = model.to(torch.half) if hasattr(model, "to") else model
    rtol = None if rtol is None else max(2e-3, rtol)
    shared.check_model(case, model, list(map(halved, example_inputs)), kwargs, rtol=rtol, **how)


class Tests(shared.TestCase):
    common = check
    device = DEVICE


shared.copy_tests(getattr(theirs, template), Tests, DEVICE, getattr(theirs, "test_failures", None))
for name in [name for name in vars(Tests) if name.endswith(f"_{DEVICE}")]:  # one name on both sides
    setattr(Tests, name.removesuffix(f"_{DEVICE}"), vars(Tests)[name])
    delattr(Tests, name)

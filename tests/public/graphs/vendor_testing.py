"""A stand-in for torch_npu.testing, which the vendor's wheel has and our plugin has not: the names its tests of graphs
import, with the same meaning. Installed by child.py where the module is missing.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
import types
import unittest
from collections.abc import Callable
from typing import Any

import torch
from torch.testing._internal import common_utils


class TestCase(common_utils.TestCase):
    def assertEqual(self, x: Any, y: Any, msg: Any = None, *, prec: float | None = None, **how: Any) -> None:
        """Data types may differ unless `exact_dtype` is given, which PyTorch's has on by default."""
        near = {} if prec is None else {"rtol": prec, "atol": prec}
        super().assertEqual(x, y, msg, **{"exact_dtype": False, **near, **how})

    def assertRtolEqual(self, x: Any, y: Any, prec: float = 1e-4, prec16: float = 1e-3, **_: Any) -> None:
        x, y = torch.as_tensor(x).cpu(), torch.as_tensor(y).cpu()
        near = prec16 if x.dtype in (torch.float16, torch.bfloat16) else prec
        torch.testing.assert_close(x, y, rtol=near, atol=near, check_dtype=False, equal_nan=True)


def supported_devices(names: list[str]) -> Callable:
    """The test runs on chips whose names begin so."""

    def decorate(test: Callable) -> Callable:
        @functools.wraps(test)
        def checked(*args: Any, **kwargs: Any) -> Any:
            chip = torch.npu.get_device_name()
            if not chip.startswith(tuple(names)):
                raise unittest.SkipTest(f"for {', '.join(names)}; this is {chip}")
            return test(*args, **kwargs)

        return checked

    return decorate


def as_it_is(*_: Any) -> Callable:
    """A condition on CANN's version: ours is the newest."""
    return lambda test: test


def install() -> None:
    if importlib.util.find_spec("torch_npu.testing"):
        return
    names = {
        "testcase": {"TestCase": TestCase, "run_tests": common_utils.run_tests},
        "common_utils": {"SupportedDevices": supported_devices, "SkipIfNotGteCANNVersion": as_it_is},
    }
    package = sys.modules["torch_npu.testing"] = types.ModuleType("torch_npu.testing")
    package.__path__ = []
    for name, values in names.items():
        module = sys.modules[f"torch_npu.testing.{name}"] = types.ModuleType(f"torch_npu.testing.{name}")
        vars(module).update(values)
        setattr(package, name, module)

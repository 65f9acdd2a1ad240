"""torch.npu.init_dump, set_dump, finalize_dump: arguments and results of operators on the npu as .npy files.

On an NPU CANN dumps the tensors of kernels; here a dispatch mode dumps those of PyTorch's operators, which is what
comparison tools start from (msprobe's level L2 does). docs/precision_tools.md says what differs.
"""

from __future__ import annotations

import itertools
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode
from torch.utils._pytree import tree_leaves

from torch_npu.npu._dump_settings import DumpSettings, read
from torch_npu.utils.compare import operators
from torch_npu.utils.compare.replay import results

__all__ = ["finalize_dump", "init_dump", "set_dump"]

# Types that numpy lacks, and one that holds each of their values.
WIDER = {torch.complex32: torch.complex64}


class _DumpMode(TorchDispatchMode):
    """Writes <dump_path>/<time>/<device>/<operator>.<number>.<microseconds>.<input|output>.<index>.npy."""

    supports_higher_order_operators = True

    def __init__(self, settings: DumpSettings) -> None:
        super().__init__()
        self.on = True
        self._sides = settings.sides
        self._folder = settings.path / time.strftime("%Y%m%d%H%M%S")
        self._number = itertools.count(1)
        self._named: set[str] = set()  # operators of which something was not written

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        func, kwargs = operators.held(func), kwargs or {}
        if not self.on or not isinstance(func, OpOverload):
            return func(*args, **kwargs)
        if any(kind.__torch_dispatch__ != torch.Tensor.__torch_dispatch__ for kind in types):
            return NotImplemented
        why = operators.skipped(func, args, kwargs)
        if operators.is_view(func) or why not in (None, operators.RANDOM, operators.LAYOUT):
            return func(*args, **kwargs)
        given = operators.npu_tensors((args, kwargs))
        name = f"{func}.{next(self._number)}.{time.time_ns() // 1000}"
        if given and "input" in self._sides:  # before it runs: it may write them
            self._save(name, "input", given[0].device, tree_leaves((args, kwargs)))
        returned = func(*args, **kwargs)
        made = results(func, returned, args, kwargs)
        on_npu = given or operators.npu_tensors(made)
        if on_npu and "output" in self._sides:
            self._save(name, "output", on_npu[0].device, made)
        return returned

    def _save(self, name: str, side: str, device: torch.device, leaves: list[Any]) -> None:
        import numpy

        folder = self._folder / str(device.index)
        folder.mkdir(parents=True, exist_ok=True)
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.device.type != "meta"]
        for index, tensor in enumerate(tensors):
            try:
                array = _array(tensor)
            except TypeError as error:
                self._left_out(name, side, index, str(error))
            else:
                file = folder / f"{name}.{side}.{index}.npy"
                try:
                    numpy.save(file, array)
                except OSError as error:
                    raise OSError(
                        error.errno,
                        f"npu: set_dump: {file} cannot be written ({error.strerror or error}): make room there, or "
                        "end it with finalize_dump() and name another folder",
                    ) from error

    def _left_out(self, name: str, side: str, index: int, why: str) -> None:
        operator = name.rsplit(".", 2)[0]
        if operator not in self._named:
            self._named.add(operator)
            warnings.warn(
                f"npu: set_dump: {side} {index} of {operator} is not written: {why}; this is said once an operator",
                stacklevel=4,
            )


def _array(tensor: torch.Tensor) -> Any:
    """Its values as numpy's. Raises TypeError for a layout or type of which there is no array."""
    if not operators.plain(tensor):
        kind = "nested" if tensor.is_nested else str(tensor.layout).removeprefix("torch.")
        raise TypeError(f"a {kind} tensor is no array")
    host = tensor.detach().cpu().resolve_conj().resolve_neg()
    try:
        return host.numpy()
    except TypeError:  # bfloat16 and the types of 8 bits
        try:
            return host.to(WIDER.get(host.dtype, torch.float32)).numpy()
        except RuntimeError as error:
            raise TypeError(f"{host.dtype} has no wider type that numpy knows") from error


_mode: _DumpMode | None = None
_ready = False


def _stop() -> None:
    """A mode that cannot be left here stays where it is and does nothing: another one is above it, or all are set
    aside for a while, as msprobe does around its hooks."""
    global _mode
    if _mode is not None:
        _mode.on = False
    while isinstance(top := _get_current_dispatch_mode(), _DumpMode) and not top.on:
        top.__exit__(None, None, None)
    _mode = None


def init_dump() -> None:
    """Makes ready for set_dump. Raises RuntimeError where a dump is ready or runs: finalize_dump() ends it."""
    global _ready
    if _ready:
        raise RuntimeError("npu: init_dump was called before; finalize_dump() ends that dump")
    _ready = True


def set_dump(cfg_file: str | Path) -> None:
    """Begins the dump that a JSON file describes; another one replaces it. Of operators called on this thread and of
    their backward.

    Raises RuntimeError without init_dump(), ValueError for a file that says something wrong or something that is not
    done here, OSError for one that cannot be read or a folder that cannot be made.
    """
    global _mode
    if not _ready:
        raise RuntimeError("npu: set_dump needs init_dump() first")
    settings = read(str(cfg_file))
    settings.path.mkdir(parents=True, exist_ok=True)
    _stop()
    if not settings.on:
        warnings.warn(
            'npu: set_dump: dump_op_switch is "off", so nothing is dumped: programs call single operators', stacklevel=2
        )
        return
    _mode = _DumpMode(settings)
    _mode.__enter__()


def finalize_dump() -> None:
    """Ends the dump. Raises RuntimeError without init_dump()."""
    global _ready
    if not _ready:
        raise RuntimeError("npu: finalize_dump needs init_dump() first")
    _stop()
    _ready = False

"""Every test of this room runs with transfer_to_npu on, both ways; it is off again afterwards, for the other rooms."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

CPU, CUDA = 0, 1  # c10::DeviceType


def never(*args, **kwargs):
    raise AssertionError("a kernel of the CUDA key was called")


def guards() -> ctypes.Array:
    """c10's device guards by type."""
    c10 = ctypes.CDLL(str(Path(torch.__path__[0]) / "lib" / "libc10.so"))
    return (ctypes.c_void_p * 32).in_dll(c10, "_ZN3c104impl26device_guard_impl_registryE")


@contextlib.contextmanager
def cuda_is_taken() -> Iterator[None]:
    """What a PyTorch with CUDA has: a guard in CUDA's slot (here another device's) and kernels of the CUDA key."""
    table, kernels = guards(), torch.library.Library("aten", "IMPL")
    for name in ("empty.memory_format", "empty_strided", "tril_indices", "triu_indices", "_to_copy"):
        kernels.impl(name, never, "CUDA")
    before, table[CUDA] = table[CUDA], table[CPU]
    try:
        yield
    finally:
        table[CUDA] = before
        kernels._destroy()


@pytest.fixture(autouse=True)
def transfer(request: pytest.FixtureRequest) -> Iterator[str]:
    from torch_npu.contrib import transfer_to_npu

    transfer_to_npu.disable()  # the first import enables it
    slot = getattr(request, "param", "free")
    with cuda_is_taken() if slot == "taken" else contextlib.nullcontext():
        transfer_to_npu.enable()
        yield slot
        transfer_to_npu.disable()


@pytest.fixture(autouse=True)
def first_device(transfer: str) -> Iterator[None]:
    from torch_npu.contrib import transfer_to_npu

    assert transfer_to_npu.is_enabled()
    torch.npu.set_device(0)
    yield
    torch.npu.set_device(0)
    if transfer == "taken":
        assert guards()[CUDA] == guards()[CPU]  # the test did not take it away


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """CUDA's key free, as in PyTorch's CPU build, and taken, as in one with CUDA. Turning it on looks through all that
    is imported: once a module, where no test turns it off or rewrites modules.
    """
    name = metafunc.module.__name__.rpartition(".")[2]
    if name != "test_transfer_to_npu":
        scope = "function" if name in ("test_compilers", "test_rewrite") else "module"
        metafunc.parametrize("transfer", ["free", "taken"], indirect=True, scope=scope)

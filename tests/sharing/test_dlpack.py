"""npu tensors to and from other libraries, and PyTorch itself, by DLPack."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.dlpack import DLDeviceType

DEV = "npu"


class Library:
    """What another library's array is to PyTorch: two methods."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.tensor.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[Any, int]:
        return self.tensor.__dlpack_device__()


def base() -> torch.Tensor:
    return torch.arange(6.0, device=DEV).reshape(2, 3)


@pytest.mark.parametrize("wrap", [lambda t: t, Library])
def test_memory_is_shared_both_ways(wrap: Any) -> None:
    tensor = base()
    got = torch.from_dlpack(wrap(tensor.t()))
    assert got.device == tensor.device and got.stride() == (1, 3) and got.data_ptr() == tensor.data_ptr()
    got[0, 1] = 9.0
    assert tensor.tolist() == [[0.0, 1.0, 2.0], [9.0, 4.0, 5.0]]


def test_the_device_is_told() -> None:
    assert base().__dlpack_device__() == (DLDeviceType.kDLExtDev, 0)
    assert torch.from_dlpack(base().to("npu:1")).device == torch.device("npu:1")
    assert torch.ones(1).__dlpack_device__() == (DLDeviceType.kDLCPU, 0)


def test_copies_and_other_devices_when_asked() -> None:
    tensor = base()
    copied = torch.from_dlpack(tensor, copy=True)
    assert copied.tolist() == tensor.tolist() and copied.data_ptr() != tensor.data_ptr()
    assert torch.from_dlpack(tensor, device="cpu").tolist() == tensor.tolist()
    assert torch.from_dlpack(np.arange(3.0), device=DEV).tolist() == [0.0, 1.0, 2.0]
    assert np.from_dlpack(tensor.cpu()).tolist() == tensor.tolist()
    with pytest.raises((BufferError, RuntimeError), match="Unsupported device|device"):
        np.from_dlpack(tensor)


def test_the_readers_stream_waits_for_ours() -> None:
    ours, theirs = torch.npu.Stream(), torch.npu.Stream()
    with torch.npu.stream(ours):
        big = torch.ones(512, 512, device=DEV)
        for _ in range(20):
            big = big @ big * 0.001
        tensor = torch.zeros(4, device=DEV) + big[0, 0] * 0 + 1
        capsule = tensor.__dlpack__(stream=theirs.npu_stream)
    with torch.npu.stream(theirs):
        assert torch.from_dlpack(capsule).clone().tolist() == [1.0] * 4
    assert torch.from_dlpack(tensor.__dlpack__(stream=None)).tolist() == [1.0] * 4
    with pytest.raises(TypeError, match="stream must be"):
        tensor.__dlpack__(stream="theirs")


def test_what_a_capsule_cannot_say_is_refused() -> None:
    with pytest.raises(BufferError, match="require gradient"):
        base().requires_grad_().__dlpack__()
    with pytest.raises(BufferError, match="conjugate bit"):
        torch.complex(base(), base()).conj().__dlpack__()

"""torch.use_deterministic_algorithms: memory is filled, what has no deterministic kernel on CUDA is refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F


@pytest.fixture(autouse=True)
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.complex64, torch.int32, torch.uint8, torch.bool]
)
def test_uninitialized_memory_is_filled(dtype: torch.dtype) -> None:
    torch.full((64,), 1, dtype=dtype, device="npu")  # what a block would hold
    made = (
        torch.empty(64, dtype=dtype, device="npu"),
        torch.empty_strided((8, 8), (1, 8), dtype=dtype, device="npu"),
        torch.empty_like(torch.zeros(64, dtype=dtype, device="npu")),
        torch.zeros(2, dtype=dtype, device="npu").resize_(64)[2:],
    )
    for tensor in made:
        cpu = tensor.cpu()
        if dtype.is_floating_point or dtype.is_complex:
            assert cpu.isnan().all()
        else:
            assert (cpu == (True if dtype == torch.bool else torch.iinfo(dtype).max)).all()


def test_filling_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", False)
    torch.zeros(64, device="npu")
    assert not torch.empty(64, device="npu").isnan().all()


def backward(call, *sizes: int) -> None:
    x = torch.rand(sizes, device="npu").requires_grad_()
    call(x).sum().backward()


ALERTED = {
    "put_": lambda: torch.zeros(3, device="npu").put_(torch.tensor([1], device="npu"), torch.ones(1, device="npu")),
    "histc": lambda: torch.histc(torch.ones(3, device="npu")),
    "bincount": lambda: torch.bincount(torch.tensor([1], device="npu"), torch.ones(1, device="npu")),
    "kthvalue": lambda: torch.kthvalue(torch.ones(3, device="npu"), 1),
    "median": lambda: torch.median(torch.ones(3, device="npu"), 0),
    "cumsum": lambda: torch.cumsum(torch.ones(3, device="npu"), 0),
    "interpolate": lambda: backward(lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), 1, 1, 4, 4),
    "reflection_pad": lambda: backward(lambda x: F.pad(x, (1, 1), mode="reflect"), 1, 1, 4),
    "adaptive_avg_pool2d": lambda: backward(lambda x: F.adaptive_avg_pool2d(x, 2), 1, 1, 4, 4),
    "grid_sample": lambda: backward(
        lambda x: F.grid_sample(x, torch.zeros(1, 2, 2, 2, device="npu"), align_corners=False), 1, 1, 4, 4
    ),
    "nll_loss2d": lambda: F.nll_loss(
        torch.rand(1, 2, 3, 3, device="npu"), torch.zeros(1, 3, 3, dtype=torch.long, device="npu")
    ),
}


@pytest.mark.parametrize("name", ALERTED)
def test_it_is_refused_or_warned_of(name: str) -> None:
    with pytest.raises(RuntimeError, match="does not have a deterministic implementation"):
        ALERTED[name]()
    torch.use_deterministic_algorithms(True, warn_only=True)
    with pytest.warns(UserWarning, match="does not have a deterministic implementation"):
        ALERTED[name]()
    torch.use_deterministic_algorithms(False)
    ALERTED[name]()


def test_integers_are_summed_in_any_mode() -> None:
    assert torch.cumsum(torch.ones(3, dtype=torch.int64, device="npu"), 0).tolist() == [1, 2, 3]
    assert torch.bincount(torch.tensor([0, 1], device="npu")).tolist() == [1, 1]

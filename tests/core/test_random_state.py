"""Random state inside PyTorch's own libraries: they find it through torch.npu, by names that must not be missing."""

from __future__ import annotations

import pytest
import torch
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

from tests.core.tools import run


def dropped(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.dropout(x.exp(), 0.5)


def gradient(x: torch.Tensor, **options: object) -> torch.Tensor:
    x = x.detach().requires_grad_()
    y = checkpoint(dropped, x, **options) if options else dropped(x)
    y.sum().backward()
    # Where the result kept an element, the gradient is that element: recomputed with other numbers it is not.
    torch.testing.assert_close(x.grad, y.detach())
    return x.grad


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("device", ["npu:0", "npu:1"])
def test_a_checkpoint_draws_the_same_numbers_again(reentrant: bool, device: str) -> None:
    x = torch.zeros(1000, device=device)
    grad = gradient(x, use_reentrant=reentrant)
    assert 400 < int((grad != 0).sum()) < 600


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpoint_leaves_the_numbers_after_it_alone(reentrant: bool) -> None:
    x = torch.zeros(100, device="npu")

    def after(**options: object) -> torch.Tensor:
        torch.manual_seed(3)
        gradient(x, **options)
        return torch.rand(4, device="npu")

    assert torch.equal(after(), after(use_reentrant=reentrant))


def test_a_checkpoint_over_two_devices() -> None:
    # Reentrant: the other kind recomputes on both devices' autograd threads at once, which PyTorch does not lock.
    def both(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return dropped(a).to("npu:0") + dropped(b).to("npu:0")

    a, b = (torch.zeros(500, device=f"npu:{i}", requires_grad=True) for i in (0, 1))
    for i in (0, 1):  # another test may have left both with one seed
        torch.npu.default_generators[i].manual_seed(i)
    y = checkpoint(both, a, b, use_reentrant=True)
    y.sum().backward()
    torch.testing.assert_close(a.grad + b.grad.to("npu:0"), y.detach())
    assert not torch.equal(a.grad, b.grad.to("npu:0"))


def test_nothing_is_saved_of_a_device_not_yet_used() -> None:
    text = "import torch\nprint(torch.npu._initialized); torch.ones(1).npu(); print(torch.npu._initialized)"
    assert run(text).stdout.split() == ["False", "True"]


def test_fork_rng_gives_every_device_its_state_back() -> None:
    devices = range(torch.npu.device_count())
    before = [torch.npu.get_rng_state(i) for i in devices]
    with torch.random.fork_rng(devices, device_type="npu"):
        for i in devices:
            torch.rand(3, device=f"npu:{i}")
            assert not torch.equal(torch.npu.get_rng_state(i), before[i])
    assert all(torch.equal(torch.npu.get_rng_state(i), before[i]) for i in devices)


class Numbers(Dataset):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> tuple[int, float]:
        return torch.utils.data.get_worker_info().seed, float(torch.rand(()))


def test_a_workers_seed_does_not_touch_the_device_of_its_parent() -> None:
    torch.ones(1).npu()
    torch.manual_seed(1)
    before = torch.npu.get_rng_state()
    batches = [list(DataLoader(Numbers(), num_workers=2, generator=torch.Generator().manual_seed(2))) for _ in "ab"]
    assert torch.equal(torch.npu.get_rng_state(), before)
    assert torch.equal(torch.stack([x for _, x in batches[0]]), torch.stack([x for _, x in batches[1]]))


def test_the_generator_of_a_device_by_the_name_compiled_graphs_use() -> None:
    assert torch.npu._get_generator(torch.device("npu:1")) is not None
    torch.npu._get_generator(torch.device("npu:1")).manual_seed(77)
    assert torch.npu.default_generators[1].initial_seed() == 77


def test_a_lazy_call_is_made() -> None:
    called = []
    torch.npu._lazy_call(lambda: called.append(1))
    assert called == [1]

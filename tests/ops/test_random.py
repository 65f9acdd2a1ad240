"""Random values: distributions, seeds, generators of their own, errors."""

from __future__ import annotations

import pytest
import torch

N = 20000
DRAWS = {
    "rand": lambda: torch.rand(N, device="npu"),
    "randn": lambda: torch.randn(N, device="npu"),
    "randint": lambda: torch.randint(3, 9, (N,), device="npu"),
    "bernoulli": lambda: torch.full((N,), 0.25, device="npu").bernoulli(),
    "bernoulli_": lambda: torch.empty(N, device="npu").bernoulli_(0.25),
    "exponential": lambda: torch.empty(N, device="npu").exponential_(2.0),
    "geometric": lambda: torch.empty(N, device="npu").geometric_(0.5),
    "log_normal": lambda: torch.empty(N, device="npu").log_normal_(0, 0.25),
    "normal": lambda: torch.normal(torch.full((N,), 2.0, device="npu"), 0.5),
    "uniform": lambda: torch.empty(N, device="npu").uniform_(-1, 3),
    "multinomial": lambda: torch.tensor([0.1, 0.2, 0.7], device="npu").multinomial(N, replacement=True),
    "half": lambda: torch.randn(N, device="npu", dtype=torch.float16),
    "random_": lambda: torch.empty(N, device="npu").random_(10),
}
MEANS = {
    "rand": 0.5,
    "randn": 0.0,
    "randint": 5.5,
    "bernoulli": 0.25,
    "bernoulli_": 0.25,
    "exponential": 0.5,
    "geometric": 2.0,
    "log_normal": 1.0317,
    "normal": 2.0,
    "uniform": 1.0,
    "multinomial": 1.6,
    "half": 0.0,
    "random_": 4.5,
}


@pytest.mark.parametrize("name", DRAWS)
def test_mean_and_seed(name: str) -> None:
    torch.manual_seed(11)
    a = DRAWS[name]().cpu()
    b = DRAWS[name]().cpu()
    torch.manual_seed(11)
    assert torch.equal(DRAWS[name]().cpu(), a)
    assert not torch.equal(a, b)
    assert abs(a.double().mean().item() - MEANS[name]) < 0.08


def test_ranges() -> None:
    u = torch.rand(N, device="npu")
    assert u.min().item() >= 0 and u.max().item() < 1
    i = torch.randint(3, 9, (N,), device="npu")
    assert set(i.unique().tolist()) == set(range(3, 9))
    assert abs(torch.randn(N, device="npu").std().item() - 1) < 0.03


def test_a_generator_of_ones_own() -> None:
    g = torch.Generator("npu").manual_seed(5)
    a = torch.rand(10, device="npu", generator=g)
    state = g.get_state()
    b = torch.rand(10, device="npu", generator=g)
    g.set_state(state)
    assert torch.equal(torch.rand(10, device="npu", generator=g).cpu(), b.cpu()) and not torch.equal(a.cpu(), b.cpu())


def test_multinomial_without_replacement_has_no_repeats() -> None:
    draws = torch.ones(4, 20, device="npu").multinomial(20)
    assert torch.equal(draws.sort(1).values.cpu(), torch.arange(20).expand(4, 20))


def test_bad_arguments() -> None:
    x = torch.empty(3, device="npu")
    with pytest.raises(RuntimeError, match="std >= 0.0"):
        x.normal_(0, -1)
    with pytest.raises(RuntimeError, match=r"p to be in \[0, 1\]"):
        x.bernoulli_(2)
    with pytest.raises(RuntimeError, match="lambda > 0.0"):
        x.exponential_(0)
    with pytest.raises(RuntimeError, match="replacement"):
        torch.ones(3, device="npu").multinomial(5)

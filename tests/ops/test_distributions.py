"""Poisson, binomial, gamma and Dirichlet numbers (csrc/ops/composed): shares, seeds, generators, graphs."""

from __future__ import annotations

import math

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import torch_npu
from tests.older import OLDER
from tests.ops.test_random import FLOATING, N, distance, share


def poisson(rate: float) -> dict[int, float]:
    return {k: math.exp(k * math.log(rate) - rate - math.lgamma(k + 1)) for k in range(int(rate + 6 * rate**0.5))}


def binomial(n: int, p: float) -> dict[int, float]:
    return {k: math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)}


@pytest.fixture(params=[False, True], ids=["processor", "composed"])
def way(request: pytest.FixtureRequest) -> object:
    """By kernels of the processor, and by the compositions that CANN runs."""
    torch_npu._C._prefer_compositions(request.param)
    yield request.param
    torch_npu._C._prefer_compositions(False)


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_poisson_binomial_gamma_and_dirichlet(dtype: torch.dtype, way: bool) -> None:
    torch.manual_seed(1)
    n = N // 4 if way else N  # compositions take a hundred times the time

    def full(value: float) -> torch.Tensor:
        return torch.full((n,), value, dtype=dtype, device="npu")

    def shares(x: torch.Tensor, probabilities: dict[int, float]) -> None:
        share(x.cpu().double(), {k: p for k, p in probabilities.items() if p * n > 5}, n)

    for rate in (2.0, 16.0):
        shares(torch.poisson(full(rate)), poisson(rate))
    for count, p in ((6, 0.25), (64, 0.25), (64, 0.75)):
        shares(torch.binomial(full(count), full(p)), binomial(count, p))
    x = torch._standard_gamma(full(2)).cpu().double()
    assert distance(x, lambda v: 1 - (1 + v) * (-v).exp()) < 1.95 / n**0.5
    x = torch._standard_gamma(full(0.5)).cpu().double()
    assert (x > 0).all() and distance(x, lambda v: torch.erf(v.clamp_min(0).sqrt())) < 1.95 / n**0.5
    d = torch._sample_dirichlet(torch.tensor([1.0, 2.0, 3.0], dtype=dtype, device="npu").expand(n, 3)).cpu().double()
    torch.testing.assert_close(d.sum(1), torch.ones(n, dtype=torch.float64), rtol=0, atol=4 * torch.finfo(dtype).eps)
    assert distance(d[:, 0], lambda v: 1 - (1 - v.clamp(0, 1)) ** 5) < 1.95 / n**0.5


DRAWN = {
    "poisson": lambda x, **k: torch.poisson(x, **k),
    "binomial": lambda x, **k: torch.binomial(x, x / 8, **k),
    "gamma": lambda x, **k: torch._standard_gamma(x, **k),
    "dirichlet": lambda x, **k: torch._sample_dirichlet(x, **k),
}


@pytest.mark.parametrize("name", DRAWN)
def test_what_is_drawn_obeys_seeds_generators_states_and_graphs(name: str, way: object) -> None:
    draw, x = DRAWN[name], torch.full((300,), 4.0, device="npu")
    torch.manual_seed(1)
    first, second = draw(x), draw(x)
    torch.manual_seed(1)
    assert torch.equal(draw(x), first) and torch.equal(draw(x), second) and not torch.equal(first, second)
    generator = torch.Generator("npu").manual_seed(1)
    state = generator.get_state()
    assert torch.equal(draw(x, generator=generator), first) and not torch.equal(generator.get_state(), state)
    generator.set_state(state)
    assert torch.equal(draw(x, generator=generator), first)
    with pytest.raises(RuntimeError, match="Expected a 'npu' device type for generator but found 'cpu'"):
        draw(x, generator=torch.Generator())
    graph = torch.npu.NPUGraph()
    torch.npu.synchronize()
    with torch.npu.graph(graph):
        result = draw(x)
    drawn = []
    for _ in range(2):
        graph.replay()
        drawn.append(result.clone())
    assert not torch.equal(*drawn)


def test_ends_of_counts_that_are_drawn(way: object) -> None:
    count = torch.tensor([0.0, 5, 5, 5, 100, 1000], device="npu")
    p = torch.tensor([0.5, 0.0, 1.0, 0.5, 1.0, 0.999], device="npu")
    x = torch.binomial(count, p).cpu()
    assert x[:3].tolist() == [0, 0, 5] and 0 <= x[3] <= 5 and x[4] == 100 and 980 <= x[5] <= 1000
    assert torch.poisson(torch.zeros(3, device="npu")).tolist() == [0, 0, 0]
    assert torch._standard_gamma(torch.empty(0, 2, device="npu")).shape == (0, 2)
    many = torch.poisson(torch.full((N // 4,), 1e6, dtype=torch.float64, device="npu")).cpu()
    assert abs(many.mean() - 1e6) < 5 * 1e3 / (N // 4) ** 0.5 and 0.9e6 < many.var() < 1.1e6


def test_gradients_of_what_is_drawn() -> None:
    a = torch.linspace(0.2, 20, 40, dtype=torch.float64)
    x = torch._standard_gamma(a)
    got = torch._standard_gamma_grad(a.npu(), x.npu()).cpu()
    torch.testing.assert_close(got, torch._standard_gamma_grad(a, x))
    d = x / x.sum()
    got = torch._dirichlet_grad(d.npu(), a.npu(), a.sum().expand(40).npu()).cpu()
    torch.testing.assert_close(got, torch._dirichlet_grad(d, a, a.sum().expand(40)))
    rate = torch.ones(4, device="npu", requires_grad=True)
    torch.distributions.Gamma(rate * 2, rate).rsample().sum().backward()
    assert rate.grad.isfinite().all()


def test_seeds_and_offsets_are_drawn_from_with_all_their_bits(way: object) -> None:
    """A seed's upper half, and offsets 2^32 apart: other numbers each."""
    x, drawn = torch.full((40,), 4.0, device="npu"), []
    for seed, offset in ((1, 0), (1 + (1 << 32), 0), (1, 1 << 32), (1 + (1 << 62), 1 << 33)):
        generator = torch.Generator("npu").manual_seed(seed)
        generator.set_offset(offset)
        drawn.append(torch._standard_gamma(x, generator=generator).cpu())
    assert not any(torch.equal(a, b) for i, a in enumerate(drawn) for b in drawn[:i])


def test_parameters_that_are_none_are_the_same_in_both_ways(way: object) -> None:
    """The least gamma and Dirichlet number, as the CPU's; NaN of the others, whose CPU refuses or never ends."""
    nan, inf = math.nan, math.inf
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        least, x = torch.finfo(dtype).tiny, torch.tensor([nan, -1.0, -0.5, 0.0], dtype=dtype, device="npu")
        assert torch._standard_gamma(x).tolist() == [least] * 4
        shares = torch._sample_dirichlet(torch.tensor([nan, 1.0, -3], dtype=dtype, device="npu")).tolist()
        assert 0 < shares[0] < 1e-37 and 0 < shares[2] < 1e-37 and shares[1] > 0.999
        assert shares[1] < 1 or dtype == torch.bfloat16
        rates = torch.tensor([nan, -1.0, inf, 0.0], dtype=dtype, device="npu")
        assert torch.poisson(rates).isnan().tolist() == [True, True, True, False]
        count = torch.tensor([nan, nan, nan, 5, 0, -1, 5, 5], dtype=dtype, device="npu")
        prob = torch.tensor([0.5, 0.0, 1, nan, nan, 0.5, -1, 2], dtype=dtype, device="npu")
        torch.testing.assert_close(
            torch.binomial(count, prob).cpu().double(),
            torch.tensor([nan, 0, nan, nan, 0, 0, 0, 5], dtype=torch.float64),
            equal_nan=True,
        )


def test_strides_of_what_is_drawn_are_the_fake_tensors(way: object) -> None:
    inputs = (
        torch.ones(4, 5).t(),
        torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.ones(2, 3, 4).permute(2, 0, 1),
        torch.ones(4, 10)[:, ::2],
        torch.ones(4, 1).expand(4, 5),
        torch.ones(3, 0, 2).transpose(0, 2),
    )
    for name, draw in DRAWN.items():
        if OLDER and name == "gamma":
            continue  # the fake of 2.10 is contiguous
        for x in inputs:
            like = torch.empty_strided(x.size(), x.stride(), device="npu").fill_(1) if 0 not in x.stride() else x.npu()
            with FakeTensorMode() as mode:
                expected = draw(mode.from_tensor(x)).stride()
            assert draw(like).stride() == expected, (name, x.stride())
    with pytest.raises(NotImplementedError, match="not implemented for 'Float8_e4m3fn'"):
        torch.poisson(torch.ones(3, device="npu").to(torch.float8_e4m3fn))

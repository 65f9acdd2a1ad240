"""Random values: distributions, seeds, generators of their own, errors."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

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


FLOATING = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]
M = 100_000
PI = 3.141592653589793


def test_normal_takes_outputs_as_the_cpu_does() -> None:
    mean, std = torch.zeros(4, 3), torch.ones(3, 4).t()
    for call in (lambda **k: torch.normal(mean.npu(), 1.0, **k), lambda **k: torch.normal(mean.npu(), std.npu(), **k)):
        with pytest.raises(NotImplementedError, match="Long"):
            call(out=torch.zeros(4, 3, dtype=torch.long, device="npu"))
    assert torch.normal(mean.npu(), 1.0, out=torch.zeros(7, 4, 3, device="npu")).shape == (7, 4, 3)
    assert torch.normal(mean.npu(), 1.0, out=torch.zeros(0, device="npu")).shape == (4, 3)
    assert torch.normal(std.npu(), 1.0).stride() == (3, 1)


def normal_cdf(x: torch.Tensor) -> torch.Tensor:
    return torch.special.ndtr(x)


def shifted_normal_cdf(x: torch.Tensor) -> torch.Tensor:
    return normal_cdf((x - 0.5) / 2)


# A distribution, its parameters chosen so that 16-bit types hold most values -> its cumulative distribution.
CONTINUOUS = {
    "uniform": (lambda x: x.uniform_(-1, 3), lambda v: ((v + 1) / 4).clamp(0, 1)),
    "uniform from 1": (lambda x: x.uniform_(1, 2), lambda v: (v - 1).clamp(0, 1)),
    "normal": (lambda x: x.normal_(0.5, 2), shifted_normal_cdf),
    "log_normal": (lambda x: x.log_normal_(0.25, 0.5), lambda v: normal_cdf((v.log() - 0.25) / 0.5)),
    "exponential": (lambda x: x.exponential_(1.5), lambda v: 1 - (-1.5 * v).exp()),
    "cauchy": (lambda x: x.cauchy_(1, 2), lambda v: torch.atan((v - 1) / 2) / PI + 0.5),
    "gamma": (lambda x: x.copy_(torch._standard_gamma(torch.full_like(x, 2.0))), lambda v: 1 - (1 + v) * (-v).exp()),
    "rrelu": (lambda x: x.fill_(-1).copy_(-F.rrelu(x, 0.25, 0.75, True)), lambda v: ((v - 0.25) * 2).clamp(0, 1)),
    "normal with a mean": (lambda x: torch.normal(torch.full_like(x, 0.5), 2.0, out=x), shifted_normal_cdf),
    "normal with a std": (lambda x: torch.normal(0.5, torch.full_like(x, 2.0), out=x), shifted_normal_cdf),
}  # fmt: skip


def distance(values: torch.Tensor, cdf) -> float:
    """Kolmogorov and Smirnov's, of values that were rounded, to nearest or down: what is equal came from between its
    neighbours."""
    found, counts = values.sort().values.unique(return_counts=True)
    upper = counts.cumsum(0) / values.numel()
    lower = upper - counts / values.numel()
    below = torch.cat([2 * found[:1] - found[1:2], found[:-1]])
    after = torch.cat([found[1:], 2 * found[-1:] - found[-2:-1]])
    low, high = cdf(below.double()), cdf(after.double())
    return max(
        (low - lower).clamp(min=0).nan_to_num(0).max().item(), (upper - high).clamp(min=0).nan_to_num(0).max().item()
    )


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
@pytest.mark.parametrize("name", CONTINUOUS)
def test_distribution_in_every_type(name: str, dtype: torch.dtype) -> None:
    draw, cdf = CONTINUOUS[name]
    torch.manual_seed(3)
    x = draw(torch.empty(M, dtype=dtype, device="npu")).cpu()
    assert x.dtype == dtype and not x.isnan().any()
    assert distance(x.double(), cdf) < 1.95 / M**0.5  # p < 0.001
    torch.manual_seed(3)
    assert torch.equal(draw(torch.empty(M, dtype=dtype, device="npu")).cpu(), x)


# As many values as the CPU's, or nearly.
@pytest.mark.parametrize("name", ["exponential", "cauchy", "log_normal", "normal", "uniform"])
def test_16_bit_types_take_as_many_values_as_on_the_cpu(name: str) -> None:
    draw, _ = CONTINUOUS[name]
    for dtype in (torch.float16, torch.bfloat16):
        got = draw(torch.empty(M, dtype=dtype, device="npu")).cpu().unique().numel()
        assert got > 0.9 * draw(torch.empty(M, dtype=dtype)).unique().numel(), dtype


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_intervals_are_half_open_after_rounding(dtype: torch.dtype) -> None:
    bounds = [(1, 2), (0, 1), (-2, -1), (-1, 0), (1000, 1001), (0, 1e-6), (0.5, 0.50390625), (-1e4, 1e4)]
    for low, high in bounds:
        low, high = (torch.tensor(float(v), dtype=dtype).item() for v in (low, high))
        x = torch.empty(M, dtype=dtype, device="npu").uniform_(low, high).cpu()
        assert x.min().item() >= low and (x.max().item() < high or low == high), (low, high)
    top = {torch.float16: 4099, torch.bfloat16: 259}.get(dtype, 2**24 + 1)
    x = torch.empty(M, dtype=dtype, device="npu").random_(top - 3, top).cpu()
    assert x.min().item() >= top - 5 and x.max().item() < top


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_no_zero_where_the_logarithm_is_taken(dtype: torch.dtype) -> None:
    x = torch.empty(M * 3, dtype=dtype, device="npu").exponential_()
    assert (x > 0).all() and x.log().isfinite().all()
    logits = torch.zeros(64, 1000, dtype=dtype, device="npu")
    assert not F.gumbel_softmax(logits).isnan().any()


def share(x: torch.Tensor, probabilities: dict[int, float], n: int) -> None:
    """Chi-square, p < 0.001 by Wilson and Hilferty, of the named values; the rest is one more."""
    expected = dict(probabilities)
    counts = {v: (x == v).sum().item() for v in expected}
    rest = 1 - sum(expected.values())
    if rest > 1e-9:
        expected["rest"], counts["rest"] = rest, n - sum(counts.values())
    else:
        assert sum(counts.values()) == n
    chi = sum((counts[v] - n * p) ** 2 / (n * p) for v, p in expected.items() if p > 0)
    assert all(counts[v] == 0 for v, p in expected.items() if p == 0)
    k = sum(p > 0 for p in expected.values()) - 1
    assert chi < k * (1 - 2 / (9 * k) + 3.1 * (2 / (9 * k)) ** 0.5) ** 3, (chi, counts)


DISCRETE = {
    "bernoulli": (lambda x: x.bernoulli_(0.3), {0: 0.7, 1: 0.3}),
    "bernoulli of a tensor": (lambda x: x.bernoulli_(torch.full(x.shape, 0.3, device="npu")), {0: 0.7, 1: 0.3}),
    "geometric": (lambda x: x.geometric_(0.3), {k: 0.3 * 0.7 ** (k - 1) for k in range(1, 15)}),
    "random": (lambda x: x.random_(3, 10), {k: 1 / 7 for k in range(3, 10)}),
    "random to": (lambda x: x.random_(64), {k: 1 / 64 for k in range(64)}),
}


@pytest.mark.parametrize("dtype", [*FLOATING, *INTEGERS], ids=str)
@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_distribution_in_every_type(name: str, dtype: torch.dtype) -> None:
    draw, probabilities = DISCRETE[name]
    torch.manual_seed(5)
    x = draw(torch.empty(M, dtype=dtype, device="npu")).cpu()
    share(x.double(), probabilities, M)
    torch.manual_seed(5)
    assert torch.equal(draw(torch.empty(M, dtype=dtype, device="npu")).cpu(), x)


def test_integers_of_wide_ranges_are_uniform() -> None:
    """A remainder of the generator's bits would take the lower numbers twice as often."""
    for low, high in ((0, 3 << 30), (-(3 << 61), 3 << 61), (0, (1 << 63) - 1)):
        x = torch.randint(low, high, (M,), device="npu").cpu()
        assert x.min() >= low and x.max() < high
        share(((x.double() - low) / (high - low) * 8).floor(), {k: 1 / 8 for k in range(8)}, M)


def test_counts_that_are_drawn() -> None:
    weights = torch.tensor([0.1, 0.0, 0.2, 0.7])
    for dtype in FLOATING:
        w = weights.to(dtype)
        p = {i: v for i, v in enumerate((w.double() / w.double().sum()).tolist())}
        share(w.npu().multinomial(M, replacement=True).cpu(), p, M)
        first = w.npu().expand(M // 4, 4).contiguous().multinomial(1).cpu()
        share(first, p, M // 4)
    for n in (1, 2, 31, 300):
        assert torch.equal(torch.randperm(n, device="npu").sort().values.cpu(), torch.arange(n))
    orders = torch.stack([torch.randperm(3, device="npu") for _ in range(3000)]).cpu()
    share(orders @ torch.tensor([9, 3, 1]), {k: 1 / 6 for k in (5, 7, 11, 15, 19, 21)}, 3000)


@pytest.mark.parametrize("samples, replacement", [(1, False), (1, True), (2, False), (2, True)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("weights", [[1, -1, 2], [1, math.inf, 2], [1, math.nan, 2], [0, 0, 0], [[1, 2, 3], [0, 0, 0]]],
                         ids=str)  # fmt: skip
def test_multinomial_refuses_weights_as_the_cpu_does(weights, dtype, samples, replacement) -> None:
    w = torch.tensor(weights, dtype=dtype)
    with pytest.raises(RuntimeError) as on_cpu:
        torch.multinomial(w, samples, replacement)
    with pytest.raises(RuntimeError) as on_npu:
        torch.multinomial(w.npu(), samples, replacement)
    assert str(on_npu.value).partition("\n")[0] == str(on_cpu.value).partition("\n")[0]


def test_values_depend_neither_on_stream_nor_on_the_tensor_around() -> None:
    def draw(out: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(9)
        return out.exponential_().cpu()

    first = draw(torch.empty(5001, device="npu"))
    assert torch.equal(draw(torch.empty(300, device="npu")), first[:300])
    assert torch.equal(draw(torch.empty(5001, 2, device="npu")[:, 1]), first)
    with torch.npu.stream(torch.npu.Stream()):
        assert torch.equal(draw(torch.empty(5001, device="npu")), first)
    low = draw(torch.empty(5001, dtype=torch.bfloat16, device="npu"))
    assert torch.equal(low, first.bfloat16())


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_dropout_keeps_its_share_at_every_size_and_its_mask_for_the_gradient(dtype: torch.dtype) -> None:
    kept = 0
    for n in range(1, 301):
        torch.manual_seed(n)
        x = torch.ones(n, dtype=dtype, device="npu", requires_grad=True)
        y = F.dropout(x, 0.5)
        y.sum().backward()
        torch.manual_seed(n)
        assert torch.equal(F.dropout(x, 0.5), y) and torch.equal(x.grad, y), n
        kept += (y != 0).sum().item()
    assert abs(kept - 45150 / 2) < 4 * (45150 / 4) ** 0.5
    units = sum((F.dropout(torch.ones(16, dtype=dtype, device="npu")) != 0).int() for _ in range(200)).cpu()
    assert (abs(units - 100) < 43).all(), units  # 6 standard deviations


@pytest.mark.parametrize("p, train", [(0.5, True), (0.5, None), (0.0, True), (1.0, True), (0.5, False)])
def test_native_dropout_returns_what_its_meta_says(p, train) -> None:
    x = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last).npu()
    y, mask = torch.native_dropout(x, p, train)
    said = torch.native_dropout(x.to("meta"), p, train)
    assert (mask.dtype, mask.shape, y.dtype, y.shape) == (torch.bool, said[1].shape, said[0].dtype, said[0].shape)
    scale = 1 / (1 - p) if p < 1 and train is not False else 1.0
    torch.testing.assert_close(y, x * mask * scale)
    back = torch.ops.aten.native_dropout_backward(x, mask, scale)
    torch.testing.assert_close(back, y)
    assert back.stride() == x.stride()


def test_dropout_keeps_strides() -> None:
    x = torch.ones(2, 3, 4, 5, device="npu").contiguous(memory_format=torch.channels_last)
    assert F.dropout(x).stride() == x.stride()
    assert F.dropout(torch.ones(3, 4, device="npu").t()).stride() == (1, 4)


def test_complex_normal_has_a_mean() -> None:
    x = torch.empty(M, dtype=torch.complex64, device="npu").normal_(2, 3).cpu()
    assert abs(x.real.mean() - 2) < 0.05 and abs(x.imag.mean() - 2) < 0.05 and abs(x.std() - 3) < 0.05

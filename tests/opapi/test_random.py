"""Random operators: distributions, and that a result depends on seed and offset alone."""

from __future__ import annotations

import pytest
import torch

N = 200_000


def fill(npu, op: str, out: torch.Tensor, seed: int = 5, offset: int = 0, **attributes) -> torch.Tensor:
    name = npu.signatures[op][0].name
    return npu.call(op, **{name: out, "seed": seed, "offset": offset, **attributes})[name]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_uniform(npu, dtype):
    x = fill(npu, "aclnnInplaceUniform", torch.empty(N, dtype=dtype), **{"from": -1.0, "to": 3.0}).double()
    assert x.min() >= -1 and x.max() <= 3 and abs(x.mean() - 1) < 0.02 and abs(x.var() - 16 / 12) < 0.02


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_normal(npu, dtype):
    x = fill(npu, "aclnnInplaceNormal", torch.empty(N, dtype=dtype), mean=2.0, std=3.0).double()
    z = (x - 2) / 3
    assert (
        abs(z.mean()) < 0.01 and abs(z.var() - 1) < 0.02 and abs((z**3).mean()) < 0.05 and abs((z**4).mean() - 3) < 0.1
    )


def test_known_values_of_philox(npu):
    """The first block of Philox4x32-10 with key 0 and counter 0 (Salmon et al. 2011, their test vectors)."""
    x = fill(
        npu, "aclnnInplaceRandom", torch.empty(2, dtype=torch.int64), seed=0, offset=0, **{"from": 0, "to": 2**63 - 1}
    )
    words = (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    draws = ((words[0] << 32) | words[1], (words[2] << 32) | words[3])
    assert x.tolist() == [(draw * (2**63 - 1)) >> 64 for draw in draws]  # of [0, 2^64) to [0, 2^63 - 1)


def test_results_depend_on_seed_and_offset_alone(npu):
    def draw(**k):
        return fill(npu, "aclnnInplaceUniform", k.pop("out", torch.empty(70_001)), **{"from": 0.0, "to": 1.0}, **k)

    first = draw()
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert torch.equal(draw(), first)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(draw(out=torch.empty(2, 70_001).t()[:, 0]), first)
    assert torch.equal(draw(out=torch.empty(100)), first[:100])
    assert not torch.equal(draw(offset=1), first) and not torch.equal(draw(seed=6), first)


def test_integers(npu):
    x = fill(npu, "aclnnInplaceRandom", torch.empty(N, dtype=torch.int32), **{"from": -3, "to": 7})
    assert x.unique().tolist() == list(range(-3, 7)) and abs(x.double().mean() - 1.5) < 0.05
    y = fill(npu, "aclnnInplaceRandomWithoutFromTo", torch.empty(1000, dtype=torch.uint8))
    assert y.max() > 240 and y.min() < 15


def test_bernoulli(npu):
    assert abs(fill(npu, "aclnnInplaceBernoulli", torch.empty(N), prob=0.3).mean() - 0.3) < 0.01
    p = torch.tensor([0.0, 1.0, 0.5]).expand(N // 4, 3)
    mean = fill(npu, "aclnnInplaceBernoulliTensor", torch.empty(N // 4, 3), prob=p).mean(0)
    assert mean[0] == 0 and mean[1] == 1 and abs(mean[2] - 0.5) < 0.01


def test_randperm(npu):
    x = npu.call("aclnnRandperm", n=5000, seed=3, offset=0, out=torch.empty(5000, dtype=torch.int64))["out"]
    assert torch.equal(x.sort().values, torch.arange(5000)) and not torch.equal(x, torch.arange(5000))


@pytest.mark.parametrize("replacement", [True, False])
def test_multinomial(npu, replacement):
    weights = torch.tensor([[1.0, 0.0, 3.0, 4.0]]).expand(20_000, 4).contiguous()
    n = 1 if not replacement else 2
    x = npu.call(
        "aclnnMultinomial",
        self=weights,
        numsamples=n,
        replacement=replacement,
        seed=1,
        offset=0,
        out=torch.empty(20_000, n, dtype=torch.int64),
    )["out"]
    share = torch.bincount(x.flatten(), minlength=4) / x.numel()
    torch.testing.assert_close(share, torch.tensor([1 / 8, 0, 3 / 8, 4 / 8]), atol=0.015, rtol=0)


def test_exponential_is_positive(npu):
    op = "aclnnSimThreadExponential"
    x = npu.call(op, selfRef=torch.empty(N), count=N, **{"lambda": 2.0}, seed=4, offset=0)["selfRef"]
    assert x.min() > 0 and abs(x.mean() - 0.5) < 0.01

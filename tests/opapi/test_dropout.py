"""Dropout: the mask's format is decided by its type, at every size."""

from __future__ import annotations

import pytest
import torch

GEN = ("aclnnDropoutGenMask", "aclnnDropoutGenMaskV2")


def make(npu, op: str, n: int, mask: torch.Tensor, seed: int = 9, prob: float = 0.25) -> torch.Tensor:
    more = {"probDataType": torch.float32} if op.endswith("V2") else {}
    return npu.call(op, shape=[n], prob=prob, seed=seed, offset=2, out=mask, **more)["out"]


def bits(n: int, more: int = 0) -> torch.Tensor:
    return torch.full(((n + 127) // 128 * 16 + more,), 77, dtype=torch.uint8)


def unpack(mask: torch.Tensor, n: int) -> torch.Tensor:
    return ((mask[:, None] >> torch.arange(8)) & 1).flatten()[:n].bool()


@pytest.mark.parametrize("form", ["bits", "bool"])
def test_dropout(npu, form):
    n = 100_003
    mask = bits(n) if form == "bits" else torch.empty(n, dtype=torch.bool)
    made = make(npu, GEN[1], n, mask)
    y = npu.call("aclnnDropoutDoMask", self=torch.ones(n), mask=made, prob=0.25, out=torch.empty(n))["out"]
    assert abs((y == 0).float().mean() - 0.25) < 0.01
    torch.testing.assert_close(y[y != 0].unique(), torch.tensor([1 / 0.75]))
    assert torch.equal(make(npu, GEN[1], n, mask), made)


@pytest.mark.parametrize("more", [0, 32])  # the vendor's plugin leaves room behind the mask
def test_a_mask_of_bytes_holds_a_bit_an_element_at_every_size(npu, more):
    whole = unpack(make(npu, GEN[0], 400, bits(400)), 400)
    for n in (*range(1, 40), 47, 48, 49, 64, 100, 127, 128, 129, 255, 256, 257, 300):
        for op in GEN:
            made = make(npu, op, n, bits(n, more))
            assert torch.equal(unpack(made, n), whole[:n]), (op, n)
            assert not made[(n + 7) // 8 :].any()
        x = torch.arange(1.0, n + 1)
        kept = torch.where(whole[:n], x * 2, 0)
        do = {"self": x, "mask": made, "prob": 0.5, "out": torch.empty(n)}
        assert torch.equal(npu.call("aclnnDropoutDoMask", **do)["out"], kept), n
        back = {"gradOutput": x, "mask": made, "scale": 2.0, "out": torch.empty(n)}
        assert torch.equal(npu.call("aclnnDropoutBackward", **back)["out"], kept), n
        grad = {"gradY": x, "mask": made, "scale": 2.0, "gradX": torch.empty(n)}
        assert torch.equal(npu.call("aclnnDropoutV3Grad", **grad)["gradX"], kept), n


@pytest.mark.parametrize("op", ["aclnnDropout", "aclnnDropoutV3"])
def test_forward_and_mask_agree_at_every_size(npu, op):
    for n in (1, 2, 7, 8, 9, 15, 16, 17, 100, 128, 129, 300):
        x = torch.arange(1.0, n + 1)
        call = {"input": x, "p": 0.5, "seed": 3, "offset": 0, "out": torch.empty(n), "maskOut": bits(n)}
        call |= {"train": True} if op == "aclnnDropout" else {"optionalNoiseShape": None}
        got = npu.call(op, **call)
        assert torch.equal(got["out"], torch.where(unpack(got["maskOut"], n), x * 2, 0)), n


def test_a_mask_of_bools_holds_an_element_a_value(npu):
    for n in (1, 15, 16, 17, 300):
        x = torch.arange(1.0, n + 1)
        mask = make(npu, GEN[1], n, torch.empty(n, dtype=torch.bool))
        assert torch.equal(mask, unpack(make(npu, GEN[1], n, bits(n)), n))
        y = npu.call("aclnnDropoutDoMask", self=x, mask=mask, prob=0.5, out=torch.empty(n))["out"]
        assert torch.equal(y, torch.where(mask, x * 2, 0))


def test_each_element_is_dropped_as_often(npu):
    """Of small tensors too: 600 masks of 1 to 17 elements."""
    for n in (1, 2, 8, 15, 16, 17):
        kept = sum(unpack(make(npu, GEN[0], n, bits(n), seed=s, prob=0.5), n).int() for s in range(600))
        assert (abs(kept - 300) < 75).all(), (n, kept)  # 6 standard deviations


def test_a_mask_too_small_is_an_error(npu):
    with pytest.raises(Exception, match="a mask of 2 elements for 17"):
        npu.call("aclnnDropoutDoMask", self=torch.ones(17), mask=torch.zeros(2, dtype=torch.uint8), prob=0.5,
                 out=torch.empty(17))  # fmt: skip

"""Strided nested tensors: csrc/ops/nested.cpp, tools/codegen/nested.py. The CPU is the judge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

TOLERANCE = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def rows(value: Any) -> list[torch.Tensor]:
    """The dense tensors of a result, on the CPU."""
    if isinstance(value, (list, tuple)):
        return [row for one in value for row in rows(one)]
    if value.is_nested:
        return [row.detach().cpu() for row in value.unbind()]
    return [value.detach().cpu()]


def check(function: Callable[[str], Any], tolerance: float = 1e-5) -> None:
    torch.npu.reset_fallback_counts()
    got, wanted = rows(function("npu")), rows(function("cpu"))
    assert torch.npu.fallback_counts() == {}
    assert [row.shape for row in got] == [row.shape for row in wanted]
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def parts(device: str, *shapes: tuple[int, ...], seed: int = 0, grad: bool = False) -> list[torch.Tensor]:
    torch.manual_seed(seed)
    return [torch.randn(shape).to(device).requires_grad_(grad) for shape in shapes]


def nested(device: str, *shapes: tuple[int, ...], seed: int = 0) -> torch.Tensor:
    return torch.nested.as_nested_tensor(parts(device, *shapes or ((2, 4), (3, 4), (1, 4)), seed=seed))


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_the_transformer_encoder_closes_up_padded_sequences(
    dtype: torch.dtype, norm_first: bool, activation: str
) -> None:
    def encode(device: str) -> torch.Tensor:
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(8, 2, 16, activation=activation, batch_first=True, norm_first=norm_first)
        model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=not norm_first).to(device, dtype).eval()
        x = torch.randn(3, 5, 8).to(device, dtype)
        padding = torch.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 0, 1], [0, 1, 1, 1, 1]], dtype=torch.bool, device=device)
        with torch.no_grad():
            return model(x, src_key_padding_mask=padding)

    check(encode, TOLERANCE[dtype])
    if not norm_first:
        assert encode("npu")[2, 1:].abs().max() == 0  # the CPU leaves zeros where there was padding


def test_a_mask_with_gaps_keeps_the_padding() -> None:
    mask = torch.tensor([[True, False, True], [True, True, True]])
    x = torch.randn(2, 3, 4)
    check(lambda d: torch.tensor(torch._nested_tensor_from_mask_left_aligned(x.to(d), mask.to(d))))
    with pytest.raises(RuntimeError, match="left-aligned"):
        torch._nested_tensor_from_mask(x.npu(), mask.npu())


def test_attention_with_weights() -> None:
    def attend(device: str) -> Any:
        torch.manual_seed(0)
        module = nn.MultiheadAttention(4, 2, batch_first=True).to(device).eval()
        x = nested(device)
        with torch.no_grad():
            return module(x, x, x)

    check(attend)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y, d: x + y,
        lambda x, y, d: x - y,
        lambda x, y, d: x * y,
        lambda x, y, d: x * 2.5,
        lambda x, y, d: x / 2,
        lambda x, y, d: (x.relu(), x.tanh(), F.gelu(x), F.silu(x), x.abs(), -x, x.sin()),
        lambda x, y, d: x.softmax(-1),
        lambda x, y, d: x.sum(-1, keepdim=True),
        lambda x, y, d: x.transpose(1, 2),
        lambda x, y, d: x.transpose(1, 2).contiguous(),
        lambda x, y, d: torch.bmm(x, y.transpose(1, 2)),
        lambda x, y, d: torch.matmul(x, y.transpose(1, 2)),
        lambda x, y, d: F.linear(x, torch.ones(5, 4, device=d), torch.ones(5, device=d)),
        lambda x, y, d: F.layer_norm(x, (4,), torch.full((4,), 2.0, device=d), torch.ones(4, device=d)),
        lambda x, y, d: x.to_padded_tensor(7.0),
        lambda x, y, d: x.to_padded_tensor(7.0, (3, 4, 6)),
        lambda x, y, d: torch.nested.as_nested_tensor(list(x.unbind()) + list(y.unbind())),
        lambda x, y, d: x.clone().fill_(3.0),
        lambda x, y, d: x.to(torch.float64),
        lambda x, y, d: x.chunk(2, -1),
        lambda x, y, d: F.embedding(x.ge(0).to(torch.int64)[0], torch.ones(2, 3, device=d)),
        lambda x, y, d: torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)], device=d),
        lambda x, y, d: x.reshape(3, -1, 2, 2),
        lambda x, y, d: F.scaled_dot_product_attention(
            *(z.unsqueeze(1).transpose(1, 2).transpose(1, 2).contiguous() for z in (x, y, y))
        ),
    ],
)
def test_operators(function: Callable[..., Any]) -> None:
    check(lambda d: function(nested(d), nested(d, seed=1), d))


def test_they_are_copied_between_devices() -> None:
    x = nested("cpu")
    there = x.to("npu")
    assert there.is_nested and there.device.type == "npu"
    for a, b in zip(there.cpu().unbind(), x.unbind(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: F.linear(x, w).to_padded_tensor(0.0).pow(2).sum(),
        lambda x, w: F.layer_norm(x, (4,), w[0], w[1]).to_padded_tensor(0.0).pow(2).sum(),
        lambda x, w: x.sum(-1, keepdim=True).to_padded_tensor(0.0).pow(2).sum(),
        lambda x, w: torch.bmm(x, x.transpose(1, 2)).softmax(-1).to_padded_tensor(0.0).pow(2).sum(),
        lambda x, w: (x * x + F.gelu(x)).to_padded_tensor(0.0).sum(),
    ],
)
def test_gradients(function: Callable[..., torch.Tensor]) -> None:
    def gradients(device: str) -> list[torch.Tensor]:
        leaves = parts(device, (2, 4), (3, 4), (4, 4), grad=True)
        function(torch.nested.as_nested_tensor(leaves[:2]), leaves[2]).backward()
        return [leaf.grad for leaf in leaves if leaf.grad is not None]

    check(gradients, 1e-4)


def test_attention_over_jagged_sequences() -> None:
    def attend(device: str) -> Any:
        torch.manual_seed(0)
        values, weight = torch.randn(6, 8).to(device).requires_grad_(), torch.randn(8, 8).to(device)
        x = torch.nested.nested_tensor_from_jagged(values, torch.tensor([0, 2, 6], device=device))
        q, k = (y.unflatten(-1, [2, 4]).transpose(1, 2) for y in (x, F.linear(x, weight)))
        out = F.scaled_dot_product_attention(q, k, k).transpose(1, 2)
        out.values().pow(2).sum().backward()
        return out.values(), values.grad

    got, wanted = attend("npu"), attend("cpu")
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(a.detach().cpu(), b.detach(), rtol=1e-4, atol=1e-5)


def test_jagged_sequences_are_padded_and_closed_up() -> None:
    def pad(device: str) -> list[torch.Tensor]:
        values = torch.arange(12.0).view(6, 2).to(device).requires_grad_()
        x = torch.nested.nested_tensor_from_jagged(values, torch.tensor([0, 2, 6], device=device))
        padded = x.to_padded_tensor(9.0)
        padded.pow(2).sum().backward()
        return [padded, values.grad, *(x.sin() + x).unbind()]

    check(pad)

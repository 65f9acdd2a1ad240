"""PyTorch's higher-order operators on npu: torch_npu/_higher_order.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils.checkpoint import checkpoint

from tests.older import since_2_13


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def inputs(device: str, grad: bool = False) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(1, 2, 16, 8).to(device).requires_grad_(grad) for _ in range(3)]


def causal(b: Any, h: Any, i: Any, j: Any) -> Any:
    return i >= j


def distance(score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
    return score + (i - j)


def options(device: str) -> dict[str, Any]:
    return {"block_mask": create_block_mask(causal, None, None, 16, 16, device=device), "score_mod": distance}


def expected(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    i = torch.arange(16, device=q.device)
    bias = (i[:, None] - i[None, :]).float().masked_fill(i[:, None] < i[None, :], float("-inf"))
    return (q @ k.mT / 8**0.5 + bias).softmax(-1) @ v


@since_2_13("flex_attention on an npu")
@pytest.mark.parametrize("backend", [None, "aot_eager"])
def test_flex_attention_and_its_gradients(backend: str | None) -> None:
    attend: Callable[..., Any] = flex_attention if backend is None else torch.compile(flex_attention, backend=backend)
    results = []
    for function in (lambda *x: attend(*x, **options("npu")), expected):
        leaves = inputs("npu", grad=True)
        out = function(*leaves)
        out.pow(2).sum().backward()
        results.append([out.detach(), *(leaf.grad for leaf in leaves)])
    for got, wanted in zip(*results, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


def test_flex_attention_equals_the_cpus() -> None:
    got, wanted = flex_attention(*inputs("npu"), **options("npu")), flex_attention(*inputs("cpu"), **options("cpu"))
    torch.testing.assert_close(got.cpu(), wanted, rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="only supported on"):
        flex_attention(*inputs("meta"))


@since_2_13("flex_attention on an npu")
def test_flex_attention_under_autocast() -> None:
    with torch.autocast("npu", dtype=torch.bfloat16):
        assert flex_attention(*inputs("npu")).dtype == torch.bfloat16


@since_2_13("a compiled checkpoint that draws on an npu")
@pytest.mark.parametrize("backend", ["aot_eager", "aot_eager_decomp_partition"])
def test_a_compiled_checkpoint_drops_the_same_elements_twice(backend: str) -> None:
    def twice(x: torch.Tensor) -> torch.Tensor:
        once = checkpoint(lambda w: F.dropout(w.sin(), 0.5), x, use_reentrant=False)
        return checkpoint(lambda w: F.dropout(w * 3, 0.25), once, use_reentrant=False)

    compiled = torch.compile(twice, backend=backend, fullgraph=True)
    former = None
    for _ in range(2):
        x = torch.full((40, 50), 0.5, device="npu", requires_grad=True)
        out = compiled(x)
        out.sum().backward()
        kept = out != 0
        assert 0.3 < kept.float().mean().item() < 0.45
        torch.testing.assert_close(x.grad, torch.where(kept, 8 * torch.cos(x.detach()), 0.0))
        assert former is None or not torch.equal(kept, former)
        former = kept

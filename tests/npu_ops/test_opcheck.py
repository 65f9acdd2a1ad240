"""torch.library.opcheck: the schema is true, FakeTensor agrees, and traced results equal eager ones."""

from __future__ import annotations

import pytest
import torch

import torch_npu

CHECKS = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")


def leaf(*sizes: int) -> torch.Tensor:
    return torch.randn(sizes).npu().requires_grad_()


def angles() -> torch.Tensor:
    return leaf(1, 1, 4, 8)


CASES = {
    "npu_swiglu": lambda: (leaf(3, 8),),
    "npu_geglu": lambda: (leaf(3, 8),),
    "npu_gelu": lambda: (leaf(3, 8),),
    "npu_fast_gelu": lambda: (leaf(3, 8),),
    "npu_rms_norm": lambda: (leaf(3, 8), leaf(8)),
    "npu_add_rms_norm": lambda: (leaf(3, 8), leaf(3, 8), leaf(8)),
    "npu_add_layer_norm": lambda: (leaf(3, 8), leaf(3, 8), leaf(8), leaf(8)),
    "npu_deep_norm": lambda: (leaf(3, 8), leaf(3, 8), leaf(8), leaf(8)),
    "npu_group_norm_swish": lambda: (leaf(2, 6, 5), 3, leaf(6), leaf(6)),
    "npu_rotary_mul": lambda: (leaf(2, 3, 4, 8), angles(), angles()),
    "npu_interleave_rope": lambda: (leaf(2, 3, 4, 8), angles(), angles()),
    "npu_fusion_attention": lambda: (leaf(2, 2, 4, 8), leaf(2, 2, 4, 8), leaf(2, 2, 4, 8), 2, "BNSD"),
    "npu_scaled_masked_softmax": lambda: (leaf(2, 3, 4, 4), torch.zeros(2, 1, 4, 4).bool().npu()),
    "npu_cross_entropy_loss": lambda: (leaf(4, 6), torch.tensor([0, 5, 2, 1]).npu()),
    "npu_moe_token_permute": lambda: (leaf(4, 6), torch.tensor([[0, 1], [1, 2], [2, 0], [0, 2]]).npu()),
    "npu_moe_token_unpermute": lambda: (leaf(4, 6), torch.tensor([2, 0, 3, 1]).int().npu(), leaf(2, 2)),
}


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
def test_opcheck(name: str) -> None:
    torch.library.opcheck(getattr(torch.ops.npu, name).default, CASES[name](), test_utils=CHECKS)


def test_an_operator_that_writes_its_operand_says_so() -> None:
    x1, x2, gamma = torch.randn(3, 8).npu(), torch.randn(3, 8).npu(), torch.ones(8).npu()
    version = x1._version
    torch_npu.npu_add_rms_norm_v2(x1, x2, gamma)
    assert x1._version > version
    torch.library.opcheck(torch.ops.npu.npu_add_rms_norm_v2.default, (x1, x2, gamma), test_utils="test_schema")

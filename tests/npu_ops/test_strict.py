"""ANYCEND_STRICT=1 at the NPU's own operators: what CANN's documentation of the chip does not name is refused."""

from __future__ import annotations

import pytest

from tests import strict as judge

# A call -> whether it was refused, as a process with and without the variable says.
CALLS = """
for dtype in (torch.float32, torch.float64, torch.float16):
    word = str(dtype)[6:]
    q = torch.ones(1, 2, 4, 8, device="npu", dtype=dtype)
    rows, experts = q.view(-1, 8), torch.zeros(8, 1, device="npu", dtype=torch.int32)
    t(f"attention {word}", lambda: torch_npu.npu_fusion_attention(q, q, q, 2, "BNSD"))
    t(f"gate {word}", lambda: torch_npu.npu_moe_gating_top_k_softmax(rows, k=2))
    t(f"permute {word}", lambda: torch_npu.npu_moe_token_permute(rows, experts))
    t(f"unpermute {word}", lambda: torch_npu.npu_moe_token_unpermute(rows, experts.view(-1)))
    t(f"loss {word}", lambda: torch_npu.npu_cross_entropy_loss(rows, torch.zeros(8, device="npu", dtype=torch.long)))
    t(f"groups {word}", lambda: torch_npu.npu_grouped_matmul([rows], [rows.t().contiguous()], group_type=-1))
"""
OPERATORS = ("attention", "gate", "permute", "unpermute", "loss", "groups")


def refused(strict: str) -> dict[str, str]:
    return {name: error for name, error in judge.results(CALLS, "Ascend910B1", strict).items() if error}


@pytest.mark.parametrize(("strict", "expected"), [("1", {f"{name} float64" for name in OPERATORS}), ("0", set())])
def test_types_that_the_chips_list_lacks(strict: str, expected: set[str]) -> None:
    found = refused(strict)
    assert set(found) == expected, found
    assert all("float64, which Ascend910B1 does not take (ANYCEND_STRICT)" in error for error in found.values())
    # As the caller wrote it: CANN's expertRows is the argument.
    if strict == "1":
        assert found["permute float64"].startswith("npu_moe_token_permute: argument tokens: ")
        assert "; it takes float32, float16 or bfloat16. Convert it, or unset ANYCEND_STRICT" in found["gate float64"]

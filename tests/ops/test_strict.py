"""ANYCEND_STRICT=1 at PyTorch's operators: a composition in float32 makes no float64 tensor on the way, and what the
guide says of pooling (docs/guide/analysis.md).
"""

from __future__ import annotations

import pytest

from tests import strict as judge

# A call → what refused it, or nothing.
CALLS = """
def r(*sizes):
    return torch.rand(sizes, device="npu", requires_grad=True)
for p in (1, 2):
    for weight in (None, torch.rand(5, device="npu")):
        for how in ("none", "mean"):
            words = {"p": p, "weight": weight, "reduction": how}
            target = torch.tensor([1, 0, 4], device="npu")
            name = f"margin {p} {weight is None} {how}"
            t(name, lambda: F.multi_margin_loss(r(3, 5), target, **words).sum().backward())
t("max_pool2d", lambda: F.max_pool2d(r(1, 2, 4, 4), 2))
t("max_pool2d backward", lambda: F.max_pool2d(r(1, 2, 4, 4), 2).sum().backward())
t("max_pool3d", lambda: F.max_pool3d(r(1, 2, 4, 4, 4), 2))
t("max_pool3d backward", lambda: F.max_pool3d(r(1, 2, 4, 4, 4), 2).sum().backward())
t("adaptive_max_pool3d", lambda: F.adaptive_max_pool3d(r(1, 2, 4, 4, 4), 2))
"""
POOLS = {"max_pool2d backward", "max_pool3d", "max_pool3d backward", "adaptive_max_pool3d"}


@pytest.mark.parametrize(("chip", "expected"), [("Ascend910B1", POOLS), ("Ascend950", set())])
def test_what_the_chips_list_lacks(chip: str, expected: set[str]) -> None:
    # aclnnGather, which finds the target's score, is not for Ascend950 by its page.
    asked = {n: e for n, e in judge.results(CALLS, chip).items() if chip != "Ascend950" or not n.startswith("margin")}
    refused = {name: error for name, error in asked.items() if error}
    assert set(refused) == expected, refused
    assert all(f"int64, which {chip} does not take (ANYCEND_STRICT)" in error for error in refused.values()), refused

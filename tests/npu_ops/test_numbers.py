"""Numbers that float32 does not hold, and counts that no memory has room for, are refused at the call, by name; before,
the stream failed and a later operator told of it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import torch_npu
from tests.npu_ops import samples
from tests.npu_ops.test_samples import prepared

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools" / "codegen"))
import npu  # noqa: E402

ROWS = {row.schema.full: row for row in npu.rows()}
HUGE = 1e300


def floats(name: str) -> list[str]:
    row = ROWS[name]
    given = samples.load_once()[name][0] if name in samples.load_once() else {}
    numbers = [a for a in row.schema.arguments if a.type.rstrip("?") in ("float", "Scalar")]
    # A sample that gives none, as of an argument that goes with another alone, is met by its default.
    return [] if row.composite or not given else [a.name for a in numbers]


def test_a_number_beyond_float32_is_refused_at_the_call_and_on_meta() -> None:
    """Each number of each operator that computes on the stream, in turn."""
    taken, met = [], 0
    for name in samples.load_once():
        for number in floats(name):
            overload, given = prepared(f"{name} 0")
            if any(
                isinstance(t, torch.Tensor) and t.dtype == torch.float64 for t in torch.utils._pytree.tree_leaves(given)
            ):
                continue
            for device in ("npu", "meta"):
                placed: Any = samples.each({**given, number: HUGE}, lambda t, device=device: t.to(device))
                try:
                    overload(**placed)
                except (ValueError, RuntimeError, NotImplementedError) as error:
                    # The z-loss is refused as a whole.
                    if not any(word in str(error) for word in (number, "1e+300", "z-loss")):
                        taken.append(f"{name} {number} on {device}: {error}")
                else:
                    taken.append(f"{name} {number} on {device}")
                met += 1
    torch.npu.synchronize()
    assert taken == [] and met > 200


def test_float64_operands_take_any_number() -> None:
    q = torch.randn(1, 1, 2, 4, dtype=torch.float64).npu()
    out = torch_npu.npu_fusion_attention(q, q, q, 1, "BNSD", scale=HUGE)[0]
    torch.npu.synchronize()
    assert out.dtype == torch.float64
    assert torch_npu.npu_rms_norm(torch.randn(2, 3).npu(), torch.ones(3).npu(), torch.inf)[0].cpu().eq(0).all()


def aligned(**changed: Any) -> Any:
    _, given = prepared("npu_roi_align 0")
    return torch.ops.npu.npu_roi_align(**{**given, **changed})


@pytest.mark.parametrize("number", [torch.nan, torch.inf])
def test_a_scale_of_regions_is_finite(number: float) -> None:
    with pytest.raises(ValueError, match=f"spatial_scale is {number}; it has to be finite"):
        aligned(spatial_scale=number)


@pytest.mark.parametrize("count", [2**31 - 1, 2**62])
def test_samples_of_a_region_have_room(count: int) -> None:
    with pytest.raises(ValueError, match=f"sample_num {count} makes .* samples of each region"):
        aligned(sample_num=count)


def test_a_block_longer_than_the_row_is_the_row() -> None:
    """It was padded to its end, in memory."""
    x, ends = torch.randn(4, 96).npu(), torch.tensor([1, 4], dtype=torch.int32).npu()
    op = torch_npu.npu_grouped_dynamic_block_quant
    for one, other in zip(op(x, ends, col_block_size=2**31 - 1), op(x, ends, col_block_size=128), strict=True):
        assert torch.equal(one.cpu().view(torch.uint8), other.cpu().view(torch.uint8))


def test_selected_blocks_have_tokens() -> None:
    overload, given = prepared("npu_nsa_compress_attention 0")
    with pytest.raises(
        ValueError, match=r"actual_sel_seq_kvlen gives a sequence 2147483649 blocks, its 4 compressed keys"
    ):
        overload(**{**given, "actual_sel_seq_kvlen": [4, 2**31 + 5]})

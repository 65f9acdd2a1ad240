"""tools/codegen/npu_sizes.py: rules of sizes as the text that the check reads."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "codegen"))
import npu_sizes  # noqa: E402
from npu_row import Row  # noqa: E402
from npu_schema import parse  # noqa: E402

SCHEMA = parse("npu_x(Tensor x, Tensor? mask, int k) -> Tensor")


def checked(sizes: dict[str, str]) -> str:
    return npu_sizes.check(Row(1, SCHEMA, {"sizes": sizes}, {}))


def test_a_call_has_rules_names_and_operands() -> None:
    assert checked({}) == ""
    text = checked({"K": "k + 1", "x": "... T*K H", "mask": "B/1 T | # 3 * T | ()"})
    assert text == r'check_sizes("npu_x", "K!. T*K H;B/1 T|#3*T|\nx,mask", {x, mask}, {k + 1})'


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"k": "T"}, "names k, which is no tensor"),
        ({"other": "T"}, "names other, which is no tensor"),
        ({"x": "t H"}, "cannot read 't H'"),
        ({"x": "T ..."}, "cannot read 'T .'"),
        ({"x": "T*T"}, "a letter stands twice"),
    ],
)
def test_a_rule_that_cannot_be_read(sizes: dict[str, str], message: str) -> None:
    with pytest.raises(SystemExit, match=message):
        checked(sizes)

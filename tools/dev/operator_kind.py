"""The words for how an operator is computed: those of docs/operators/aten.md and npu.md, docs/status.md and
tools/codegen/npu.py --status.
"""

from __future__ import annotations

NATIVE, COMPOSED, THERE, THEIRS, WRITTEN = KINDS = ("native", "composed", "composed, npu", "PyTorch's", "by hand")
MEANS = {
    NATIVE: "its kernel, generated or written, calls a function of CANN, of several the one that fits",
    COMPOSED: "of the device's operators, by a row or by C++ of `torch_npu/csrc/ops`",
    THEIRS: "by PyTorch's own C++, which composes or makes a view (`at::native`) or computes on the host (`at::cpu`)",
    WRITTEN: "C++ that calls none of these, such as what makes memory",
}


def kind(called: list[str], composed: bool = False) -> str:
    """`called`: what the kernel calls, as the pages name it; `composed`: by an expression of a table."""
    if any(name.startswith("aclnn") for name in called):
        return NATIVE
    if any(name.startswith("at::") for name in called):
        return THEIRS
    return COMPOSED if called or composed else WRITTEN


def told(*kinds: str, **otherwise: str) -> str:
    """What the words mean; `otherwise`: in other words than MEANS, by the word."""
    return "; ".join(f"*{kind}*: {otherwise.get(kind) or MEANS[kind]}" for kind in kinds)

"""What the tool writes exists: every counterpart of its tables, in the torch_npu that is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[2] / "migrate" / "data"
torch_npu = pytest.importorskip("torch_npu", reason="the plugin is not built", exc_type=ImportError)

# Of the vendor's torch_npu, which the tool writes for, and not in this release yet: exactly these.
MISSING = {
    "BFloat16Storage", "BoolStorage", "ByteStorage", "CharStorage", "DoubleStorage", "FloatStorage", "HalfStorage",
    "IntStorage", "LongStorage", "ShortStorage", "_sanitizer.enable_npu_sanitizer",
}  # fmt: skip


def rows(name: str) -> list[list[str]]:
    return [line.split("\t") for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


def has(owner: object, path: str) -> bool:
    for part in path.split("."):
        if not hasattr(owner, part):
            return False
        owner = getattr(owner, part)
    return True


def test_counterparts_of_torch_cuda() -> None:
    wanted = {name if target == "=" else target for name, target in rows("cuda_names.tsv") if target not in ("-", ".")}
    assert {name for name in wanted if not has(torch_npu.npu, name)} == MISSING


def test_names_that_stay_torch_cudas() -> None:
    import torch

    stay = [name for name, target in rows("cuda_names.tsv") if target == "."]
    assert "OutOfMemoryError" in stay
    assert [name for name in stay if getattr(torch.cuda, name) is not getattr(torch, name)] == []


def test_calls_spelled_as_the_documents_do() -> None:
    names = [row[0].removeprefix("torch.cuda.") for row in rows("call_names.tsv")]
    assert len(names) > 30
    assert [name for name in names if not has(torch_npu.npu, name)] == []


@pytest.mark.skipif(not hasattr(torch_npu, "profiler"), reason="torch_npu.profiler is not in this release yet")
def test_names_that_moved() -> None:
    assert [new for _, new in rows("moved_names.tsv") if not has(torch_npu, new.removeprefix("torch_npu."))] == []

"""The sample calls of the NPU's own operators (tests/npu_ops/samples.py) through whichever torch_npu is imported.

    python -m tests.conformance.kernels FOLDER NAME …      names of samples: `npu_swiglu 0`

What a call returns, and its operands that it changed, is written to FOLDER/<name>.<number>.pt as {"results", "changed",
"error"}; a process that dies leaves none for the call it died in, and one whose device a kernel has failed on ends
there, since what follows would not be computed. test_kernels.py compares the two plugins' outcomes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

from tests.conformance.ending import settle
from tests.npu_ops import samples

FAILED = "507015"  # a kernel has: other streams may not have seen it yet


def place(folder: Path, sample: str) -> Path:
    return folder / f"{sample.replace(' ', '.')}.pt"


def host(value: Any) -> Any:
    """Tensors on the CPU, as dense as their sizes say."""
    return samples.each(value, lambda t: t.detach().cpu().contiguous())


def call(sample: str) -> dict[str, Any]:
    import torch_npu  # noqa: F401

    name, _, index = sample.partition(" ")
    overload = samples.operator(name)
    given = samples.operands(name, int(index), overload._schema)
    on = samples.each(given, lambda t: t.npu())
    torch.npu.manual_seed(7)
    results = host(overload(**on))
    after = host(on)
    changed = {
        key: after[key]
        for key in given
        if isinstance(given[key], torch.Tensor) and not same(after[key], given[key].contiguous())
    }
    return {"results": results if isinstance(results, (tuple, list)) else (results,), "changed": changed, "error": ""}


def same(a: Any, b: Any) -> bool:
    """Bit by bit. A result that is not asked for is an undefined tensor or one without elements."""
    a, b = (None if isinstance(t, torch.Tensor) and t.shape == (0,) else t for t in (a, b))
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            return False
        raw = lambda t: t.flatten().clone(memory_format=torch.contiguous_format).view(torch.uint8)
        return a.numel() == 0 or torch.equal(raw(a), raw(b))
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return type(a) is type(b) and a == b


def outcome(sample: str) -> dict[str, Any]:
    try:
        return call(sample)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the outcome
        return {"results": (), "changed": {}, "error": f"{type(error).__name__}: {error}"}


def alive() -> bool:
    """The device still computes."""
    try:
        return (torch.ones(2).npu() + 1).tolist() == [2.0, 2.0]
    except RuntimeError:
        return False


def main() -> None:
    folder = Path(sys.argv[1])
    for sample in sys.argv[2:]:
        found = outcome(sample)
        torch.save(found, place(folder, sample))
        if FAILED in found["error"] or found["error"] and not alive():
            return
    settle()


if __name__ == "__main__":
    main()

"""PyTorch's operator samples with sparse tensors on the npu; the CPU is the judge.

    python -m tests.ops.sparse_samples [--ops REGEX] [--layouts sparse_coo,sparse_csr,...] [--all-dtypes]

A sample counts only where the CPU computes it. Used by test_sparse.py.
"""

from __future__ import annotations

import argparse
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map

LAYOUTS = [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc]
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.bool]
DTYPES += [torch.complex64, torch.uint8]
UNDEFINED = {"rand_like", "randn_like", "randint_like", "empty_like"}  # values that no two devices share
TOLERANCE = {torch.float16: 1e-2, torch.bfloat16: 6e-2, torch.float64: 1e-7}


def moved(value: Any, device: str) -> Any:
    def move(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return torch.device(device) if isinstance(leaf, torch.device) else leaf
        return leaf.detach().to(device, copy=True).requires_grad_(leaf.requires_grad)

    return tree_map(move, value)


def dense(value: torch.Tensor) -> torch.Tensor:
    value = value.detach().cpu()
    return value if value.layout == torch.strided else value.to_dense()


def call(op: Any, sample: Any, device: str, gradient: bool) -> list[torch.Tensor]:
    """The results and, if asked, the gradients of a sample's tensors."""
    arguments = moved((sample.input, sample.args, sample.kwargs), device)
    result = op.op(arguments[0], *arguments[1], **arguments[2])
    results = [one for one in tree_flatten(result)[0] if isinstance(one, torch.Tensor)]
    if gradient:
        leaves = [one for one in tree_flatten(arguments)[0] if isinstance(one, torch.Tensor) and one.requires_grad]
        if leaves and results and results[0].requires_grad:
            first = results[0]
            grad = torch.ones_like(first) if first.layout != torch.strided else torch.ones_like(first) * 0.5
            results += [g for g in torch.autograd.grad(first, leaves, grad, allow_unused=True) if g is not None]
    return results


def differ(got: list[torch.Tensor], wanted: list[torch.Tensor], tolerance: float) -> str | None:
    if len(got) != len(wanted):
        return f"{len(got)} results instead of {len(wanted)}"
    for a, b in zip(got, wanted, strict=True):
        about = [(x.dtype, x.layout, x.shape) for x in (a, b)]
        if about[0] != about[1]:
            return f"{about[0]} instead of {about[1]}"
        try:
            expected = dense(b)
        except RuntimeError:  # a gradient of the CPU's that has not the shape it says (masked.amax of CSR)
            continue
        try:
            torch.testing.assert_close(dense(a), expected, rtol=tolerance, atol=tolerance, equal_nan=True)
        except (AssertionError, RuntimeError) as error:  # not equal, or not a tensor that can be made dense
            return str(error).replace("\n", " ")[:200]
    return None


def judge(
    op: Any, layout: torch.layout, dtype: torch.dtype, gradient: bool, most: int = 40
) -> Iterator[tuple[str, str]]:
    """(verdict, words) of each sample: right, wrong, refused (the npu raises where the CPU computes)."""
    try:
        samples = list(op.sample_inputs_sparse(layout, "cpu", dtype, requires_grad=gradient))[:most]
    except Exception:  # PyTorch has no samples of this kind
        return
    for sample in samples:
        try:
            wanted = call(op, sample, "cpu", gradient)
        except Exception:  # the CPU does not compute it
            continue
        try:
            got = call(op, sample, "npu", gradient)
        except Exception as error:
            yield "refused", f"{type(error).__name__}: {error}".split("\n")[0][:200]
            continue
        words = differ(got, wanted, TOLERANCE.get(dtype, 1e-4))
        yield ("wrong", words) if words else ("right", "")


def operators(layout: torch.layout) -> list[Any]:
    key = {torch.sparse_coo: "supports_sparse"}.get(layout, "supports_" + str(layout).removeprefix("torch."))
    return [op for op in op_db if getattr(op, key, False) and op.name not in UNDEFINED]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ops", default="")
    parser.add_argument("--layouts", default="sparse_coo,sparse_csr,sparse_csc,sparse_bsr,sparse_bsc")
    parser.add_argument("--all-dtypes", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    total: Counter[str] = Counter()
    for layout in [getattr(torch, name) for name in options.layouts.split(",")]:
        for op in operators(layout):
            if not re.search(options.ops, op.name):
                continue
            for dtype in DTYPES if options.all_dtypes else DTYPES[:1]:
                for gradient in (False, True):
                    if gradient and not (dtype.is_floating_point and op.supports_autograd):
                        continue
                    found = Counter(judge(op, layout, dtype, gradient))
                    for (verdict, words), n in found.items():
                        total[verdict] += n
                        if verdict != "right":
                            print(op.name, layout, dtype, "gradient" if gradient else "", verdict, n, words, flush=True)
    print(dict(total))
    print(torch.npu.fallback_counts())


if __name__ == "__main__":
    main()

"""Judge one OpInfo with one dtype: forward, gradients for float32, and if asked the in-place and out= forms."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import islice

import numpy as np
import torch
from torch.utils import _pytree as pytree

from tests.upstream import transfer
from tests.upstream.compare import WIDE_STATISTICS, Mismatch, compare, cotangents
from tests.upstream.verdict import NoReference, Verdict, is_random, on_cpu

FORMS = ("forward", "gradient", "inplace", "out")
# Results nobody defines: memory as it was found.
UNINITIALIZED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "resize_"}

# Tensor arguments that say how, not what: they stay on the host, as for any device.
HOST_ARGUMENTS = {"tensor_split"}

Arguments = tuple  # (input, args, kwargs)


def seed_all() -> None:
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)


def forms(op: object, sample: object, cpu_result: Callable[[], object]) -> dict[str, Callable[[Arguments], object]]:
    """Name → a function of the arguments that gives what is compared."""

    def forward(arguments: Arguments) -> object:
        value, args, kwargs = arguments
        return op(value, *args, **kwargs)

    def inplace(arguments: Arguments) -> object:
        value, args, kwargs = arguments
        return op.inplace_variant(value, *args, **kwargs), value

    def out(arguments: Arguments) -> object:
        value, args, kwargs = arguments
        device = next(x.device for x in pytree.tree_leaves(arguments) if isinstance(x, torch.Tensor))
        buffers = pytree.tree_map(lambda x: torch.empty_like(x, device=device, requires_grad=False), cpu_result())
        result = op(value, *args, **kwargs, out=buffers)
        same = all(a is b for a, b in zip(pytree.tree_leaves(result), pytree.tree_leaves(buffers), strict=True))
        if not same:
            raise Mismatch("out= returned another tensor than it was given")
        return result

    found = {"forward": forward}
    if op.inplace_variant is not None and not sample.broadcasts_input:
        found["inplace"] = inplace
    if op.supports_out:
        found["out"] = out
    return found


def gradient(op: object, sample: object, arguments: Arguments) -> list[torch.Tensor | None]:
    """Gradients of every argument that wants one, for a fixed random cotangent."""
    value, args, kwargs = arguments
    result = sample.output_process_fn_grad(op(value, *args, **kwargs))
    outputs = [x for x in pytree.tree_leaves(result) if isinstance(x, torch.Tensor) and x.requires_grad]
    inputs = [x for x in pytree.tree_leaves(arguments) if isinstance(x, torch.Tensor) and x.requires_grad]
    if not outputs or not inputs:
        raise NoReference("nothing to differentiate")
    unique = list({id(x): x for x in inputs}.values())
    return list(torch.autograd.grad(outputs, unique, cotangents(outputs), allow_unused=True))


def judge_form(op: object, name: str, run: Callable[[Arguments], object], arguments: Arguments, device: str) -> None:
    """Returns if right; raises Mismatch, NoReference or what the device raised."""
    mover = transfer.to_device(device)
    if op.name in HOST_ARGUMENTS:
        moved = (mover(arguments[0]), *arguments[1:])
    else:
        moved = mover(arguments)

    def seeded(mover: transfer.Mover) -> object:
        torch.manual_seed(0)
        return run(mover(arguments))

    expected = on_cpu(lambda: seeded(transfer.unchanged()))
    torch.manual_seed(0)
    actual = run(moved)
    kind = torch.device(device).type

    def check(left: object, right: object, where: str | None, values: bool = True) -> None:
        exact = lambda: on_cpu(lambda: seeded(transfer.to_double()))  # noqa: E731
        if op.name in WIDE_STATISTICS and name == "forward":
            wide = (x.to(y.dtype) if x.dtype == torch.float32 else x for x, y in zip(left[1:], right[1:], strict=True))
            left = (left[0], *wide)
        compare(left, right, device=where, exact=exact, decorators=op.decorators, values=values)

    def equal(left: object, right: object) -> bool:
        try:
            compare(left, right)
        except Mismatch:
            return False
        return True

    try:
        try:
            check(actual, expected, kind if mover.touched else None, op.name not in UNINITIALIZED)
        except NoReference as missing:  # no double-precision result to weigh the difference with
            raise Mismatch(f"differs from the CPU's ({missing})") from None
    except Mismatch:
        if not is_random(lambda: run(transfer.unchanged()(arguments)), equal):
            raise
        check(actual, expected, kind if mover.touched else None, values=False)


def judge(op: object, dtype: torch.dtype, device: str, count: int, wanted: tuple[str, ...]) -> Verdict:
    verdict = Verdict()
    differentiable = dtype == torch.float32 and op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    seed_all()
    try:
        samples = list(islice(op.sample_inputs("cpu", dtype, requires_grad=differentiable), count))
    except Exception as error:  # the database cannot make this sample on this machine: nothing to judge
        verdict.add("skipped", f"no sample: {type(error).__name__}: {error}")
        return verdict
    for index, sample in enumerate(samples):
        arguments = (sample.input, sample.args, sample.kwargs)
        plain = pytree.tree_map(lambda x: x.detach() if isinstance(x, torch.Tensor) else x, arguments)
        found = forms(op, sample, lambda plain=plain: op(plain[0], *plain[1], **plain[2]))
        for name, run in found.items():
            if name in wanted:
                chosen = arguments if name == "forward" else plain
                verdict.judge(f"sample {index} {name}", lambda n=name, r=run, c=chosen: judge_form(op, n, r, c, device))
        if "gradient" in wanted and differentiable:
            run = lambda moved, sample=sample: gradient(op, sample, moved)  # noqa: E731
            verdict.judge(
                f"sample {index} gradient", lambda r=run, a=arguments: judge_form(op, "gradient", r, a, device)
            )
    return verdict

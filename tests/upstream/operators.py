"""Judge one OpInfo with one dtype, form by form: FORMS says what they are."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import islice

import numpy as np
import torch
from torch.utils import _pytree as pytree

from tests.upstream import errors, strides, transfer, views
from tests.upstream.compare import WIDE_STATISTICS, Mismatch, compare, cotangents
from tests.upstream.verdict import NoReference, Verdict, is_random, on_cpu

# views: forward again with its arguments laid out in other ways; strides: of the results, against PyTorch's meta
# functions; errors: the database's wrong arguments.
FORMS = ("forward", "gradient", "inplace", "out", "views", "strides", "errors")
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

    def out(arguments: Arguments, view: Callable = lambda x: x) -> object:
        value, args, kwargs = arguments
        device = next(x.device for x in pytree.tree_leaves(arguments) if isinstance(x, torch.Tensor))

        def buffer(model: torch.Tensor) -> torch.Tensor:
            return transfer.on_device(view(torch.empty_like(model, device="cpu", requires_grad=False)), device)

        buffers = pytree.tree_map(buffer, cpu_result())
        result = op(value, *args, **kwargs, out=buffers)
        same = all(a is b for a, b in zip(pytree.tree_leaves(result), pytree.tree_leaves(buffers), strict=True))
        if not same:
            raise Mismatch("out= returned another tensor than it was given")
        return result

    def out_as(view: Callable) -> Callable:
        return lambda arguments: out(arguments, lambda x: x if (shown := view(x)) is None else shown)

    found = {"forward": forward}
    if op.inplace_variant is not None and not sample.broadcasts_input:
        found["inplace"] = inplace
    if op.supports_out:
        found["out"] = out
        found |= {f"out {view.__name__}": out_as(view) for view in (views.conjugated, views.permuted, views.offset)}
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


def moved_arguments(op: object, mover: transfer.Mover, arguments: Arguments) -> Arguments:
    if op.name in HOST_ARGUMENTS:
        return (mover(arguments[0]), *arguments[1:])
    return mover(arguments)


def judge_strides(op: object, run: Callable, arguments: Arguments, device: str) -> None:
    """The sample as it is, and laid out in other ways."""
    given = [("", arguments), *((name, shown) for name, shown in views.of(arguments) if name in views.LAYOUTS)]
    missing: NoReference | None = None
    judged = 0
    for name, each in given:
        try:
            strides.judge(run, moved_arguments(op, transfer.to_device(device), each), transfer.unchanged()(each))
        except NoReference as reason:
            missing = reason
            continue
        except Mismatch as mismatch:
            raise Mismatch(f"{name} {mismatch}") from None
        judged += 1
    if missing and not judged:
        raise missing


def judge_form(op: object, name: str, run: Callable[[Arguments], object], arguments: Arguments, device: str) -> None:
    """Returns if right; raises Mismatch, NoReference or what the device raised."""
    mover = transfer.to_device(device)
    moved = moved_arguments(op, mover, arguments)

    def seeded(mover: transfer.Mover) -> object:
        torch.manual_seed(0)
        return run(mover(arguments))

    expected = on_cpu(lambda: seeded(transfer.unchanged()))
    torch.manual_seed(0)
    actual = run(moved)
    kind = torch.device(device).type

    def check(left: object, right: object, where: str | None, values: bool = True) -> None:
        exact = lambda: on_cpu(lambda: seeded(transfer.to_double()))  # noqa: E731
        if op.name in WIDE_STATISTICS and name in ("forward", "views"):
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


def judge_errors(op: object, device: str, verdict: Verdict) -> None:
    seed_all()
    try:
        wrong = list(op.error_inputs("cpu")) if op.error_inputs_func else []
    except Exception as error:  # the database cannot make them on this machine
        verdict.add("skipped", f"no wrong arguments: {type(error).__name__}: {error}")
        return
    for index, error_input in enumerate(wrong):
        verdict.judge(f"wrong arguments {index}", lambda e=error_input: errors.judge(op, e, device))


def judge_views(op: object, what: str, run: Callable, plain: Arguments, device: str, verdict: Verdict) -> None:
    for name, shown in views.of(plain):
        verdict.judge(f"{what} {name}", lambda s=shown: judge_form(op, "views", run, s, device))


def judge(op: object, dtype: torch.dtype, device: str, count: int, wanted: tuple[str, ...]) -> Verdict:
    verdict = Verdict()
    differentiable = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
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
        what = f"sample {index}"
        for name, run in found.items():
            if name.split()[0] in wanted:
                chosen = arguments if name == "forward" else plain
                verdict.judge(f"{what} {name}", lambda n=name, r=run, c=chosen: judge_form(op, n, r, c, device))
        if "gradient" in wanted and differentiable:
            run = lambda moved, sample=sample: gradient(op, sample, moved)  # noqa: E731
            verdict.judge(f"{what} gradient", lambda r=run, a=arguments: judge_form(op, "gradient", r, a, device))
        if "views" in wanted:
            judge_views(op, what, found["forward"], plain, device, verdict)
        if "strides" in wanted:
            run = found["forward"]
            verdict.judge(f"{what} strides", lambda r=run, p=plain: judge_strides(op, r, p, device))
    if "errors" in wanted and dtype == torch.float32:
        judge_errors(op, device, verdict)
    return verdict

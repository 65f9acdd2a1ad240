"""Judge one OpInfo with one dtype, form by form: FORMS says what they are."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from itertools import islice

import numpy as np
import torch
from torch.utils import _pytree as pytree

from tests.upstream import compiled, errors, forms, strides, transfer, views
from tests.upstream.compare import WIDE_STATISTICS, Mismatch, compare, equal
from tests.upstream.forms import Arguments, Form
from tests.upstream.verdict import NoReference, Verdict, draws, is_random, on_cpu

# views: forward and gradient again with what they read laid out in other ways; strides: of the results, against
# PyTorch's meta functions; errors: the database's wrong arguments; aot_eager, inductor: forward and gradient of the
# operator as torch.compile makes it, also in channels_last, and with views in each layout.
FORMS = ("forward", "gradient", "inplace", "out", "views", "strides", "errors", *compiled.BACKENDS)
# Results nobody defines: memory as it was found.
UNINITIALIZED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "resize_"}

# Results that depend on how an argument lies in its storage.
STORAGE_OPERATORS = {"as_strided", "as_strided_copy", "as_strided_scatter", "resize_", "resize_as_"}

# What PyTorch's kernels refuse a sample with.
REFUSALS = (RuntimeError, ValueError, TypeError, IndexError)

# Tensor arguments that say how, not what: they stay on the host, as for any device.
HOST_ARGUMENTS = {"tensor_split"}


def seed_all() -> None:
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)


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


def refused(form: Form, moved: Arguments, expected: Exception) -> None:
    try:
        form.run(moved)
    except Exception as actual:
        if not errors.is_foreign(actual, expected):
            if isinstance(actual, type(expected)):
                return
        elif isinstance(actual, NotImplementedError):
            raise  # without a kernel there is nothing to refuse: unsupported, as in every other form
        raise Mismatch(f"{type(actual).__name__} ({str(actual)[:120]}) instead of {brief(expected)}") from None
    raise Mismatch(f"no error instead of {brief(expected)}")


def brief(error: Exception) -> str:
    return f"{type(error).__name__} ({str(error).strip().splitlines()[0][:120]})"


def judge_form(
    op: object, name: str, form: Form, device: str, random_elsewhere: Callable[[], bool] = lambda: False
) -> None:
    """Returns if right; raises Mismatch, NoReference or what the device raised. `random_elsewhere`: results of this
    operator change with the seed, if not this one's.
    """
    run, arguments, reference = form.run, form.arguments, form.reference
    mover = transfer.to_device(device)
    moved = moved_arguments(op, mover, arguments)

    def seeded(run: Callable[[Arguments], object], mover: transfer.Mover, given: Arguments) -> object:
        torch.manual_seed(0)
        return run(mover(given))

    if not form.unsafe:
        try:
            expected = on_cpu(lambda: seeded(run, transfer.unchanged(), arguments))
        except NoReference as refusal:
            if not form.refusal:
                raise
            refused(form, moved, refusal.__cause__)
            return
    plainly, given = reference or (run, arguments)
    if reference:
        expected = on_cpu(lambda: seeded(plainly, transfer.unchanged(), given))
    torch.manual_seed(0)
    actual = run(moved)
    kind = torch.device(device).type

    def check(left: object, right: object, where: str | None, values: bool = True) -> None:
        exact = lambda: on_cpu(lambda: seeded(plainly, transfer.to_double(), given))  # noqa: E731
        if op.name in WIDE_STATISTICS and ("forward" in name or name.startswith("views")):
            wide = (x.to(y.dtype) if x.dtype == torch.float32 else x for x, y in zip(left[1:], right[1:], strict=True))
            left = (left[0], *wide)
        compare(left, right, device=where, exact=exact, decorators=op.decorators, values=values)

    try:
        try:
            check(actual, expected, kind if mover.touched else None, op.name not in UNINITIALIZED)
        except NoReference as missing:  # no double-precision result to weigh the difference with
            raise Mismatch(f"differs from the CPU's ({missing})") from None
    except Mismatch:
        again = lambda: plainly(transfer.unchanged()(given))  # noqa: E731
        if not is_random(again, equal) and not (draws(again) and random_elsewhere()):
            raise
        check(actual, expected, kind if mover.touched else None, values=False)


def some_sample_is_random(op: object, dtype: torch.dtype) -> bool:
    """Among the first of the database, however few are judged."""
    for sample in islice(op.sample_inputs("cpu", dtype), 50):
        arguments = (sample.input, sample.args, sample.kwargs)
        try:
            run = lambda a=arguments: on_cpu(lambda: forms.forward(op)(transfer.unchanged()(a)))  # noqa: E731
            if is_random(run, equal):
                return True
        except NoReference as refusal:  # a sample that the CPU refuses says nothing; any other error is the judge's
            if not isinstance(refusal.__cause__, REFUSALS):
                raise
    return False


def judge_errors(op: object, device: str, verdict: Verdict) -> None:
    seed_all()
    try:
        wrong = list(op.error_inputs("cpu")) if op.error_inputs_func else []
    except Exception as error:  # the database cannot make them on this machine
        verdict.add("skipped", f"no wrong arguments: {type(error).__name__}: {error}")
        return
    for index, error_input in enumerate(wrong):
        verdict.judge(f"wrong arguments {index}", lambda e=error_input: errors.judge(op, e, device))


def judge(op: object, dtype: torch.dtype, device: str, count: int, wanted: tuple[str, ...]) -> Verdict:
    verdict = Verdict()
    differentiable = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    seed_all()
    try:
        samples = list(islice(op.sample_inputs("cpu", dtype, requires_grad=differentiable), count))
    except Exception as error:  # the database cannot make this sample on this machine: nothing to judge
        verdict.add("skipped", f"no sample: {type(error).__name__}: {error}")
        return verdict
    random_elsewhere = cache(lambda: some_sample_is_random(op, dtype))
    for index, sample in enumerate(samples):
        arguments = (sample.input, sample.args, sample.kwargs)
        plain = pytree.tree_map(lambda x: x.detach() if isinstance(x, torch.Tensor) else x, arguments)
        what = f"sample {index}"
        by_storage = op.name in STORAGE_OPERATORS
        found = forms.basic(op, sample, arguments, plain, by_storage)
        if "views" in wanted:
            differentiated = arguments if differentiable else plain
            laid_out = forms.shown(op, sample, differentiated, plain, by_storage)
            found |= {f"views {name}": form for name, form in laid_out.items()}
        if differentiable:
            found["gradient"] = Form(forms.gradient(op, sample), arguments)
        for backend in set(compiled.BACKENDS) & set(wanted):
            given, every = arguments if differentiable else plain, "views" in wanted
            found |= compiled.of(op, sample, given, backend, differentiable, by_storage, every)
        for name, form in found.items():
            if name.split()[0] in wanted:
                verdict.judge(f"{what} {name}", lambda n=name, f=form: judge_form(op, n, f, device, random_elsewhere))
        if "strides" in wanted:
            run = found["forward"].run
            verdict.judge(f"{what} strides", lambda r=run, p=plain: judge_strides(op, r, p, device))
    if "errors" in wanted and dtype == torch.float32:
        judge_errors(op, device, verdict)
    return verdict

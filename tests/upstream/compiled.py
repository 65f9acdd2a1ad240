"""An operator as torch.compile makes it, with one back end: forms whose results are compared with the CPU's eager ones,
with the sample as it is and in channels_last, or in each layout that keeps its values.

What this is not: the judgement (operators.py)."""

from __future__ import annotations

from collections.abc import Callable

import torch

from tests.upstream import forms, transfer, views
from tests.upstream.forms import Arguments, Form
from tests.upstream.verdict import NoReference, on_cpu

BACKENDS = ("aot_eager", "inductor")
LAYOUTS = tuple(name for name in views.VIEWS if name != "expanded")  # which has other values


def compiled(op: object, backend: str) -> Callable:
    """`op` behind torch.compile, compiled anew at its first call. Inductor draws eager's random numbers."""

    def call(*args: object, **kwargs: object) -> object:
        return op(*args, **kwargs)

    torch._dynamo.reset()
    options = {"fallback_random": True} if backend == "inductor" else None
    made = torch.compile(call, backend=backend, dynamic=False, options=options)
    made.name = op.name  # by which forms.py knows what of a result is determined
    return made


def taken(op: object, laid: Arguments) -> bool:
    """Does PyTorch itself take arguments that lie so? view_as_complex wants each pair of numbers together."""
    try:
        on_cpu(lambda: forms.forward(op)(transfer.unchanged()(laid)))
    except NoReference:
        return False
    return True


def of(
    op: object, sample: object, arguments: Arguments, backend: str, differentiable: bool, by_storage: bool, every: bool
) -> dict[str, Form]:
    """Forward and, where there is one, gradient: of the compiled operator, against the plain one on the CPU.
    `by_storage`: the result depends on how the arguments lie; `every`: in each layout, beside channels_last."""

    def later(make: Callable[[Callable], forms.Run]) -> forms.Run:
        return lambda given: make(compiled(op, backend))(given)

    plain = {"forward": forms.forward}
    if differentiable:
        plain["gradient"] = lambda function: forms.gradient(function, sample)
    layouts = {"": arguments}
    for name in LAYOUTS if every else ("channels_last",):
        laid = None if by_storage else views.shown(arguments, views.VIEWS[name])
        if laid is not None and taken(op, laid):
            layouts[f" {name}"] = laid
    return {
        f"{backend} {name}{layout}": Form(later(make), given, (make(op), arguments), unsafe=True)
        for name, make in plain.items()
        for layout, given in layouts.items()
    }

"""An operator as torch.compile makes it, with one back end: forms whose results are compared with the CPU's eager ones.

What this is not: the judgement (operators.py)."""

from __future__ import annotations

from collections.abc import Callable

import torch

from tests.upstream import forms
from tests.upstream.forms import Arguments, Form

BACKENDS = ("aot_eager", "inductor")


def compiled(op: object, backend: str) -> Callable:
    """`op` behind torch.compile, compiled anew at its first call. Inductor draws eager's random numbers."""

    def call(*args: object, **kwargs: object) -> object:
        return op(*args, **kwargs)

    torch._dynamo.reset()
    options = {"fallback_random": True} if backend == "inductor" else None
    made = torch.compile(call, backend=backend, dynamic=False, options=options)
    made.name = op.name  # by which forms.py knows what of a result is determined
    return made


def of(op: object, sample: object, arguments: Arguments, backend: str, differentiable: bool) -> dict[str, Form]:
    """Forward and, where there is one, gradient: of the compiled operator, against the plain one on the CPU."""

    def later(make: Callable[[Callable], forms.Run]) -> forms.Run:
        return lambda given: make(compiled(op, backend))(given)

    plain = {"forward": forms.forward}
    if differentiable:
        plain["gradient"] = lambda function: forms.gradient(function, sample)
    return {
        f"{backend} {name}": Form(later(make), arguments, (make(op), arguments), unsafe=True)
        for name, make in plain.items()
    }

"""In which forms an operator is run: plain, in place, into given outputs, and what each is compared with.

What this is not: the judgement (operators.py) or the layouts themselves (views.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch.utils import _pytree as pytree

from tests.upstream import transfer, views
from tests.upstream.compare import Mismatch, cotangents
from tests.upstream.verdict import NoReference

Arguments = tuple  # (input, args, kwargs)
Run = Callable[[Arguments], object]


class Form(NamedTuple):
    run: Run
    arguments: Arguments
    # The same computation without the difficulty that is judged: what gives the values to compare with. A kernel that
    # ignores the strides of what it reads or writes is PyTorch's defect and must not become ours.
    reference: tuple[Run, Arguments] | None = None
    refusal: bool = False  # where the CPU refuses, so must the device, with the same type of error
    # Only the reference is run on the CPU: its kernel would write past the end of an output, or `run` compiles first.
    unsafe: bool = False


WIDER = {torch.float32: torch.float64, torch.complex64: torch.complex128, torch.bool: torch.float32}


def another_shape(x: torch.Tensor) -> torch.Tensor:
    return torch.empty((3, *x.shape), dtype=x.dtype)


def another_type(x: torch.Tensor) -> torch.Tensor:
    """Wider, or integer where there is no wider one: then refused."""
    other = WIDER.get(x.dtype, torch.int64 if x.is_floating_point() else torch.float32)
    return torch.empty(x.shape, dtype=other)


# Outputs that a caller may give, beside one of the right shape, type and strides.
SAME_RESULT = (views.conjugated, views.permuted, views.offset)
OTHER_RESULT = (views.expanded, another_shape, another_type)

# ATen's tril and triu on the CPU take the matrices of an output to follow each other at the stride of its third last
# dimension, whatever the strides of the others are; lu and lu_unpack write their factors with them. The process dies.
WRITE_PAST_THE_END = {"tril", "triu", "linalg.lu", "lu", "lu_unpack"}


def what_the_index_names(result: object, arguments: Arguments) -> object:
    """Of `mode`: the CPU takes any of the equal elements, as its sort, which is not stable, happens to leave them."""
    value, args, kwargs = arguments
    dim, keepdim = (*args, *(kwargs.get(name, other) for name, other in (("dim", -1), ("keepdim", False))[len(args) :]))
    if value.dim() == 0:
        return result
    index = result[1] if keepdim else result[1].unsqueeze(dim)
    return result[0], value.gather(dim, index)


# What of a result is determined. An eigenvector times any number of size one is an eigenvector; so the database itself
# compares them (output_process_fn_grad).
DETERMINED = {
    "linalg.eigh": lambda result, _: (result[0], result[1].abs()),
    "mode": what_the_index_names,
}


def determined(op: object, result: object, arguments: Arguments) -> object:
    return DETERMINED[op.name](result, arguments) if op.name in DETERMINED else result


def forward(op: object) -> Run:
    return lambda arguments: determined(op, op(arguments[0], *arguments[1], **arguments[2]), arguments)


def inplace(op: object) -> Run:
    def run(arguments: Arguments) -> object:
        value, args, kwargs = arguments
        return op.inplace_variant(value, *args, **kwargs), value

    return run


def out(op: object, cpu_result: Callable[[], object], view: Callable = lambda x: x) -> Run:
    def run(arguments: Arguments) -> object:
        device = next(x.device for x in pytree.tree_leaves(arguments) if isinstance(x, torch.Tensor))

        def buffer(model: torch.Tensor) -> torch.Tensor:
            plain = torch.empty_like(model, device="cpu", requires_grad=False)
            shown = view(plain)
            return transfer.on_device(plain if shown is None else shown, device)

        buffers = pytree.tree_map(buffer, cpu_result())
        value, args, kwargs = arguments
        result = op(value, *args, **kwargs, out=buffers)
        same = all(a is b for a, b in zip(pytree.tree_leaves(result), pytree.tree_leaves(buffers), strict=True))
        if not same:
            raise Mismatch("out= returned another tensor than it was given")
        return determined(op, result, arguments)

    return run


def gradient(op: object, sample: object, view: Callable = lambda x: x) -> Run:
    """Gradients of every argument that wants one, for a fixed random cotangent, shown by `view`."""

    def run(arguments: Arguments) -> list[torch.Tensor | None]:
        value, args, kwargs = arguments
        result = sample.output_process_fn_grad(op(value, *args, **kwargs))
        outputs = [x for x in pytree.tree_leaves(result) if isinstance(x, torch.Tensor) and x.requires_grad]
        inputs = [x for x in pytree.tree_leaves(arguments) if isinstance(x, torch.Tensor) and x.requires_grad]
        if not outputs or not inputs:
            raise NoReference("nothing to differentiate")
        unique = list({id(x): x for x in inputs}.values())
        given = [x if (shown := view(x)) is None else shown for x in cotangents(outputs)]
        return list(torch.autograd.grad(outputs, unique, given, allow_unused=True))

    return run


def materialized(view: Callable) -> Callable:
    """The values of a view in memory of their own."""
    return lambda x: None if (shown := view(x)) is None else shown.clone(memory_format=torch.contiguous_format)


def basic(op: object, sample: object, arguments: Arguments, plain: Arguments, by_storage: bool) -> dict[str, Form]:
    """The forms forward, inplace and out. `plain`: the arguments, none of which wants a gradient; `by_storage`: the
    result depends on how they lie in their storages.
    """
    run = forward(op)
    found = {"forward": Form(run, arguments)}
    if op.inplace_variant is not None and not sample.broadcasts_input:
        found["inplace"] = Form(inplace(op), plain)
        for view in (*SAME_RESULT, views.expanded):
            if (shown := view(plain[0]) if isinstance(plain[0], torch.Tensor) else None) is not None:
                expands = view is views.expanded
                same = None if expands or by_storage else (inplace(op), plain)
                found[f"inplace {view.__name__}"] = Form(inplace(op), (shown, *plain[1:]), same, expands)
    if op.supports_out:
        cpu_result = lambda: op(plain[0], *plain[1], **plain[2])  # noqa: E731
        found["out"] = Form(out(op, cpu_result), plain, (run, plain))
        for view in SAME_RESULT:
            unsafe = view is views.permuted and op.name in WRITE_PAST_THE_END
            found[f"out {view.__name__}"] = Form(out(op, cpu_result, view), plain, (run, plain), unsafe=unsafe)
        for view in OTHER_RESULT:
            found[f"out {view.__name__}"] = Form(out(op, cpu_result, view), plain, None, True)
    return found


def shown(op: object, sample: object, arguments: Arguments, plain: Arguments, by_storage: bool) -> dict[str, Form]:
    """The form views: forward and gradient with what they read laid out in other ways."""
    run, found = forward(op), {}
    for name, view in views.VIEWS.items():
        if (laid := views.shown(plain, view)) is not None:
            values = views.shown(plain, materialized(view)) if name == "expanded" else plain
            found[name] = Form(run, laid, None if by_storage else (run, values))
    if arguments is plain:
        return found
    for name in views.LAYOUTS:
        view = views.VIEWS[name]
        same = name != "expanded"
        laid = views.shown(arguments, view) if same else None
        with_it = gradient(op, sample) if same else gradient(op, sample, materialized(view))
        found[f"gradient {name}"] = Form(
            gradient(op, sample, view),
            arguments if laid is None else laid,
            None if by_storage else (with_it, arguments),
        )
    return found

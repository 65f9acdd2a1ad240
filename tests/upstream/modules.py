"""Judge one ModuleInfo: outputs in training and evaluation, and for float32 every gradient, from the same weights."""

from __future__ import annotations

import copy
from itertools import islice

import torch
from torch.testing._internal.common_device_type import tol, toleranceOverride
from torch.utils import _pytree as pytree

from tests.upstream import transfer
from tests.upstream.compare import Mismatch, compare, cotangents, equal
from tests.upstream.operators import seed_all
from tests.upstream.verdict import NoReference, Verdict, is_random, on_cpu

# The reference's kernels add in another order than ours, and a module chains many of them.
GRADIENT_SLACK = (toleranceOverride({torch.float32: tol(atol=1e-4, rtol=1e-4)}),)


def outcome(module: torch.nn.Module, args: tuple, kwargs: dict, differentiate: bool) -> object:
    """The result, the gradients of parameters and inputs, and the buffers the run left behind."""
    result = module(*args, **kwargs)
    gradients: dict[str, torch.Tensor | None] = {}
    outputs = [x for x in pytree.tree_leaves(result) if isinstance(x, torch.Tensor) and x.requires_grad]
    if differentiate and outputs:
        torch.autograd.backward(outputs, cotangents(outputs))
        inputs = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor) and x.requires_grad]
        gradients = {name: p.grad for name, p in module.named_parameters()}
        gradients |= {f"input {index}": x.grad for index, x in enumerate(inputs)}
    detached = pytree.tree_map(lambda x: x.detach() if isinstance(x, torch.Tensor) else x, result)
    return detached, gradients, dict(module.named_buffers())


def judge_sample(info: object, sample: object, dtype: torch.dtype, device: str, training: bool) -> None:
    differentiate = dtype == torch.float32
    forward = sample.forward_input
    arguments = ((), {}) if forward is None else (forward.args, forward.kwargs)

    def construct() -> torch.nn.Module:
        made = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs)
        return made.to(dtype).train(training)

    torch.manual_seed(0)
    original = on_cpu(construct)

    def run(module: torch.nn.Module, mover: transfer.Mover) -> object:
        args, kwargs = mover(arguments)
        torch.manual_seed(0)
        return outcome(module, args, kwargs, differentiate)

    def reference(seed: int | None = None) -> object:
        args, kwargs = transfer.unchanged()(arguments)
        if seed is None:
            torch.manual_seed(0)
        return outcome(copy.deepcopy(original), args, kwargs, differentiate)

    expected = on_cpu(reference)
    actual = run(copy.deepcopy(original).to(device), transfer.to_device(device))
    exact = lambda: on_cpu(lambda: run(copy.deepcopy(original).double(), transfer.to_double()))  # noqa: E731
    tolerances = (*info.decorators, *GRADIENT_SLACK)

    kind = torch.device(device).type
    try:
        compare(actual, expected, device=kind, exact=exact, decorators=tolerances)
    except (Mismatch, NoReference):
        if not is_random(lambda: reference(seed=1), equal):
            raise
        compare(actual, expected, device=kind, values=False)


def judge(info: object, dtype: torch.dtype, device: str, count: int) -> Verdict:
    verdict = Verdict()
    for training in (True, False):
        seed_all()
        try:
            samples = info.module_inputs_func(
                info, device="cpu", dtype=dtype, requires_grad=dtype == torch.float32, training=training
            )
        except Exception as error:  # the database cannot make this sample on this machine: nothing to judge
            verdict.add("skipped", f"no sample: {type(error).__name__}: {error}")
            continue
        mode = "train" if training else "eval"
        for index, sample in enumerate(islice(samples, count)):
            what = f"sample {index} {mode}{f' ({sample.desc})' if sample.desc else ''}"
            verdict.judge(what, lambda s=sample, t=training: judge_sample(info, s, dtype, device, t))
    return verdict

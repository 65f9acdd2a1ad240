"""Why an operator of the NPU's own cannot be traced reaches the user: FakeTensor takes NotImplementedError of a meta
kernel for a kernel that is missing, and says only the operator's name. FakeTensors of the CPU are refused as the CPU's
tensors are: the kernel for "meta" does not see where they would be. Called once, by `import torch_npu`.

The exception stays FakeTensor's own: torch.compile runs what it cannot trace as it is, unless `fullgraph=True`.
"""

from __future__ import annotations

import functools
import re
from types import ModuleType
from typing import Any

import torch

from torch_npu._when_imported import WhenImported


@functools.cache
def _lengths(op: torch._ops.OpOverload) -> tuple[list[str], frozenset[str]]:
    """The names of the arguments, and those that are lengths on the host which a trace may leave open ("SymInt[]").
    Lengths that a result's size depends on, as npu_nsa_compress's, are "int[]": a trace makes them numbers itself."""
    names = [argument.name for argument in op._schema.arguments]
    return names, frozenset(re.findall(r"SymInt\[\]\?? (actual_\w+)", str(op._schema)))


def _with_lengths(op: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """The arguments, with numbers for lengths that are left open: meta kernels hold them against the tensors, and no
    result's size depends on them. No guard is made; the call itself is checked again."""
    names, lengths = _lengths(op)

    def plain(name: str, value: Any) -> Any:
        if name not in lengths or value is None:
            return value
        return [x.node.hint if isinstance(x, torch.SymInt) and x.node.has_hint() else x for x in value]

    places = tuple(plain(name, value) for name, value in zip(names, args, strict=False))
    return places, {name: plain(name, value) for name, value in kwargs.items()}


def _traced(mode: Any, op: torch._ops.OpOverload, *args: Any, **kwargs: Any) -> Any:
    """The meta kernel's results, as FakeTensor computes them; what it does not implement, with its reason."""
    from torch._subclasses import fake_impls, fake_tensor

    if not fake_impls.has_meta(op):
        return NotImplemented
    flat = torch.utils._pytree.tree_leaves((args, kwargs))
    devices = {t.device.type for t in flat if isinstance(t, torch.Tensor)}
    name = op._schema.name.partition("::")[2]
    from torch_npu._operator_docs import NAMES

    if devices == {"cpu"} and name in NAMES:  # not an operator that a program put into this namespace
        raise fake_tensor.UnsupportedOperatorException(
            f"{op}: torch.ops.npu.{name} runs on the npu only, and its tensors are on the CPU: move them with .npu()"
        )
    if name == "_npu_lstm" and torch.compiler.is_exporting():
        # What decomposes the program has aten.lstm.input, by PyTorch's loop over the steps: there are as many as here.
        int(args[0].shape[0])
    try:
        given, named = _with_lengths(op, args, kwargs)
        with fake_impls.in_kernel_invocation_manager(mode):
            made = op(*given, **named)
    except NotImplementedError as error:
        raise fake_tensor.UnsupportedOperatorException(f"{op}: {error}") from error
    return mode.wrap_meta_outputs_with_default_device_logic(made, op, flat, device=kwargs.get("device"))


def _explain(fake_impls: ModuleType) -> None:
    fake_impls.register_op_impl(lambda op: op.namespace == "npu")(_traced)


def register() -> None:
    WhenImported("torch._subclasses.fake_impls", _explain)

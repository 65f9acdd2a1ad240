"""Why an operator of the NPU's own cannot be traced reaches the user: FakeTensor takes NotImplementedError of a meta
kernel for a kernel that is missing, and says only the operator's name. FakeTensors of the CPU are refused as the CPU's
tensors are: the kernel for "meta" does not see where they would be. Called once, by `import torch_npu`.

The exception stays FakeTensor's own: torch.compile runs what it cannot trace as it is, unless `fullgraph=True`.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

from torch_npu._when_imported import WhenImported


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
    try:
        with fake_impls.in_kernel_invocation_manager(mode):
            made = op(*args, **kwargs)
    except NotImplementedError as error:
        raise fake_tensor.UnsupportedOperatorException(f"{op}: {error}") from error
    return mode.wrap_meta_outputs_with_default_device_logic(made, op, flat, device=kwargs.get("device"))


def _explain(fake_impls: ModuleType) -> None:
    fake_impls.register_op_impl(lambda op: op.namespace == "npu")(_traced)


def register() -> None:
    WhenImported("torch._subclasses.fake_impls", _explain)

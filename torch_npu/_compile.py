"""Tells torch.compile about the npu when a program first needs it: nothing of Dynamo or Inductor, which cost seconds,
is imported before. What it is not: the code generator (torch_npu._inductor). Called once, by `import torch_npu`."""

from __future__ import annotations

from types import ModuleType

import torch

from torch_npu._torch_version import HAS_GRAPHS, refuse_inductor
from torch_npu._when_imported import WhenImported


def _interface(module: ModuleType) -> None:
    from torch_npu._inductor.device import NpuInterface

    module.register_interface_for_device("npu", NpuInterface)


def _names(_: ModuleType) -> None:
    from torch_npu.dynamo import streams, traced

    streams.register()
    traced.register()


def _code_generator(_: ModuleType) -> None:
    # Behind the last of Inductor's own modules, so that each of them can be imported.
    from torch_npu import _inductor

    _inductor.register()


def _effects(module: ModuleType) -> None:
    # Graphs keep the calls of these, though nobody needs a result.
    saved = torch.ops.npu.save_npugraph_tensor
    for operator in (torch.ops.npu.print_npugraph_tensor.default, saved.default, saved.tensor_list):
        module.has_side_effect(operator)


def _draws(module: ModuleType) -> None:
    # Graphs keep two calls of these with the same operands apart; the list is PyTorch's, which asks for no tag.
    npu = torch.ops.npu
    module.rand_ops += [npu._npu_dot_product_attention, npu.npu_fusion_attention_v3, npu._npu_dropout]


def npugraph_mark_step_begin() -> None:
    """torch.npu.npugraph_mark_step_begin, under the vendor's name for it."""
    from torch_npu.dynamo import steps

    steps.mark_step_begin()


def register() -> None:
    torch.compiler.npugraph_mark_step_begin = npugraph_mark_step_begin
    WhenImported("torch.fx.node", _effects)
    WhenImported("torch._functorch.compile_utils", _draws)
    WhenImported("torch._dynamo.device_interface", _interface)
    WhenImported("torch._dynamo", _names)
    WhenImported("torch._inductor.compile_fx", _code_generator if HAS_GRAPHS else refuse_inductor)

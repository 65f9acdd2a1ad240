"""Which operators are compared, and why others are not. Who uses it: this folder, and torch_npu/npu/dump.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

# Reasons, as the report prints them.
RANDOM = "random numbers differ between devices"
UNSET = "its result is memory as it was"
COMMUNICATION = "communication"
CAPTURED = "captured into a graph: nothing has run yet"
NO_TWIN = "the CPU has no such operator, or not in this type"
FAILED = "the CPU failed to compute it, with {}"  # an exception's type
TOO_LARGE = "larger than the limit"
LAYOUT = "a sparse or nested tensor: its values are not one block that could be walked"
HIGHER_ORDER = "a higher-order operator: what it calls inside is not seen"

# "cuda" means the npu under transfer_to_npu, which needs a torch without CUDA.
NAMES = {"npu"} if torch.version.cuda else {"npu", "cuda"}
# They read or change what a tensor is, not its values.
VALUELESS = {"detach_", "is_pinned", "lift", "lift_fresh", "record_stream", "resize_", "resize_as_", "set_"}
NAMESPACES_OF_COMMUNICATION = {"_c10d_functional", "_c10d_functional_autograd", "c10d"}
# Written although the schema does not say so: the positions of such arguments.
SILENT_WRITES = {"aten::native_batch_norm": (3, 4)}
# Results by which forward and backward of one device talk to each other: positions among those returned.
INTERNAL = {
    "aten::log_sigmoid_forward": (1,),
    "aten::_embedding_bag": (1, 2, 3),
    "aten::_embedding_bag_forward_only": (1, 2, 3),
    "npu::npu_cross_entropy_loss": (2, 3),
    "npu::_npu_dot_product_attention": (3,),
    "npu::npu_fusion_attention": (3, 4, 5, 6),
}
# Results that say what was drawn, and the keyword by which a twin (twins.py) takes them: such a call can be compared.
DRAWN = {"npu::_npu_dot_product_attention": (3, "drop_mask")}


def npu_tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor) and leaf.device.type == "npu"]


def plain(tree: Any) -> bool:
    """No tensor of it is sparse or nested: each has sizes, strides and one block of values."""
    tensors = (leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor))
    return all(tensor.layout == torch.strided and not tensor.is_nested for tensor in tensors)


def held(func: Any) -> Any:
    """The operator to call: zeros that autograd makes without memory get some, since their values are read here."""
    return torch.ops.aten.zeros.default if func is torch.ops.aten._efficientzerotensor.default else func


def is_view(func: torch._ops.OpOverload) -> bool:
    """It makes or changes a tensor without reading a value: nothing to compare."""
    name = func._schema.name.partition("::")[2]
    return name in VALUELESS or (func.is_view and not any(written(func)))


def skipped(func: torch._ops.OpOverload, args: tuple, kwargs: dict[str, Any]) -> str | None:
    """Why this call is not compared; None: it is."""
    namespace, _, name = func._schema.name.partition("::")
    if namespace in NAMESPACES_OF_COMMUNICATION:
        return COMMUNICATION
    if "empty" in name.split("_"):
        return UNSET
    if any(isinstance(leaf, torch.Generator) for leaf in tree_leaves((args, kwargs))):
        return RANDOM
    if func._schema.name not in DRAWN and random(func, args, kwargs):
        return RANDOM
    if torch.npu.is_current_stream_capturing():
        return CAPTURED
    return None if plain((args, kwargs)) else LAYOUT


def random(func: torch._ops.OpOverload, args: tuple, kwargs: dict[str, Any]) -> bool:
    """It draws numbers, or gives the gradient of what did and draws them again."""
    dropped = dropout(func, args, kwargs)
    return torch.Tag.nondeterministic_seeded in func.tags if dropped is None else dropped != 0


def dropout(func: torch._ops.OpOverload, args: tuple, kwargs: dict[str, Any]) -> float | None:
    """Its probability, of an operator that is random by it alone; None of others, and of those given its mask."""
    names = [argument.name for argument in func._schema.arguments]
    for name in ("dropout_p", "keep_prob"):
        if name not in names or "drop_mask" in names:
            continue
        position = names.index(name)
        given = args[position] if position < len(args) else kwargs.get(name)
        given = func._schema.arguments[position].default_value if given is None else given
        return given if name == "dropout_p" else 1 - given
    return None


def written(func: torch._ops.OpOverload) -> Iterator[int | str]:
    """The arguments that are written: positions, and names of keyword-only ones."""
    yield from SILENT_WRITES.get(func._schema.name, ())
    for position, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            yield argument.name if argument.kwarg_only else position

"""Which PyTorch this is, and what 2.10 lacks of 2.13, for which everything else in Python is written. No other module
asks for the version. What it is not: the same for C++ (csrc/core/torch_version.h)."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

MAJOR, MINOR = (int(part) for part in torch.__version__.split(".")[:2])
HAS_GRAPHS = (MAJOR, MINOR) >= (2, 13)  # our back ends of torch.compile are guests in what moved since 2.10
DRAWS_IN_GRAPHS = (MAJOR, MINOR) >= (
    2,
    13,
)  # compiled checkpoints draw by an operator of their own, of CUDA alone before


def register_graphsafe_rng_device_type(device: str) -> None:
    if DRAWS_IN_GRAPHS:
        from torch._functorch._aot_autograd.utils import register_graphsafe_rng_device_type as register

        register(device)


def with_names_of_pools(stats: dict[str, Any]) -> dict[str, Any]:
    """torch.cuda.memory_stats adds the names of keys: a private pool's, two numbers, it can name since 2.13."""
    pools = stats.get("reserved_bytes_by_private_pools")
    if pools is None or (MAJOR, MINOR) >= (2, 13):
        return stats
    named = {"_".join(str(number) for number in pool): counts for pool, counts in pools.items()}
    return {**stats, "reserved_bytes_by_private_pools": named}


def refuse_graphs() -> None:
    raise NotImplementedError(
        f"npu: torch.compile needs torch 2.13 on the npu, and this is {torch.__version__}: pip install torch==2.13.0 "
        "and the torch_npu built for it, or call the function itself, which is not compiled"
    )


class _Refusing(type):
    """A class whose use says what is missing, whichever of Inductor's questions comes first."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return cls()

    def __call__(cls, *_: Any, **__: Any) -> Any:
        refuse_graphs()


class _Refused(metaclass=_Refusing):
    """In the place of a code generator."""


def refuse_inductor(_: ModuleType) -> None:
    """Inductor's registries then answer for the npu, and say so."""
    from torch._inductor.codegen.common import (
        DeviceOpOverrides,
        get_device_op_overrides,
        register_backend_for_device,
        register_device_op_overrides,
    )

    get_device_op_overrides("cpu")  # it registers the others' where there are none yet
    register_device_op_overrides("npu", DeviceOpOverrides())
    register_backend_for_device("npu", _Refused, _Refused, _Refused)

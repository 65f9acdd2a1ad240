"""Sample calls of the NPU's own operators as data: samples.yaml, for every judge that needs operands and no formula
(opcheck, compilation, gradients, the vendor's plugin on the same kernels).

    npu_swiglu:
    - {input: "float32[3, 8]", dim: 0}

Arguments by the names of the schema; what is left out takes its default. A tensor is written `type[sizes]` and how it
is filled: nothing for normal numbers (integers: all of the type, bool: both), `rand B` for uniform ones from 0 to B,
`in A B` for integers from A to B - 1, `= a b c …` for these values (one stands for all). `T` behind the sizes exchanges
the last two dimensions in memory. Values depend on the operator, the number of its sample and the argument alone. This
module must load without either plugin; record_samples.py makes the rows from the calls of this room's tests.
"""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from typing import Any

import torch

from tools.codegen import tables

TABLE = Path(__file__).with_name("samples.yaml")
TENSOR = re.compile(r"(\w+)\[([\d, ]*)\](T?)(?: (rand|in|=) ?(.*))?$")


def load() -> dict[str, list[dict[str, Any]]]:
    """Operator with its overload, as in `torch.ops.npu`: its samples."""
    return tables.load(TABLE)


def reasons() -> dict[str, str]:
    """Operators without a sample: why."""
    table = tables.load(TABLE.with_name("without_sample.yaml"))
    return {name: reason for reason, names in table.items() for name in names}


def number(word: str) -> complex | float | int:
    return int(word) if re.fullmatch(r"-?\d+", word) else complex(word) if word.endswith("j") else float(word)


def tensor(text: str, seed: str) -> torch.Tensor:
    """The tensor of a sample, on the CPU."""
    match = TENSOR.match(text)
    if not match:
        raise ValueError(f"{text}: a tensor is written `type[sizes]` and how it is filled")
    dtype, sizes = getattr(torch, match[1]), [int(n) for n in match[2].split(",") if n.strip()]
    how, words = match[4], (match[5] or "").split()
    sizes = [*sizes[:-2], sizes[-1], sizes[-2]] if match[3] else sizes
    generator = torch.Generator().manual_seed(zlib.crc32(seed.encode()))
    if how == "=":
        wide = torch.complex128 if dtype.is_complex else torch.float64 if dtype.is_floating_point else torch.int64
        values = torch.tensor([number(word) for word in words], dtype=wide)
        found = torch.full(sizes, values[0].item(), dtype=wide) if len(words) == 1 else values.reshape(sizes)
    elif how == "rand":
        found = torch.rand(sizes, generator=generator) * float(words[0])
    elif how == "in":
        found = torch.randint(int(words[0]), int(words[1]), sizes, generator=generator)
    elif dtype == torch.bool:
        found = torch.rand(sizes, generator=generator) < 0.5
    elif dtype.is_floating_point or dtype.is_complex:
        found = torch.randn(sizes, generator=generator, dtype=dtype if dtype.is_complex else None)
    else:
        # To 16 bits: beyond them no operator wants an integer that it did not name.
        limits = torch.iinfo(dtype)
        low, high = max(limits.min, -(2**15)), min(limits.max, 2**15 - 1)
        found = torch.randint(low, high + 1, sizes, generator=generator)
    found = found.to(dtype)
    return found.transpose(-2, -1) if match[3] else found


def operands(name: str, index: int, schema: torch.FunctionSchema) -> dict[str, Any]:
    """Arguments of a sample by name, tensors on the CPU."""
    sample, types = load_once()[name][index], {a.name: str(a.type) for a in schema.arguments}
    if unknown := set(sample) - set(types):
        raise ValueError(f"{name}: the schema has no {', '.join(sorted(unknown))}")
    found = {}
    for key, value in sample.items():
        seed = f"{name} {index} {key}"
        if "Tensor" in types[key] and isinstance(value, list):
            found[key] = [tensor(v, f"{seed} {i}") if v is not None else None for i, v in enumerate(value)]
        elif "Tensor" in types[key] and value is not None:
            found[key] = tensor(value, seed)
        elif isinstance(value, str) and value.startswith("torch."):
            found[key] = getattr(torch, value[6:])
        else:
            found[key] = value
    return found


_loaded: dict[str, list[dict[str, Any]]] = {}


def load_once() -> dict[str, list[dict[str, Any]]]:
    if not _loaded:
        _loaded.update(load())
    return _loaded


def operator(name: str) -> Any:
    """`npu_sort_v2.out` → the overload."""
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.npu, packet), overload or "default")


def each(value: Any, change: Any) -> Any:
    """The same arguments with `change` of each tensor."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, dict):
        return {k: each(v, change) for k, v in value.items()}
    return type(value)(each(v, change) for v in value) if isinstance(value, (list, tuple)) else value

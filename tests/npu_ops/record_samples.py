"""Rows for samples.yaml from the calls that tests make: small calls, enough that each argument is given once and each
of its data types seen, `MOST` an operator. Rows that are in the table stay.

    python -m pytest -p tests.npu_ops.record_samples tests/npu_ops

Values are not kept where random ones of the same range do: floats, and integers where there are many.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import yaml
from torch.utils._python_dispatch import TorchDispatchMode

from tests.npu_ops import samples

MOST, LARGEST, VERBATIM = 5, 3000, 64
HEAD = "# Sample calls of the NPU's own operators; samples.py says how they are written. Long because it is data.\n"
calls: dict[str, dict[frozenset, tuple[int, dict[str, Any]]]] = {}


def words(t: torch.Tensor) -> str | None:
    """How a tensor is filled; None where values could not be written."""
    if t.dtype == torch.bool or not (t.dtype.is_floating_point or t.dtype.is_complex):
        values = t.flatten().tolist()
        if len(set(values)) == 1:
            return f" = {int(values[0])}"
        if len(values) <= VERBATIM:
            return " = " + " ".join(str(int(v)) for v in values)
        return "" if t.dtype == torch.bool else f" in {min(values)} {max(values) + 1}"
    if t.dtype.is_complex:
        return ""
    wide = t.double().flatten()
    if not wide.isfinite().all():
        return None
    if wide.numel() and (wide == wide[0]).all():
        return f" = {wide[0].item():.6g}"
    if wide.numel() <= 24 and torch.equal((wide * 1000).round() / 1000, wide):
        return " = " + " ".join(f"{v:g}" for v in wide.tolist())
    return f" rand {wide.max().item():.3g}" if wide.min() >= 0 else ""


def described(t: torch.Tensor) -> str | None:
    host = t.detach().cpu()
    turned = host.dim() > 1 and not t.is_contiguous() and t.transpose(-2, -1).is_contiguous()
    filled = words(host.transpose(-2, -1) if turned else host)
    name = str(t.dtype).removeprefix("torch.")
    return None if filled is None else f"{name}{list(t.shape)}{'T' * turned}{filled}"


def written(value: Any) -> Any:
    """A value as it stands in the table, or ValueError."""
    if isinstance(value, torch.Tensor):
        if value.device.type != "npu" or type(value) not in (torch.Tensor, torch.nn.Parameter):
            raise ValueError
        if value.numel() > LARGEST or (text := described(value)) is None:
            raise ValueError
        return text
    if isinstance(value, torch.dtype):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [written(v) for v in value]
    for kind in (bool, int, float, str):  # of an enumeration the number
        if isinstance(value, kind):
            return kind(value)
    if value is None:
        return value
    raise ValueError


def call(func: Any, run: Any, args: Any, kwargs: Any) -> Any:
    """Of a call that is not refused the operands are noted as they were before it."""
    noted = row(func, args, kwargs)
    result = run(*args, **kwargs)
    if noted:
        name, key, size, written = noted
        kept = calls.setdefault(name, {})
        if key not in kept or kept[key][0] > size:
            kept[key] = (size, written)
    return result


def row(func: Any, args: Any, kwargs: Any) -> tuple[str, frozenset, int, dict[str, Any]] | None:
    schema = func._schema
    name = schema.name.removeprefix("npu::") + (f".{schema.overload_name}" if schema.overload_name else "")
    given = dict(zip((a.name for a in schema.arguments), args, strict=False)) | dict(kwargs)
    defaults = {a.name: a.default_value for a in schema.arguments if a.has_default_value()}
    given = {k: v for k, v in given.items() if isinstance(v, torch.Tensor) or k not in defaults or defaults[k] != v}
    size = sum(v.numel() for v in torch.utils._pytree.tree_leaves(given) if isinstance(v, torch.Tensor))
    if size > LARGEST:
        return None
    try:
        found = {k: written(v) for k, v in given.items()}
    except ValueError:
        return None
    facts = {(k, str(v).split("[")[0] if isinstance(given[k], torch.Tensor) else str(v)) for k, v in found.items()}
    return name, frozenset(facts), size, found


class Recorder(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace == "npu":
            return call(func, func, args, kwargs or {})
        return func(*args, **(kwargs or {}))


packet_call = torch._ops.OpOverloadPacket.__call__


def noted_call(self, /, *args, **kwargs):
    if self._qualified_op_name.startswith("npu::"):
        overload = torch._C._jit_resolve_packet(self._qualified_op_name, *args, **kwargs)
        return call(getattr(self, overload or "default"), lambda *a, **k: packet_call(self, *a, **k), args, kwargs)
    return packet_call(self, *args, **kwargs)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Calls of operators that PyTorch takes apart before a mode sees them are noted where Python makes them."""
    torch._ops.OpOverloadPacket.__call__ = noted_call
    try:
        with Recorder():
            yield
    finally:
        torch._ops.OpOverloadPacket.__call__ = packet_call


def chosen(kept: dict[frozenset, tuple[int, dict[str, Any]]]) -> list[dict[str, Any]]:
    """The smallest first, then what gives most that was not given before."""
    left, seen, found = dict(kept), set(), []
    while left and len(found) < MOST:
        key = max(left, key=lambda k: (len(k - seen) if found else 0, -left[k][0]))
        if found and not key - seen:
            break
        seen |= key
        found.append(left.pop(key)[1])
    return found


def pytest_sessionfinish(session: pytest.Session) -> None:
    table = samples.load() if samples.TABLE.exists() else {}
    for name, kept in calls.items():
        if name not in table:
            table[name] = chosen(kept)
    lines = [HEAD]
    for name in sorted(table):
        rows = [yaml.safe_dump(r, default_flow_style=True, width=10**6, sort_keys=False).strip() for r in table[name]]
        lines.append(f"{name}:\n" + "".join(f"- {row}\n" for row in rows))
    samples.TABLE.write_text("".join(lines), encoding="utf-8")

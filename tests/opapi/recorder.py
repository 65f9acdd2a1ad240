"""A pytest plugin that keeps the calls of a run: `pytest -p tests.opapi.recorder --record-calls FILE tests/opapi`.

The file is what tests/opapi/accuracy.py judges: of each operator some small calls that differ in types, shapes or
nulls, with their values. Not a log (ANYCEND_CALL_LOG): it says nothing of calls that were refused.
"""

from __future__ import annotations

from collections import defaultdict

import torch

from tests.opapi.client import Client, Handle, Tensor

SMALL = 1 << 14  # elements of a call together
EACH = 6  # calls of an operator with floating or complex numbers, and as many without


def tensors(values: dict) -> list[torch.Tensor]:
    return [t for v in values.values() for t in (v if isinstance(v, list | tuple) else [v]) if torch.is_tensor(t)]


def kind(value: object) -> object:
    """What makes two calls worth keeping both: types, ranks, nulls and numbers, not sizes and elements."""
    if torch.is_tensor(value):
        return value.dtype, value.dim()
    return tuple(map(kind, value[:3])) if isinstance(value, list | tuple) else value


class Recorder:
    """Calls by operator and whether any of their numbers has a fraction; `call` stands in for Client.call."""

    def __init__(self) -> None:
        self.calls: dict[tuple[str, bool], dict[object, dict]] = defaultdict(dict)
        self.call = Client.call

    def keep(self, op: str, values: dict) -> None:
        plain = {n: v.cpu if isinstance(v, Tensor) else v for n, v in values.items()}
        if any(isinstance(v, Handle) for v in plain.values()):
            return
        key = repr([kind(v) for v in plain.values()])
        kept = self.calls[op, any(t.is_floating_point() or t.is_complex() for t in tensors(plain))]
        if len(kept) < EACH and key not in kept and sum(t.numel() for t in tensors(plain)) <= SMALL:
            kept[key] = {
                n: [t.clone() if torch.is_tensor(t) else t for t in v]
                if isinstance(v, list | tuple)
                else v.clone()
                if torch.is_tensor(v)
                else v
                for n, v in plain.items()
            }


def pytest_addoption(parser) -> None:
    parser.addoption("--record-calls", metavar="FILE", required=True)


def pytest_configure(config) -> None:
    recorder = config.recorder = Recorder()

    def call(self: Client, op: str, /, **values: object) -> dict:
        recorder.keep(op, values)
        return recorder.call(self, op, **values)

    Client.call = call


def pytest_sessionfinish(session) -> None:
    recorder = session.config.recorder
    torch.save([(op, v) for (op, _), kept in recorder.calls.items() for v in kept.values()],
               session.config.getoption("--record-calls"))  # fmt: skip

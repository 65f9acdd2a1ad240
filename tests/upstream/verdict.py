"""The verdict on one case, collected sample by sample."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from unittest import mock

import torch

from tests.upstream.compare import Mismatch

# From best to worst. A case is as bad as its worst sample; `skipped` means that the CPU gave no result to compare with.
ORDER = ("skipped", "right", "unsupported", "error", "wrong", "crash")
BAD = ("unsupported", "error", "wrong", "crash")
UNSUPPORTED = re.compile(
    r"not implemented for|not (yet )?(supported|implemented)|(does not|doesn't) support|unsupported", re.I
)


SEEDS = 16  # a sign or a choice of two may be the same under a few


class NoReference(Exception):
    """The CPU cannot do this sample."""


@dataclass
class Verdict:
    status: str = "skipped"
    detail: str = ""  # the first of the worst status
    samples: dict[str, int] = field(default_factory=dict)
    complaints: list[tuple[str, str]] = field(default_factory=list)  # status and detail of what is not right
    unhealthy: bool = False  # a worker that saw an error asks its device for a sign of life before it goes on

    def add(self, status: str, detail: str = "") -> None:
        self.samples[status] = self.samples.get(status, 0) + 1
        if status in BAD:
            self.complaints.append((status, detail))
        if ORDER.index(status) > ORDER.index(self.status):
            self.status, self.detail = status, detail

    def judge(self, what: str, sample: Callable[[], None]) -> None:
        """Run one sample: it returns if right, raises Mismatch, NoReference, or what the device raised."""
        try:
            sample()
        except NoReference:
            self.add("skipped")
        except Mismatch as mismatch:
            self.add("wrong", f"{what}: {mismatch}")
        except Exception as error:
            text = f"{what}: {type(error).__name__}: {str(error).strip()[:400]}"
            refused = isinstance(error, NotImplementedError) or (
                isinstance(error, (RuntimeError, TypeError, ValueError)) and UNSUPPORTED.search(str(error))
            )
            self.unhealthy |= not isinstance(error, NotImplementedError)
            self.add("unsupported" if refused else "error", text)
        else:
            self.add("right")


def on_cpu(function: Callable[[], object]) -> object:
    """The reference's result; whatever it raises only means that there is nothing to compare with."""
    try:
        return function()
    except Exception as error:
        raise NoReference(f"{type(error).__name__}: {error}") from error


def is_random(function: Callable[[], object], equal: Callable[[object, object], bool]) -> bool:
    """Does the CPU's own result change with the seed? Asked only when results differ.

    The database wraps its random operators so that they seed themselves before each call; that is undone here.
    """
    first = seeded(0, function)
    return any(not equal(first, seeded(seed, function)) for seed in range(1, SEEDS))


def draws(function: Callable[[], object]) -> bool:
    """Does the CPU take random numbers for it? Whether they decide the result, a few seeds need not show.

    The database restores the generator's state after its random operators; that is undone here, too.
    """
    torch.manual_seed(0)
    before = torch.get_rng_state()
    with mock.patch.object(torch, "set_rng_state", lambda *_: None):
        seeded(0, function)
    return not torch.equal(before, torch.get_rng_state())


def seeded(seed: int, function: Callable[[], object]) -> object:
    torch.manual_seed(seed)
    with mock.patch.object(torch, "manual_seed", lambda *_: None):
        return function()

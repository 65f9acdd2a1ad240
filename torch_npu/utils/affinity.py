"""Which processors the threads of a process run on: CPU_AFFINITY_CONF, set_thread_affinity and reset_thread_affinity.

torch.npu's devices.py calls `bind` when the process first uses the NPU and when it chooses another one. Each npu has
cpus: by default its share of the machine's, in order. The thread that trains and all others are put there; what is
started later inherits them. What it is not: numbers of threads (torch.set_num_threads).
"""

from __future__ import annotations

import functools
import numbers
import os
import re
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch_npu.utils._caller import warn

__all__ = ["reset_thread_affinity", "set_thread_affinity"]

_FORM = "CPU_AFFINITY_CONF=<mode>[,force:<0|1>][,npu<i>:<a>-<b>...][,npu_affine:<0|1>], mode 0 off, 1 coarse or 2 fine"
_REFUSED = {
    "bind_irq": "there are no interrupts to bind",
    "lazy_bind": "threads are bound at the first use of a device",
}
Cpus = frozenset[int]
_MOST = 1 << 16  # cpus of a machine: a range that goes beyond is a mistake, and no list is made of it


@dataclass
class Settings:
    """What CPU_AFFINITY_CONF says. mode 0: nothing is bound; 1: all threads on the npu's cpus; 2: the thread that
    trains alone on the first of them, the others on the rest."""

    mode: int = 0
    force: bool = False
    near: bool = False  # npu_affine: the cpus that are near the npu, instead of its share
    ranges: dict[int, Cpus] = field(default_factory=dict)


def parse(text: str) -> Settings:
    """Raises ValueError, which names the part that is wrong."""
    found, more = Settings(), dict[int, set[int]]()
    for position, part in enumerate(text.split(",") if text else ()):
        key, colon, value = part.partition(":")
        if not colon and position == 0:
            key, value = "mode", part
        span = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", value)
        if key == "mode" and value in ("0", "1", "2"):
            found.mode = int(value)
        elif key in ("force", "npu_affine") and value in ("0", "1"):
            setattr(found, {"force": "force", "npu_affine": "near"}[key], value == "1")
        elif re.fullmatch(r"npu\d{1,9}", key) and span and int(span[1]) <= int(span[2] or span[1]) < _MOST:
            more.setdefault(int(key[3:]), set()).update(range(int(span[1]), int(span[2] or span[1]) + 1))
        elif key in _REFUSED:
            raise ValueError(f"npu: CPU_AFFINITY_CONF={text}: {key} is not taken here: {_REFUSED[key]}")
        else:
            raise ValueError(f"npu: CPU_AFFINITY_CONF={text}: {part!r} is not understood: {_FORM}")
    found.ranges = {npu: frozenset(cpus) for npu, cpus in more.items()}
    return found


def listed(cpus: Cpus) -> str:
    """0-3,8: cpus as ranges."""
    firsts = sorted(cpu for cpu in cpus if cpu - 1 not in cpus)
    lasts = sorted(cpu for cpu in cpus if cpu + 1 not in cpus)
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(firsts, lasts, strict=True))


def share(npu: int, npus: int, cpus: int) -> Cpus:
    """The npu's part of the machine's cpus, in order; empty where there are fewer cpus than npus."""
    size = cpus // npus if npus else 0
    return frozenset(range(npu * size, (npu + 1) * size))


def _near(npu: int) -> Cpus:
    """The cpus of the npu's own NUMA node, by its PCI address; all of the machine's where it has none (software)."""
    from torch_npu.npu.devices import get_device_properties

    address = get_device_properties(npu).pci_bus_id.lower()
    try:
        listed = (Path("/sys/bus/pci/devices") / address / "local_cpulist").read_text()
    except OSError:
        return frozenset(range(os.cpu_count() or 1))
    spans = [span.split("-") for span in listed.strip().split(",") if span]
    return frozenset(cpu for span in spans for cpu in range(int(span[0]), int(span[-1]) + 1))


def cpus_of(settings: Settings, npu: int, npus: int) -> Cpus:
    """The cpus that the settings give an npu."""
    if npu in settings.ranges:
        return settings.ranges[npu]
    return _near(npu) if settings.near else share(npu, npus, os.cpu_count() or 1)


def plan(settings: Settings, cpus: Cpus) -> tuple[Cpus, Cpus]:
    """(of the thread that trains, of the others)."""
    if settings.mode < 2 or len(cpus) < 2:
        return cpus, cpus
    first = frozenset([min(cpus)])
    return first, cpus - first


@functools.cache
def _at_start() -> Cpus:
    """What the process was given, before anything here changed it."""
    return frozenset(os.sched_getaffinity(0))


_state: dict[str, Any] = {"bound": None, "plan": None, "refused": False}
_own = threading.local()  # of a thread that set_thread_affinity was called in: what it had before


def bind(npu: int) -> None:
    """Puts the process's threads on the npu's cpus, as CPU_AFFINITY_CONF says. Raises ValueError for a wrong value.

    Warns, once, and binds nothing where the process was already kept to fewer cpus (force:1 binds all the same), where
    there are fewer cpus than npus, or where the system refuses."""
    from torch_npu import _C

    text = os.environ.get("CPU_AFFINITY_CONF", "")
    if _state["bound"] == (text, npu) or _state["refused"] == text:
        return
    settings, npus, allowed = parse(text), _C._device_count(), _at_start()
    if settings.mode == 0:
        return
    if absent := sorted(other for other in settings.ranges if other >= npus):
        warn(f"npu: CPU_AFFINITY_CONF={text}: there is no npu:{absent[0]}, there are npu:0 to npu:{npus - 1}")
    cpus = cpus_of(settings, npu, npus)
    why = ""
    if not cpus:
        why = f"{os.cpu_count()} cpus for {npus} npus leave none for npu:{npu}; name some, such as npu{npu}:0-1"
    elif not settings.force and not cpus <= allowed:
        why = f"the process may use cpus {listed(allowed)} and not all of {listed(cpus)}; force:1 binds all the same"
    if not why:
        trains, others = plan(settings, cpus)
        before: dict[int, Cpus] = {}
        try:
            for thread in map(int, os.listdir("/proc/self/task")):
                _put(thread, trains if thread == threading.get_native_id() else others, before)
        except OSError as error:
            for thread, had in before.items():
                _put(thread, had)
            why = f"the system does not let the process use cpus {listed(cpus)} ({error.strerror})"
        else:
            _state.update(bound=(text, npu), plan=(trains, others))
    if why:
        _state["refused"] = text
        warn(f"npu: CPU_AFFINITY_CONF={text} binds nothing: {why}")


def _put(thread: int, cpus: Cpus, before: dict[int, Cpus] | None = None) -> None:
    """`before` keeps what the thread had."""
    try:
        if before is not None:
            before[thread] = frozenset(os.sched_getaffinity(thread))
        os.sched_setaffinity(thread, cpus)
    except ProcessLookupError:
        pass  # it has ended meanwhile


def _is_number(given: Any) -> bool:
    return isinstance(given, numbers.Integral) and not isinstance(given, bool)


def _cpus_of_range(core_range: Any, allowed: Cpus) -> Cpus:
    """Raises ValueError for anything but ranges of cpus that are all allowed."""
    lists = isinstance(core_range, (list, tuple))
    spans = [core_range] if lists and core_range and not isinstance(core_range[0], (list, tuple)) else core_range
    right = lists and bool(spans) and all(
        isinstance(span, (list, tuple)) and len(span) == 2 and all(map(_is_number, span))
        and 0 <= span[0] <= span[1] <= max(allowed)
        for span in spans
    )  # fmt: skip
    cpus = frozenset(cpu for first, last in spans for cpu in range(first, last + 1)) if right else frozenset()
    if not cpus or not cpus <= allowed:
        raise ValueError(
            f"torch_npu.utils.set_thread_affinity: {core_range!r} should be [first, last], such as "
            f"[{min(allowed)}, {max(allowed)}], or a list of such; the process may use cpus {listed(allowed)}"
        )
    return cpus


def set_thread_affinity(core_range: list[int] | list[list[int]] | None = None) -> None:
    """Puts the calling thread on cpus; threads and processes that it starts from now on inherit them.

    Args:
        core_range: [first, last], both included, or a list of such; None: all that the process was given.

    Raises: ValueError for anything else, and for a range with a cpu that the process may not use.
    Source: the vendor's torch_npu.utils.set_thread_affinity.
    """
    allowed = _at_start()
    cpus = allowed if core_range is None else _cpus_of_range(core_range, allowed)
    if not hasattr(_own, "before"):
        _own.before = frozenset(os.sched_getaffinity(0))
    try:
        os.sched_setaffinity(0, cpus)
    except OSError as error:
        raise ValueError(
            f"torch_npu.utils.set_thread_affinity: the process may use cpus {listed(allowed)}, none of {listed(cpus)}"
        ) from error


def reset_thread_affinity() -> None:
    """The calling thread has the cpus again that it had before its first set_thread_affinity; nothing without one."""
    if hasattr(_own, "before"):
        os.sched_setaffinity(0, _own.before)
        del _own.before

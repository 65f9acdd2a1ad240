"""Profiling a program that already runs: a file says when and what, `step` looks at it after each training step.

    from torch_npu.profiler import dynamic_profile as dp

    dp.init("settings")             # settings/profiler_config.json is made with the defaults if it is not there
    for batch in loader:
        train(batch)
        dp.step()

Each change of the file asks for one profile: of `active` steps after `warmup` ones, from step `start_step` on (-1: the
next). PROF_CONFIG_PATH=settings does the same without a line of the program; then a step is one of the first optimizer
that steps. What a profile is and where it is written: torch_npu.profiler. Source: the vendor's dynamic_profile.
"""

from __future__ import annotations

import atexit
import json
import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from torch_npu.profiler.config import AiCMetrics, ProfilerLevel, _ExperimentalConfig
from torch_npu.profiler.profile import profile, schedule, tensorboard_trace_handler
from torch_npu.utils._caller import warn

__all__ = ["init", "set_state", "start", "step"]

FILE = "profiler_config.json"
_EXPERIMENTAL = {
    "profiler_level": "Level0", "aic_metrics": "AiCoreNone", "l2_cache": False, "op_attr": False,
    "gc_detect_threshold": None, "data_simplification": True, "record_op_args": False, "export_type": ["text"],
    "msprof_tx": False, "mstx": False, "host_sys": [], "mstx_domain_include": [], "mstx_domain_exclude": [],
    "sys_io": False, "sys_interconnection": False,
}  # fmt: skip
_DEFAULTS = {
    "activities": ["CPU", "NPU"], "prof_dir": "./", "analyse": False, "async_mode": False, "record_shapes": False,
    "profile_memory": False, "with_stack": False, "with_flops": False, "with_modules": False, "active": 1, "warmup": 0,
    "start_step": 0, "is_rank": False, "rank_list": [], "experimental_config": _EXPERIMENTAL,
}  # fmt: skip
_OTHER_KEYS = {"metadata": dict, "is_valid": bool}  # keys without a default
_LEAST = {"active": 1, "warmup": 0, "start_step": -1}


def _checked(settings: Any, file: Path) -> dict[str, Any]:
    """The file's settings over the defaults. Raises ValueError, which names the key and the file."""
    if not isinstance(settings, dict):
        raise ValueError(f'{file} should hold an object of settings, such as {{"start_step": -1}}')
    for key, value in settings.items():
        kind = _OTHER_KEYS.get(key) or (type(_DEFAULTS[key]) if key in _DEFAULTS else None)
        if kind is None:
            raise ValueError(f"{file}: there is no setting {key!r}; there are {', '.join([*_DEFAULTS, *_OTHER_KEYS])}")
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise ValueError(f"{file}: {key} is {value!r} and should be of type {kind.__name__}")
        if key in _LEAST and value < _LEAST[key]:
            raise ValueError(f"{file}: {key} is {value} and should be at least {_LEAST[key]}")
    if not settings.get("activities", _DEFAULTS["activities"]):
        raise ValueError(f"{file}: activities is empty; there are CPU and NPU")
    for name in settings.get("activities", []):
        if not isinstance(name, str) or name.upper() not in ("CPU", "NPU"):
            raise ValueError(f"{file}: activities has {name!r}; there are CPU and NPU")
    for one in settings.get("rank_list", []):
        if not isinstance(one, int) or isinstance(one, bool) or one < 0:
            raise ValueError(f"{file}: rank_list has {one!r}; ranks are numbers from 0 on, such as [0, 1]")
    if unknown := set(settings.get("experimental_config", {})) - set(_EXPERIMENTAL):
        raise ValueError(f"{file}: experimental_config has no {sorted(unknown)}; it has {', '.join(_EXPERIMENTAL)}")
    return {**_DEFAULTS, **settings}


def _read(file: Path) -> dict[str, Any]:
    """Raises ValueError or OSError."""
    try:
        return _checked(json.loads(file.read_text(encoding="utf-8")), file)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{file} is no JSON ({error})") from error
    except OSError as error:
        told = f"torch_npu.profiler.dynamic_profile: {file} cannot be read ({error.strerror}); init(folder) writes one"
        raise type(error)(error.errno, told) from error


def _rank() -> int:
    """Raises ValueError where the environment's RANK is no number."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank()
    rank = os.environ.get("RANK", "0")
    if not rank.isdecimal():
        raise ValueError(f"is_rank asks for this process's rank, and RANK is {rank!r} in its environment: set a number")
    return int(rank)


def _wanted(settings: dict[str, Any]) -> bool:
    """Whether the settings ask this rank for a profile. Raises ValueError where they ask for ranks and it has none."""
    return settings.get("is_valid", True) and (not settings["is_rank"] or _rank() in settings["rank_list"])


def _profile(settings: dict[str, Any], first: int) -> profile:
    """The profile that the settings ask for; its steps are numbered from `first` on."""
    config = {**_EXPERIMENTAL, **settings["experimental_config"]}
    config["profiler_level"] = getattr(ProfilerLevel, str(config["profiler_level"]), config["profiler_level"])
    config["aic_metrics"] = getattr(AiCMetrics, str(config["aic_metrics"]), config["aic_metrics"])
    cycle = schedule(wait=0, warmup=settings["warmup"], active=settings["active"], repeat=1)
    names = ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules")
    prof = profile(
        activities=[getattr(torch.profiler.ProfilerActivity, name.upper()) for name in settings["activities"]],
        schedule=lambda number: cycle(max(number - first, 0)),
        on_trace_ready=tensorboard_trace_handler(
            settings["prof_dir"], analyse_flag=settings["analyse"], async_mode=settings["async_mode"]
        ),
        experimental_config=_ExperimentalConfig(**config),
        **{name: settings[name] for name in names},
    )
    prof.step_num = first
    return prof


class _Dynamic:
    """One a process. Not thread safe: the thread that trains calls it."""

    def __init__(self) -> None:
        self.file: Path | None = None
        self.seen: tuple[int, int] | None = None  # of the file: when written, how long
        self.number = 0  # of the step that ended last
        self.left = 0  # steps until the running profile is complete
        self.running: profile | None = None
        self.pending: dict[str, Any] | None = None

    def stamp(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self.file)  # type: ignore[arg-type]
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size

    def poll(self) -> None:
        """A file that cannot be used is warned about: the training goes on."""
        if self.file is None or (now := self.stamp()) is None or now == self.seen:
            return
        self.seen = now
        try:
            settings = _read(self.file)
            wanted = _wanted(settings)
        except (OSError, ValueError) as error:
            warn(f"torch_npu.profiler.dynamic_profile: not used: {error}")
            return
        if wanted and settings["start_step"] != -1 and settings["start_step"] < self.number:
            warn(
                f"torch_npu.profiler.dynamic_profile: {self.file} has start_step {settings['start_step']}, and step "
                f"{self.number} has ended: set a later one, or -1 for the next"
            )
            wanted = False
        self.pending = settings if wanted else None

    def begin(self, settings: dict[str, Any]) -> None:
        running = _profile(settings, self.number)
        running.start()
        self.running, self.left = running, settings["warmup"] + settings["active"]
        for key, value in settings.get("metadata", {}).items():
            self.running.add_metadata_json(key, json.dumps(value))

    def end(self) -> None:
        prof, self.running, self.left = self.running, None, 0
        if prof is not None:
            prof.stop()

    def step(self) -> None:
        self.number += 1
        self.poll()
        try:
            self.advance()
        except Exception as error:  # a folder that cannot be written, values that a profile refuses
            self.running, self.left = None, 0
            warn(f"torch_npu.profiler.dynamic_profile: the profile that {self.file} asks for failed: {error}")

    def advance(self) -> None:
        if self.running is not None:
            self.running.step()
            self.left -= 1
            if self.left == 0:
                self.end()
        elif self.pending is not None and self.pending["start_step"] <= self.number:  # later, if another of these ran
            settings, self.pending = self.pending, None
            self.begin(settings)

    def end_early(self) -> None:
        """The process ends: what was recorded so far is written."""
        if self.running is not None:
            warn(
                f"torch_npu.profiler.dynamic_profile: the program ends {self.left} steps before the profile does: "
                "`active` or `start_step` is too large"
            )
            self.end()


_dynamic = _Dynamic()
atexit.register(_dynamic.end_early)


def init(path: str) -> None:
    """Watches <path>/profiler_config.json, which is made with the defaults if it is not there.

    What it says now asks for nothing; its next change does. Raises RuntimeError where `path` is no folder, OSError
    where the file cannot be made."""
    folder = Path(path)
    if not folder.is_dir():
        raise RuntimeError(f"torch_npu.profiler.dynamic_profile.init: {path} is not a folder: make it first")
    _dynamic.file = folder.absolute() / FILE
    try:
        with _dynamic.file.open("x", encoding="utf-8") as file:  # of several ranks, one makes it
            file.write(json.dumps(_DEFAULTS, indent=4))
    except FileExistsError:
        pass
    _dynamic.seen = _dynamic.stamp()


def step() -> None:
    """A training step has ended: looks at the file, and begins, goes on with or ends a profile. A file that cannot be
    used is a warning, and so is a profile that fails, as in a folder that cannot be written: the training goes on."""
    _dynamic.step()


def start(config_path: str | None = None) -> None:
    """Begins a profile now, as `config_path`, by default init's file, describes it; its start_step does not count.
    On a rank that the file does not choose (is_rank, rank_list), or where its is_valid is false, it does nothing.

    Raises RuntimeError where a profile runs already or no file is known, ValueError or OSError for a file that cannot
    be used, and ValueError where it chooses ranks and RANK is no number."""
    if _dynamic.running is not None:
        raise RuntimeError("torch_npu.profiler.dynamic_profile.start: a profile runs already; step() ends it")
    file = Path(config_path) if config_path else _dynamic.file
    if file is None:
        raise RuntimeError("torch_npu.profiler.dynamic_profile.start: give config_path, or call init(path) before")
    settings = _read(file)
    if _wanted(settings):
        _dynamic.begin(settings)


def set_state(state_step: dict[str, int]) -> None:
    """{"cur_step": n}: the step that ended last has the number n, for a training that goes on from a checkpoint.

    Raises TypeError or ValueError for anything else."""
    number = state_step.get("cur_step") if isinstance(state_step, dict) and len(state_step) == 1 else None
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(f'torch_npu.profiler.dynamic_profile.set_state: {state_step!r} should be {{"cur_step": n}}')
    if number < 0:
        raise ValueError(
            f"torch_npu.profiler.dynamic_profile.set_state: cur_step is {number} and should not be negative"
        )
    _dynamic.number = number


def _step_hook() -> Callable[..., None]:
    """For every optimizer's step: counts those of the first one that steps; when that is gone, of the next."""
    counted: weakref.ref | None = None

    def hook(optimizer: Any, args: Any, kwargs: Any) -> None:
        nonlocal counted
        if counted is None or counted() is None:
            counted = weakref.ref(optimizer)
        if counted() is optimizer:
            step()

    return hook


def from_environment(folder: str) -> None:
    """PROF_CONFIG_PATH: init, and a step after each step of an optimizer; a folder that cannot be used is a warning,
    for this runs inside `import torch`. Called by _startup.py."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    try:
        init(folder)
    except (OSError, RuntimeError) as error:
        warn(
            f"npu: PROF_CONFIG_PATH={folder} is not used, nothing is profiled: {error}. Make a folder of that name "
            "that this process may write before the program starts, or unset the variable"
        )
        return
    register_optimizer_step_post_hook(_step_hook())

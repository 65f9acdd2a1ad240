"""profile, schedule and tensorboard_trace_handler: torch.profiler's own, with the vendor's parameters and files."""

from __future__ import annotations

import gzip
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch._C._profiler import _ExperimentalConfig as _TorchConfig
from torch.profiler import ProfilerAction, ProfilerActivity

from torch_npu import _C
from torch_npu.profiler import host, results, session
from torch_npu.profiler.config import _ExperimentalConfig
from torch_npu.utils._caller import warn

_NO_JOINING = "PyTorch gives Python no call by which a thread joins a profile that another started"
_STACK_METRICS = {"self_npu_time_total": "self_privateuse1_time_total"}


def schedule(
    wait: int, active: int, warmup: int = 0, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """Which steps are recorded: after `skip_first` steps, cycles of `wait` idle ones, `warmup` and `active`
    recorded ones.

    `repeat` cycles, 0 for ever; skip_first_wait=1 leaves out the wait of the first cycle. Source:
    torch.profiler.schedule."""
    with warnings.catch_warnings():  # that there is no warmup is this function's default
        warnings.filterwarnings("ignore", "Profiler won't be using warmup")
        return torch.profiler.schedule(
            wait=wait,
            warmup=warmup,
            active=active,
            repeat=repeat,
            skip_first=skip_first,
            skip_first_wait=skip_first_wait,
        )


def _activities(given: Iterable[ProfilerActivity] | None) -> list[ProfilerActivity] | None:
    """What is recorded: CPU and NPU; CUDA is what a GPU script means by the NPU.

    Raises TypeError for what is no list of ProfilerActivity, ValueError for the activity of another device."""
    if given is None:
        return None
    given = list(given) if isinstance(given, Iterable) else given
    if not isinstance(given, list) or not all(isinstance(one, ProfilerActivity) for one in given):
        raise TypeError(
            f"torch_npu.profiler: activities is {given!r}; it must be a list of ProfilerActivity.CPU and .NPU"
        )
    known = (ProfilerActivity.CPU, ProfilerActivity.PrivateUse1)
    if ProfilerActivity.CUDA in given:
        if "torch_npu.contrib.transfer_to_npu" not in sys.modules:
            warn("torch_npu.profiler: ProfilerActivity.CUDA is taken as ProfilerActivity.NPU; write that")
        given = list(dict.fromkeys(known[1] if one == ProfilerActivity.CUDA else one for one in given))
    for one in given:
        if one not in known:
            raise ValueError(
                f"torch_npu.profiler: activities has ProfilerActivity.{one.name}, which is of another device; "
                "ProfilerActivity.CPU and .NPU are recorded"
            )
    return given


def _callable(name: str, given: Any, remedy: str) -> Any:
    if given is None or callable(given):
        return given
    raise TypeError(f"torch_npu.profiler: {name} is {given!r}, which cannot be called; give {remedy}")


def _torch_config(with_stack: bool) -> _TorchConfig:
    # What kernels are told with (shapes, sizes of copies) and the stacks of operators are not shown otherwise.
    return _TorchConfig(expose_kineto_event_metadata=True, verbose=with_stack)


class _Vendor:
    """What the two profilers add to torch.profiler's."""

    _npu_config: _ExperimentalConfig

    def _configure(self, experimental_config: Any) -> None:
        if experimental_config is not None and not isinstance(experimental_config, _ExperimentalConfig):
            raise TypeError(
                f"experimental_config is {type(experimental_config).__name__}; it must be torch_npu.profiler's own "
                "_ExperimentalConfig"
            )
        self._npu_config = experimental_config or _ExperimentalConfig()

    def prepare_trace(self) -> None:
        """Raises RuntimeError where another profile of torch_npu.profiler records."""
        session.begin(self)
        self._thread = None
        try:
            super().prepare_trace()  # type: ignore[misc]
        except BaseException:
            session.end(self)
            raise

    def start_trace(self) -> None:
        if self.profile_memory:  # type: ignore[attr-defined]
            _C._keep_memory_points()
        try:
            super().start_trace()  # type: ignore[misc]
        except BaseException:
            session.end(self)
            raise
        if unwatch := getattr(self, "_unwatch", None):  # of a start() that is begun anew without a stop()
            unwatch()
        self._thread = threading.current_thread()
        self._watch = host.Watch(self._npu_config)
        self._watch.start()
        self._unwatch = weakref.finalize(self, self._watch.stop)  # also of a profile that is dropped and not stopped

    def stop_trace(self) -> None:
        """Nothing where this profile does not record: PyTorch's would end another that does.

        Warns on another thread than the one that began: PyTorch's records are that thread's, and lost."""
        if not session.owns(self):
            return
        if getattr(self, "_thread", None) not in (None, threading.current_thread()):
            warn(
                "torch_npu.profiler: this profile is empty: another thread ends it than began it, and only there "
                "PyTorch has what was recorded. Let one thread call start(), step() and stop()"
            )
        if unwatch := getattr(self, "_unwatch", None):  # without one where the profile only warmed up
            unwatch()
        if torch.npu.is_initialized() and not torch.npu._is_in_bad_fork():
            try:
                torch.npu.synchronize()
            except RuntimeError as error:  # of the program's work: PyTorch's stop would leave the profile recording
                self._late = error
        try:
            super().stop_trace()  # type: ignore[misc]
        finally:
            session.end(self)
            self._thread = None
            if self.profile_memory:  # type: ignore[attr-defined]
                self._memory_points = _C._take_memory_points()

    def stop(self) -> None:
        """Ends the profile; an error of an operator that nobody has waited for is raised after it is written."""
        super().stop()  # type: ignore[misc]
        self._raise_late()

    def add_metadata_json(self, key: str, value: str) -> None:
        """Puts `key` with the JSON text `value` into the files. Raises TypeError where one of them is no str."""
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(
                f"torch_npu.profiler: add_metadata_json({key!r}, {value!r}): both should be str, the second JSON text: "
                "json.dumps(value)"
            )
        super().add_metadata_json(key, value)  # type: ignore[misc]

    def _raise_late(self) -> None:
        if error := self.__dict__.pop("_late", None):
            raise error

    def export_chrome_trace(self, path: str) -> None:
        """PyTorch's own trace; gzipped where `path` ends in .gz. Raises RuntimeError where the profile has none.

        PyTorch writes a trace once: where data_simplification=False did so, this is its copy."""
        kept = getattr(self, "_kept_trace", None)
        if kept is None:
            super().export_chrome_trace(path)  # type: ignore[misc]
            return
        with gzip.open(path, "wb") if str(path).endswith(".gz") else open(path, "wb") as file:
            file.write(kept.read_bytes())

    def set_custom_trace_id_callback(self, callback: Callable[[], str]) -> None:
        self.custom_trace_id_callback = callback

    def get_trace_id(self) -> str:
        """The trace's number, or what the callback says; None before the first start."""
        return self.profiler.trace_id if self.profiler else None  # type: ignore[attr-defined]

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> Any:
        """Stacks with their time, for flame graphs; metric self_npu_time_total: the time of their kernels."""
        return super().export_stacks(path, _STACK_METRICS.get(metric, metric))  # type: ignore[misc]


class _KinetoProfile(_Vendor, torch.profiler._KinetoProfile):
    """start and stop, without a schedule."""

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: _ExperimentalConfig | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
    ) -> None:
        self._configure(experimental_config)
        super().__init__(
            activities=_activities(activities), record_shapes=record_shapes, profile_memory=profile_memory,
            with_stack=with_stack, with_flops=with_flops, with_modules=with_modules,
            experimental_config=_torch_config(with_stack), custom_trace_id_callback=custom_trace_id_callback,
        )  # fmt: skip


class profile(_Vendor, torch.profiler.profile):  # noqa: N801  (the vendor's name)
    """torch.profiler.profile for programs written for the vendor's: the same parameters, kernels of the NPU, and
    its files.

    Args:
        activities (list of ProfilerActivity): CPU, NPU or both, which None is; CUDA is taken as NPU, with a warning
            where torch_npu.contrib.transfer_to_npu is not imported.
        schedule (function): of the number of a step, what is done with it; torch_npu.profiler.schedule makes one. None
            records all.
        on_trace_ready (function): called with the profile whenever one is complete; tensorboard_trace_handler makes
            one that writes the vendor's files.
        record_shapes, profile_memory, with_stack, with_flops, with_modules (bool): as torch.profiler.profile has them.
        experimental_config (_ExperimentalConfig): torch_npu.profiler's, not PyTorch's: levels, ranges, formats.
        execution_trace_observer, custom_trace_id_callback: as torch.profiler.profile has them.
        use_cuda (bool): without meaning; anything but None warns.

    Raises TypeError for an experimental_config that is not torch_npu.profiler's, for an on_trace_ready or schedule that
    cannot be called (a folder's name goes into tensorboard_trace_handler) and for activities that are none; ValueError
    for the activity of another device. start() and step() raise RuntimeError where another profile of
    torch_npu.profiler is recording, which this one would end. Source: torch.profiler.profile."""

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: _ExperimentalConfig | None = None,
        execution_trace_observer: Any = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        use_cuda: bool | None = None,
    ) -> None:
        if use_cuda is not None:
            warn("torch_npu.profiler: use_cuda has no meaning; activities say what is recorded")
        self._configure(experimental_config)
        handler = f"tensorboard_trace_handler({on_trace_ready!r})" if isinstance(on_trace_ready, str) else "a function"
        _callable("on_trace_ready", on_trace_ready, f"{handler}, which is called with the profile")
        _callable("schedule", schedule, "torch_npu.profiler.schedule(wait=..., active=...)")
        super().__init__(
            activities=_activities(activities), schedule=schedule, on_trace_ready=on_trace_ready,
            record_shapes=record_shapes, profile_memory=profile_memory, with_stack=with_stack,
            with_flops=with_flops, with_modules=with_modules,
            experimental_config=_torch_config(with_stack),
            execution_trace_observer=execution_trace_observer, custom_trace_id_callback=custom_trace_id_callback,
        )  # fmt: skip

    def step(self) -> None:
        """The next step begins. Raises RuntimeError where it is to be recorded while another profile records."""
        try:
            super().step()
        except session.Busy:
            self.current_action = ProfilerAction.NONE  # so that stop() has nothing to stop
            raise
        self._raise_late()

    def stop(self) -> None:
        """Ends the profile. Of one that does not record, because it was stopped already or its start() was refused,
        nothing."""
        if self.current_action is ProfilerAction.NONE or session.owns(self):
            super().stop()

    @classmethod
    def enable_profiler_in_child_thread(cls, **what: bool) -> None:
        """Raises NotImplementedError: Python has no call by which a thread joins a profile that another started."""
        raise NotImplementedError(f"torch_npu.profiler.profile.enable_profiler_in_child_thread: {_NO_JOINING}")

    @classmethod
    def disable_profiler_in_child_thread(cls) -> None:
        """Raises NotImplementedError, as enable_profiler_in_child_thread does."""
        raise NotImplementedError(f"torch_npu.profiler.profile.disable_profiler_in_child_thread: {_NO_JOINING}")


def tensorboard_trace_handler(
    dir_name: str | os.PathLike[str] | None = None,
    worker_name: str | None = None,
    analyse_flag: bool = True,
    async_mode: bool = False,
) -> Callable[[Any], None]:
    """For on_trace_ready: writes <dir_name>/<worker_name>_<time>_ascend_pt. worker_name is <host>_<pid> by default;
    dir_name $ASCEND_WORK_PATH/profiling_data where that variable is set, else the working folder.

    analyse_flag=False keeps only what `analyse` needs; async_mode=True makes the tables in a thread that the process
    waits for when it ends. The folder is made, and tried, here and not when the profile is complete.

    Raises TypeError for a dir_name that is no str or Path, ValueError for a worker_name with a separator of folders or
    of over 200 bytes, RuntimeError where dir_name is a file, OSError where it cannot be made or written."""
    if worker_name and any(separator in str(worker_name) for separator in "/\\\0"):
        raise ValueError(
            f"torch_npu.profiler: worker_name is {worker_name!r}, which has a separator of folders; give a plain name, "
            "and the folder as dir_name"
        )
    if worker_name and len(os.fsencode(str(worker_name))) > 200:
        raise ValueError(f"torch_npu.profiler: worker_name has {len(str(worker_name))} characters: give 200 or fewer")
    base = results.usable_base(dir_name)

    def handle(prof: Any) -> None:
        folder = results.new_folder(base, worker_name)
        results.keep(folder, prof)
        if not analyse_flag:
            return
        if async_mode:
            threading.Thread(target=results.analyse_folder, args=(folder,)).start()
        else:
            results.analyse_folder(folder)

    return handle

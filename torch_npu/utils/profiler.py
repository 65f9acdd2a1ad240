"""Profile: one step of a training loop is profiled, chosen by its number. Scripts switch it on by PROFILE_TYPE.

The work is torch_npu.profiler's, which is imported when a profile is switched on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

__all__ = ["Profile"]


def _once(cls: type) -> Callable[..., Any]:
    """Later calls give the first call's object: scripts make one in each epoch, and one step of all is profiled."""
    made: list[Any] = []

    @functools.wraps(cls, updated=())
    def get(*args: Any, **kwargs: Any) -> Any:
        if not made:
            made.append(cls(*args, **kwargs))
        return made[0]

    return get


@_once
class Profile:
    """Profiles step start_step of a loop that calls start() and end() in each step. There is one a process.

    Args:
        start_step: the number of the step, from 1 on.
        save_path: the folder that the profile is written to.
        profile_type: None profiles nothing; "TORCH" uses torch_npu.profiler.
        use_npu: with the NPU's activities, beside the CPU's.
        record_shape: with the shapes of operators' inputs.
        experimental_config: torch_npu.profiler's _ExperimentalConfig.
        kwargs: more for torch_npu.profiler.profile.

    Raises: ValueError for another profile_type.
    """

    def __init__(
        self, start_step: int = 10, save_path: str = "./npu_profiling", profile_type: str | None = None,
        use_npu: bool = True, record_shape: bool = True, experimental_config: Any = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        if profile_type not in (None, "TORCH"):
            raise ValueError(f"profile_type is None or 'TORCH', not {profile_type!r}")
        self.start_step, self.save_path, self.step_count = start_step, save_path, 0
        self._profiler: Any = None
        if profile_type is not None:
            import torch_npu.profiler as profiler

            activities = [profiler.ProfilerActivity.CPU, *([profiler.ProfilerActivity.NPU] if use_npu else [])]
            if experimental_config is not None:
                kwargs["experimental_config"] = experimental_config
            self._profiler = profiler.profile(
                activities=activities, record_shapes=record_shape,
                on_trace_ready=profiler.tensorboard_trace_handler(save_path), **kwargs,
            )  # fmt: skip

    def start(self) -> None:
        """A step begins."""
        self.step_count += 1
        if self._profiler is not None and self.step_count == self.start_step:
            self._profiler.start()

    def end(self) -> None:
        """A step ends; the profile of the chosen one is written."""
        if self._profiler is not None and self.step_count == self.start_step:
            self._profiler.stop()

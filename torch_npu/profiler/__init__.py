"""torch_npu.profiler: torch.profiler with the vendor's names, and the folder of files that MindStudio's tools read.

    with torch_npu.profiler.profile(
        activities=[torch_npu.profiler.ProfilerActivity.CPU, torch_npu.profiler.ProfilerActivity.NPU],
        schedule=torch_npu.profiler.schedule(wait=1, warmup=1, active=2),
        on_trace_ready=torch_npu.profiler.tensorboard_trace_handler("./result"),
    ) as prof:
        for batch in loader:
            train(batch)
            prof.step()

writes ./result/<host>_<pid>_<time>_ascend_pt/ASCEND_PROFILER_OUTPUT (docs/profiling.md).
"""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch.profiler import ProfilerAction, ProfilerActivity

from torch_npu.profiler.config import (
    AiCMetrics,
    ExportType,
    HostSystem,
    ProfilerLevel,
    _ExperimentalConfig,
    supported_ai_core_metrics,
    supported_export_type,
    supported_profiler_level,
)
from torch_npu.profiler.profile import _KinetoProfile, profile, schedule, tensorboard_trace_handler
from torch_npu.profiler.results import analyse

__all__ = [
    "AiCMetrics",
    "ExportType",
    "HostSystem",
    "ProfilerAction",
    "ProfilerActivity",
    "ProfilerLevel",
    "analyse",
    "profile",
    "schedule",
    "supported_activities",
    "supported_ai_core_metrics",
    "supported_export_type",
    "supported_profiler_level",
    "tensorboard_trace_handler",
]


def supported_activities() -> set[ProfilerActivity]:
    """What `activities` may have: ProfilerActivity.CPU, and NPU (the same as PrivateUse1) where there is one."""
    return torch.profiler.supported_activities()


def __getattr__(name: str) -> Any:
    if name == "dynamic_profile":  # it watches for the process's end: loaded when asked for
        return importlib.import_module("torch_npu.profiler.dynamic_profile")
    raise AttributeError(f"module 'torch_npu.profiler' has no attribute {name!r}")

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

from torch.profiler import ProfilerAction, ProfilerActivity, supported_activities

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

"""The vendor's place of torch_npu.profiler's names: `from torch_npu.profiler.profiler import analyse`."""

from torch_npu.profiler import analyse, profile, schedule, tensorboard_trace_handler

__all__ = ["analyse", "profile", "schedule", "tensorboard_trace_handler"]

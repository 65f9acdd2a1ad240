"""torch_npu/utils/profiler.py: one step is profiled, one object a process."""

from __future__ import annotations

import sys
import types
from enum import Enum

import pytest

from torch_npu.utils import profiler

Own = profiler.Profile.__wrapped__


def test_without_a_type_nothing_is_profiled():
    profile = Own(start_step=1)
    profile.start()
    profile.end()
    assert profile.step_count == 1


def test_there_is_one_a_process():
    assert profiler.Profile() is profiler.Profile(start_step=3)


def test_another_type_is_refused():
    with pytest.raises(ValueError, match="profile_type is None or 'TORCH', not 'GE'"):
        Own(profile_type="GE")


def test_the_chosen_step_is_profiled(monkeypatch):
    """Against a stand-in with torch_npu.profiler's interface."""
    calls = []

    class Recorder:
        def __init__(self, **options):
            calls.append(options)

        def start(self):
            calls.append("start")

        def stop(self):
            calls.append("stop")

    stand_in = types.ModuleType("torch_npu.profiler")
    stand_in.ProfilerActivity = Enum("ProfilerActivity", ["CPU", "NPU"])
    stand_in.profile, stand_in.tensorboard_trace_handler = Recorder, lambda folder: folder
    monkeypatch.setitem(sys.modules, "torch_npu.profiler", stand_in)
    monkeypatch.setattr("torch_npu.profiler", stand_in, raising=False)
    profile = Own(start_step=2, profile_type="TORCH", save_path="out", with_stack=True)
    for step in range(3):
        profile.start()
        calls.append(step)
        profile.end()
    both = list(stand_in.ProfilerActivity)
    assert calls == [
        {"activities": both, "record_shapes": True, "on_trace_ready": "out", "with_stack": True},
        0, "start", 1, "stop", 2,
    ]  # fmt: skip

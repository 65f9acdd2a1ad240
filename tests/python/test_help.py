"""help(torch_npu.npu) lists what there is, and each name can be had."""

from __future__ import annotations

import pydoc

import torch

import torch_npu
from torch_npu.npu import _LATER


def test_all_names_are_listed_and_there():
    npu = torch_npu.npu
    assert {"Stream", "memory_summary", "init_dump", "stop_device", "mstx", "NPUGraph", "config"} <= set(npu.__all__)
    assert [name for name in npu.__all__ if not hasattr(npu, name)] == []
    assert {"Any", "importlib", "annotations"}.isdisjoint(npu.__all__)
    assert {*npu.__all__, *_LATER} <= set(dir(torch.npu)) and len(npu.__all__) > 90


def test_help_describes_them():
    text = pydoc.plain(pydoc.render_doc(torch_npu.npu))
    assert [name for name in ("empty_cache", "stop_device", "race_reports") if f"    {name}(" not in text] == []
    assert "class mstx(" in text and "docs/faults.md" in text


def test_the_profilers_questions_and_the_ranges_are_described():
    profiler = torch_npu.profiler
    for name in ("supported_activities", "supported_export_type", "supported_profiler_level"):
        assert getattr(profiler, name).__doc__
    assert torch.profiler.ProfilerActivity.PrivateUse1 in profiler.supported_activities()
    assert torch_npu.npu.mstx.range_end.__doc__ and "docs/sharing.md" in torch_npu.multiprocessing.__doc__

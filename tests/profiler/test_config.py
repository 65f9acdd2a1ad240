"""torch_npu.profiler's choices without a source here: not kept, or refused (config.py, profile.py)."""

from __future__ import annotations

import sys
import warnings

import pytest
import torch
from torch.profiler import ProfilerActivity

import torch_npu.profiler


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({}, (False, None, [])),
        ({"gc_detect_threshold": 1.5, "host_sys": ["mem", "cpu"]}, (True, 1.5, ["cpu", "mem"])),
        ({"gc_detect_threshold": 0, "host_sys": "mem"}, (True, 0, ["mem"])),
    ],
)
def test_what_the_host_is_watched_for(options, kept):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config = torch_npu.profiler._ExperimentalConfig(**options)
    assert (config.with_gc, config.gc_detect_threshold, config.host_sys) == kept


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"gc_detect_threshold": -1}, "gc_detect_threshold is -1 and should be a number of milliseconds"),
        ({"gc_detect_threshold": "1"}, "gc_detect_threshold is '1' and should be"),
        ({"gc_detect_threshold": True}, "gc_detect_threshold is True and should be"),
        ({"gc_detect_threshold": float("nan")}, "gc_detect_threshold is nan and should be"),
        ({"host_sys": ["osrt"]}, "host_sys=osrt is left out"),
        ({"host_sys": ["gpu"]}, "host_sys is 'gpu', which is none of"),
    ],
)
def test_what_the_host_cannot_be_watched_for_is_a_warning_and_not_kept(options, said):
    with pytest.warns(UserWarning, match=said):
        config = torch_npu.profiler._ExperimentalConfig(**options)
    assert (config.with_gc, config.host_sys) == (False, [])


@pytest.mark.parametrize("asked", [torch_npu.profiler.AiCMetrics.PipeUtilization, torch_npu.profiler.AiCMetrics.Memory])
def test_counters_that_are_asked_for_are_left_out_with_a_warning(asked):
    with pytest.warns(UserWarning, match=f"aic_metrics={asked} is left out"):
        assert torch_npu.profiler._ExperimentalConfig(aic_metrics=asked)._aic_metrics == "ACL_AICORE_NONE"


@pytest.mark.parametrize(
    ("options", "said", "property_", "used"),
    [
        ({"profiler_level": ["Level1"]}, "profiler_level is \\['Level1'\\], which is none of", "level", "Level0"),
        ({"profiler_level": None}, "profiler_level is None", "level", "Level0"),
        ({"aic_metrics": ["x"]}, "aic_metrics is \\['x'\\]", "_aic_metrics", "ACL_AICORE_NONE"),
        ({"export_type": 1}, "export_type is 1", "export_type", ["text"]),
        ({"export_type": 0}, "export_type is 0", "export_type", ["text"]),
        ({"export_type": [["db"]]}, "export_type is \\['db'\\]", "export_type", ["text"]),
        ({"export_type": {"db": 1}}, "export_type is {'db': 1}", "export_type", ["text"]),
        ({"export_type": [3, "db"]}, "export_type is 3", "export_type", ["text", "db"]),
    ],
)
def test_a_value_of_any_type_is_a_warning_that_names_the_argument(options, said, property_, used):
    with pytest.warns(UserWarning, match=said):
        assert getattr(torch_npu.profiler._ExperimentalConfig(**options), property_) == used


@pytest.mark.parametrize("options", [{}, {"aic_metrics": None}, {"aic_metrics": "ACL_AICORE_NONE"}])
def test_no_counters_are_no_warning(options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch_npu.profiler._ExperimentalConfig(**options)._aic_metrics == "ACL_AICORE_NONE"


@pytest.mark.parametrize("name", ["enable_profiler_in_child_thread", "disable_profiler_in_child_thread"])
def test_a_thread_that_joins_a_profile_is_refused(name):
    with pytest.raises(NotImplementedError, match=f"{name}: PyTorch gives Python no call"):
        getattr(torch_npu.profiler.profile, name)()


def test_every_argument_is_described():
    config = torch_npu.profiler._ExperimentalConfig
    told = config.__doc__.partition("Args:")[2]
    names = config.__init__.__code__.co_varnames[1 : config.__init__.__code__.co_argcount]
    assert [name for name in names if name not in told] == []


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"on_trace_ready": "result"}, TypeError, r"is 'result', .* give tensorboard_trace_handler\('result'\)"),
        ({"on_trace_ready": 3}, TypeError, "on_trace_ready is 3, which cannot be called; give a function"),
        ({"schedule": 3}, TypeError, r"schedule is 3, which cannot be called; give torch_npu.profiler.schedule"),
        ({"activities": ProfilerActivity.CPU}, TypeError, "activities is .*; it must be a list of ProfilerActivity"),
        ({"activities": ["CPU"]}, TypeError, r"activities is \['CPU'\]; it must be a list of ProfilerActivity"),
        ({"activities": [ProfilerActivity.XPU]}, ValueError, "activities has ProfilerActivity.XPU, which is of an"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_before_the_profile(options, error, message):
    with pytest.raises(error, match=message):
        torch_npu.profiler.profile(**options)


def test_the_activity_of_gpu_scripts_is_the_npu_s(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch_npu.contrib.transfer_to_npu", raising=False)  # of another test: it silences
    x = torch.ones(4).npu()
    with pytest.warns(UserWarning, match="ProfilerActivity.CUDA is taken as ProfilerActivity.NPU"):
        prof = torch_npu.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])
    with prof:
        x + 1
        torch.npu.synchronize()
    assert prof.activities == {ProfilerActivity.CPU, ProfilerActivity.PrivateUse1}
    assert any(event.device_type != torch.autograd.DeviceType.CPU for event in prof.events())

"""One profile records at a time: what begins within another, is stopped twice or lost (profiler/session.py)."""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Callable

import pytest
import torch

torch_npu = pytest.importorskip("torch_npu", reason="the plugin is not built", exc_type=ImportError)
from tests.core.tools import output  # noqa: E402
from torch_npu import profiler  # noqa: E402

BOTH = [profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.NPU]


def test_a_profile_within_another_is_refused_and_the_outer_one_keeps_what_it_has():
    x = torch.ones(4).npu()
    with profiler.profile(activities=BOTH) as outer:
        x + 1
        inner = profiler.profile(activities=BOTH)
        with pytest.raises(RuntimeError, match=r"another profile is recording.*Call stop\(\) of the other"):
            inner.start()
        with pytest.raises(RuntimeError, match="another profile is recording"):
            profiler._KinetoProfile(activities=BOTH).start()
        x * 2
    assert {"aten::add", "aten::mul"} <= {e.key for e in outer.key_averages()}
    with inner:
        x - 1
    assert "aten::sub" in {e.key for e in inner.key_averages()}


def test_a_scheduled_profile_whose_turn_comes_within_another_is_refused_at_that_step():
    x = torch.ones(4).npu()
    cycle = profiler.schedule(wait=1, warmup=1, active=1, repeat=1)
    with profiler.profile(activities=BOTH, schedule=cycle) as inner:
        with profiler.profile(activities=BOTH) as outer:
            x + 1
            with pytest.raises(RuntimeError, match="another profile is recording"):
                inner.step()
        assert "aten::add" in {e.key for e in outer.key_averages()}


def test_a_profile_that_nobody_can_stop_is_in_nobodys_way():
    lost = profiler.profile(activities=BOTH)
    lost.start()
    del lost
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with profiler.profile(activities=BOTH) as prof:
            torch.ones(4).npu() + 1
    assert "aten::add" in {e.key for e in prof.key_averages()}


def test_within_torchs_own_profile_it_warns():
    x = torch.ones(4).npu()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        with pytest.warns(UserWarning, match="a profile of torch.profiler is recording"):
            with profiler.profile(activities=BOTH) as prof:
                x + 1
    assert "aten::add" in {e.key for e in prof.key_averages()}


def test_what_is_stopped_twice_or_was_refused_ends_no_other():
    x, ready = torch.ones(4).npu(), []
    first = profiler.profile(activities=BOTH, on_trace_ready=ready.append)
    first.start()
    first.stop()
    with profiler.profile(activities=BOTH) as other:
        first.stop()
        refused = profiler.profile(activities=BOTH, on_trace_ready=ready.append)
        with pytest.raises(RuntimeError, match="another profile is recording"):
            try:
                refused.start()
            finally:
                refused.stop()
        plain = profiler._KinetoProfile(activities=BOTH)
        plain.stop()
        x + 1
    assert ready == [first] and "aten::add" in {e.key for e in other.key_averages()}


def test_a_finalizer_that_stops_a_profile_may_run_while_another_begins():
    class Owner:
        def __init__(self) -> None:
            self.prof, self.me = profiler.profile(activities=BOTH), self
            self.prof.start()

        def __del__(self) -> None:
            self.prof.stop()

    Owner()  # a part of a cycle: only gc finds it
    with profiler.profile(activities=BOTH) as prof:
        torch.ones(4).npu() + 1
    assert "aten::add" in {e.key for e in prof.key_averages()}


def test_a_profile_of_the_cpu_leaves_the_npu_alone():
    program = """
        import torch, torch_npu
        with torch_npu.profiler.profile(activities=[torch_npu.profiler.ProfilerActivity.CPU]):
            torch.ones(3) + 1
        print(torch.npu.is_initialized())
    """
    assert output(program) == "False"


def test_a_profile_that_another_thread_ends_is_empty_which_is_said_and_the_next_one_is_whole():
    """PyTorch keeps what is recorded with the thread that began."""
    x = torch.ones(4).npu()

    def elsewhere(call: Callable[[], None]) -> None:
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()

    cycle = profiler.schedule(wait=0, warmup=0, active=2, repeat=1)
    for begin, end in ((elsewhere, lambda call: call()), (lambda call: call(), elsewhere)):
        for schedule, last in ((None, "stop"), (cycle, "step")):
            ready = []
            prof = profiler.profile(activities=BOTH, schedule=schedule, on_trace_ready=ready.append)
            begin(prof.start)
            x + 1
            if schedule:
                begin(prof.step)
            with pytest.warns(UserWarning, match="this profile is empty: another thread ends it"):
                end(getattr(prof, last))
            assert ready == [prof]
            if schedule:
                prof.stop()
    with profiler.profile(activities=BOTH) as prof:
        x + 1
    assert "aten::add" in {e.key for e in prof.key_averages()}


def test_metadata_that_is_no_text_is_refused_and_the_profile_is_written(tmp_path):
    x = torch.ones(4).npu()
    with profiler.profile(activities=BOTH, on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path))) as prof:
        x + 1
        for key, value in (("a", 5), (5, "1"), ("a", None)):
            with pytest.raises(TypeError, match=r"add_metadata_json\(.*both should be str"):
                prof.add_metadata_json(key, value)
        prof.add_metadata_json("kept", "[1, 2]")
    (kernels,) = tmp_path.glob("*_ascend_pt/ASCEND_PROFILER_OUTPUT/kernel_details.csv")
    (metadata,) = tmp_path.glob("*_ascend_pt/profiler_metadata.json")
    assert len(kernels.read_text().splitlines()) == 2 and json.loads(metadata.read_text())["kept"] == [1, 2]


def test_a_worker_name_that_no_folder_can_have_is_refused_before_anything_is_recorded(tmp_path):
    with pytest.raises(ValueError, match="worker_name has 300 characters: give 200 or fewer"):
        profiler.tensorboard_trace_handler(str(tmp_path), "n" * 300)


def test_a_warning_shows_the_programs_line():
    with pytest.warns(UserWarning, match="l2_cache is left out") as caught:
        profiler._ExperimentalConfig(l2_cache=True)
    assert [one.filename for one in caught] == [__file__]

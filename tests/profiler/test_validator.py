"""The traces of both profilers are such as Perfetto and chrome://tracing import: validator.py has the rules."""

from __future__ import annotations

import copy
import json
import time
from pathlib import Path

import pytest
import torch

from tests.profiler import validator

torch_npu = pytest.importorskip("torch_npu", reason="the plugin is not built", exc_type=ImportError)
profiler = torch_npu.profiler


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """trace_view.json of torch_npu.profiler with all that it may have, and PyTorch's own trace of the same."""
    base = tmp_path_factory.mktemp("traces")
    model = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4)).npu()
    optimizer, side = torch.optim.SGD(model.parameters(), lr=0.1), torch.npu.Stream()
    config = profiler._ExperimentalConfig(
        profiler_level=profiler.ProfilerLevel.Level1, mstx=True, data_simplification=False, host_sys=["cpu", "mem"],
        gc_detect_threshold=0,
    )  # fmt: skip
    with profiler.profile(
        schedule=profiler.schedule(wait=0, active=2, repeat=1), record_shapes=True, profile_memory=True,
        on_trace_ready=profiler.tensorboard_trace_handler(base), experimental_config=config,
    ) as prof:  # fmt: skip
        for _ in range(2):
            with torch_npu.npu.mstx.annotate("step", torch.npu.current_stream()):
                loss = model(torch.randn(2, 16).npu()).sum()
                loss.backward()
                optimizer.step()
            with torch.npu.stream(side):
                torch.ones(4).npu() * 2
            loss.cpu()
            time.sleep(0.05)  # some of the system's ticks, by which it counts how busy processors were
            prof.step()
    (made,) = base.iterdir()
    return {"trace_view": made / "ASCEND_PROFILER_OUTPUT" / "trace_view.json",
            "torch": made / "FRAMEWORK" / "torch_trace.json"}  # fmt: skip


@pytest.mark.parametrize("kind", ["trace_view", "torch"])
def test_the_traces_are_valid(traces: dict[str, Path], kind: str):
    assert validator.faults(traces[kind]) == []


def test_the_trace_has_every_kind_of_flow_and_counter(traces: dict[str, Path]):
    events = json.loads(traces["trace_view"].read_text())
    assert {e["cat"] for e in events if e["ph"] == "s"} == {"HostToDevice", "async_npu", "fwdbwd"}
    assert {e["name"].split()[0] for e in events if e["ph"] == "C"} == {"CPU", "Memory"}


BREAKS = {
    "ts is no time": lambda e: e.update(ts="soon"),
    "ts is not microseconds": lambda e: e.update(ts=validator.ns(e["ts"])),
    "dur is no duration": lambda e: e.update(dur=-1),
    "pid is None": lambda e: e.pop("pid"),
    "tid is 1.5": lambda e: e.update(tid=1.5),
    "no name": lambda e: e.update(name=""),
    "ph is 'Y'": lambda e: e.update(ph="Y"),
    "leaves .*, in which it begins": lambda e: e.update(dur=e["dur"] + 5e5),
}


@pytest.mark.parametrize("said", BREAKS)
def test_the_validator_finds_a_broken_event(traces: dict[str, Path], tmp_path: Path, said: str):
    events = copy.deepcopy(json.loads(traces["trace_view"].read_text()))
    BREAKS[said](next(e for e in events if e["ph"] == "X" and e["name"] == "aten::mm"))
    (tmp_path / "broken.json").write_text(json.dumps(events))
    import re

    assert any(re.search(said, one) for one in validator.faults(tmp_path / "broken.json"))


def swapped(events: list[dict], flow: dict) -> None:
    end = next(e for e in events if e["ph"] == "f" and (e["cat"], e["id"]) == (flow["cat"], flow["id"]))
    for field in ("ts", "pid", "tid"):
        flow[field], end[field] = end[field], flow[field]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda events, flow: events.remove(flow), "has 0 starts and 1 ends"),
        (lambda events, flow: events.append(dict(flow)), "has 2 starts and 1 ends"),
        (lambda events, flow: flow.update(tid=-7), "has its s on no slice"),
        (lambda events, flow: flow.update(ph="f"), "not bound to the slice"),
        (swapped, "ends before its start"),
    ],
)
def test_the_validator_finds_a_broken_flow(traces: dict[str, Path], tmp_path: Path, change, said: str):
    events = json.loads(traces["trace_view"].read_text())
    change(events, next(e for e in events if e["ph"] == "s" and e["cat"] == "fwdbwd"))
    (tmp_path / "broken.json").write_text(json.dumps(events))
    assert any(said in one for one in validator.faults(tmp_path / "broken.json"))

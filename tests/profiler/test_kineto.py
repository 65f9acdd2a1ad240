"""torch.profiler on the NPU: device events, which operator each belongs to, the Chrome trace and its flows."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from tests.older import OLDER, since_2_13

pytest.importorskip("torch_npu", reason="the plugin is not built", exc_type=ImportError)
BOTH = [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]


def device_events(prof: profile) -> list:
    return [
        e
        for e in prof.profiler.kineto_results.events()
        if e.device_type() == DeviceType.PrivateUse1 and e.name() != "[memory]"
    ]


def of_operator(prof: profile) -> dict[str, list[str]]:
    """Kernels by the name of the operator that they are linked to."""
    names = {
        e.correlation_id(): e.name() for e in prof.profiler.kineto_results.events() if e.activity_type() == "cpu_op"
    }
    found: dict[str, list[str]] = {}
    for e in device_events(prof):
        found.setdefault(names.get(e.linked_correlation_id(), ""), []).append(e.name())
    return found


@since_2_13("that it is renamed")
def test_both_names_of_the_activity():
    assert ProfilerActivity.NPU == ProfilerActivity.PrivateUse1
    assert ProfilerActivity.NPU in torch.profiler.supported_activities()


@since_2_13("the activity of an event")
def test_each_kernel_belongs_to_its_operator():
    a = torch.ones(4, 3).npu()
    before = time.time_ns()
    with profile(activities=BOTH) as prof:
        b = a + a
        torch.mm(b, a.t())
        b.mul_(3)
        b.cpu()
    after = time.time_ns()
    assert of_operator(prof) == {
        "aten::add": ["aclnnAdd"], "aten::mm": ["aclnnMm"], "aten::mul_": ["aclnnMuls"], "aten::copy_": ["Memcpy DtoH"],
    }  # fmt: skip
    slack = (
        10**8
    )  # PyTorch's own clock is another one, brought into line with the system's: not exactly on a busy machine
    times = [(e.start_ns(), e.end_ns()) for e in device_events(prof)]
    assert all(before - slack <= start <= end <= after + slack for start, end in times)
    assert times == sorted(times)


@since_2_13("the activity of an event")
def test_backward_and_optimizer():
    model = torch.nn.Linear(8, 4).npu()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(2, 8).npu()
    with profile(activities=BOTH) as prof:
        model(x).sum().backward()
        optimizer.step()
    linked = of_operator(prof)
    assert "" not in linked and "aten::addmm" in linked and "aten::mm" in linked and "aten::sum" in linked
    calls = {
        e.correlation_id() for e in prof.profiler.kineto_results.events() if e.activity_type() == "privateuse1_runtime"
    }
    assert {e.correlation_id() for e in device_events(prof)} <= calls


def test_key_averages_has_device_time_and_shapes():
    a = torch.randn(300, 300).npu()
    with profile(activities=BOTH, record_shapes=True) as prof:
        for _ in range(3):
            torch.mm(a, a)
    row = next(r for r in prof.key_averages(group_by_input_shape=True) if r.key == "aten::mm")
    assert row.count == 3 and row.input_shapes == [[300, 300], [300, 300]]
    took = sum(e.duration_ns() for e in device_events(prof)) / 1000
    assert took > 0 and row.device_time_total == pytest.approx(took, rel=1e-3)
    assert row.self_device_time_total == pytest.approx(took, rel=1e-3)
    assert "Self NPU" in prof.key_averages().table(sort_by="self_device_time_total")


def test_memory_and_stacks():
    with profile(activities=BOTH, profile_memory=True, with_stack=True) as prof:
        kept = torch.empty(1 << 20, dtype=torch.uint8, device="npu")
    row = next(r for r in prof.key_averages() if r.key == "aten::empty")
    assert row.self_device_memory_usage == kept.numel() == 1 << 20
    frames = any("test_kineto.py" in e.name() for e in prof.profiler.kineto_results.events())
    assert frames or OLDER  # 2.10 records none of the CPU alone either, where it has CUDA and no GPU


def test_chrome_trace_has_both_ends_of_each_flow(tmp_path: Path):
    a = torch.ones(16).npu()
    with profile(activities=BOTH) as prof:
        for _ in range(5):
            a = a + 1
        a.cpu()
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    flows = {ph: sorted(e["id"] for e in events if e.get("cat") == "ac2g" and e["ph"] == ph) for ph in "sf"}
    assert len(flows["s"]) == 6 and flows["s"] == flows["f"]
    kernels = [e for e in events if e.get("cat") == "kernel"]
    assert [k["name"] for k in kernels] == ["aclnnAdds"] * 5
    assert all(k["pid"] == 0 and k["args"]["input shapes"] == "16" for k in kernels)
    operators = {e["args"]["External id"]: e["name"] for e in events if e.get("cat") == "cpu_op"}
    assert {operators[k["args"]["External id"]] for k in kernels} == {"aten::add"}
    labels = [e["args"]["labels"] for e in events if e.get("name") == "process_labels"]
    assert "NPU 0" in labels


def test_host_alone_records_nothing_of_the_device():
    a = torch.ones(4).npu()
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        a + a
    assert device_events(prof) == []


def test_a_schedule_records_its_active_steps():
    a, seen = torch.ones(4).npu(), []
    with profile(
        activities=BOTH, schedule=schedule(wait=1, warmup=1, active=2, repeat=2),
        on_trace_ready=lambda p: seen.append(Counter(e.name() for e in device_events(p))),
    ) as prof:  # fmt: skip
        for _ in range(8):
            a + a
            prof.step()
    assert seen == [Counter(aclnnAdd=2)] * 2


def test_many_profiles_after_each_other():
    a = torch.ones(4).npu()
    for n in range(20):
        with profile(activities=BOTH) as prof:
            for _ in range(n % 4):
                a + a
        assert len(device_events(prof)) == n % 4


def test_threads_streams_and_devices():
    a, other = torch.ones(4).npu(), torch.ones(4, device="npu:1")
    side = torch.npu.Stream()

    def work() -> None:
        with torch.npu.stream(side):
            a * a
        side.synchronize()

    with profile(activities=BOTH) as prof:
        a + a
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        other - other
        torch.npu.synchronize(1)
    found = {e.name(): (e.device_index(), e.device_resource_id()) for e in device_events(prof)}
    assert [found[n][0] for n in ("aclnnAdd", "aclnnMul", "aclnnSub")] == [0, 0, 1]
    assert found["aclnnAdd"][1] != found["aclnnMul"][1]


def test_a_graphs_replays():
    a, graph = torch.ones(8).npu(), torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        a.add_(1)
    with profile(activities=BOTH) as prof:
        for _ in range(4):
            graph.replay()
        torch.npu.synchronize()
    assert Counter(e.name() for e in device_events(prof)) == {"aclnnAdds": 4}


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    """This process alone is a group over hccl."""
    torch.distributed.init_process_group("hccl", store=torch.distributed.FileStore(str(tmp_path / "store"), 1),
                                         rank=0, world_size=1)  # fmt: skip
    yield
    torch.distributed.destroy_process_group()


@since_2_13("the activity of an event")
def test_a_collective_is_a_row_of_the_device_and_belongs_to_its_operator(group: None):
    x = torch.arange(6, dtype=torch.float32).npu()
    torch.distributed.all_reduce(x)  # the communicator is made
    torch.npu.synchronize()
    with profile(activities=BOTH) as prof:
        torch.distributed.all_reduce(x)
        torch.npu.synchronize()
    events = prof.profiler.kineto_results.events()
    (row,) = [e for e in device_events(prof) if e.name().startswith("Hccl")]
    assert (row.name(), row.activity_type(), row.device_index()) == ("HcclAllReduce", "kernel", 0)
    (call,) = [e for e in events if e.activity_type() == "privateuse1_runtime" and e.name() == "HcclAllReduce"]
    assert row.correlation_id() == call.correlation_id()
    operators = {e.correlation_id(): e.name() for e in events if e.activity_type() == "cpu_op"}
    assert operators[row.linked_correlation_id()] == "c10d::allreduce_"


@pytest.mark.parametrize("kineto", [True, False])
def test_the_older_profilers_measure_operators_by_events(kineto: bool):
    a = torch.randn(200, 200).npu()
    with torch.autograd.profiler.profile(use_device="npu", use_kineto=kineto) as prof:
        torch.mm(a, a)
    row = next(r for r in prof.key_averages() if r.key == "aten::mm")
    assert row.count == 1 and row.device_time_total > 0 and "Self NPU" in prof.key_averages().table()


def test_flops_and_modules():
    model, x = torch.nn.Linear(30, 20, bias=False).npu(), torch.randn(10, 30).npu()
    with profile(activities=BOTH, with_flops=True, with_modules=True) as prof, torch.no_grad():
        model(x)
    row = next(r for r in prof.key_averages() if r.key == "aten::mm")
    assert row.flops == 2 * 10 * 30 * 20


def test_stacks_of_kernels_are_exported_for_flame_graphs(tmp_path: Path):
    config = torch._C._profiler._ExperimentalConfig(verbose=True)
    a = torch.randn(100, 100).npu()
    with profile(activities=BOTH, with_stack=True, experimental_config=config) as prof:
        torch.mm(a, a)
    prof.export_stacks(str(tmp_path / "stacks"), "self_privateuse1_time_total")
    lines = (tmp_path / "stacks").read_text().splitlines()
    took = sum(e.duration_ns() for e in device_events(prof)) / 1000
    found = [line.rsplit(" ", 1) for line in lines if "test_kineto.py" in line]
    assert found and all(int(time) == pytest.approx(took, abs=1) for _, time in found)


@since_2_13("the activity of an event")
def test_an_error_within_leaves_the_profiler_usable():
    a = torch.ones(4).npu()
    with pytest.raises(RuntimeError), profile(activities=BOTH):
        torch.mm(a, a)
    with profile(activities=BOTH) as prof:
        a + a
    assert of_operator(prof) == {"aten::add": ["aclnnAdd"]}


def test_autograd_profiler_by_device_name():
    a = torch.ones(4).npu()
    with torch.autograd.profiler.profile(use_device="npu") as prof, record_function("mine"):
        a + a
    row = next(r for r in prof.key_averages() if r.key == "aten::add")
    assert row.device_time_total > 0


def test_a_second_profiler_of_the_library_is_warned_of(capfd: pytest.CaptureFixture):
    from tests.profiler import mspti

    a = torch.ones(4).npu()
    with mspti.Subscriber(mspti.KERNEL) as s:
        with profile(activities=BOTH) as prof:
            a + a
    assert "another profiler uses libmspti" in capfd.readouterr().err
    assert len(s.records) == 1 and device_events(prof) == []

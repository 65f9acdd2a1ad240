"""torch_npu.profiler.page: a trace as one HTML page; what Chromium shows of a training step's."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import struct
import subprocess
import sys
import zlib
from collections import Counter
from pathlib import Path

import pytest
import torch

pytest.importorskip("torch_npu", reason="the plugin is not built", exc_type=ImportError)
from tests.profiler import ranks  # noqa: E402
from torch_npu.profiler import page  # noqa: E402

KEPT = Path(__file__).resolve().parents[2] / "build" / "pictures"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def shown(text: str) -> dict:
    return json.loads(re.search(r"const D=(\{.*?\}),c=document", text, re.S)[1].replace("<\\/", "</"))


def test_rows_are_threads_and_events_lie_in_those_around_them(tmp_path: Path):
    def named(kind: str, tid: int, name: str) -> dict:
        return {"ph": "M", "name": kind, "pid": 1, "tid": tid, "args": {"name": name}}

    def event(name: str, ts: float, dur: float, **args: str) -> dict:
        return {"ph": "X", "pid": 1, "tid": 2, "name": name, "ts": ts, "dur": dur, "args": args}

    events = [
        named("process_name", 0, "NPU"),
        named("thread_name", 2, "Stream 2"),
        {"ph": "i", "name": "mark", "ts": 1},
    ]
    events += [event("inner</script>", 2, 3), event("outer", 1, 10, shape="3,4"), event("after", 12, 1)]
    for data in (json.dumps({"traceEvents": events}).encode(), gzip.compress(json.dumps(events).encode())):
        (tmp_path / "trace.json").write_bytes(data)
        text = page.page(tmp_path / "trace.json")
        assert text.count("</script>") == 1
        (row,) = shown(text)["rows"]
        assert row["name"] == "NPU · Stream 2"
        assert [(shown(text)["names"][e[2]], e[0], e[1], e[3]) for e in row["events"]] == [
            ("outer", 1, 10, 0), ("inner</script>", 2, 3, 1), ("after", 12, 1, 0),
        ]  # fmt: skip
        assert row["events"][0][4] == "shape: 3,4"


def test_a_row_of_very_many_events_has_its_depth_without_the_browser(tmp_path: Path):
    deep = [{"ph": "X", "pid": 1, "tid": 2, "name": "<lambda>", "ts": i, "dur": 9 - i} for i in range(3)]
    many = [{"ph": "X", "pid": 1, "tid": 2, "name": "f", "ts": 10 + i, "dur": 1} for i in range(300)]
    trace = tmp_path / "a<b>&.json"
    trace.write_text(json.dumps(deep + many))
    text = page.page(trace)
    (row,) = shown(text)["rows"]
    assert row["deep"] == 3 and len(row["events"]) == 303 and "r.deep*H" in text
    assert "...r.events" not in text  # spread as arguments, 200,000 are more than an engine has room for
    assert "<title>a&lt;b&gt;&amp;.json</title>" in text and "<lambda>" not in text


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[]", "has no events with a duration"),
        (b"{}", "is no trace of events (KeyError: 'traceEvents')"),
        (b"{", "is no trace of events (JSONDecodeError: "),
        (b"7", "is no trace of events (TypeError: "),
        (b'[{"ph": "X"}]', "is no trace of events (KeyError: 'ts')"),
        (b"[7]", "is no trace of events (AttributeError: "),
        (b"\x1f\x8bnothing", "is no trace of events (EOFError: "),
        (None, "No such file or directory"),
    ],
)
def test_a_file_that_is_no_trace_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture, content, said):
    trace = tmp_path / "some.json"
    if content is not None:
        trace.write_bytes(content)
    assert page.main([str(trace)]) == 1
    told = capsys.readouterr()
    assert said in told.err and "some.json" in told.err and told.err.count("\n") == 1 and told.out == ""
    assert not trace.with_suffix(".html").exists()


def pixels(png: bytes) -> tuple[int, set[bytes]]:
    """Width, and the colours of an 8-bit picture without interlace; rows are unfiltered as far as colours need."""
    width, height, depth, kind = struct.unpack(">IIBB", png[16:26])
    assert depth == 8 and kind in (2, 6)
    size, at, data = 3 if kind == 2 else 4, 8, b""
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + length]
        at += 12 + length
    raw, above, colours = zlib.decompress(data), bytearray(width * size), set()
    for y in range(height):
        line = bytearray(raw[y * (width * size + 1) + 1 : (y + 1) * (width * size + 1)])
        how = raw[y * (width * size + 1)]
        for i in range(len(line) if how else 0):
            a, b, c = line[i - size] if i >= size else 0, above[i], above[i - size] if i >= size else 0
            nearest = min((a, b, c), key=lambda v, p=a + b - c: abs(p - v)) if how == 4 else 0
            line[i] = (line[i] + (0, a, b, (a + b) // 2, nearest)[how]) & 255
        above = line
        colours |= {bytes(line[i : i + 3]) for i in range(0, len(line), size)}
    return width, colours


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Of a training step of ResNet18, both profilers' traces; of one of two ranks, the first's."""
    from tests.conformance.profiled import resnet18

    base, torch_npu = tmp_path_factory.mktemp("traces"), sys.modules["torch_npu"]
    model = resnet18()
    optimizer, x = torch.optim.SGD(model.parameters(), 0.1), torch.randn(2, 3, 64, 64).npu()

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), torch.tensor([0, 3]).npu()).backward()
        optimizer.step()
        torch.npu.synchronize()

    step()
    kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.PrivateUse1]
    with torch.profiler.profile(activities=kinds) as profiled:
        step()
    profiled.export_chrome_trace(str(base / "resnet18.json"))
    with torch_npu.profiler.profile(on_trace_ready=torch_npu.profiler.tensorboard_trace_handler(base, "resnet18")):
        step()
    ranks.profiled(base, base)
    (whole,), (rank,) = (
        base.glob(f"{name}_*/ASCEND_PROFILER_OUTPUT/trace_view.json") for name in ("resnet18", "rank0")
    )
    return {"resnet18": base / "resnet18.json", "resnet18_view": whole, "rank0_view": rank}


@pytest.mark.full
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("name", "tasks"), [("resnet18", 150), ("resnet18_view", 150), ("rank0_view", 15)])
def test_chromium_shows_a_training_step(traces: dict[str, Path], tmp_path: Path, name: str, tasks: int):
    """The pictures stay in build/pictures."""
    if CHROMIUM is None:
        pytest.skip("no Chromium: apt-get install chromium")
    trace, picture = tmp_path / f"{name}.json", KEPT / f"{name}.png"
    shutil.copyfile(traces[name], trace)
    done = subprocess.run([sys.executable, "-m", "torch_npu.profiler.page", str(trace)], capture_output=True, text=True)
    html = trace.with_suffix(".html")
    assert done.returncode == 0 and done.stdout.strip() == str(html), done.stderr
    read = json.loads(trace.read_text())
    spans = [e for e in (read["traceEvents"] if isinstance(read, dict) else read) if e["ph"] == "X"]
    kernels = [e["name"] for e in spans if e.get("cat") == "kernel" or "Task Type" in e.get("args", {})]
    data = shown(html.read_text())
    drawn = Counter(data["names"][e[2]] for row in data["rows"] for e in row["events"])
    assert len(kernels) >= tasks and sum(drawn.values()) == len(spans)
    assert all(drawn[kernel] >= number for kernel, number in Counter(kernels).items())
    KEPT.mkdir(parents=True, exist_ok=True)
    picture.unlink(missing_ok=True)
    command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1000,600",
               f"--user-data-dir={tmp_path / 'profile'}", f"--screenshot={picture}", html.as_uri()]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    width, colours = pixels(picture.read_bytes())
    assert width == 1000 and len(colours) > 50  # rows of bars in many colours, and their names

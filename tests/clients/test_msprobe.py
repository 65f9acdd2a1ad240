"""msprobe, the vendor's precision tool: dumps npu tensors, and its comparison with the CPU's dump says pass."""

from __future__ import annotations

import csv
import json
import os
import subprocess
from pathlib import Path

import numpy
import pytest
import torch

from tests.clients import environment
from tests.clients.msprobe_dump import made


@pytest.fixture(scope="module")
def python() -> Path:
    try:
        return environment.python("msprobe")
    except environment.Unavailable as reason:
        pytest.skip(str(reason))


def run(python: Path, *arguments: str) -> str:
    keep = {name: value for name, value in os.environ.items() if not name.startswith("ASCEND_")}
    done = subprocess.run(
        [str(python), "-m", *arguments], cwd=environment.ROOT, env=keep, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout + done.stderr


def dump(python: Path, device: str, level: str, folder: Path, *task: str) -> Path:
    """The folder of the one process of step 0."""
    folder.mkdir()
    run(python, "tests.clients.msprobe_dump", device, level, str(folder), *task)
    return next((folder / "dump" / "step0").iterdir()) if level != "L2" else folder / "dump" / "step0"


def compared(python: Path, npu: Path, cpu: Path, result: Path) -> list[dict[str, str]]:
    paths = ("--target_path", str(npu / "dump.json"), "--golden_path", str(cpu / "dump.json"))
    run(python, "msprobe.msprobe", "compare", *paths, "--output_path", str(result))
    return list(csv.DictReader(next(result.glob("compare_result_*.csv")).open(newline="", encoding="utf-8")))


def test_modules_and_operators_of_the_npu_equal_the_cpus_and_a_seeded_fault_does_not(python, tmp_path):
    npu, cpu = (dump(python, device, "mix", tmp_path / device) for device in ("npu", "cpu"))
    names = json.loads((npu / "dump.json").read_text())["data"]
    assert {"Module.0.Linear.forward.0", "Functional.gelu.0.forward", "Functional.linear.1.backward"} <= set(names)
    saved = npu / "dump_tensor_data" / "Functional.linear.0.forward.output.0.pt"
    right = torch.load(cpu / "dump_tensor_data" / saved.name)
    torch.testing.assert_close(torch.load(saved, map_location="cpu"), right, rtol=1e-5, atol=1e-6)
    rows = compared(python, npu, cpu, tmp_path / "result")
    assert len(rows) > 30 and {row["Result"] for row in rows} == {"pass"}
    torch.save(right + 1, saved)
    rows = compared(python, npu, cpu, tmp_path / "again")
    assert [row["NPU Name"] for row in rows if row["Result"] != "pass"] == ["Functional.linear.0.forward.output.0"]


def told(entry: dict) -> list[float]:
    return [float(entry[name]) for name in ("Max", "Min", "Mean", "Norm")]


def figures(tensor: torch.Tensor) -> list[float]:
    return [float(figure) for figure in (tensor.max(), tensor.min(), tensor.mean(), tensor.norm())]


def test_statistics_are_torchs_and_two_runs_of_the_npu_are_equal(python, tmp_path):
    first, second = (dump(python, "npu", "mix", tmp_path / name, "statistics") for name in ("first", "second"))
    data = json.loads((first / "dump.json").read_text())["data"]
    model, x, y = made()
    hidden = model[0](x)
    torch.nn.functional.mse_loss(model[2](model[1](hidden)), y).backward()
    for name in ("Module.0.Linear.forward.0", "Functional.linear.0.forward"):
        given, out = data[name]["input_args"][0], data[name]["output"][0]
        assert (given["dtype"], given["shape"], out["shape"]) == ("torch.float32", [4, 6], [4, 5])
        assert told(given) == pytest.approx(figures(x), rel=1e-5)
        assert told(out) == pytest.approx(figures(hidden), rel=1e-5)
    grads = data["Module.2.Linear.parameters_grad.0"]
    assert told(grads["weight"][0]) == pytest.approx(figures(model[2].weight.grad), rel=1e-4)
    rows = compared(python, first, second, tmp_path / "result")
    assert len(rows) > 30 and {row["Result"] for row in rows} == {"pass"}
    differences = [name for name in rows[0] if name.endswith(" diff") and "Relative" not in name]
    assert differences and {float(row[name]) for row in rows for name in differences if row[name] != "N/A"} == {0.0}


def test_the_first_overflow_is_found_by_name_and_a_clean_run_has_none(python, tmp_path):
    """Of a dump of statistics the command overflow_check names the operator whose inputs are finite."""
    for name, more in (("clean", ()), ("over", ("overflow",))):
        step = dump(python, "npu", "L1", tmp_path / name, "statistics", *more).parent
        said = run(python, "msprobe.msprobe", "overflow_check", "-i", str(step), "-o", str(tmp_path / f"{name}_found"))
        found = list((tmp_path / f"{name}_found").glob("anomaly_analyze_*.json"))
        if name == "clean":
            assert found == [] and "Cannot find any anomaly node" in said
    (nodes,) = json.loads(found[0].read_text()).values()
    assert [node["op_name"] for node in nodes] == ["Functional.linear.1.forward"]
    given = [float(one[side]) for one in nodes[0]["data_info"]["input_args"] for side in ("Max", "Min")]
    assert len(given) == 6 and max(map(abs, given)) == pytest.approx(3e38)
    assert float(nodes[0]["data_info"]["output"][0]["Max"]) == float("inf")


@pytest.mark.parametrize("level", ["L0", "L1"])
def test_one_level(python, tmp_path, level):
    names = json.loads((dump(python, "npu", level, tmp_path / level) / "dump.json").read_text())["data"]
    assert {name.split(".")[0] for name in names} == ({"Module"} if level == "L0" else {"Functional"})


def test_kernels_of_one_call_come_from_set_dump(python, tmp_path):
    files = sorted(dump(python, "npu", "L2", tmp_path / "kernels").rglob("*.npy"))
    sides = [file.name.split(".", 5)[5] for file in files]
    assert sides == ["input.0.npy", "input.1.npy", "input.2.npy", "output.0.npy"]
    assert all(file.name.startswith("aten.addmm.default.1.") for file in files)
    bias, x, weight, out = map(numpy.load, files)
    numpy.testing.assert_allclose(out, x @ weight + bias, rtol=1e-5, atol=1e-6)

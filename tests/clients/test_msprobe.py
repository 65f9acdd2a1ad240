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


def dump(python: Path, device: str, level: str, folder: Path) -> Path:
    """The folder of the one process of step 0."""
    folder.mkdir()
    run(python, "tests.clients.msprobe_dump", device, level, str(folder))
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

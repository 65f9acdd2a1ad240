"""GPU training scripts on the NPU, by the tool and by transfer_to_npu, on one card and on two: the losses are equal.

The scripts (tests/migrate/scripts) are written for CUDA and run as they are on a CPU, which gives the reference. Where they
know several GPUs themselves, both ways run that; gpt/train.py knows one, and `distributed` makes it what gpt_ddp/train.py
is by hand.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forked
from tests.ports import free_port

pytest.importorskip("torch_npu", reason="the plugin is not built", exc_type=ImportError)

SCRIPTS = Path(__file__).parent / "scripts"
ONE_CARD = {
    "imagenet": ["main.py", "--arch", "plain8", "--gpu", "0", "--seed", "3"],
    "gpt": ["train.py"],
    "gan": ["train.py", "--gpus", "1"],
}
TWO_CARDS = {
    "imagenet": ["main.py", "--arch", "group8", "--seed", "3", "--world-size", "2", "--multiprocessing-distributed"],
    "gan": ["train.py", "--gpus", "2"],
}


def python(arguments: list[str], folder: Path, **variables: str) -> str:
    clean = {name: value for name, value in os.environ.items() if name != "TORCH_TRANSFER_TO_NPU"}
    # -P is not used: the scripts import what lies beside them.
    done = forked.run(["-W", "ignore", *arguments], cwd=folder, env=clean | {"OMP_NUM_THREADS": "1"} | variables)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def losses(output: str) -> dict[str, list[float]]:
    """What follows "loss" in each line, by step."""
    found = re.findall(r"loss (\S+) (.*)", output)
    assert found, output
    return {step: [float(word) for word in re.findall(r"\S+\.\d+|\d\S*", values)] for step, values in found}


def close(one: dict[str, list[float]], other: dict[str, list[float]], tolerance: float) -> bool:
    assert one.keys() == other.keys()
    return all(one[step] == pytest.approx(other[step], rel=tolerance) for step in one)


@pytest.fixture
def script(tmp_path):
    """script(name, beside) → a folder with that script as it was written, files of `beside` replaced."""

    def copy(name: str, beside: str | None = None) -> Path:
        folder = tmp_path / (beside or name)
        shutil.copytree(SCRIPTS / name, folder)
        if beside:
            shutil.copytree(SCRIPTS / beside, folder, dirs_exist_ok=True)
        return folder

    return copy


@pytest.fixture
def migrated(run, script, tmp_path):
    def call(name: str, *more: str) -> Path:
        folder = script(name)
        run("-i", folder, "-o", "out", *more)
        return tmp_path / "out" / (f"{name}_msft_multi" if "distributed" in more else f"{name}_msft")

    return call


@pytest.mark.parametrize("name", ONE_CARD)
def test_one_card(migrated, tmp_path, name):
    by_tool = losses(python(ONE_CARD[name], migrated(name)))
    original = tmp_path / name
    by_transfer = losses(python(ONE_CARD[name], original, TORCH_TRANSFER_TO_NPU="1"))
    on_cpu = losses(python(ONE_CARD[name], original))
    assert by_tool == by_transfer
    assert close(by_tool, on_cpu, 2e-3)
    assert len(by_tool) >= 4


@pytest.mark.parametrize("dtype", ["float16", pytest.param("bfloat16", marks=pytest.mark.full)])
def test_one_card_in_mixed_precision(migrated, tmp_path, dtype):
    by_tool = losses(python(ONE_CARD["gpt"], migrated("gpt"), GPT_DTYPE=dtype))
    by_transfer = losses(python(ONE_CARD["gpt"], tmp_path / "gpt", GPT_DTYPE=dtype, TORCH_TRANSFER_TO_NPU="1"))
    assert by_tool == by_transfer
    assert close(by_tool, losses(python(ONE_CARD["gpt"], tmp_path / "gpt")), 2e-2)


# Each rank of imagenet's is a process that imports torch: two ranks by a launcher are below.
@pytest.mark.parametrize("name", [n if n == "gan" else pytest.param(n, marks=pytest.mark.full) for n in TWO_CARDS])
def test_two_cards(migrated, tmp_path, name):
    def arguments() -> list[str]:
        url = [] if name == "gan" else ["--dist-url", f"tcp://127.0.0.1:{free_port()}"]
        return TWO_CARDS[name] + url

    by_tool = losses(python(arguments(), migrated(name, "distributed", "-m", TWO_CARDS[name][0])))
    by_transfer = losses(python(arguments(), tmp_path / name, TORCH_TRANSFER_TO_NPU="1"))
    assert by_tool == by_transfer
    assert len(by_tool) >= 4


def test_one_card_made_several(migrated, script):
    """`distributed` on a script for one card, against the same written by hand and run by transfer_to_npu."""
    folder = migrated("gpt", "distributed", "-m", "train.py")
    environment = os.environ | {"NPUS": "0 1", "GPT_BATCH": "4", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])
    launched = subprocess.run(
        ["bash", "run_distributed_npu.sh"], cwd=folder, env=environment, capture_output=True, text=True, timeout=600
    )
    assert launched.returncode == 0, launched.stderr[-4000:]

    by_hand = script("gpt", beside="gpt_ddp")
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", "train.py"]
    reference = python(torchrun, by_hand, TORCH_TRANSFER_TO_NPU="1", GPT_BATCH="4")

    def table(output: str) -> list[tuple[str, str]]:
        return sorted(re.findall(r"loss (\d\.\d+) (\d+\.\d+)", output))  # two processes write to one pipe

    logs = "".join((folder / f"output_npu_{card}.log").read_text() for card in (0, 1))
    assert table(logs) == table(reference)
    assert len(table(reference)) == 2 * 2 * 8  # ranks, epochs, steps

    # A checkpoint of rank 0, without "module.": it loads into the plain model.
    check = (
        "import torch, model\n"
        "state = torch.load('ckpt.pt', map_location='cpu')['model']\n"
        "print(model.GPT().load_state_dict(state))\n"
        "print(repr(sum(v.double().sum().item() for v in state.values())))\n"
    )
    ours, theirs = python(["-c", check], folder), python(["-c", check], by_hand)
    assert ours.startswith("<All keys matched") and ours == theirs

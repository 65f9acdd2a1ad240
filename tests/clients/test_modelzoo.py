"""The ModelZoo's MobileNetV3-Large, the sample of the platform guide: its own scripts on one card and on eight.

Changed from outside, and nothing else: one epoch and 2 loader workers (1 a rank) instead of 30 (600) and 128, the
folder of `anycend install` for /usr/local/Ascend, and `correct[:k].view(-1)` is reshape(-1), which stock PyTorch asks
for, too. The data are 256 pictures in the shape of tiny-imagenet-200, so batches are smaller, by the scripts' option.
"""

from __future__ import annotations

import math
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import anycend.__main__
import pytest
import torch
from PIL import Image

from tests.clients import archives, environment

SAMPLE = "PyTorch/built-in/cv/classification/MobileNetV3-Large_ID1784_for_PyTorch"
CLASSES, OF_A_CLASS, TO_VALIDATE = 8, 32, 64
pytestmark = [pytest.mark.full, pytest.mark.timeout(1500)]


def picture(path: Path, kind: int, draw: random.Random) -> None:
    """64×64 as in tiny-imagenet; a class is a colour, so that there is something to learn."""
    path.parent.mkdir(parents=True, exist_ok=True)
    colour = [64 + 128 * (kind >> bit & 1) + draw.randrange(-40, 40) for bit in range(3)]
    Image.new("RGB", (64, 64), tuple(colour)).save(path, "JPEG")


def tiny_imagenet(folder: Path) -> None:
    draw = random.Random(0)
    for kind in range(CLASSES):
        for number in range(OF_A_CLASS):
            picture(folder / "train" / f"n{kind:08}" / "images" / f"n{kind:08}_{number}.JPEG", kind, draw)
    for number in range(TO_VALIDATE):
        picture(folder / "val" / "images" / f"val_{number}.JPEG", number % CLASSES, draw)


def change(path: Path, pattern: str, replacement: str) -> None:
    text, count = re.subn(pattern, replacement, path.read_text(encoding="utf-8"), flags=re.M)
    assert count, f"{path.name} has no {pattern}"
    path.write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def sample(tmp_path_factory) -> Path:
    """The sample with its data beside it, where the guide unpacks them."""
    folder = tmp_path_factory.mktemp("modelzoo")
    try:
        home = archives.unpack("modelzoo_mobilenetv3", folder / "ModelZoo-PyTorch") / SAMPLE
    except environment.Unavailable as reason:
        pytest.skip(str(reason))
    tiny_imagenet(home / "tiny-imagenet-200")
    assert anycend.__main__.main(["install", "--prefix", str(folder / "Ascend")]) == 0
    subprocess.run([sys.executable, "-m", "torch_npu.contrib.apex", str(folder / "apex")], check=True, cwd="/")
    change(home / "test" / "env_npu.sh", "/(usr/local|etc)/Ascend", str(folder / "Ascend"))
    change(home / "main.py", r"correct\[:k\]\.view\(-1\)", "correct[:k].reshape(-1)")
    for script, workers in (("train_full_1p.sh", 2), ("train_full_8p.sh", 8)):
        change(home / "test" / script, r"^train_epochs=\d+", "train_epochs=1")
        change(home / "test" / script, r"--workers=128", f"--workers={workers}")
    return home


def run(sample: Path, line: str) -> tuple[str, str]:
    """A line of the guide: what it prints, and the log of its first card."""
    path = [str(sample.parents[4].parent / "apex"), os.environ.get("PYTHONPATH", "")]
    own = {"PYTHONPATH": ":".join(filter(None, path)), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
           "OMP_NUM_THREADS": "1"}  # fmt: skip
    keep = {name: value for name, value in os.environ.items() if not name.startswith("ASCEND_")}
    done = subprocess.run(
        ["bash", "-c", line], cwd=sample, env=keep | own, capture_output=True, text=True, timeout=1400
    )
    log = (sample / "test" / "output" / "0" / "train_0.log").read_text(errors="replace")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:] + log[-2000:]
    assert "Traceback" not in log, log[-3000:]
    return done.stdout, log


def final(printed: str, what: str) -> float:
    (value,) = re.findall(rf"^Final {what} : (\S+)$", printed, re.M)
    return float(value)


def losses(log: str) -> list[float]:
    return [float(value) for value in re.findall(r"^Epoch: .*\tLoss (\S+) ", log, re.M)]


def test_the_guides_line_trains_on_one_card(sample):
    printed, log = run(sample, "bash ./test/train_full_1p.sh --data_path=./tiny-imagenet-200 --batch_size=16")
    first, last = losses(log)  # the script shows every tenth step of 16
    # An untrained network of 1000 classes; of 8 classes there is soon less to tell.
    assert abs(first - math.log(1000)) < 0.5 and last < first
    assert final(printed, "Performance images/sec") > 0
    assert 0 <= final(printed, "Train Accuracy") <= 100
    results = sample / "test" / "output" / "0" / "MobileNetV3-Large_ID1784_for_PyTorch_bs16_1p_acc.log"
    said = dict(line.split(" = ") for line in results.read_text().splitlines())
    assert float(said["ActualFPS"]) > 0 and float(said["ActualLoss"]) == last and said["RankSize"] == "1"
    saved = torch.load(sample / "checkpoint.pth.tar", map_location="cpu", weights_only=False)
    assert saved["epoch"] == 1 and all(value.isfinite().all() for value in saved["state_dict"].values())


def test_the_guides_line_trains_on_eight_cards(sample):
    shutil.rmtree(sample / "test" / "output", ignore_errors=True)
    printed, log = run(sample, "bash ./test/train_full_8p.sh --data_path=./tiny-imagenet-200 --batch_size=64")
    found = losses(log)
    # 256 pictures, 8 ranks, 8 pictures each a step.
    assert len(found) == 4 and all(map(math.isfinite, found))
    assert final(printed, "Performance images/sec") > 0
    assert 0 <= final(printed, "Train Accuracy") <= 100
    logs = [(sample / "test" / "output" / str(card) / f"train_{card}.log").read_text() for card in range(8)]
    assert [f"Use NPU: {card} for training" in text for card, text in enumerate(logs)] == [True] * 8
    assert [len(losses(text)) for text in logs] == [4] * 8 and not any("Traceback" in text for text in logs)

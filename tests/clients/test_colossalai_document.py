"""The ColossalAI script of a source document: trained, saved, and resumed by a new process, with each of its plugins.

Changed are what docs/guide/commands.md names, the number of epochs, and the checksums of the pictures, which are made
here.
"""

from __future__ import annotations

import os
import pickle
import re
import subprocess
from pathlib import Path

import numpy
import pytest
import torch

from tests.clients import environment
from tests.ports import free_port
from tests.seeds import document

SEEDS = environment.ROOT.parent / "shared" / "seeds"
CHANGES = {
    "import colossalai\n": "import colossalai\nimport torch_npu.contrib.colossalai\nimport without_checksums\n",
    "launch_from_torch(config={})": "launch_from_torch()",
    ".cuda()": ".npu()",
}
WITHOUT_CHECKSUMS = """
from torchvision.datasets import CIFAR10
CIFAR10.train_list = [[name, None] for name, _ in CIFAR10.train_list]
CIFAR10.test_list = [[name, None] for name, _ in CIFAR10.test_list]
CIFAR10.meta = {**CIFAR10.meta, "md5": None}
"""
STEPS = 6  # an epoch, of 100 pictures each


def write_pictures(folder: Path) -> None:
    """CIFAR-10's files: each class has a colour."""
    folder.mkdir(parents=True)
    random = numpy.random.default_rng(0)
    colours = random.integers(0, 255, (10, 3))
    count = {f"data_batch_{n}": 20 * STEPS for n in range(1, 6)} | {"test_batch": 100}
    for name, number in count.items():
        labels = random.permutation(numpy.arange(number) % 10)
        pictures = numpy.repeat(colours[labels], 32 * 32, axis=1).astype(numpy.uint8)
        (folder / name).write_bytes(pickle.dumps({"data": pictures, "labels": labels.tolist()}))
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": [str(n) for n in range(10)]}))


def train(python: Path, folder: Path, epochs: int, *arguments: str) -> list[float]:
    """Started as the document does; the losses that its progress bar showed."""
    (block,) = [code for code in document.blocks(document.read(SEEDS, "000"), "bash") if "def main" in code]
    for old, new in CHANGES.items():
        assert old in block
        block = block.replace(old, new)
    (folder / "train.py").write_text(re.sub(r"(?m)^NUM_EPOCHS = 80$", f"NUM_EPOCHS = {epochs}", block))
    (folder / "without_checksums.py").write_text(WITHOUT_CHECKSUMS)
    launcher = ["--nproc_per_node=1", "--nnodes=1", "--node_rank=0", "--master_addr=127.0.0.1"]
    command = [python, "-m", "torch.distributed.run", *launcher, f"--master_port={free_port()}", "train.py", *arguments]
    own = {"OMP_NUM_THREADS": "1", "XDG_RUNTIME_DIR": str(folder), "DATA": str(folder / "data")}
    done = subprocess.run(command, cwd=folder, env=os.environ | own, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    steps = re.findall(rf"Epoch \[(\d+)/{epochs}\]:[^\r\n]*?(\d+)/{STEPS} \[[^\r\n]*?loss=([\d.]+)", done.stderr)
    return [float(loss) for _, loss in sorted({(int(e), int(n)): v for e, n, v in steps}.items())]


@pytest.mark.full
@pytest.mark.timeout(1500)
@pytest.mark.skipif(not SEEDS.is_dir(), reason="the source documents are not here")
@pytest.mark.parametrize("plugin", ["torch_ddp", "torch_ddp_fp16", "low_level_zero", "gemini"])
def test_it_trains_and_a_new_process_resumes(plugin, tmp_path):
    try:
        python = environment.python("colossalai")
    except environment.Unavailable as reason:
        pytest.skip(str(reason))
    write_pictures(tmp_path / "data" / "cifar-10-batches-py")
    every = ("-p", plugin, "-c", "./ckpt-fp32", "-i", "1", "--target_acc", "0.5")
    first = train(python, tmp_path, 1, *every)
    then = train(python, tmp_path, 3, *every, "-r", "1")
    print(plugin, first, then)
    assert 2 < first[0] < 3.5 and then[0] < 0.75 * first[0] and then[-1] < 0.25 * first[0]
    names = {path.name for path in (tmp_path / "ckpt-fp32").iterdir()}
    assert {f"{what}_{n}.pth" for what in ("model", "optimizer", "lr_scheduler") for n in (1, 2, 3)} <= names
    scheduler = torch.load(tmp_path / "ckpt-fp32" / "lr_scheduler_3.pth", weights_only=False)
    assert scheduler["last_epoch"] == 3

"""The documents' training scripts run on the NPU as they are written, on the quick start's digits.

The scripts are taken out of the source documents at test time (ANYCEND_SEEDS names their folder).
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests import forked
from tests.seeds import document

HERE = Path(__file__).resolve().parent
STEPS = 20
# The same script on the CPU, in the same precision. In fp32 it is no reference for fp16: with the document's learning
# rate a last place grows to a third of the loss within 36 steps, on the CPU itself.
ON_CPU = {
    "cuda:0": "cpu",
    "import torch_npu\n": "",
    "from torch_npu.npu import amp": "from torch import amp",
    "from torch_npu.contrib import transfer_to_npu": "",
    "amp.GradScaler()": 'amp.GradScaler("cpu")',
    "amp.autocast()": 'amp.autocast("cpu", torch.float16)',
    "torch_npu.npu.set_device(local_rank)": "",
    "f'npu:{local_rank}'": "'cpu'",
}

CHECK_CHECKPOINT = """
import torch, torch.nn as nn, torchvision
{model}
assert not hasattr(torch, "npu")
checkpoint = torch.load("checkpoint.pth.tar", map_location="cpu", weights_only=False)
assert checkpoint["epoch"] == 10 and checkpoint["arch"] is CNN
assert all(value.device.type == "cpu" for value in checkpoint["state_dict"].values())
data = torchvision.datasets.MNIST(root="mnist", train=False, transform=torchvision.transforms.ToTensor())
images, labels = map(torch.utils.data.default_collate, zip(*data))
torch.manual_seed(0)
untrained, trained = CNN(), CNN()
trained.load_state_dict(checkpoint["state_dict"])
with torch.no_grad():
    for model in (untrained, trained):
        scores = model(images)
        print(nn.functional.cross_entropy(scores, labels).item(), (scores.argmax(1) == labels).float().mean().item())
"""

# What the document leaves to its reader: arguments, a model and a reshape.
READERS_PART = """
import argparse, json, torch, torch_npu
def parse_args():
    return argparse.Namespace(node_rank=0, nproc_per_node=1, batch_size=64, learning_rate=1e-3, epochs=2)
class ToyModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1, self.layer2 = torch.nn.Linear(784, 128), torch.nn.Linear(128, 10)
    def forward(self, x):
        return self.layer2(torch.relu(self.layer1(x)))
def data_process(inputs, labels):
    return inputs.flatten(1), labels.view(-1)
torch.manual_seed(0)
"""


def python(folder: Path, *arguments: str, **environment: str) -> str:
    result = forked.run(["-W", "ignore", *arguments], cwd=folder, env={**os.environ, **environment}, timeout=300)
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout


@pytest.fixture(scope="module")
def quick_start(seeds) -> list[str]:
    """The GPU script and the three additions: imports, a GradScaler, the loop with autocast."""
    found = document.blocks(document.section(document.read(seeds, "002"), "简单模型迁移训练"))
    assert len(found) == 4
    return found


@pytest.fixture(scope="module")
def digits(tmp_path_factory, root) -> Path:
    """The digits, for both documents' dataset roots."""
    folder = tmp_path_factory.mktemp("digits")
    python(folder, str(root / "examples" / "quickstart" / "make_digits.py"), "mnist")
    shutil.copytree(folder / "mnist", folder / "data")
    return folder


@pytest.fixture
def folder(tmp_path, digits) -> Path:
    """A directory of the test's own with the digits in it and nothing else."""
    return Path(shutil.copytree(digits, tmp_path, dirs_exist_ok=True))


def record(folder: Path, script: str) -> dict:
    (folder / "train.py").write_text(script, encoding="utf-8")
    return json.loads(python(folder, str(HERE / "record.py"), "train.py", str(STEPS)).splitlines()[-1])


def for_the_cpu(script: str) -> str:
    for text, replacement in ON_CPU.items():
        script = script.replace(text, replacement)
    return script


# All ten epochs, with a quarter of the images that `make demo` trains on, and with all of them.
@pytest.mark.parametrize(
    ("copies", "least"), [("1", 0.85), pytest.param("4", 0.95, marks=pytest.mark.full)], ids=["quarter", "all"]
)
def test_the_quick_start_trains_letter_for_letter(quick_start, folder, root, copies, least):
    script, *additions = quick_start
    python(folder, str(root / "examples" / "quickstart" / "make_digits.py"), "mnist", "--copies", copies)
    (folder / "train.py").write_text(document.with_additions(script, additions), encoding="utf-8")
    python(folder, "train.py")
    assert (folder / "checkpoint.pth.tar").exists()
    # Plain CPU PyTorch reads the checkpoint, without the plugin.
    check = CHECK_CHECKPOINT.format(model=document.definition(script, "CNN"))
    (folder / "check.py").write_text(check, encoding="utf-8")
    lines = python(folder, "check.py", TORCH_DEVICE_BACKEND_AUTOLOAD="0").splitlines()
    (loss_before, _), (loss_after, accuracy) = (map(float, line.split()) for line in lines)
    assert loss_after < 0.2 * loss_before
    assert accuracy >= least


# With amp in the full run: the other document's loop, below, has it in every run.
@pytest.mark.parametrize(
    ("amp", "allowed"), [(False, 1e-4), pytest.param(True, 5e-3, marks=pytest.mark.full)], ids=["fp32", "amp"]
)
def test_the_quick_starts_losses_equal_the_cpus(quick_start, folder, amp, allowed, capsys):
    script, *additions = quick_start
    script = document.with_additions(script, additions if amp else additions[:1])
    on_npu = record(folder, script)
    on_cpu = record(folder, for_the_cpu(script))
    difference = max(abs(a - b) / b for a, b in zip(on_npu["losses"], on_cpu["losses"], strict=True))
    with capsys.disabled():
        print(f"\n{STEPS} steps, largest difference {difference:.1e}, fallbacks {on_npu['fallbacks']}", end=" ")
    assert (on_npu["devices"], on_cpu["devices"]) == (["npu"], ["cpu"])
    assert len(on_npu["losses"]) == STEPS
    assert difference < allowed
    assert on_npu["fallbacks"] == {}


def test_the_amp_loop_trains_on_one_card(seeds, folder, capsys):
    code = document.code_lines(document.read(seeds, "001"))
    one_card = document.without(code, r"init_process_group", r"\bDDP\(")
    report = (
        "\nfirst = dict(torch_npu.npu.fallback_counts())\nprint(json.dumps([loss.item(), scaler.get_scale(), first]))"
    )
    (folder / "train.py").write_text(READERS_PART + one_card + report, encoding="utf-8")
    loss, scale, fallbacks = json.loads(python(folder, "train.py").splitlines()[-1])
    with capsys.disabled():
        print(f"\nlast loss {loss:.4f}, scale {scale:.0f}, fallbacks {fallbacks}", end=" ")
    assert loss < 0.5
    assert scale >= 1024
    assert fallbacks == {}


def test_the_amp_loops_losses_equal_the_cpus(seeds, folder, capsys):
    code = document.code_lines(document.read(seeds, "001"))
    script = READERS_PART + document.without(code, r"init_process_group", r"\bDDP\(")
    on_npu, on_cpu = record(folder, script), record(folder, for_the_cpu(script))
    difference = max(abs(a - b) / b for a, b in zip(on_npu["losses"], on_cpu["losses"], strict=True))
    with capsys.disabled():
        print(f"\n{STEPS} steps, largest difference {difference:.1e}, fallbacks {on_npu['fallbacks']}", end=" ")
    assert (on_npu["devices"], on_cpu["devices"]) == (["npu"], ["cpu"])
    assert len(on_npu["losses"]) == STEPS
    assert difference < 2e-2  # Adam scales gradients up to one size, and what fp16 rounded in them
    assert on_npu["fallbacks"] == {}


def test_the_first_tensor_prints_its_device(seeds, folder):
    """The overview's check of an installation: a + a on the NPU."""
    command = next(
        line for line in document.read(seeds, "002").splitlines() if line.startswith('python3 -c "import torch')
    )
    assert "device='npu:0')" in python(folder, "-c", command.split('"')[1])


def test_the_installation_check_prints_true(seeds, folder):
    """The platform guide's last step: is_available() from a fresh interpreter."""
    command = next(line for line in document.read(seeds, "004").splitlines() if "is_available()" in line)
    code = command.split('"')[1]
    assert python(folder, "-c", code).strip() == "True"

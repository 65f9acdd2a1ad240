"""examples/: what each prints. distributed/ has its tests in tests/distributed, quickstart/ in tests/seeds and docs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forked
from tests.clients import environment
from tests.ports import free_port

EXAMPLES = environment.ROOT / "examples"


def run(*command: str | Path, folder: Path, **variables: str) -> str:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    own = {"PATH": path, "OMP_NUM_THREADS": "1", "MASTER_PORT": str(free_port())} | variables
    if command[0] == sys.executable:
        done = forked.run(command[1:], cwd=folder, env=os.environ | own)
    else:
        done = subprocess.run(
            list(map(str, command)), cwd=folder, env=os.environ | own, capture_output=True, text=True, timeout=600
        )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout


def losses(printed: str) -> list[float]:
    return [float(loss) for loss in re.findall(r"^step \d+: loss (\S+)$", printed, re.M)]


def test_verify_says_what_each_device_computes(tmp_path):
    printed = run(sys.executable, EXAMPLES / "verify" / "verify.py", folder=tmp_path, ANYCEND_DEVICES="2").splitlines()
    assert [line.split(":")[1].split()[0] for line in printed[1:-1]] == ["0", "1"] and printed[-1] == "right"


def test_a_script_moved_by_hand_is_the_one_that_the_variable_moves(tmp_path):
    here = EXAMPLES / "migration"
    by_hand = losses(run(sys.executable, here / "train_by_hand.py", "--steps", "4", "--amp", folder=tmp_path))
    moved = run(sys.executable, here / "train.py", "--steps", "4", "--amp", folder=tmp_path, TORCH_TRANSFER_TO_NPU="1")
    assert len(by_hand) == 4 and by_hand == losses(moved)


@pytest.mark.full
def test_a_script_moved_by_hand_is_its_own_reference(tmp_path):
    script = EXAMPLES / "migration" / "train_by_hand.py"
    npu, cpu = (losses(run(sys.executable, script, "--device", device, folder=tmp_path)) for device in ("npu", "cpu"))
    assert len(npu) == 20 and npu == pytest.approx(cpu, rel=1e-4)


@pytest.mark.full
@pytest.mark.parametrize("npus", [1, 8])
def test_the_modelzoos_layout_learns_on_one_card_and_on_eight(npus, tmp_path):
    run(sys.executable, EXAMPLES / "modelzoo" / "make_pictures.py", "pictures", folder=tmp_path)
    script = EXAMPLES / "modelzoo" / "test" / f"train_full_{npus}p.sh"
    printed = run("bash", script, "--data_path=pictures", folder=tmp_path)
    performance, accuracy, seconds = re.findall(r"^.* : ([\d.]+)$", printed, re.M)
    assert float(performance) > 0 and float(accuracy) > 80 and int(seconds) > 0
    logs = sorted(path.name for path in (tmp_path / "output").glob("*/*"))
    assert logs == [f"train_{rank}.log" for rank in range(npus)] and (tmp_path / "checkpoint.pth.tar").is_file()


@pytest.mark.full
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("plugin", ["torch_ddp", "torch_ddp_fp16", "low_level_zero", "gemini"])
def test_colossalai_learns_and_a_new_process_resumes(plugin, tmp_path):
    try:
        python = environment.python("colossalai")
    except environment.Unavailable as reason:
        pytest.skip(str(reason))
    command = [python, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    command += [EXAMPLES / "colossalai" / "train.py", "--plugin", plugin]
    first = run(*command, "--epochs", "2", folder=tmp_path)
    then = run(*command, "--epochs", "3", "--resume", "2", "--target-accuracy", "0.5", folder=tmp_path)
    found = [re.findall(r"^epoch (\d): loss (\S+), test accuracy (\S+) %$", printed, re.M) for printed in (first, then)]
    assert [[epoch for epoch, _, _ in one] for one in found] == [["1", "2"], ["3"]]
    assert float(found[1][0][1]) < float(found[0][0][1]) and float(found[1][0][2]) > 50


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("quickstart/train.py", "--epochs", "0"), "--epochs 0: at least 1"),
        (("migration/train.py", "--steps", "-1"), "--steps -1: at least 1"),
        (("migration/train_by_hand.py", "--steps", "0"), "--steps 0: at least 1"),
        (("distributed/spawn.py", "--npus", "0"), "--npus 0: at least 1"),
        (("distributed/train.py",), "start it by run.sh, torchrun or torch_npu_run"),
        (("distributed/run.sh", "spawn", "0"), "run.sh: 0 is no number of NPUs"),
        (("distributed/run.sh", "shell", "x"), "run.sh: x is no number of NPUs"),
        (("modelzoo/test/train_full.sh", "0", "--data_path=nosuch"), "train_full.sh: 0 is no number of NPUs"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_number_that_cannot_be_is_refused(arguments, said, tmp_path):
    script, *rest = EXAMPLES / arguments[0], *arguments[1:]
    environ = {name: value for name, value in os.environ.items() if name != "WORLD_SIZE"}
    if script.suffix == ".py":
        done = forked.run([script, *rest], cwd=tmp_path, env=environ)
    else:
        done = subprocess.run(["bash", script, *rest], cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert done.returncode != 0 and said in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "script",
    ["verify/verify.py", "quickstart/train.py", "modelzoo/make_pictures.py", "distributed/spawn.py"],
)
def test_an_example_refuses_an_argument_that_it_does_not_know(script, tmp_path):
    done = forked.run([EXAMPLES / script, "--unknown", "1"], cwd=tmp_path, env=dict(os.environ))
    assert done.returncode == 2 and "--unknown" in done.stderr + done.stdout, done.stderr
    assert not list(tmp_path.iterdir())

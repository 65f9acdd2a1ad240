"""The documents' distributed scripts, eight ranks each, started by the documents' own commands.

Where a printed command or script cannot work as it stands, CORRECTIONS says what is changed and why.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
import tokenize
from pathlib import Path

import pytest

from tests.distributed.launch import run
from tests.ports import free_port
from tests.seeds import document, jobs
from tests.seeds.test_documents import READERS_PART

WAYS = ["shell", "spawn", "python", "torchrun", "torch_npu_run"]
FILES = {"env": "ddp_test_shell.py", "spawn": "ddp_test_spwn.py", "python": "ddp_test.py"}
CORRECTIONS = {
    # One host was meant; eight nodes would wait for seven others.
    "torch_npu_run": [("--nnodes=8", "--nnodes=1")],
    # Since PyTorch 2.0 torch.distributed.launch passes --local-rank, and argparse does not take it for --local_rank.
    "python": [('"--local_rank"', '"--local-rank"')],
}


def tokens(code: str) -> list[str]:
    layout = {tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.ENCODING}
    stream = tokenize.tokenize(io.BytesIO(code.encode()).readline)
    return [token.string for token in stream if token.type not in layout]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, root) -> Path:
    """The digits where the scripts look for MNIST and for FashionMNIST."""
    path = tmp_path_factory.mktemp("jobs")
    run([sys.executable, root / "examples" / "quickstart" / "make_digits.py", "data"], cwd=path)
    shutil.copytree(path / "data" / "MNIST", path / "data" / "FashionMNIST")
    return path


def bash(command: str, folder: Path, **env: str) -> str:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return run(["bash", "-ec", command], cwd=folder, timeout=500, PATH=path, **env)


@pytest.mark.full  # in the spawn way each rank's data loader starts a process that imports PyTorch, every epoch
@pytest.mark.parametrize("way", WAYS)
def test_the_platform_guides_five_ways(seeds, folder, way):
    text = document.read(seeds, "002")
    port = str(free_port())
    program = {"spawn": "spawn", "python": "python"}.get(way, "env")
    script, command = jobs.pieces(text)[program], jobs.commands(text, "拉起单机八卡训练")[way]
    for old, new in CORRECTIONS.get(way, []):
        assert old in script or old in command
        script, command = script.replace(old, new), command.replace(old, new)
    # What the document leaves to its reader: the address and the port.
    script = script.replace('"***"', f'"{port}"')
    command = command.replace("--master_port ***", f"--master_port {port}")
    command = command.replace("MASTER_IP_ADDR=**", "MASTER_IP_ADDR=localhost").replace(
        "MASTER_PORT=**", f"MASTER_PORT={port}"
    )
    (folder / FILES[program]).write_text(script, encoding="utf-8")
    output = bash(command, folder)
    assert output.count("curr epoch:") == 8 * 5, output  # eight ranks print at once: what follows may be another's
    losses = [float(loss) for loss in re.findall(r"loss: (\d\.\d+)", output)]
    assert len(losses) == 8 * 5, output
    assert sum(losses[-8:]) < sum(losses[:8]) < 8 * 2.4, losses


@pytest.mark.full  # eight processes: the launch ways have tests with two
def test_the_parallel_init_method_of_torch_npu_run(seeds, folder):
    """The same script with the change the document asks for: tcp:// becomes parallel://."""
    text = document.read(seeds, "002")
    port = str(free_port())
    script = jobs.pieces(text)["env"].replace('"***"', f'"{port}"')
    (new,) = re.findall(r'(init_method="parallel://)xx:\*\*"', text)
    call = "rank=rank, world_size=world_size)"
    assert script.count(call) == 1
    (folder / "parallel.py").write_text(script.replace(call, f'{call[:-1]}, {new}localhost:{port}")'), encoding="utf-8")
    output = bash(f"torch_npu_run --master_addr=localhost --master_port={port} --nproc_per_node=8 parallel.py", folder)
    assert output.count("curr epoch:") == 8 * 5, output  # eight ranks print at once: what follows may be another's


def test_the_one_line_scripts_tokens_are_unchanged(seeds):
    line = jobs.one_line_script(document.read(seeds, "003"))
    script = jobs.broken_into_lines(line)
    assert "".join(script.split()) == "".join(line.split())
    assert len(tokens(script)) > 300
    names = [getattr(node, "name", None) for node in document.statements(script)]
    assert [n for n in names if n] == ["cleanup", "ToyModel", "data_process", "get_train_args", "train", "main"]


def test_the_eight_card_script_trains(seeds, folder):
    text = document.read(seeds, "003")
    (command,) = re.findall(r"^torchrun --nproc_per_node=8.*$", text, re.M)
    (folder / command.split()[-1]).write_text(jobs.broken_into_lines(jobs.one_line_script(text)), encoding="utf-8")
    output = bash(command, folder)
    losses = [float(loss) for loss in re.findall(r"Current step: \d+, loss: (\S+)", output)]
    assert "Current epoch: 0" in output
    assert len(losses) == 12, output  # 5748 digits over 8 cards in batches of 64
    assert losses[-1] < losses[0] < 2.5, losses


@pytest.mark.full  # on one card it runs in every run
def test_the_amp_loop_trains_on_eight_cards(seeds, folder):
    """The fragment as it stands, with the names it leaves to its reader."""
    code = document.code_lines(document.read(seeds, "001"))
    readers = READERS_PART.replace("nproc_per_node=1", "nproc_per_node=8")
    report = '\nprint(f"rank {local_rank}: {loss.item():.4f} {scaler.get_scale()}\\n", end="", flush=True)\n'
    (folder / "amp_loop.py").write_text(readers + code + report, encoding="utf-8")
    output = bash(f"torchrun --nproc_per_node=8 --master_port {free_port()} amp_loop.py", folder)
    found = re.findall(r"^rank (\d): (\S+) (\S+)$", output, re.M)
    assert sorted(int(rank) for rank, _, _ in found) == list(range(8)), output
    assert len({scale for _, _, scale in found}) == 1, found
    assert all(float(loss) < 2.0 for _, loss, _ in found), found

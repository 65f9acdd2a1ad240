"""Whatever the input, the tool ends without a crash, and what it writes parses if what it read did.

Runs the tool over folders of mutated files: cheap, because one process takes hundreds. ANYCEND_GPU2NPU names a build with
sanitizers; ANYCEND_MIGRATE_FUZZ the number of mutated files (10^6 takes 20 minutes with sanitizers).
"""

from __future__ import annotations

import ast
import os
import random
import subprocess
import tempfile
import warnings
from pathlib import Path

import pytest

from tests.migrate.toolbox import Migrate, table, unescape, unescape_all

CASES = Path(__file__).parent / "cases"
SEEDS = [unescape(row["before"]).encode() for row in table(CASES / "before_after.tsv")]
SEEDS += [unescape_all(row["before"]).encode() for row in table(CASES / "golden.tsv")]
WORDS = [b"cuda", b"'cuda'", b"torch.cuda", b"(", b")", b"'", b'"', b"\\", b"{", b"}", b"\n", b"\r", b"\t", b" ", b"f'", b"nccl", b"\xff", b"\x00", b"#", b"import torch\n", b"'''", b":", b",", b"*", b"\xe4\xb8"]  # fmt: skip
FILES = int(os.environ.get("ANYCEND_MIGRATE_FUZZ", "4000"))
BATCH = 1000


def mutated(rng: random.Random) -> bytes:
    data = bytearray(rng.choice(SEEDS))
    if rng.random() < 0.3:
        data += rng.choice(SEEDS)
    for _ in range(rng.choice((1, 1, 2, 4, 8, 30))):
        at = rng.randrange(len(data) + 1)
        kind = rng.random()
        if kind < 0.35:
            data[at:at] = rng.choice(WORDS)
        elif kind < 0.6:
            del data[at : at + rng.randrange(1, 6)]
        elif kind < 0.8 and data:
            data[at % len(data)] = rng.randrange(256)
        else:
            end = min(len(data), at + rng.randrange(1, 20))
            data[at:at] = data[at:end]
    return bytes(data)


def parses(data: bytes) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(data)
        except Exception:
            return False
        return True


@pytest.mark.parametrize("batch", range(max(1, FILES // BATCH)))
def test_mutated_files(tool, batch):
    rng = random.Random(batch)
    inputs = [mutated(rng) for _ in range(min(BATCH, FILES))]
    options = rng.choice(([], ["-v", "1.11"], ["-v", "2.1"], ["--configs"]))
    with tempfile.TemporaryDirectory() as folder:  # pytest's own would all be kept to the end
        paths = [Path(folder) / f"f{index:04}.py" for index in range(len(inputs))]
        for path, data in zip(paths, inputs, strict=True):
            path.write_bytes(data)
        Migrate(tool).run("-i", folder, "--in-place", "-q", *options)
        first = [path.read_bytes() for path in paths]
        Migrate(tool).run("-i", folder, "--in-place", "-q", *options)
        second = [path.read_bytes() for path in paths]
    for before, after, again in zip(inputs, first, second, strict=True):
        if parses(before):
            assert before == after or parses(after), (before, after)
            assert after == again, (before, after, again)


@pytest.mark.parametrize("batch", range(max(1, FILES // 20_000)))
def test_modes_that_write_survive_mutated_files(tool, tmp_path, batch):
    rng = random.Random(f"modes {batch}")
    source = tmp_path / "in"
    source.mkdir()
    for index in range(300):
        (source / f"f{index:04}.py").write_bytes(mutated(rng))
    main = source / "main.py"
    main.write_bytes(b"import torch\nmodel = torch.nn.Linear(1, 1).cuda()\nfor epoch in range(2):\n    pass\n")
    arguments = ["-s", "-m", "-v", "2.1", "--configs", "--report", "html", "--json"]
    Migrate(tool).run("-i", str(source), "-o", str(tmp_path / "out"), *arguments, "distributed", "-m", str(main))


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "(" * 20000 + "'cuda'" + ")" * 20000,
        "x = 'cuda'" + " + 'cuda'" * 20000,
        "x = 'cuda'" + ".cuda()" * 20000,
        "x = torch" + ".cuda" * 20000,
        "x = " + "[" * 5000 + "'cuda'" + "]" * 5000,
        "x = 'cuda'\n" + "".join(f"{'  ' * i}if x:\n" for i in range(300)) + "  " * 300 + "y.cuda()\n",
        "x = " + "f'{" * 200 + "'cuda'" + "}'" * 200,
        "".join(f"a{i} = a{i + 1}.cuda()\n" for i in range(3000)) + "a3000 = a0\n",
        "".join("x = x.a(); x = x.b().cuda()\n" for _ in range(3000)),
        "'cuda'" * 20000,
        "x = {" + "'cuda': " * 1 + "{'cuda': " * 3000 + "1" + "}" * 3001,
        "from torch.cuda import " + ", ".join(["is_available"] * 20000),
    ],
    ids=[
        "parentheses",
        "sum",
        "calls",
        "attributes",
        "lists",
        "blocks",
        "f-strings",
        "assignments",
        "reassigned",
        "strings",
        "dictionaries",
        "imports",
    ],  # fmt: skip
)
def test_deep_and_long_inputs_end_in_time(tool, tmp_path, text):
    path = tmp_path / "deep.py"
    path.write_text(text + "\n")
    done = subprocess.run([str(tool), "-i", str(path), "--check", "-q"], stdin=subprocess.DEVNULL, timeout=600)
    assert done.returncode in (0, 3)

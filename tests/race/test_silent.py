"""ANYCEND_CHECK=race says nothing of what is right: training, ranks, graphs, loaders, streams, and the examples."""

from __future__ import annotations

import json

import pytest

from tests.clients import environment
from tests.race.test_race import ROOT, program


@pytest.mark.parametrize("what", ["loader", "prefetch", "graph", "streams"])
def test_one_process(what):
    done = program("-m", "tests.race.daily", what)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "found 0", done.stderr


@pytest.mark.parametrize("what", ["ddp", pytest.param("fsdp2", marks=pytest.mark.full)])
def test_two_ranks(what):
    run = ["-P", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "tests.race.daily", what]
    done = program(*run)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("found 0") == 2, done.stderr


@pytest.mark.full
def test_example_of_the_quick_start(tmp_path):
    made = program(str(ROOT / "examples/quickstart/make_digits.py"), cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    done = program(str(ROOT / "examples/quickstart/train.py"), cwd=tmp_path)
    assert done.returncode == 0 and "anycend: race" not in done.stderr, done.stderr


@pytest.mark.full
def test_training_tests_under_the_detector():
    done = program(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/training", ANYCEND_CHECK_EXIT="1", timeout=1500
    )
    assert done.returncode == 0, done.stdout[-4000:]


# Frameworks that use streams of their own: a client of tests/clients, its environment, and what it runs.
FRAMEWORKS = {
    "deepspeed_zero": ("deepspeed", ["zero1:fp32", "zero2:fp32", "zero2:bf16"]),
    "colossalai_booster": (
        "colossalai",
        ["torch_ddp:fp16", "low_level_zero:bf16", "low_level_zero:fp16", "gemini:bf16"],
    ),
}


@pytest.mark.full
@pytest.mark.parametrize("client", FRAMEWORKS)
def test_frameworks_on_two_ranks(tmp_path, client):
    family, cases = FRAMEWORKS[client]
    try:
        python = environment.python(family)
    except environment.Unavailable as why:
        pytest.skip(str(why))
    run = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m"]
    run += [f"tests.clients.programs.{client}", "--device", "npu", "--folder", str(tmp_path), *cases]
    own = {"DS_ACCELERATOR": "npu", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    done = program(*run, python=str(python), ANYCEND_CHECK_EXIT="1", **own)
    results = [json.loads(line[7:]) for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert done.returncode == 0 and "anycend: race" not in done.stderr, done.stderr[-4000:]
    assert sorted((one["run"], one["rank"]) for one in results) == sorted((c, r) for c in cases for r in (0, 1))
    assert [one["error"] for one in results if "error" in one] == []

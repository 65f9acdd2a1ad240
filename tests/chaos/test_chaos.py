"""Random programs against their oracle, with random delays: program.py, ranked.py. The seeds are printed; more of them:
`python -m tests.chaos.run --programs 10000 --seed 1`."""

from __future__ import annotations

import dataclasses
import random

import pytest

from tests.chaos import run, shrink
from tests.chaos.oracle import Oracle
from tests.chaos.program import Program, generate


def judge(first: int, programs: int, ranks: int, jobs: int = 2) -> None:
    print(f"seeds {first} to {first + programs - 1}, {ranks or 'no'} ranks")
    failures = run.run_all(first, programs, jobs, ranks, size=programs // jobs)
    assert not failures, failures


def test_programs_of_one_process():
    judge(1, 120, 0)


@pytest.mark.full
def test_more_programs_of_one_process():
    judge(random.randrange(10_000, 1_000_000), 2000, 0)


@pytest.mark.full
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_programs_of_several_ranks(ranks):
    judge(random.randrange(10_000, 1_000_000), 200, ranks, jobs=1)


def test_two_ranks():
    judge(1, 30, 2, jobs=1)


def test_a_seed_draws_the_same_program_again_and_a_text_gives_it_back():
    program = generate(17)
    assert str(generate(17)) == str(program) != str(generate(18))
    assert str(Program.from_json(program.to_json())) == str(program)


def test_shrinking_leaves_the_steps_that_matter():
    """Here a program "fails" when it has a graph and a replay of it behind a check."""
    program = next(p for p in map(generate, range(100)) if any(s["kind"] == "replay" for s in p.steps))
    program.steps.insert(0, {"kind": "check", "salt": 0, "buffer": 0, "stream": 0})

    def fails(candidate: Program) -> bool:
        kinds = [s["kind"] for s in candidate.steps]
        return "check" in kinds and "replay" in kinds[kinds.index("check") :]

    small = shrink.shrink(program, fails)
    assert sorted(s["kind"] for s in small.steps) == ["check", "graph", "replay"]
    Oracle(small).run()


@pytest.fixture
def faulty(monkeypatch):
    """A seed that the faulty command fails with, under delays only; none are asked for from outside."""
    monkeypatch.setattr(run, "COMMAND", "tests.chaos.faulty")
    for name in ("ANYCEND_CHAOS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    return next(seed for seed in range(100) if any(s["kind"] == "check" for s in generate(seed).steps))


def test_a_fault_that_needs_delays_is_found_by_a_batch_and_alone(faulty, monkeypatch, capfd):
    failures = run.run_batch(faulty, 1)
    assert failures == {faulty: f"AssertionError: a step came too late (ANYCEND_CHAOS={faulty})"}
    monkeypatch.setattr("sys.argv", ["run", "--only", str(faulty), "--repeat", "2"])
    assert run.main() == 1
    assert "AssertionError: a step came too late" in capfd.readouterr().out


def test_a_fault_that_needs_delays_is_made_smaller(faulty):
    program = generate(faulty)
    check = next(step for step in program.steps if step["kind"] == "check")
    others = [step for step in program.steps if step["kind"] not in ("check", "replay")][:2]
    small = shrink.shrink(dataclasses.replace(program, steps=[*others, check]))
    assert [step["kind"] for step in small.steps] == ["check"]
    assert shrink.shrink(dataclasses.replace(program, steps=others)) is None


def test_a_run_of_many_has_the_patience_of_one(faulty, monkeypatch):
    program = generate(faulty)
    slow = dataclasses.replace(program, steps=[s for s in program.steps if s["kind"] not in ("check", "replay")][:1])
    monkeypatch.setenv("SLOW", "0.5")
    assert shrink.fails(slow, repeat=8, patience=3) is None
    assert shrink.fails(slow, repeat=2, patience=0.2) == "hangs for 0.2 s"

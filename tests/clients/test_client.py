"""How runs are compared (client.py) and what makes an environment anew (environment.py); no client is needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients import client, environment

ROW = {
    "runs": ["a"],
    "precisions": ["fp32"],
    "cpu": {},
    "allowed": {"fp32": 1e-3},
    "fall back": {"named": "why"},
    "constant": False,
}
GROUP = client.Group("row", 1, ROW)
END = {"end": "the process ended with 9"}


def line(*losses: float, rank: int = 0, **fallbacks: int) -> dict:
    return {"run": "a:fp32", "rank": rank, "losses": list(losses), "seconds": 1.0, "fallbacks": fallbacks}


def compare(npu: list[dict], cpu: list[dict], group: client.Group = GROUP) -> str | None:
    return client.wrong(group, client.compare(group, "a", "fp32", npu, cpu))


def test_equal_losses_are_right():
    assert compare([line(2.0, 1.0), END], [line(2.0, 1.0), END]) is None


def test_a_difference_is_relative_and_near_zero_to_a_tenth_of_the_first():
    assert client.compare(GROUP, "a", "fp32", [line(10.0, 0.02)], [line(10.0, 0.01)]).difference == pytest.approx(0.01)
    assert "difference 1.0e-01" in compare([line(2.2, 1.0)], [line(2.0, 1.0)])


def test_a_loss_of_zero_is_compared():
    assert compare([line(0.0, 0.5)], [line(0.0, 0.5)]) is None
    assert "difference 5.0e-01" in compare([line(0.5, 1.0)], [line(0.0, 1.0)])


def test_what_is_not_a_number_is_a_difference():
    assert "difference inf" in compare([line(2.0, float("nan"))], [line(2.0, 1.0)])
    assert "difference inf" in compare([line(2.0, 1.0)], [line(2.0, float("nan"))])


def test_every_rank_counts():
    two, both = client.Group("row", 2, ROW), [line(2.0, 1.0), line(2.0, 1.0, rank=1)]
    assert "npu rank 1: the process ended with 9" in compare([line(2.0, 1.0), END], both, two)
    assert "difference 2.0e+00" in compare([line(2.0, 1.0), line(2.0, 3.0, rank=1)], both, two)


def test_steps_that_are_missing_are_an_error():
    assert compare([line(2.0)], [line(2.0, 1.0)]) == "rank 0: 1 losses, on the CPU 2"


def test_losses_that_stay_the_same_are_an_error_unless_the_row_says_so():
    flat = [line(2.0, 2.0)]
    assert compare(flat, flat) == "rank 0: the loss is 2 from the first step to the last: nothing is learned"
    assert compare(flat, flat, client.Group("row", 1, ROW | {"constant": True})) is None


def test_a_program_finds_the_python_of_its_environment_first(tmp_path, monkeypatch):
    python = tmp_path / "python"
    python.write_text("""#!/bin/sh\necho RESULT '"'$PATH'"'\n""")
    python.chmod(0o755)
    monkeypatch.setattr(environment, "python", lambda family: python)
    monkeypatch.setattr(environment, "HOME", tmp_path)
    group = client.Group("row", 1, ROW | {"family": "some", "archives": [], "variables": {}})
    path, end = client.start(group, "cpu", [], str(tmp_path), 60)
    assert end["end"].startswith("the process ended with 0")
    assert path.split(":")[0] == str(tmp_path)


def test_a_fallback_must_be_named():
    assert compare([line(2.0, 1.0, named=3)], [line(2.0, 1.0)]) is None
    assert compare([line(2.0, 1.0, other=3, named=1)], [line(2.0, 1.0)]) == "fell back to the CPU: other"


def test_rows_programs_and_requirements_belong_together():
    groups = client.groups()
    programs = {path.stem for path in Path(client.__file__).parent.glob("programs/*.py")} - {"__init__"}
    assert {group.program for group in groups} == programs
    tested_apart = {
        "msprobe",
        "msprof_analyze",
        "onnx",
        "tb_profiler",
        "triton",
    }  # each a test_<family>.py: not programs that train
    assert {group.row["family"] for group in groups} == set(environment.families()) - tested_apart


@pytest.mark.parametrize("family", environment.families())
def test_pins_are_exact_and_bring_no_torch(family):
    lines = [text for text in environment.pins(family).splitlines() if not text.startswith("#")]
    assert lines == sorted(lines, key=str.lower)
    names = [text.split("==")[0] for text in lines if "==" in text]
    assert len(names) == len(lines)
    assert not {"torch", "torchvision", "numpy"} & set(names)


def test_an_environment_is_kept_until_its_pins_change(tmp_path, monkeypatch):
    (tmp_path / "some").mkdir()
    monkeypatch.setattr(environment, "pins", lambda family: "a==1")
    (tmp_path / "some" / "ready").write_text(environment.key("some"))
    assert environment.cached("some", tmp_path)
    monkeypatch.setattr(environment, "pins", lambda family: "a==2")
    assert not environment.cached("some", tmp_path)

"""tools/dev/bench_compare.py: what counts as worse."""

from __future__ import annotations

import json

import pytest

from tools.dev import bench_compare


@pytest.fixture
def compare(tmp_path, capsys):
    def run(old: float, new: float, unit: str = "us", more_is_better: bool = False) -> tuple[int, str]:
        paths = []
        for name, figure in (("old", old), ("new", new)):
            row = {"name": "add", "unit": unit, "figure": figure, "more_is_better": more_is_better}
            paths.append(tmp_path / f"{name}.json")
            paths[-1].write_text(json.dumps({"rows": [row]}))
        return bench_compare.main([str(path) for path in paths]), capsys.readouterr().out

    return run


def test_a_dearer_operator_is_worse(compare):
    code, out = compare(2.0, 2.5)
    assert code == 1 and "-20%  worse" in out


def test_a_quicker_step_is_better(compare):
    code, out = compare(1.0, 1.5, "ms", more_is_better=True)
    assert code == 0 and "+50%  better" in out


def test_a_small_change_is_no_verdict(compare):
    code, out = compare(2.0, 2.1)
    assert code == 0 and "worse" not in out


def test_a_difference_within_the_noise_does_not_count(compare):
    assert compare(0.001, 0.02, "s")[0] == 0


def test_rows_of_one_side_are_named(tmp_path, capsys):
    for name in ("a", "b"):
        row = {"name": name, "unit": "us", "figure": 1.0, "more_is_better": False}
        (tmp_path / name).write_text(json.dumps({"rows": [row]}))
    assert bench_compare.main([str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    assert f"a                            only in {tmp_path / 'a'}" in capsys.readouterr().out

"""torch_npu.profiler's rows without a device: intervals, steps, and the folders that they are kept in."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

pytest.importorskip("torch_npu", reason="the plugin is not built", exc_type=ImportError)
from torch_npu.profiler import communication, database, events, results  # noqa: E402


class Watched(list):
    """Counts the members that are looked at."""

    looks = 0

    def __getitem__(self, i):
        Watched.looks += 1
        return super().__getitem__(i)

    def __iter__(self):
        for one in super().__iter__():
            Watched.looks += 1
            yield one


def disjoint(count: int, random_: random.Random) -> list[tuple[int, int]]:
    ends = sorted(random_.sample(range(4 * count), 2 * count))
    return list(zip(ends[::2], ends[1::2], strict=True))


def test_what_lies_in_none_of_the_others_is_found_in_one_pass():
    random_ = random.Random(7)
    for _ in range(50):
        some, others = disjoint(9, random_), disjoint(6, random_)
        left = events.without(some, others)
        points = {p for start, end in some for p in range(start, end)}
        points -= {p for start, end in others for p in range(start, end)}
        assert points == {p for start, end in left for p in range(start, end)}
        assert left == sorted(left) and all(start < end for start, end in left)
    some, others = disjoint(300, random_), Watched(disjoint(3000, random_))
    Watched.looks = 0
    events.without(some, others)
    assert Watched.looks < 6 * (len(some) + len(others))


def test_tasks_belong_to_the_step_in_which_they_were_asked_for():
    steps = [{"name": f"ProfilerStep#{n}", "start": 10 * n, "end": 10 * n + 8} for n in (4, 5, 6)]
    asked = [40, 47, 48, 39, 50, 60, 67, 70]
    rows = {
        "operators": steps,
        "calls": [{"correlation": i, "start": at} for i, at in enumerate(asked)],
        "tasks": [{"correlation": i, "start": 99, "kind": "kernel"} for i in range(len(asked))],
    }
    found = {n: [t["correlation"] for t in tasks] for n, tasks in events.step_of_tasks(rows).items()}
    assert found == {4: [0, 1], -1: [2, 3, 7], 5: [4], 6: [5, 6]}
    assert {n: len(t) for n, t in events.step_of_tasks(rows | {"operators": []}).items()} == {-1: 8}


def test_the_types_of_collectives_stand_once():
    assert database._HCCL_TYPES == ("Int8", "Short", "Int", "Half", "Float", "Long", "UInt64", "Byte", "UInt16",
                                    "UInt32", "Double", "BFloat16")  # fmt: skip
    assert [communication.payload({"args": {"count": 3, "dtype": t}}) for t in ("Half", "Double", "Other")] == [
        6,
        24,
        0,
    ]


def test_each_of_several_profiles_of_one_name_and_moment_has_its_folder(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_123_000_000)
    monkeypatch.setattr(Path, "exists", lambda _: False)  # another rank makes it after one has looked
    made = [results.new_folder(tmp_path, "worker") for _ in range(3)]
    assert len(set(made)) == 3 and all((one / "FRAMEWORK").is_dir() for one in made)
    numbers = [int(one.name.split("_")[1]) for one in made]
    assert [n - numbers[0] for n in numbers] == [0, 1, 2]

"""init.cpp, rank_table.cpp, communicator.cpp: the ways to a communicator."""

from __future__ import annotations

import json

import pytest

from tests.hccl import programs
from tests.hccl.ranks import HcclError
from tests.ports import free_ports


def test_sub_communicators(world):
    sums = world.run(programs.sub_communicators)
    assert all(s == sums[0] for s in sums)


def test_a_sub_communicator_that_one_does_not_make(fresh):
    job = fresh(3, env={"HCCL_CONNECT_TIMEOUT": "1"}).connect()
    job.start(programs.make_sub, [0, 1, 2], 4, ranks=[0, 1])
    errors = job.results(ranks=[0, 1])
    assert all(
        e.code == "TIMEOUT" and "rank 2 did not call it within 1 s (HCCL_CONNECT_TIMEOUT)" in e.text for e in errors
    ), errors
    job.run(programs.all_reduce_once)  # the parent is whole


def test_wrong_sub_communicators_are_refused(two):
    for ranks, words in {
        (0, 5): "rank 5 does not exist",
        (0, 0): "rank 0 stands twice",
        (1,): "is not the place of rank 0",
    }.items():
        (answer,) = two.run(programs.try_sub, list(ranks), 0, ranks=[0])
        assert answer[0] == "PARA" and words in answer[1]


def test_not_a_member(two):
    assert two.run(programs.not_a_member) == [True, True]


@pytest.mark.parametrize("n", [1, 3, 8])
def test_all_ranks_in_one_process(two, n):
    two.run(programs.in_one_process, n, 50, ranks=[0])
    two.run(programs.in_one_process, n, 60_000, ranks=[0])


@pytest.mark.parametrize(
    ("count", "devices", "words"),
    [
        (0, None, "ndev is 1 to 8, the number of devices, not 0"),
        (9, None, "not 9"),
        (-1, [0], "not 4294967295"),
        (2, [0, -1], "devices[1] is 0 to 7, not -1"),
        (1, [8], "devices[0] is 0 to 7, not 8"),
        (3, [1, 0, 1], "device 1 stands twice in devices, at 0 and 2"),
    ],
)
def test_wrong_lists_of_devices_are_refused(two, count, devices, words):
    (answer,) = two.run(programs.try_all, count, devices, ranks=[0])
    assert answer[0] == "PARA" and words in answer[1], answer
    assert two.run(programs.try_all, 2, [7, 3], ranks=[0]) == [("SUCCESS", "")]


def test_a_handle_without_a_place_spends_no_root_info(two):
    ((code, text),) = two.run(programs.join_without_a_place, ranks=[0])
    assert code == "PTR" and "comm is null" in text, (code, text)


def test_one_rank_alone(fresh):
    fresh(1).connect().run(programs.all_reduce, "fp16", "sum", 70_000)


def table(n: int) -> dict:
    return {
        "version": "1.0",
        "status": "completed",
        "server_count": "1",
        "server_list": [
            {
                "server_id": "127.0.0.1",
                "host_nic_ip": "reserve",
                "device": [
                    {"device_id": str(r), "device_ip": f"192.168.100.{r + 1}", "rank_id": str(r)} for r in range(n)
                ],
            }
        ],
    }


def test_a_rank_table_makes_communicators_one_after_another(fresh, tmp_path):
    file = tmp_path / "hccl.json"
    file.write_text(json.dumps(table(4)))
    job = fresh(4, env={"HCCL_IF_BASE_PORT": str(free_ports(16))})
    for _ in range(2):
        assert len(set(job.run(programs.join_table, str(file)))) == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.update(version="2.0"), '/version is "2.0"'),
        (lambda t: t.update(status="initializing"), '/status is "initializing"'),
        (lambda t: t.update(server_count="2"), "/server_count is 2 but /server_list has 1"),
        (lambda t: t.pop("server_list"), "/server_list is missing"),
        (lambda t: t["server_list"][0].pop("server_id"), "/server_list/0/server_id is missing"),
        (
            lambda t: t["server_list"][0]["device"][1].update(rank_id="x"),
            '/server_list/0/device/1/rank_id must be a number, not "x"',
        ),
        (
            lambda t: t["server_list"][0]["device"][1].update(rank_id="0"),
            "/server_list/0/device/1/rank_id 0 stands twice",
        ),
        (
            lambda t: t["server_list"][0]["device"][1].update(rank_id="9"),
            "/server_list/0/device/1/rank_id is 9, but there are 2 ranks",
        ),
        (lambda t: t["server_list"][0].update(device=[]), "/server_list/0/device must be a list that is not empty"),
    ],
)
def test_a_malformed_rank_table_names_the_path(two, tmp_path, change, words):
    content = table(2)
    change(content)
    file = tmp_path / "hccl.json"
    file.write_text(json.dumps(content))
    two.start(programs.join_table_only, str(file), ranks=[0])
    (error,) = two.results(ranks=[0])
    assert isinstance(error, HcclError) and error.code == "PARA" and words in error.text, error


def test_a_rank_table_that_is_not_json_or_not_there(two, tmp_path):
    file = tmp_path / "hccl.json"
    file.write_text("{]")
    two.start(programs.join_table_only, str(file), ranks=[0])
    assert "not JSON" in two.results(ranks=[0])[0].text
    two.start(programs.join_table_only, str(tmp_path / "none.json"), ranks=[0])
    assert two.results(ranks=[0])[0].code == "OPEN_FILE_FAILURE"


def test_a_config_without_its_magic_is_refused(fresh):
    job = fresh(1)
    (info,) = job.run(programs.make_root)
    ((code, text),) = job.run(programs.bad_config, info)
    assert code == "PARA" and "HcclCommConfigInit" in text


def test_settings_of_the_process_work_or_are_refused(two):
    """Sums are always deterministic: every level of HCCL_DETERMINISTIC holds. Of accelerators there is none."""
    answers = dict(two.run(programs.process_settings, [(0, v) for v in range(-1, 4)] + [(1, v) for v in range(7)])[0])
    assert [answers[0, v] for v in range(-1, 4)] == [
        ("PARA", 1),
        ("SUCCESS", 0),
        ("SUCCESS", 1),
        ("SUCCESS", 2),
        ("PARA", 2),
    ]
    assert [answers[1, v] for v in range(7)] == [("SUCCESS", 0)] + [("NOT_SUPPORT", 0)] * 5 + [("PARA", 0)]

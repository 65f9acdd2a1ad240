"""npu-smi tells of other processes: their memory, whether their devices work, and that they are gone."""

from __future__ import annotations

import re
import subprocess
import time

import pytest

from tests.smi.conftest import until


def field(text: str, name: str) -> int:
    return int(re.search(rf"^\t{re.escape(name)} +: (\d+)$", text, re.M)[1])


def rate(m, device: int) -> int:
    return field(m.smi("info", "-t", "usages", "-i", device), "Aicore Usage Rate(%)")


def rows(text: str) -> list[list[str]]:
    """The rows of the table of processes, as words."""
    part = text[text.index("Process id") :]
    return [line.replace("|", " ").split() for line in part.splitlines() if re.match(r"\| \d+ ", line)]


def test_a_process_shows_with_its_memory_until_it_is_killed(machine):
    m = machine()
    user = m.user(1, 100)
    ((npu, chip, pid, name, mib),) = rows(m.smi("info"))
    assert (npu, chip, int(pid)) == ("1", "0", user.pid) and name.startswith("python") and 100 <= int(mib) <= 102
    assert re.search(rf"\| 0 +\| 0000:81:00.0  \| 0 +0 +/ 0 +{mib} +/ 1024 +\|", m.smi("info"))
    assert field(m.smi("info", "-t", "usages", "-i", 1), "HBM Usage Rate(%)") == 100 * int(mib) // 1024
    assert field(m.smi("info", "-t", "usages", "-i", 0), "HBM Usage Rate(%)") == 0
    user.kill()
    assert rows(m.smi("info")) == []
    assert field(m.smi("info", "-t", "usages", "-i", 1), "HBM Usage Rate(%)") == 0


def test_two_processes_on_one_device_and_one_on_another(machine):
    m = machine("Ascend910_9392")
    users = [m.user(2, 10), m.user(3, 20), m.user(3, 30)]
    found = {int(pid): (npu, chip, int(mib)) for npu, chip, pid, _, mib in rows(m.smi("info"))}
    assert found == {users[0].pid: ("1", "0", 10), users[1].pid: ("1", "1", 20), users[2].pid: ("1", "1", 30)}
    out = m.smi("info", "-t", "proc-mem", "-i", 1, "-c", 1)
    assert sorted(map(int, re.findall(r"Process id:(\d+)", out))) == sorted(u.pid for u in users[1:])
    assert sorted(map(int, re.findall(r"Process memory\(MB\):(\d+)", out))) == [20, 30]


def test_a_device_is_busy_while_it_works_and_not_after(machine):
    m = machine()
    user = m.user(1)
    assert rate(m, 1) == 0
    user.do("work")
    assert until(lambda: rate(m, 1) > 0)
    assert rate(m, 0) == 0
    user.do("rest")
    assert until(lambda: rate(m, 1) == 0)


def test_a_process_that_is_killed_at_work_leaves_its_device_idle(machine):
    m = machine()
    user = m.user(0)
    user.do("work")
    assert until(lambda: rate(m, 0) > 0)
    user.kill()
    assert rate(m, 0) == 0


def test_who_waits_does_not_work(machine):
    m = machine()
    user = m.user(0)
    user.do("wait")
    assert [rate(m, 0) for _ in range(3)] == [0, 0, 0]


def test_the_runtime_says_of_a_device_what_npu_smi_says(machine):
    m = machine()
    asks, works = m.user(1), m.user(1)

    def said() -> list[int]:
        asks.do("rate")
        return list(map(int, asks.line().split()))

    assert said()[:3] == [0, 0, 0]
    works.do("work")
    assert until(lambda: said()[0] > 0)
    works.do("rest")
    assert until(lambda: said()[:3] == [0, 0, 0])
    assert said()[3] == 100 * 128 // 1024


def test_watch_follows(machine):
    m = machine(devices=2)
    user = m.user(1)
    user.do("work")
    command = [m.tool, "info", "watch", "-i", "1", "-s", "am"]
    with subprocess.Popen(command, env=m.env, stdout=subprocess.PIPE, text=True) as watch:
        assert watch.stdout.readline().split("  ")[0] == "NpuID(Idx)"
        seen = (watch.stdout.readline().split() for _ in range(60))
        row = next((row for row in seen if int(row[2]) > 0), None)
        watch.kill()
    assert row is not None and row[:2] == ["1", "0"] and row[3] == "6"


def test_a_line_of_watch_is_of_the_time_since_the_line_before(machine):
    """Work that is over before the next line is in it; a sample just before that line would not see it."""
    m = machine(devices=1)
    user = m.user(0)
    with subprocess.Popen(
        [m.tool, "info", "watch", "-s", "a", "-d", "2"], env=m.env, stdout=subprocess.PIPE, text=True
    ) as watch:
        assert watch.stdout.readline().startswith("NpuID") and watch.stdout.readline().split()[2] == "0"
        user.do("work")
        time.sleep(0.3)
        user.do("rest")
        seen = [int(watch.stdout.readline().split()[2]) for _ in range(2)]
        watch.kill()
    assert max(seen) > 0


def test_an_npu_in_use_is_not_reset(machine):
    m = machine()
    user = m.user(1)
    assert f"NPU 1 is in use by process {user.pid}" in m.refused("set", "-t", "reset", "-i", 1)
    assert "Status                         : OK" in m.smi("set", "-t", "reset", "-i", 0, "-c", 0, "-m", 1)
    user.kill()
    assert "Status                         : OK" in m.smi("set", "-t", "reset", "-i", 1)


@pytest.mark.parametrize("visible", ["1", ""])
def test_what_a_program_may_not_see_npu_smi_shows(machine, visible):
    m = machine(devices=2)
    m.env["ASCEND_RT_VISIBLE_DEVICES"] = visible
    assert m.smi("info", "-l").splitlines()[0].endswith(": 2")
    if visible:
        m.user(0)  # its first device is the machine's second
        assert [row[0] for row in rows(m.smi("info"))] == ["1"]

"""What npu-smi refuses, and registries that somebody has written to: one sentence and exit code 1, never a crash."""

from __future__ import annotations

import fcntl
import os
import struct

import pytest

RECORD = struct.Struct("iiQQQ24sQ")
BYTES = 64 * 65536
F_OFD_SETLK = 37


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("frobnicate", "unknown command 'frobnicate'"),
        ("info -t frobnicate -i 0", "nothing to say of -t frobnicate; it knows board, common"),
        ("info -t health", "needs -i <NPU>"),
        ("info -t health -i 99", "there is no NPU 99: there are 8"),
        ("info -t board -i 0 -c 1", "there is no chip 1"),
        ("info -t topo -i 8", "there is no NPU 8"),
        ("info -t health -i -1", "-i takes a number, not '-1'"),
        ("info -t health -i 0x1", "-i takes a number, not '0x1'"),
        ("info -t health -i 99999999999999999999", "-i takes a number"),
        ("info -t health -i", "a value for -i is missing"),
        ("info -t health -i 0 -i 1", "-i is given twice"),
        ("info -t", "a value for -t is missing"),
        ("info -i 0", "needs -t <type>"),
        ("info --frob", "unknown option '--frob'"),
        ("info -l now", "info -l takes nothing more, not 'now'"),
        ("info watch -d 0", "-d takes 1 to 100 seconds, not 0"),
        ("info watch -s pz", "'z' is none of the letters"),
        ("info watch -i 8", "there is no NPU 8"),
        ("set -t ecc-enable -i 0 -d 1", "nothing of a software NPU can be set by -t 'ecc-enable'"),
        ("set", "set needs -t: give set -t reset -i <NPU>"),
        ("set -t reset", "needs -i <NPU>"),
        ("set -t reset -i 0 -s x", "does not take -s; it takes -i <NPU>, -c <chip> and -m <0|1>"),
        ("set -t reset -i 0 -m x", "-m takes 0 or 1, not 'x'"),
        ("clear -t ecc-info -i 0", "has nothing to clear"),
        ("upgrade -t mcu -i 0 -f x", "has nothing to upgrade"),
    ],
)
def test_a_bad_command_line_is_refused_in_one_sentence(machine, words, reason):
    assert reason in machine().refused(*words.split())


@pytest.mark.parametrize(
    ("name", "value"), [("ANYCEND_DEVICES", "many"), ("ANYCEND_SOC", "Ascend1"), ("ANYCEND_MEMORY", "lots")]
)
def test_a_bad_setting_is_named(machine, name, value):
    m = machine()
    m.env[name] = value
    assert f"{name}={value}" in m.refused("info")


class Forged:
    """A registry whose first records are the test's own: locked, as a live process locks them."""

    def __init__(self, path, record: bytes, locked: bool = True, size: int = BYTES):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes((bytes(64) + record).ljust(size, b"\0"))
        self.file = open(path, "r+b")  # noqa: SIM115 held as long as the test
        if locked:
            fcntl.fcntl(self.file, F_OFD_SETLK, struct.pack("hhxxxxqqixxxx", fcntl.F_WRLCK, 0, 64, len(record), 0))


def record(pid=4711, device=1, committed=5 << 20, used=0, busy=0, name=b"forged") -> bytes:
    return RECORD.pack(pid, device, committed, used, 1, name, busy)


COMMANDS = [("info",), ("info", "-t", "usages", "-i", "1"), ("info", "-t", "proc-mem", "-i", "1")]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"pid": -5}, "its process id is negative"),
        ({"device": 4711}, "there is no such device"),
        ({"device": -1}, "there is no such device"),
        ({"committed": 1 << 63}, "no device has that much memory"),
        ({"used": (1 << 64) - 1}, "no device has that much memory"),
        ({"name": b"x" * 24}, "its name has no end"),
    ],
)
def test_a_damaged_record_of_a_live_process_is_named(machine, bad, reason):
    m = machine()
    forged = Forged(m.registry, record(**bad))
    for command in COMMANDS:
        said = m.refused(*command)
        assert reason in said and str(m.registry) in said
    forged.file.close()


def test_what_a_dead_process_left_is_not_read(machine):
    m = machine()
    forged = Forged(m.registry, record(device=4711, name=b"\xff" * 24), locked=False)
    for command in COMMANDS:
        assert "4711" not in m.smi(*command)
    forged.file.close()


def test_a_name_cannot_break_the_table(machine):
    m = machine()
    forged = Forged(m.registry, record(name=b"a|b\n\x1b[2J \xe4c"))
    out = m.smi("info")
    assert "\x1b" not in out and len({len(line) for line in out.splitlines()}) == 1
    assert "| 1       0                 | 4711          | a?b??[2J??c              | 5 " in out
    forged.file.close()


@pytest.mark.parametrize("busy", [(1 << 64) - 1, 1 << 63, (1 << 63) - 1, 1])
def test_a_forged_busy_time_is_a_percentage(machine, busy):
    m = machine()
    forged = Forged(m.registry, record(busy=busy))
    rate = [line for line in m.smi("info", "-t", "usages", "-i", 1).splitlines() if "Aicore" in line]
    assert 0 <= int(rate[0].split()[-1]) <= 100
    forged.file.close()


def test_more_processes_than_a_small_file_holds_are_shown(machine):
    """There were 1023."""
    m = machine()
    forged = Forged(m.registry, b"".join(record(pid=100_000 + i) for i in range(1500)))
    assert m.smi("info", "-t", "proc-mem", "-i", 1).count("Process id:") == 1500
    forged.file.close()


def test_a_registry_without_room_says_that_more_may_be_there(machine):
    m = machine()
    forged = Forged(m.registry, b"".join(record(pid=100_000 + i) for i in range(65535)))
    code, out, err = m.run("info", "-t", "proc-mem", "-i", 1)
    assert code == 0 and out.count("Process id:") == 65535
    assert (
        err == "npu-smi: the registry of this user's processes is full (65535 of them on devices): more are not shown\n"
    )
    forged.file.close()


@pytest.mark.parametrize("size", [1, 63, 4096, BYTES - 64, BYTES + 1])
def test_a_registry_of_another_size_is_refused(machine, size):
    m = machine()
    m.registry.parent.mkdir()
    m.registry.write_bytes(bytes(size))
    assert f"has {size} bytes, not {BYTES}" in m.refused("info")


def test_random_bytes_are_no_processes(machine):
    m = machine()
    m.registry.parent.mkdir()
    m.registry.write_bytes(os.urandom(BYTES))
    assert "No running processes found in NPU 1" in m.smi("info")


def test_what_is_no_file_is_not_read(machine):
    m = machine()
    m.registry.parent.mkdir()
    os.mkfifo(m.registry)
    assert "is not a file of this user" in m.refused("info")
    m.registry.unlink()
    m.registry.symlink_to("/etc/hostname")
    assert "cannot open the registry" in m.refused("info")
    m.registry.unlink()
    m.registry.mkdir()
    assert "is not a file of this user" in m.refused("info")


def test_nothing_is_made_by_looking(machine):
    m = machine()
    m.smi("info")
    assert not m.registry.parent.exists()

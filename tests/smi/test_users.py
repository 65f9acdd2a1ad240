"""Processes of other users: npu-smi shows them, and believes of their files no more than that user may say.

Root plays the other users. Nothing of their memory is readable by what shows them.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.smi.conftest import Machine, until
from tests.smi.test_processes import rate, rows

OTHER = 65534
RECORD = struct.Struct("<ihHQQQ24sQ")
RECORDS = 65535
MAGIC = b"anycend processes 1".ljust(64, b"\0")

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several users")


@pytest.fixture
def shared():
    """A machine whose folder all users may enter, as /tmp."""
    folder = Path(tempfile.mkdtemp(prefix="anycend-smi-"))
    folder.chmod(0o1777)
    (folder / "mine").mkdir(mode=0o700)
    (folder / "other").mkdir(mode=0o700)
    os.chown(folder / "other", OTHER, OTHER)
    env = {"XDG_RUNTIME_DIR": str(folder / "mine"), "ANYCEND_PROCESS_FOLDER": str(folder)}
    m = Machine(folder, ANYCEND_SOC="Ascend910B3", ANYCEND_DEVICES="4", **env)
    m.folder = folder
    yield m
    m.close()
    shutil.rmtree(folder)


def other(m: Machine, device: int, mib: int = 64):
    """A process of another user, with a registry of that user's own."""
    return m.user(device, mib, OTHER, XDG_RUNTIME_DIR=str(m.folder / "other"))


def seen(m: Machine) -> dict[int, int]:
    return {int(pid): int(mib) for _, _, pid, _, mib in rows(m.smi("info"))}


def test_all_users_processes_are_shown_while_they_live(shared):
    ours, theirs = shared.user(1, 10), other(shared, 1, 20)
    assert seen(shared) == {ours.pid: 10, theirs.pid: 20}
    assert "HBM Usage Rate(%)              : 2\n" in shared.smi("info", "-t", "usages", "-i", 1)  # 30 of 1024
    theirs.do("work")
    assert until(lambda: rate(shared, 1) > 0)
    assert f"NPU 1 is in use by process {ours.pid}" in shared.refused("set", "-t", "reset", "-i", 1)
    theirs.kill()
    assert seen(shared) == {ours.pid: 10} and rate(shared, 1) == 0


def test_another_user_sees_us_and_reaches_nothing_of_ours(shared):
    ours = shared.user(2, 30)
    (public,) = shared.folder.glob("anycend-processes-*")
    assert stat.S_IMODE(public.stat().st_mode) == 0o644 and public.stat().st_size == 64 * (RECORDS + 1)
    registry = shared.folder / "mine/anycend/registry"
    assert [stat.S_IMODE(p.stat().st_mode) for p in (registry.parent, registry)] == [0o700, 0o600]
    asks = f"""
import ctypes, os
machine = ctypes.CDLL({str(shared.tool.parent.parent / "lib64/libdcmi.so")!r})
os.setgroups([]); os.setgid({OTHER}); os.setuid({OTHER})
found, count = (ctypes.c_ulong * 64)(), ctypes.c_int(32)
machine.dcmi_init()
status = machine.dcmi_get_device_resource_info(2, 0, found, ctypes.byref(count))
print(status, count.value, found[0] & 0xFFFFFFFF, found[1] >> 20)
for path in ({str(registry)!r}, "/proc/{ours.pid}/fd", "/proc/{ours.pid}/mem"):
    try:
        os.listdir(path) if path.endswith("fd") else open(path, "rb")
        print("open", path)
    except PermissionError:
        print("closed")
try:
    open({str(public)!r}, "r+b")
    print("writable")
except PermissionError:
    print("closed")
"""
    env = {**shared.env, "XDG_RUNTIME_DIR": str(shared.folder / "other")}
    done = subprocess.run([sys.executable, "-c", asks], env=env, capture_output=True, text=True, timeout=600)
    assert done.stdout.split("\n")[:-1] == [f"0 1 {ours.pid} 30"] + ["closed"] * 4, done.stderr


def test_a_lost_device_of_another_user_is_his_alone(shared):
    shared.env["ANYCEND_FAULT"] = "device1:lost:5"
    theirs = other(shared, 1)
    theirs.do("lose")
    theirs.do("rest")
    assert "Critical" not in shared.smi("info") and theirs.pid in seen(shared)


def ticks(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def record(
    pid: int, device: int = 1, mib: int = 5, locked: int = 0, started: int | None = None, name=b"forged"
) -> bytes:
    started = ticks(pid) if started is None else started
    return RECORD.pack(pid, device, locked, started, mib << 20, 1, name, 0)


@pytest.fixture
def forge(shared):
    """Puts a file of another user there, of bytes or by a function of its path."""
    made = []

    def put(content, name: str = "anycend-processes-x", uid: int = OTHER) -> Path:
        path = shared.folder / name
        path.write_bytes(content) if isinstance(content, bytes) else content(path)
        os.chown(path, uid, uid, follow_symlinks=False)
        made.append(path)
        return path

    return put


@pytest.fixture
def victim():
    """A process of the other user that uses no NPU, to be spoken of."""
    with subprocess.Popen(["sleep", "600"], user=OTHER, group=OTHER, extra_groups=[]) as process:
        yield process.pid
        process.kill()


def whole(*records: bytes) -> bytes:
    return (MAGIC + b"".join(records)).ljust(64 * (RECORDS + 1), b"\0")


def test_a_file_speaks_of_its_owners_processes_only(shared, forge, victim):
    """One record is true: the others name processes of somebody else, dead ones, other starts, what no lock keeps."""
    init, we = 1, os.getpid()
    forge(
        whole(
            record(init),
            record(we),
            record(victim),
            record(victim, started=ticks(victim) + 1, device=2),
            record(2**31 - 1, started=1),
            record(victim, device=3, locked=1),
            record(victim, mib=7),
            record(victim, started=0),
        )
    )
    assert seen(shared) == {victim: 5}
    assert shared.run("info")[2] == ""


def symlink(path: Path) -> None:
    path.symlink_to("/etc/passwd")


@pytest.mark.parametrize(
    "content",
    [
        b"x",
        b"\0" * 64,
        MAGIC,
        os.urandom(64 * (RECORDS + 1)),
        (b"\0x" + MAGIC[2:]).ljust(64 * (RECORDS + 1), b"\0"),
        whole() + b"x",
        MAGIC + os.urandom(64 * RECORDS),
        symlink,
        os.mkfifo,
        os.mkdir,
        whole(RECORD.pack(-5, 1, 0, 1, 1, 1, b"x", 0)),
        whole(RECORD.pack(5, 4711, 0, 1, 1, 1, b"x", 0)),
        whole(RECORD.pack(5, 1, 0, 1, 1 << 63, 1, b"x", 0)),
        whole(RECORD.pack(5, 1, 0, 1, 1, 1, b"x" * 24, 0)),
    ],
    ids=[
        "byte",
        "zeros",
        "short",
        "random",
        "first byte",
        "long",
        "random records",
        "symlink",
        "fifo",
        "folder",
        "pid",
        "device",
        "memory",
        "name",
    ],
)
def test_a_file_that_is_damaged_is_left_out_and_counted(shared, forge, content):
    ours = shared.user(0, 10)
    path = forge(content)
    code, out, err = shared.run("info")
    assert code == 0 and [int(row[2]) for row in rows(out)] == [ours.pid]
    assert err == (
        f"npu-smi: what processes of user {OTHER} hold is not all shown: {path} is damaged: let the user remove it "
        "when none of these processes uses an NPU\n"
    )


def test_a_file_that_is_being_made_is_not_damaged(shared, forge):
    for written in (0, 1, 10, len(MAGIC)):
        forge(MAGIC[:written].ljust(64 * (RECORDS + 1), b"\0"), f"anycend-processes-{written}")
    forge(b"", "anycend-processes-empty")
    assert shared.run("info")[2] == ""


def test_what_a_file_says_cannot_break_the_table_nor_hide_others(shared, forge, victim):
    ours = shared.user(1, 10)
    many = [record(victim, device=d) for d in range(64)]
    forge(whole(record(victim, mib=1 << 20, name=b"a|b\n\x1b[2J"), *(many * 1024)[: RECORDS - 1]))
    for i in range(80):
        forge(b"x", f"anycend-processes-{i}\x1b[2J")
    code, out, err = shared.run("info")
    assert code == 0 and err.count("\n") == 1 and "80 files are damaged, such as " in err
    assert f"{shared.folder}/anycend-processes-0" in err and "\x1b" not in err
    assert "\x1b" not in out and len({len(line) for line in out.splitlines()}) == 1
    assert {ours.pid, victim} == {int(row[2]) for row in rows(out)} and " 1024  / 1024 " in out


def test_all_spaces_of_process_ids_are_shown_and_too_many_records_are_said(shared, forge, victim):
    """Each has a file of its own, which stays when it ends."""

    def with_holes(path: Path) -> None:
        path.write_bytes(MAGIC + record(2**31 - 1, started=1))
        os.truncate(path, 64 * (RECORDS + 1))

    for i in range(70):
        forge(with_holes, f"anycend-processes-{i}")
    forge(whole(record(victim)))
    code, out, err = shared.run("info")
    assert code == 0 and err == "" and [int(row[2]) for row in rows(out)] == [victim]
    forge(whole(*[record(2**31 - 1, started=1)] * RECORDS), "anycend-processes-0")
    said = (
        f"npu-smi: what processes of user {OTHER} hold is not all shown: their files have more than {RECORDS} records\n"
    )
    assert shared.run("info")[2] == said


def test_a_process_publishes_where_somebody_holds_its_name(shared, forge):
    """A file of its name, and a lock on it that anybody may take who may read it."""
    space = os.stat("/proc/self/ns/pid").st_ino
    forge(b"", f"anycend-processes-0-{space}")
    shared.user(1, 10).kill()
    public = shared.folder / f"anycend-processes-0-{space}-1"
    with public.open("rb") as file:
        fcntl.fcntl(file, 37, struct.pack("hhxxxxqqixxxx", fcntl.F_RDLCK, 0, 0, 0, 0))  # F_OFD_SETLK
        ours = shared.user(1, 10)
        shared.env["XDG_RUNTIME_DIR"] = str(shared.folder / "other")  # not by the registry
        os.chown(shared.folder / "other", 0, 0)
        assert seen(shared) == {ours.pid: 10}
    linked = shared.folder / "kept"
    linked.write_bytes(b"")
    public.unlink()
    os.link(linked, public)
    shared.user(1, 10)
    assert linked.read_bytes() == b""


def test_what_became_another_program_holds_nothing(shared):
    """exec keeps the process and its start; the memory is gone."""
    code = """
import ctypes, os, sys
acl, block = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p()
os.setgroups([]); os.setgid(65534); os.setuid(65534)
assert not acl.aclInit(None) and not acl.aclrtSetDevice(1)
assert not acl.aclrtMalloc(ctypes.byref(block), ctypes.c_size_t(1 << 20), 0)
print("ready", flush=True)
os.read(0, 3)
os.execv("/bin/cat", ["cat"])
"""
    command = [sys.executable, "-c", code, str(shared.tool.parent.parent / "lib64/libascendcl.so")]
    env = {**shared.env, "XDG_RUNTIME_DIR": str(shared.folder / "other")}
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n" and set(seen(shared)) == {process.pid}
        process.stdin.write("go\n")
        process.stdin.flush()
        assert until(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "cat\n")
        process.stdin.write("hello\n")
        process.stdin.flush()
        assert process.stdout.readline() == "hello\n" and seen(shared) == {}
        process.kill()

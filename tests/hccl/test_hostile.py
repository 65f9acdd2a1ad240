"""bootstrap*.cpp, handshake.cpp, digest.cpp, network/: strangers at a job's listening sockets. Whatever they say, the
job goes on.

The handshake is written here a second time, with Python's hmac: what passes it has the same SHA-256 and the same order.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import random
import socket
import struct
import time
from contextlib import ExitStack

import pytest

from tests.hccl import faults, programs
from tests.hccl.ranks import HcclError, Job
from tests.hccl.test_bootstrap import port_of
from tests.ports import free_ports

HELLO, CHALLENGE, JOIN, TABLE, FAILED = 1, 2, 3, 4, 9
VERSION = 0x32484348
MEMBER = 16 + 16 + 8 + 16 + 8 + 128  # struct Member


def code(key: bytes, *parts: bytes) -> bytes:
    return hmac.new(key, b"".join(struct.pack("<Q", len(p)) + p for p in parts), hashlib.sha256).digest()


def name_of(key: bytes) -> bytes:
    return code(key, b"name")[:16]


def frame(kind: int, data: bytes) -> bytes:
    return struct.pack("<II", len(data), kind) + data


def receive(s: socket.socket) -> tuple[int, bytes]:
    def exactly(size: int) -> bytes:
        got = b""
        while len(got) < size:
            part = s.recv(size - len(got))
            assert part, "closed"
            got += part
        return got

    size, kind = struct.unpack("<II", exactly(8))
    return kind, exactly(size)


def greet(port: int, key: bytes) -> tuple[socket.socket, bytes, bytes]:
    """A connection that said hello, what it said, and the root's challenge, which is right."""
    s = socket.create_connection(("127.0.0.1", port), timeout=10)
    hello = struct.pack("<II", VERSION, 0) + name_of(key) + os.urandom(16)
    s.sendall(frame(HELLO, hello))
    kind, challenge = receive(s)
    assert kind == CHALLENGE
    assert challenge[16:] == code(key, b"listener", hello, challenge[:16])
    return s, hello, challenge


def said(rank: int, ranks: int) -> bytes:
    return struct.pack("<II", ranks, 0) + os.urandom(32) + struct.pack("<II", os.getpid(), 0) + bytes(16) + struct.pack(
        "<Ii", rank, 0
    ) + b"127.0.0.1".ljust(64, b"\0") * 2  # fmt: skip


def key_of(info: bytes) -> bytes:
    return info[16:32]


def test_strangers_with_a_byte_each_delay_nobody(fresh):
    """More than the root keeps, before, between and after those who belong to the job."""
    job = fresh(2, env={"HCCL_CONNECT_TIMEOUT": "10"})
    (info,) = job.run(programs.make_root, ranks=[0])
    with ExitStack() as stack:

        def come(n: int) -> None:
            for _ in range(n):
                s = stack.enter_context(socket.create_connection(("127.0.0.1", port_of(info)), timeout=10))
                s.sendall(b"\x10")

        come(300)
        job.start(programs.join_world, info, ranks=[0])
        come(300)
        job.start(programs.join_world, info, ranks=[1])
        assert job.results() == [None, None]
    job.run(programs.all_reduce_once)


def test_the_handshake_is_what_is_written_here(fresh):
    """Who knows the key is let in, by another program, too."""
    job = fresh(1)
    (info,) = job.run(programs.make_root, ranks=[0])
    job.start(programs.join_world, info, 2)
    s, hello, challenge = greet(port_of(info), key_of(info))
    words = said(1, 2)
    s.sendall(frame(JOIN, code(key_of(info), b"caller", hello, challenge, words) + words))
    kind, table = receive(s)
    assert kind == TABLE and len(table) == 2 * MEMBER
    s.close()
    (error,) = job.results()
    assert "rank 1 left while the communicator was being made" in error.text


@pytest.mark.parametrize("lie", ["key", "replay", "words"])
def test_who_cannot_prove_the_key_is_refused_and_disturbs_nobody(fresh, lie):
    job = fresh(2)
    (info,) = job.run(programs.make_root, ranks=[0])
    s, hello, challenge = greet(port_of(info), key_of(info))
    words, key = said(1, 2), key_of(info) if lie != "key" else bytes(16)
    proof = code(key, b"caller", hello, challenge, words)
    if lie == "replay":  # on another connection, where the root gave another number
        s.close()
        s, _, _ = greet(port_of(info), key_of(info))
    s.sendall(frame(JOIN, proof + (words if lie != "words" else said(0, 3))))
    kind, answer = receive(s)
    assert kind == FAILED and b"did not believe that this rank knows the communicator's key" in answer
    s.close()
    job.run(programs.join_world, info)
    job.run(programs.all_reduce_once)


def test_who_listens_in_the_roots_place_learns_nothing(fresh):
    """A rank says nothing of its key, and nothing of itself, to who does not prove that it is the root."""
    job = fresh(2)
    (info,) = job.run(programs.make_root, ranks=[0])
    with socket.create_server(("127.0.0.1", 0)) as there:
        port = there.getsockname()[1]
        job.start(programs.join_world, info[:12] + struct.pack("<I", port) + info[16:], ranks=[1])
        s, _ = there.accept()
        with s:
            s.settimeout(10)
            kind, hello = receive(s)
            assert kind == HELLO and len(hello) == 40 and key_of(info) not in hello
            s.sendall(frame(CHALLENGE, os.urandom(48)))
            (error,) = job.results(ranks=[1])
            assert s.recv(1) == b""
    assert error.code == "TCP_CONNECT" and f"what listens at 127.0.0.1 port {port} is not the root" in error.text


def noise(chance: random.Random, good: bytes) -> bytes:
    """Any bytes, or right ones with some changed, or cut off."""
    way = chance.randrange(3)
    if way == 0:
        return chance.randbytes(chance.randrange(1, 3000))
    data = bytearray(good)
    for _ in range(chance.randrange(1, 5)):
        data[chance.randrange(min(len(data), 64) if way == 1 else len(data))] = chance.randrange(256)
    return bytes(data[: chance.randrange(1, len(data) + 1)])


def test_noise_at_the_roots_port_disturbs_nobody(fresh):
    job = fresh(2)
    (info,) = job.run(programs.make_root, ranks=[0])
    chance = random.Random(11)
    key = key_of(info)
    for i in range(300):
        hello = struct.pack("<II", VERSION, 0) + name_of(key) + os.urandom(16)
        good = frame(HELLO, hello) + frame(JOIN, os.urandom(32) + said(1, 2))
        with socket.create_connection(("127.0.0.1", port_of(info)), timeout=10) as s:
            s.sendall(noise(chance, good))
            if i % 3 == 0:
                with contextlib.suppress(OSError):  # the root may have closed it already
                    s.shutdown(socket.SHUT_WR)
    job.run(programs.join_world, info)
    job.run(programs.all_reduce_once)


def table_of(port: int) -> dict:
    devices = [{"device_id": str(r), "device_ip": "127.0.0.1", "rank_id": str(r)} for r in range(2)]
    return {
        "version": "1.0",
        "status": "completed",
        "server_count": "1",
        "server_list": [{"server_id": "127.0.0.1", "device": devices}],
        "port": str(port),
    }


def table_key(text: bytes) -> bytes:
    return code(bytes(16), b"rank table 0 " + text)[:16]


@pytest.mark.parametrize("how", ["variable", "file"])
def test_a_rank_tables_key_is_not_in_the_table_where_there_is_a_secret(fresh, tmp_path, how):
    base, file, secret = free_ports(16), tmp_path / "table.json", "0123456789abcdef0123"
    file.write_text(json.dumps(table_of(base)))
    env = {"HCCL_IF_BASE_PORT": str(base)}
    if how == "variable":
        env["ANYCEND_HCCL_SECRET"] = secret
    else:
        kept = tmp_path / "secret"
        kept.touch(0o600)
        kept.write_text(secret + "\n")
        env["ANYCEND_HCCL_SECRET_FILE"] = str(kept)
    job = fresh(2, env=env)
    job.start(programs.join_table, str(file), ranks=[0])
    key = table_key(file.read_bytes())
    for _ in range(200):
        try:
            s = socket.create_connection(("127.0.0.1", base), timeout=10)
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    with s:
        s.sendall(frame(HELLO, struct.pack("<II", VERSION, 0) + name_of(key) + os.urandom(16)))
        kind, answer = receive(s)
        assert kind == FAILED and b"the root knows no such communicator" in answer
    real = code(key, b"secret " + secret.encode())[:16]
    greet(base, real)[0].close()
    job.start(programs.join_table, str(file), ranks=[1])
    sums = job.results()
    assert sums[0] == sums[1] and isinstance(sums[0], int), sums


def test_a_secret_that_is_not_the_same_on_all_ranks_is_named(fresh):
    each = {r: {"ANYCEND_HCCL_SECRET": f"0123456789abcdef{r}"} for r in range(2)}
    job = fresh(2, each=each)
    (info,) = job.run(programs.make_root, ranks=[0])
    with pytest.raises(HcclError) as error:
        job.run(programs.join_world, info, ranks=[1])
    assert error.value.code == "PARA" and "ANYCEND_HCCL_SECRET is not the same on all ranks" in error.value.text


def test_a_secret_that_is_none_is_refused(fresh, tmp_path):
    file = tmp_path / "secret"
    file.write_text("0123456789abcdef")
    file.chmod(0o644)
    for env, words in [
        ({"ANYCEND_HCCL_SECRET_FILE": str(file)}, f"can be read by others than its owner: chmod 600 {file}"),
        ({"ANYCEND_HCCL_SECRET_FILE": str(tmp_path / "none")}, f"cannot read {tmp_path / 'none'}"),
        ({"ANYCEND_HCCL_SECRET": "short"}, "ANYCEND_HCCL_SECRET has 5 characters; a secret needs 16 or more"),
    ]:
        with pytest.raises(HcclError) as error:
            fresh(1, env=env).run(programs.make_root)
        assert words in error.value.text


def two_hosts(fresh, **env) -> tuple[Job, list[int]]:
    """A job that uses the network, and the ports on which it listens for the job's life."""
    job = fresh(2, env=env, each={r: {"ANYCEND_HOST_ID": str(r)} for r in range(2)}).connect()
    job.run(programs.all_reduce, "fp32", "sum", 100_000)
    return job, [port for _, _, port in faults.listening(job, None)]


# UCX's own greeting and a message of 64 bytes, which its TCP takes from anybody.
UCX_MESSAGE = struct.pack("<QBI", 0xCAFEBABE12345678, 1, 64)


def test_noise_at_the_datas_ports_disturbs_nobody(fresh):
    job, ports = two_hosts(fresh)
    assert len(ports) == 2
    chance = random.Random(5)
    job.start(programs.all_reduce, "fp32", "sum", 300_000, False, 40)
    for port in ports:
        for i in range(150):
            hello = struct.pack("<II", VERSION, 0) + os.urandom(32)
            good = [frame(1, hello) + frame(3, os.urandom(32)), UCX_MESSAGE + os.urandom(64)][i % 2]
            with socket.create_connection(("127.0.0.1", port), timeout=10) as s:
                s.sendall(noise(chance, good) if i % 5 else good)
    sums = job.results()
    assert len(set(sums)) == 1 and isinstance(sums[0], int), sums


def test_strangers_at_the_datas_ports_take_no_more_than_some_descriptors(fresh):
    job, ports = two_hosts(fresh)
    before = job.run(programs.descriptors)
    with ExitStack() as stack:
        for _ in range(400):
            s = stack.enter_context(socket.create_connection(("127.0.0.1", ports[0]), timeout=10))
            s.sendall(b"\x28")
        job.run(programs.all_reduce, "fp32", "sum", 100_000)
        assert max(a - b for a, b in zip(job.run(programs.descriptors), before, strict=True)) <= 260
    (info,) = job.run(programs.make_root, ranks=[0])
    job.run(programs.join_world, info)  # another communicator while they are there
    job.run(programs.all_reduce, "fp32", "sum", 100_000)

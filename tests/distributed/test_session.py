"""csrc/distributed/store/session: what a client may ask of the parallel store, and that it harms no other client."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time

import pytest
import torch

torch_npu = pytest.importorskip("torch_npu")
from torch_npu._C._distributed_c10d import _StoreProxy  # noqa: E402

from tests.distributed.stores import ours, proxied, seconds  # noqa: E402
from tests.distributed.test_store import connect  # noqa: E402, F401
from tests.distributed.test_store_sockets import MAGIC, resident  # noqa: E402
from torch_npu.distributed import ParallelStore  # noqa: E402

DistNetworkError = torch.distributed.DistNetworkError
SET, COMPARE_SET, GET, ADD, CHECK, WAIT, NUM_KEYS, DELETE, APPEND, MULTI_GET, MULTI_SET = range(1, 12)
CANCEL, PING, PUSH, POP, LENGTH, LIST, BARRIER, WAIT_GET, WAIT_POP = *range(12, 19), 64, 65
DONE, CANCELED = b"\0", b"\1"


def text(t: bytes) -> bytes:
    return struct.pack("<Q", len(t)) + t


def number(n: int) -> bytes:
    return struct.pack("<q", n)


def request(query: int, *parts: bytes) -> bytes:
    return bytes([query]) + b"".join(parts)


def stranger(server) -> socket.socket:  # noqa: F811
    s = socket.create_connection(("127.0.0.1", server.port), timeout=20)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    s.sendall(b"\x00" + MAGIC)
    return s


def ping(s: socket.socket) -> None:
    s.sendall(request(PING, b"1234"))
    assert s.recv(4) == b"1234"


def closed(s: socket.socket) -> bool:
    try:
        return s.recv(1) == b""
    except ConnectionResetError:
        return True  # it was closed before it had read all


@pytest.mark.parametrize("value", ["ready", "", "-9223372036854775808", "0", None])
def test_who_leaves_a_barrier_whose_key_is_something_else(server, value):  # noqa: F811
    near = ours(server)
    with stranger(server) as waits:
        waits.sendall(request(BARRIER, text(b"/K"), number(5)))
        while near.num_keys() == 0:
            time.sleep(0.01)
        if value is None:
            near.delete_key("K")
        else:
            near.set("K", value)
            assert near.get("K") == value.encode()
    for _ in range(20):  # until the server has seen the end, and after it
        near.set("other", "1")
        assert near.get("other") == b"1" and near.check(["K"]) == (value is not None)
        time.sleep(0.01)
    if value is not None:
        assert near.get("K") == value.encode()


def test_no_sum_beyond_a_number(server):  # noqa: F811
    near, other = ours(server), ours(server)
    near.set("n", str(2**63 - 2))
    assert near.add("n", 1) == 2**63 - 1
    with pytest.raises(DistNetworkError, match="closed the connection"):
        near.add("n", 1)
    with pytest.raises(DistNetworkError, match="closed the connection"):
        ours(server).barrier("n", 2, seconds(10))
    assert other.get("n") == str(2**63 - 1).encode()


@pytest.mark.parametrize("second", [request(WAIT_GET, text(b"/two")), request(PING, b"1234")], ids=["wait", "ping"])
def test_no_request_while_one_waits(server, second):  # noqa: F811
    near = ours(server)
    with stranger(server) as s:
        s.sendall(request(WAIT_GET, text(b"/one")) + second)
        assert closed(s)
    near.set("one", "1")
    assert near.get("one") == b"1" and near.num_keys() == 1
    with stranger(server) as s:  # what waits no more may be followed
        s.sendall(request(WAIT_GET, text(b"/one")) + request(WAIT_GET, text(b"/two")))
        assert s.recv(100) == DONE + text(b"1")
        s.sendall(request(CANCEL) + request(PING, b"1234"))
        got = b""
        while len(got) < 5:
            got += s.recv(5)
        assert got == CANCELED + b"1234"


def test_every_request_byte_by_byte(server):  # noqa: F811
    key, many = text(b"/k"), struct.pack("<Q", 2)
    talk = [
        (request(SET, key, text(b"v")), b""),
        (request(GET, key), text(b"v")),
        (request(COMPARE_SET, key, text(b"v"), text(b"")), text(b"")),
        (request(APPEND, key, text(b"12")), b""),
        (request(ADD, key, number(-2)), number(10)),
        (request(MULTI_SET, many, key, text(b"a"), text(b"/l"), text(b"b")), b""),
        (request(MULTI_GET, many, text(b"/l"), key), text(b"b") + text(b"a")),
        (request(CHECK, many, text(b"/l"), text(b"/none")), b"\1"),
        (request(CHECK, struct.pack("<Q", 0)), b"\0"),
        (request(WAIT, many, key, text(b"/l")), DONE),
        (request(WAIT_GET, key), DONE + text(b"a")),
        (request(NUM_KEYS), number(2)),
        (request(LIST), number(2) + key + text(b"/l")),
        (request(DELETE, key), number(1)),
        (request(PUSH, key, text(b"1")), b""),
        (request(PUSH, key, text(b"2")), b""),
        (request(LENGTH, key), number(2)),
        (request(POP, key), number(2) + text(b"1")),
        (request(WAIT_POP, key), DONE + text(b"2")),
        (request(BARRIER, text(b"/b"), number(1)), DONE),
        (request(WAIT, many, key, text(b"/l")) + request(CANCEL), CANCELED),
        (request(PING, b"1234"), b"1234"),
    ]
    with stranger(server) as s:
        for asked, answer in talk:
            for i in range(len(asked)):
                s.sendall(asked[i : i + 1])
            got = b""
            while len(got) < len(answer):
                got += s.recv(1 << 16)
            assert got == answer, asked


def test_a_request_in_pieces_is_read_once(server):  # noqa: F811
    """A piece costs the same however much of its request has come before it."""
    near = stranger(server)

    def cost(keys: int) -> float:
        with stranger(server) as s:
            s.sendall(request(WAIT, struct.pack("<Q", 128 << 10), *(text(b"/%06d" % i) for i in range(keys))))
            s.sendall(struct.pack("<Q", 60000))
            for _ in range(20):
                ping(near)
                time.sleep(0.01)
            before = time.process_time()
            for _ in range(300):
                s.sendall(b"x")
                ping(near)
            return time.process_time() - before

    few, many = (min(times) for times in zip(*((cost(1), cost((128 << 10) - 1)) for _ in range(2)), strict=True))
    assert many < 10 * few, (few, many)
    near.close()


def fill(server, connections: int, missing: int) -> tuple[int, list[socket.socket]]:  # noqa: F811
    """Each waits for 60 MB of keys of its own, of which the last `missing` never come; how many were refused."""
    sockets, refused = [], 0
    for r in range(connections):
        keys = b"".join(text(b"/%d/%04d" % (r, i) + b"x" * 60000) for i in range(1000))
        s = stranger(server)
        sockets.append(s)
        try:
            s.sendall(request(WAIT, struct.pack("<Q", 1000 + missing), keys))
            s.settimeout(0.5)
            refused += closed(s)
        except TimeoutError:
            pass  # it waits
        except OSError:
            refused += 1
    return refused, sockets


@pytest.mark.full
@pytest.mark.parametrize("missing", [0, 1], ids=["waits", "unfinished"])
def test_what_clients_wait_for_and_have_not_said_is_limited(server, missing):  # noqa: F811
    before = resident()
    refused, sockets = fill(server, 20, missing)
    assert 1 <= refused < 20, refused
    assert resident() - before < 1800 << 20
    near = ours(server)
    near.set("a", "1")
    assert near.get("a") == b"1"
    for s in sockets:
        s.close()
    for _ in range(20):  # there is room again when the server has seen the ends
        time.sleep(0.1)
        refused, sockets = fill(server, 4, missing)
        for s in sockets:
            s.close()
        if not refused:
            break
    assert not refused
    near.set("big", bytes(60 << 20))
    assert len(near.get("big")) == 60 << 20


def test_a_closed_client_of_a_proxy_takes_no_other_with_it(server):  # noqa: F811
    bad, good = proxied(server), proxied(server)
    bad.set("s", "x")
    assert bad.get("s") == b"x"
    job = threading.Thread(target=good.wait, args=(["late"], seconds(20)))
    job.start()
    for _ in range(2):
        with pytest.raises(DistNetworkError, match="closed the connection"):
            bad.add("s", 1)
        bad = proxied(server)
    bad.set("late", "1")
    job.join(20)
    assert not job.is_alive()
    assert [good.add("n", 1), bad.add("n", 1), good.get("s")] == [1, 2, b"x"]


def test_a_proxy_survives_a_server_that_is_none():
    listener = socket.create_server(("127.0.0.1", 0))

    def talk() -> None:
        with listener.accept()[0] as s:
            while s.recv(1 << 16):  # a link's beginning, and a client's greeting
                s.sendall(struct.pack("<II", 1, 1 << 31))

    thread = threading.Thread(target=talk)
    thread.start()
    proxy = _StoreProxy("127.0.0.1", listener.getsockname()[1], seconds(20))
    with pytest.raises(DistNetworkError):
        ParallelStore("127.0.0.1", listener.getsockname()[1], timeout=seconds(5), proxy=os.getpid())
    thread.join(20)
    assert not thread.is_alive()
    del proxy
    listener.close()

"""csrc/distributed/store: sockets. Where the server listens, whom it believes, and what strangers, noise and slow
readers do to it: nothing.
"""

from __future__ import annotations

import os
import random
import socket
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

torch_npu = pytest.importorskip("torch_npu")

from tests.distributed.stores import (  # noqa: E402
    DistNetworkError,
    DistStoreError,
    from_afar,
    later,
    ours,
    proxied,
    seconds,
)
from tests.hccl.namespaces import hosts_or_skip  # noqa: E402
from tests.ports import free_port  # noqa: E402
from torch_npu.distributed import ParallelStore  # noqa: E402

MAGIC = struct.pack("<I", 0x3C85F7CE)


def local_connections(port: int) -> int:
    """Of the server at that port; its listening socket is one more line."""
    return Path("/proc/net/unix").read_text().count(f"@anycend-store-port-{port}\n") - 1


def test_clients_of_the_servers_host_come_by_a_local_socket(server):
    assert local_connections(server.port) == 1  # its own
    near, far = ours(server), from_afar(server)
    assert local_connections(server.port) == 2
    near.set("a", "1")
    assert far.get("a") == b"1"


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
def test_a_local_socket_of_another_user_is_not_trusted():
    port = free_port()
    taker = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import os, socket; os.setuid(65534); s = socket.socket(socket.AF_UNIX);"
            f"s.bind('\\0anycend-store-port-{port}'); s.listen(); print('there', flush=True); input()",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with taker:
        assert taker.stdout.readline() == b"there\n"
        server = ParallelStore("127.0.0.1", port, is_master=True, timeout=seconds(20))
        server.set("a", "1")
        assert ours(server).get("a") == b"1"
        taker.stdin.write(b"\n")
        taker.stdin.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
def test_a_proxy_of_another_user_is_not_trusted(server):
    name, ready = f"\\0anycend-store-{os.getppid()}", b"there\n"
    taker = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import os, socket; os.setuid(65534); s = socket.socket(socket.AF_UNIX);"
            f"s.bind('{name}'); s.listen(); print('there', flush=True); input()",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with taker:
        assert taker.stdout.readline() == ready
        with pytest.raises(DistNetworkError, match=f"the proxy of process {os.getppid()} is run by another user"):
            ParallelStore("127.0.0.1", server.port, timeout=seconds(5), proxy=os.getppid())
        taker.stdin.write(b"\n")
        taker.stdin.close()


def test_no_server_is_an_error_in_time():
    port = free_port()
    start = time.monotonic()
    with pytest.raises(DistNetworkError, match=f"store at 127.0.0.1:{port}: Connection refused"):
        ParallelStore("127.0.0.1", port, timeout=seconds(0.5))
    assert 0.3 < time.monotonic() - start < 120


def test_a_name_that_does_not_resolve_is_an_error_in_time():
    start = time.monotonic()
    with pytest.raises(DistNetworkError, match="does-not-exist.invalid:1: the name does not resolve"):
        ParallelStore("does-not-exist.invalid", 1, timeout=seconds(0.5))
    assert time.monotonic() - start < 120


def test_a_lost_server_is_an_error():
    server = ParallelStore("127.0.0.1", 0, is_master=True, timeout=seconds(30))
    client = ours(server)
    timer = later(lambda: None)
    timer.join()
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(client.get, "never")
        time.sleep(0.2)
        del server
        with pytest.raises(DistNetworkError, match="get never: .*closed the connection"):
            job.result(10)


class Stalled:
    """A server that greets, and answers a client's first requests only when told to: with `late`, then `next_one`."""

    def __init__(self, late: bytes, next_one: bytes):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port, self.go = self.socket.getsockname()[1], threading.Event()
        self.answers = late + next_one
        threading.Thread(target=self.run, daemon=True).start()

    def run(self) -> None:
        while True:
            client = self.socket.accept()[0]
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client: socket.socket) -> None:
        greeting = exactly(client, 10)
        client.sendall(greeting[6:])
        self.go.wait()
        try:
            client.recv(1 << 16)
            client.sendall(self.answers)
        except OSError:
            pass  # it is gone: nobody takes what was late


@pytest.mark.parametrize(
    "request_, late",
    [
        (lambda store: store.add("n", 1), struct.pack("<q", 5)),
        (lambda store: store.check(["k"]), b"\0"),
        (lambda store: store.compare_set("k", "", "v"), struct.pack("<Q", 1) + b"v"),
        (lambda store: store.num_keys(), struct.pack("<q", 5)),
        (lambda store: store.get("k"), b"\0" + struct.pack("<Q", 1) + b"v" + b"\1"),
        (lambda store: store.wait(["k"]), b"\0\1"),
    ],
    ids=["add", "check", "compare_set", "num_keys", "get", "wait"],
)
def test_a_late_answer_is_nobodys(request_, late):
    """Neither the request's own answer nor a cancellation's comes in time: no later request takes it."""
    server = Stalled(late, struct.pack("<q", 7))
    store = ParallelStore("127.0.0.1", server.port, timeout=seconds(20), answer_timeout=seconds(1))
    store.set_timeout(seconds(0.2))
    with pytest.raises(DistStoreError, match=f"no answer of the store at 127.0.0.1:{server.port}; a late answer"):
        request_(store)
    server.go.set()
    time.sleep(0.2)  # the late answer is there
    with pytest.raises(DistNetworkError, match="add m: the connection is over since .*no answer.*clone"):
        store.add("m", 7)
    server.answers = struct.pack("<q", 7)
    store.set_timeout(seconds(20))
    assert store.clone().add("m", 7) == 7


@pytest.mark.parametrize(
    "bytes_",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x00abcd",
        b"\x00" + MAGIC + b"\xfe" + struct.pack("<Q", 1) + b"k",
        b"\x00" + MAGIC + b"\x01" + struct.pack("<Q", 1 << 60),
        b"\x00" + MAGIC + b"\x05" + struct.pack("<Q", 1 << 60),
        b"\x00" + MAGIC + b"\x01" + struct.pack("<Q", 1 << 17),
        b"\x00" + MAGIC + b"\x01" + struct.pack("<Q", 1) + b"k" + struct.pack("<Q", (64 << 20) + 1),
        b"\x42" + struct.pack("<II", 1, (1 << 20) + 1),
        b"\x42" + b"".join(struct.pack("<IIB", i, 1, 7) for i in range((64 << 10) + 2)),
        b"\x00" + MAGIC + b"\x01" + struct.pack("<Q", 2) + b"/s" + struct.pack("<Q", 1) + b"x"
        + b"\x04" + struct.pack("<Q", 2) + b"/s" + struct.pack("<q", 1),
    ],
    ids=["http", "magic", "request", "length", "keys", "key", "value", "frame", "channels", "number"],
)  # fmt: skip
def test_who_speaks_otherwise_is_closed_and_others_are_served(server, bytes_):
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as s:
        s.sendall(bytes_)
        try:
            while s.recv(1 << 16):
                pass  # answers to what was right
        except ConnectionResetError:
            pass  # it was closed before it had read all
    store = ours(server)
    store.set("a", "1")
    assert store.get("a") == b"1"


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def exactly(s: socket.socket, size: int) -> bytes:
    got = bytearray()
    while len(got) < size:
        part = s.recv(size - len(got))
        assert part, "closed"
        got += part
    return bytes(got)


@pytest.mark.parametrize("many", [b"get", b"multi_get"])
def test_who_takes_no_answers_is_given_no_more(server, many):
    """8 GiB of answers are asked for and not read; then they are, as far as the first hundred goes."""
    text = lambda t: struct.pack("<Q", len(t)) + t
    value = b"v" * (1 << 20)
    ours(server).set("k", value)
    server.wait(["k"], seconds(20))
    request = b"\x03" + text(b"/k") if many == b"get" else b"\x0a" + struct.pack("<Q", 2) + 2 * text(b"/k")
    before = resident()
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as s:
        s.sendall(b"\x00" + MAGIC + request * (8192 if many == b"get" else 4096))
        time.sleep(0.5)
        near = ours(server)
        near.set("other", "1")
        assert near.get("other") == b"1"  # others are served
        assert resident() - before < 256 << 20
        for _ in range(100):
            assert exactly(s, 8 + len(value)) == text(value)


def test_requests_that_waited_are_all_answered(server):
    text = lambda t: struct.pack("<Q", len(t)) + t
    ours(server).set("k", b"v" * (1 << 20))
    server.wait(["k"], seconds(20))
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as s:
        s.sendall(b"\x00" + MAGIC + (b"\x03" + text(b"/k")) * 64 + b"\x0d1234")
        time.sleep(0.3)
        got = 0
        while got < 64 * (8 + (1 << 20)) + 4:
            part = s.recv(1 << 20)
            assert part
            got += len(part)
        assert part.endswith(b"1234")


def test_a_slow_client_of_a_proxy_holds_up_no_other(server):
    slow, quick = proxied(server), proxied(server)
    text = lambda t: struct.pack("<Q", len(t)) + t
    slow.set("k", b"v" * (1 << 20))
    assert slow.get("k")
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(f"\0anycend-store-{os.getpid()}")
        s.sendall(b"\x00" + MAGIC + (b"\x03" + text(b"/k")) * 32)
        time.sleep(0.3)
        for i in range(20):
            assert quick.add("n", 1) == i + 1
        left = 32 * (8 + (1 << 20))
        while left:
            left -= len(s.recv(min(left, 1 << 20)))


@pytest.mark.full
def test_the_store_is_not_filled_without_end(server):
    text = lambda t: struct.pack("<Q", len(t)) + t
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as s:
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            s.sendall(b"\x00" + MAGIC)
            for _ in range(40):  # 1 GiB is what a server takes
                s.sendall(b"\x0e" + text(b"/q") + text(bytes(32 << 20)))
            for _ in range(100):
                s.sendall(b"\x0d1234")
                time.sleep(0.1)
    near = ours(server)
    assert near.queue_len("q") < 33
    while near.queue_len("q"):
        near.queue_pop("q")
    near.set("a", "1")
    assert near.get("a") == b"1"


def test_noise_of_any_kind_is_survived(server):
    """Random bytes, and requests with some bytes changed."""
    chance = random.Random(7)
    text = lambda t: struct.pack("<Q", len(t)) + t
    good = (
        b"\x00" + MAGIC + b"\x01" + text(b"/k") + text(b"value") + b"\x03" + text(b"/k") + b"\x0d1234"
        + b"\x0a" + struct.pack("<Q", 2) + 2 * text(b"/k") + b"\x12" + text(b"/b") + struct.pack("<q", 2) + b"\x0c"
        + b"\x0e" + text(b"/q") + text(b"1") + b"\x0f" + text(b"/q") + b"\x11" + b"\x09" + text(b"/l") + text(b"x")
    )  # fmt: skip
    for i in range(400):
        noise = bytearray(good if i % 4 else chance.randbytes(chance.randrange(1, 2000)))
        for _ in range(chance.randrange(1, 6)):
            noise[chance.randrange(len(noise))] = chance.randrange(256)
        link = b"\x42" + struct.pack("<II", chance.randrange(3), len(noise)) if i % 3 == 0 else b""
        with socket.create_connection(("127.0.0.1", server.port), timeout=5) as s:
            s.sendall(link + noise)
    near = ours(server)
    near.set("after", "1")
    assert near.get("after") == b"1"


SERVERS = """
import os
from torch_npu.distributed import ParallelStore
stores = []
for host, option in [("127.0.0.1", ""), ("localhost", ""), ("10.77.0.1", ""), ("10.77.0.1", "all")]:
    os.environ["ANYCEND_STORE_ADDRESS"] = option
    stores.append(ParallelStore(host, 0, is_master=True))
print(*[s.port for s in stores], flush=True)
input()
"""
TRY = """
import socket, sys
for address in ("10.77.0.1", "10.78.0.1", "127.0.0.1"):
    for port in sys.argv[1:]:
        with socket.socket() as s:
            s.settimeout(3)
            print(int(s.connect_ex((address, int(port))) == 0), end=" ")
"""


def test_the_server_listens_where_it_is_called_and_nowhere_else():
    hosts = hosts_or_skip()
    try:
        hosts.second_card(0, "10.78.0.1")
        hosts.ip(1, "route", "add", "10.78.0.0/24", "via", "10.77.0.1")
        server = subprocess.Popen(
            [*hosts.prefix(0), sys.executable, "-c", SERVERS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        with server:
            ports = server.stdout.readline().split()
            answers = []
            for host in (1, 0):
                tried = subprocess.run(
                    [*hosts.prefix(host), sys.executable, "-c", TRY, *ports], stdout=subprocess.PIPE, text=True
                )
                answers.append(tried.stdout.split())
            server.stdin.write("\n")
            server.stdin.close()
        # by 10.77.0.1, by 10.78.0.1, by 127.0.0.1; servers: loopback by number and by name, the address, all
        assert answers[0] == list("001100010000"), answers
        assert answers[1][8:] == list("1101"), answers
    finally:
        hosts.close()


def test_requests_in_pieces_and_in_a_row(server):
    text = lambda t: struct.pack("<Q", len(t)) + t
    requests = (
        b"\x00" + MAGIC + b"\x01" + text(b"/k") + text(b"v" * 5000) + b"\x03" + text(b"/k") + b"\x07" + b"\x0d1234"
    )
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as s:
        for i in range(0, len(requests), 7):
            s.sendall(requests[i : i + 7])
        for _ in range(3):
            s.sendall(requests)
        answer = text(b"v" * 5000) + struct.pack("<q", 1) + b"1234"
        got = b""
        while len(got) < 4 * len(answer):
            got += s.recv(1 << 16)
        assert got == 4 * answer


def test_a_thousand_sockets(server):
    sockets = [socket.create_connection(("127.0.0.1", server.port), timeout=20) for _ in range(1000)]
    try:
        key = struct.pack("<Q", 2) + b"/n"
        for s in sockets:
            s.sendall(b"\x00" + MAGIC + b"\x12" + key + struct.pack("<q", 1000))
        assert [s.recv(2) for s in sockets] == [b"\x00"] * 1000
    finally:
        for s in sockets:
            s.close()

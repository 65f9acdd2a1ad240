"""csrc/distributed/store: the server judged by PyTorch's own TCPStore client and by ours, and our client by TCPStore's
behaviour. Who may speak to the server, and who speaks otherwise: test_store_sockets.py.
"""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch.distributed import PrefixStore

torch_npu = pytest.importorskip("torch_npu")

from tests.distributed.stores import (  # noqa: E402
    CLIENTS,
    DistNetworkError,
    DistStoreError,
    later,
    ours,
    seconds,
)
from tests.older import since_2_13  # noqa: E402
from torch_npu.distributed import ParallelStore  # noqa: E402


@pytest.fixture(params=CLIENTS, ids=lambda f: f.__name__)
def connect(request, server):
    return lambda timeout=20: request.param(server, timeout)


def test_values(connect):
    store = connect()
    store.set("a", "1")
    assert store.get("a") == b"1"
    store.set("a", b"\x00\xff" * 100_000)
    assert store.check(["a"])  # set() has no answer: only what the same client asks next comes after it
    assert connect().get("a") == b"\x00\xff" * 100_000
    store.set("empty", "")
    assert store.get("empty") == b""
    assert store.delete_key("a") and not store.delete_key("a")
    assert not store.check(["a"]) and store.check(["empty"])


def test_numbers(connect):
    store = connect()
    assert [store.add("n", 5), store.add("n", -7), store.add("n", 0)] == [5, -2, -2]
    assert store.get("n") == b"-2"
    assert [store.get("n"), store.num_keys(), store.list_keys()] == [b"-2", 1, ["n"]]


def test_compare_set(connect):
    store = connect()
    assert store.compare_set("k", "x", "new") == b"x"  # as TCPStore: there is no such key
    assert not store.check(["k"])
    assert store.compare_set("k", "", "first") == b"first"
    assert store.compare_set("k", "", "second") == b"first"
    assert store.compare_set("k", "first", "second") == b"second"
    assert store.get("k") == b"second"


def test_append_and_many(connect):
    store = connect()
    assert store.has_extended_api()
    store.append("log", "ab")
    store.append("log", "cd")
    store.multi_set(["x", "y"], ["1", "2"])
    assert store.multi_get(["log", "y", "x"]) == [b"abcd", b"2", b"1"]


def test_queues(connect):
    store = connect()
    assert store.queue_len("q") == 0
    with pytest.raises(torch.distributed.QueueEmptyError):
        store.queue_pop("q", False)
    for text in ("1", "2", "3"):
        store.queue_push("q", text)
    assert store.queue_len("q") == 3 and store.check(["q"])
    assert [store.queue_pop("q"), store.queue_pop("q", False)] == [b"1", b"2"]
    assert store.queue_len("q") == 1 and store.num_keys() == 0


def test_a_queue_is_waited_for(connect):
    store, other = connect(), connect()
    timer = later(other.queue_push, "q", "x")
    assert store.queue_pop("q") == b"x"
    timer.join()
    assert store.queue_len("q") == 0


def test_waiting(connect):
    store, other = connect(), connect()
    start = time.monotonic()
    timer = later(lambda: (other.set("a", "1"), other.add("b", 1)))
    store.wait(["a", "b"], seconds(10))
    assert store.get("a") == b"1"
    timer.join()
    timer = later(other.set, "late", "v")
    assert store.get("late") == b"v"
    timer.join()
    assert 0.3 < time.monotonic() - start < 120


def test_waits_end_in_time_and_leave_the_connection_whole(connect):
    store = connect()
    store.set_timeout(seconds(0.3))
    start = time.monotonic()
    for call in (lambda: store.get("none"), lambda: store.queue_pop("none"), lambda: store.multi_get(["x", "y"])):
        with pytest.raises(DistStoreError, match="timeout after 300ms"):
            call()
    with pytest.raises(DistStoreError, match="timeout after 100ms"):
        store.wait(["x", "y"], seconds(0.1))
    assert 0.9 < time.monotonic() - start < 120
    store.set_timeout(seconds(20))
    store.set("x", "1")
    assert store.get("x") == b"1"
    store.queue_push("none", "kept")  # no canceled wait takes it
    assert store.queue_pop("none") == b"kept"


@since_2_13("Store.barrier")
def test_a_barrier_serves_again(connect):
    stores = [connect() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            jobs = [pool.submit(store.barrier, "b", 4, seconds(60)) for store in stores[:3]]
            time.sleep(0.1)
            assert not any(job.done() for job in jobs)
            stores[3].barrier("b", 4, seconds(60))
            assert [job.result(60) for job in jobs] == [None] * 3


@since_2_13("Store.barrier")
def test_who_leaves_a_barrier_has_not_come(server):
    a, b = ours(server), ours(server)
    with pytest.raises(DistStoreError, match="barrier b: timeout after 100ms"):
        a.barrier("b", 2, seconds(0.1))
    with pytest.raises(DistStoreError):
        b.barrier("b", 2, seconds(0.1))


def test_a_closed_client_waits_for_nothing(connect):
    store = connect()
    gone = connect()
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(gone.wait, ["x"], seconds(0.2))
        with pytest.raises(DistStoreError):
            job.result()
    del gone
    store.set("x", "1")
    assert store.num_keys() == 1


@since_2_13("Store.barrier")
def test_many_threads_and_clients(connect):
    stores = [connect() for _ in range(16)]

    def work(i: int) -> None:
        store = stores[i]
        for n in range(50):
            store.add("sum", 1)
            store.set(f"{i}/{n}", str(n))
            assert store.get(f"{(i + 1) % 16}/{n}") == str(n).encode()
            store.barrier("turn", 16, seconds(60))

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, range(16)))
    assert stores[0].add("sum", 0) == 800 and stores[0].num_keys() == 802


def test_a_clone_has_a_connection_of_its_own(server):
    store = ours(server, 60)
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(store.get, "x")
        time.sleep(0.1)
        store.clone().set("x", "1")
        assert job.result(60) == b"1"


def test_the_server_lives_as_long_as_a_clone():
    first = ParallelStore("127.0.0.1", 0, is_master=True, timeout=seconds(5))
    copy = first.clone()
    del first
    copy.set("a", "1")
    assert copy.get("a") == b"1"


def test_prefixes_and_timeouts(server):
    store = PrefixStore("p", ours(server))
    store.set("a", "1")
    server.wait(["p/a"], seconds(20))  # set() has no answer: another connection may be served before
    assert server.list_keys() == ["p/a"]
    store.set_timeout(seconds(0.2))
    assert store.timeout == seconds(0.2)
    with pytest.raises(DistStoreError, match="200ms"):
        store.get("b")


def test_the_master_waits_for_its_workers():
    port = ParallelStore("127.0.0.1", 0, is_master=True, multi_tenant=True)
    with ThreadPoolExecutor(2) as pool:
        make = lambda master: ParallelStore(
            "127.0.0.1", port.port, 2, is_master=master, timeout=seconds(60), multi_tenant=True
        )
        first = pool.submit(make, True)
        time.sleep(0.2)
        assert not first.done()
        make(False)
        assert first.result(60).port == port.port


def test_missing_workers_are_counted():
    with pytest.raises(DistStoreError, match="only 1 of 3 workers came to the store within 1000 ms"):
        ParallelStore("127.0.0.1", 0, 3, is_master=True, timeout=seconds(1))


def test_a_taken_port_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(DistNetworkError, match=f"cannot listen on port {port}: Address already in use"):
            ParallelStore("127.0.0.1", port, is_master=True)


def test_a_listening_socket_may_be_given():
    sock = socket.create_server(("127.0.0.1", 0))
    port = sock.getsockname()[1]
    store = ParallelStore("127.0.0.1", port, is_master=True, master_listen_fd=sock.detach())
    assert store.port == port
    store.set("a", "1")

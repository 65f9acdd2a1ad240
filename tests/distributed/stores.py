"""The parallel store as its tests use it: a client of each kind, all of one server."""

from __future__ import annotations

import os
import threading
from datetime import timedelta

import pytest
import torch
from torch.distributed import TCPStore

torch_npu = pytest.importorskip("torch_npu")
from torch_npu._C._distributed_c10d import _StoreProxy  # noqa: E402

from torch_npu.distributed import ParallelStore  # noqa: E402

DistStoreError = torch.distributed.DistStoreError
DistNetworkError = torch.distributed.DistNetworkError


def seconds(n: float) -> timedelta:
    return timedelta(seconds=n)


def ours(server, timeout: float = 20):
    return ParallelStore("127.0.0.1", server.port, timeout=seconds(timeout))


def from_afar(server, timeout: float = 20):
    # An address from which nothing is sent: taken for another host's.
    return ParallelStore("127.0.0.2", server.port, timeout=seconds(timeout))


def pytorchs(server, timeout: float = 20):
    return TCPStore("127.0.0.1", server.port, is_master=False, timeout=seconds(timeout))


def proxied(server, timeout: float = 20):
    if server.port not in PROXIES:
        PROXIES.clear()
        PROXIES[server.port] = _StoreProxy("127.0.0.1", server.port, seconds(20))
    return ParallelStore("127.0.0.1", server.port, timeout=seconds(timeout), proxy=os.getpid())


# By the server's port, one at a time: a proxy is found by the id of its process. The fixture `server` ends it.
PROXIES: dict[int, _StoreProxy] = {}
CLIENTS = [ours, from_afar, pytorchs, proxied]


def later(function, *args) -> threading.Timer:
    timer = threading.Timer(0.2, function, args)
    timer.start()
    return timer

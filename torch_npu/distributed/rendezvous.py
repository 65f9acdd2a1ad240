"""The parallel store's ways into torch.distributed.

init_process_group(init_method="parallel://host:port", rank=…, world_size=…)   rank 0 has the server
torchrun --rdzv-backend=parallel --rdzv-endpoint=host:port …                   the launcher on that host has it
TORCH_NPU_USE_PARALLEL_TCPSTORE=1                                              "env://" and "tcp://" use it too

The server speaks TCPStore's protocol: workers with PyTorch's own client find it as well.

Under torchrun the launcher has the store, at its own port. A script that names another port, as many set MASTER_PORT
themselves, would wait there for a store that nobody opens: rank 0 opens one, with any of these stores.
"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlparse

from torch.distributed import DistNetworkError, PrefixStore
from torch.distributed.constants import default_pg_timeout
from torch.distributed.rendezvous import _rendezvous_handlers, register_rendezvous_handler

_SWITCH = "TORCH_NPU_USE_PARALLEL_TCPSTORE"
_AGENT = "TORCH_NPU_ELASTIC_USE_AGENT_STORE"
# "True": the launcher has the store.
_TORCHRUN = "TORCHELASTIC_USE_AGENT_STORE"
_TIERED = "ENABLE_TIERED_PARALLEL_TCPSTORE"
_ROUND = "ANYCEND_STORE_ROUND"
_PROXY = "PROXY_AGENT_PID_USE_LOCAL_SOCKET_PATH"


def _switch(name: str) -> bool:
    text = os.environ.get(name, "0").lower()
    if text not in ("0", "1", "false", "true", ""):
        raise ValueError(f"npu: {name}={text} is none of 0, 1, false and true")
    return text in ("1", "true")


@functools.cache
def _launchers(name: str) -> int | None:
    """A number of the environment that this process was started with, whatever a script made of it; None: no such."""
    try:
        entries = Path("/proc/self/environ").read_bytes().split(b"\0")
        start = f"{name}=".encode()
        return next((int(entry[len(start) :]) for entry in entries if entry.startswith(start)), None)
    except (OSError, ValueError):
        return None


def _says_who_is_missing(rank: int, size: int) -> None:
    """A script that counts devices asks for more ranks than its launcher started: the group would wait in silence."""
    started = _launchers("WORLD_SIZE")
    if rank == 0 and started is not None and size > started:
        warnings.warn(
            f"npu: the script asks for a group of {size} ranks, but its launcher started {started}: the group waits "
            f"for {size - started} more. Start {size} (--nproc_per_node); where the script counts devices, "
            f"ASCEND_RT_VISIBLE_DEVICES={','.join(map(str, range(started)))} shows it as many as there are ranks",
            stacklevel=2,
        )


def _names_another(port: int, rank: int) -> bool:
    """Whether the launcher's store is elsewhere. Rank 0 says so once."""
    theirs = _launchers("MASTER_PORT")
    if theirs is None or theirs == port:
        return False
    if rank == 0:
        warnings.warn(
            f"npu: the script asks for a store at port {port}, but its launcher has one at {theirs}: rank 0 opens a "
            "store there. A script that leaves MASTER_PORT alone uses the launcher's",
            stacklevel=2,
        )
    return True


def _connect(host: str, port: int, rank: int, world_size: int, timeout: timedelta):
    """Rank 0 has the server, unless the launcher has it."""
    from torch_npu._C._distributed_c10d import ParallelStore

    launched = _switch(_AGENT) or os.environ.get(_TORCHRUN) == "True"
    if launched:
        _says_who_is_missing(rank, world_size)
    agent = launched and not _names_another(port, rank)
    proxy = os.environ.get(_PROXY) if agent and _switch(_TIERED) else None
    store = ParallelStore(
        host,
        port,
        world_size,
        is_master=rank == 0 and not agent,
        timeout=timeout,
        multi_tenant=True,
        proxy=int(proxy) if proxy else None,
    )
    return PrefixStore(f"/round_{os.environ[_ROUND]}", store) if agent and _ROUND in os.environ else store


def _number(url: str, query: dict, name: str, variable: str | None = None) -> int:
    if name in query:
        return int(query[name][0])
    if variable is None:
        raise ValueError(f"npu: {url} has no {name}: give it to init_process_group, or as ?{name}=… in the URL")
    return int(_variable(variable))


def _variable(name: str) -> str:
    if not os.environ.get(name):
        raise ValueError(f"npu: the environment variable {name} is not set; init_method env:// needs it")
    return os.environ[name]


def _by_url(url: str, timeout: timedelta = default_pg_timeout, **kwargs):
    parts = urlparse(url)
    if not parts.hostname or parts.port is None:
        raise ValueError(f"npu: {url} must name a host and a port: {parts.scheme}://host:port")
    query = parse_qs(parts.query)
    rank, size = _number(url, query, "rank"), _number(url, query, "world_size")
    yield _connect(parts.hostname, parts.port, rank, size, timeout), rank, size
    raise RuntimeError(f"npu: {url} cannot be used a second time")


def _by_environment(url: str, timeout: timedelta = default_pg_timeout, **kwargs):
    query = parse_qs(urlparse(url).query)
    rank, size = _number(url, query, "rank", "RANK"), _number(url, query, "world_size", "WORLD_SIZE")
    yield _connect(_variable("MASTER_ADDR"), int(_variable("MASTER_PORT")), rank, size, timeout), rank, size
    raise RuntimeError("npu: env:// cannot be used a second time")


def _with_own_store(theirs: Callable) -> Callable:
    """PyTorch's handler of env:// or tcp:// for a worker of a launcher: rank 0 opens the store that nobody else has."""

    def handler(url: str, timeout: timedelta = default_pg_timeout, **kwargs):
        parts = urlparse(url)
        port = parts.port or os.environ.get("MASTER_PORT", "")
        query = parse_qs(parts.query)
        rank = query.get("rank", [os.environ.get("RANK")])[0]
        size = query.get("world_size", [os.environ.get("WORLD_SIZE", "")])[0]
        if rank == "0" and size.isdecimal():
            _says_who_is_missing(0, int(size))
        shared = os.environ.get(_TORCHRUN)
        opens = shared == "True" and rank == "0" and str(port).isdecimal() and _names_another(int(port), 0)
        if opens:
            os.environ[_TORCHRUN] = "False"
        try:
            found = next(theirs(url, timeout, **kwargs))
        except DistNetworkError as error:
            if not opens or "EADDRINUSE" not in str(error):
                raise
            os.environ[_TORCHRUN] = shared  # somebody has one there: a client's place, as PyTorch says
            found = next(theirs(url, timeout, **kwargs))
        finally:
            if opens:
                os.environ[_TORCHRUN] = shared
        yield found
        raise RuntimeError(f"npu: {parts.scheme}:// cannot be used a second time")

    return handler


def register() -> None:
    """parallel:// is a public registration. env:// and tcp:// are replaced only where the environment asks for it."""
    register_rendezvous_handler("parallel", _by_url)
    if _switch(_SWITCH):
        _rendezvous_handlers.update({"env": _by_environment, "tcp": _by_url})
    elif os.environ.get(_TORCHRUN) == "True":
        for scheme in ("env", "tcp"):
            _rendezvous_handlers[scheme] = _with_own_store(_rendezvous_handlers[scheme])

"""The parallel store's ways into torch.distributed.

init_process_group(init_method="parallel://host:port", rank=…, world_size=…)   rank 0 has the server
torchrun --rdzv-backend=parallel --rdzv-endpoint=host:port …                   the launcher on that host has it
TORCH_NPU_USE_PARALLEL_TCPSTORE=1                                              "env://" and "tcp://" use it too

The server speaks TCPStore's protocol: workers with PyTorch's own client find it as well.
"""

from __future__ import annotations

import os
from datetime import timedelta
from urllib.parse import parse_qs, urlparse

from torch.distributed import PrefixStore
from torch.distributed.constants import default_pg_timeout
from torch.distributed.rendezvous import _rendezvous_handlers, register_rendezvous_handler

_SWITCH = "TORCH_NPU_USE_PARALLEL_TCPSTORE"
_AGENT = "TORCH_NPU_ELASTIC_USE_AGENT_STORE"
_TIERED = "ENABLE_TIERED_PARALLEL_TCPSTORE"
_ROUND = "ANYCEND_STORE_ROUND"
_PROXY = "PROXY_AGENT_PID_USE_LOCAL_SOCKET_PATH"


def _switch(name: str) -> bool:
    text = os.environ.get(name, "0").lower()
    if text not in ("0", "1", "false", "true", ""):
        raise ValueError(f"npu: {name}={text} is none of 0, 1, false and true")
    return text in ("1", "true")


def _connect(host: str, port: int, rank: int, world_size: int, timeout: timedelta):
    """Rank 0 has the server, unless the launcher has it."""
    from torch_npu._C._distributed_c10d import ParallelStore

    agent = _switch(_AGENT) or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
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


def register() -> None:
    """parallel:// is a public registration. env:// and tcp:// are replaced only where the environment asks for it."""
    register_rendezvous_handler("parallel", _by_url)
    if _switch(_SWITCH):
        _rendezvous_handlers.update({"env": _by_environment, "tcp": _by_url})

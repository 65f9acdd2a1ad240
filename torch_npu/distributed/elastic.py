"""`--rdzv-backend=parallel` of torchrun and torch_npu_run: launchers and workers meet over the parallel store.

With a rank in the configuration (torch_npu_run takes it from --node-rank) launcher 0 has the server and the nodes are
fixed, as in torchrun's "static"; without one nodes come and go, as in its "c10d". In the tiered mode each launcher
carries its workers' requests over one connection.
"""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
from collections.abc import Iterator
from datetime import timedelta

from torch.distributed import PrefixStore
from torch.distributed.elastic.rendezvous import (
    RendezvousConnectionError,
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStoreInfo,
)
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import DynamicRendezvousHandler, RendezvousTimeout
from torch.distributed.elastic.rendezvous.utils import _matches_machine_hostname, parse_rendezvous_endpoint

from torch_npu._C._distributed_c10d import ParallelStore, _StoreProxy
from torch_npu.distributed import rendezvous

DEFAULT_PORT = 29400
PATIENCE = 8.0  # seconds of waiting for other nodes before it is said


@contextlib.contextmanager
def _says_for_whom(params: RendezvousParameters) -> Iterator[None]:
    """A launcher that waits for other nodes says so after a while: with --nnodes=8 on one host seven never come."""
    nodes = params.max_nodes if params.min_nodes == params.max_nodes else f"{params.min_nodes}:{params.max_nodes}"
    text = (
        f"npu: this launcher waits at {params.endpoint} for other nodes: --nnodes={nodes} means as many hosts, each of "
        "which starts the launcher with the same arguments and a --node_rank of its own. For one host: --nnodes=1"
    )
    timer = threading.Timer(PATIENCE, warnings.warn, (text,), {"stacklevel": 2})
    timer.daemon = True
    if params.max_nodes > 1:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


class _Workers:
    """What the workers of this launcher must know, as environment variables; and the proxy they talk to."""

    def __init__(self) -> None:
        self._proxy: _StoreProxy | None = None

    def serve(self, info: RendezvousStoreInfo, round_: int) -> None:
        os.environ[rendezvous._SWITCH] = "1"
        # The store outlives the workers: those of a restart must not read what the ones before have written.
        os.environ[rendezvous._ROUND] = str(round_)
        if not rendezvous._switch(rendezvous._TIERED) or self._proxy is not None:
            return
        self._proxy = _StoreProxy(info.master_addr, int(info.master_port), timedelta(seconds=120))
        os.environ[rendezvous._PROXY] = str(os.getpid())


class StaticParallelRendezvous(RendezvousHandler):
    """A fixed number of launchers; the one with rank 0 has the server."""

    def __init__(self, host: str, port: int, params: RendezvousParameters) -> None:
        self._host, self._port, self._params = host, port, params
        self._rank = int(params.config["rank"])
        self._store: ParallelStore | None = None
        self._round = 0
        self._workers = _Workers()

    def get_backend(self) -> str:
        return "parallel"

    @property
    def use_agent_store(self) -> bool:
        return True

    def next_rendezvous(self) -> RendezvousInfo:
        size = self._params.max_nodes
        if self._store is None:
            timeout = timedelta(seconds=int(self._params.config.get("timeout", 600)))
            with _says_for_whom(self._params):
                self._store = ParallelStore(
                    self._host, self._port, size, is_master=self._rank == 0, timeout=timeout, multi_tenant=True
                )
        info = RendezvousStoreInfo(self._host, self._store.port)
        self._round += 1
        self._workers.serve(info, self._round)
        return RendezvousInfo(PrefixStore(self._params.run_id, self._store), self._rank, size, info)

    def is_closed(self) -> bool:
        return False

    def set_closed(self) -> None:
        """Nobody waits for nodes that may still come."""

    def num_nodes_waiting(self) -> int:
        return 0

    def get_run_id(self) -> str:
        return self._params.run_id

    def shutdown(self) -> bool:
        return True


class DynamicParallelRendezvous(DynamicRendezvousHandler):
    """PyTorch's elastic rendezvous; the workers' store of each round is a parallel one as well."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self._workers = _Workers()
        self.params: RendezvousParameters | None = None

    def get_backend(self) -> str:
        return "parallel"

    def _create_tcp_store_server(self, master_addr: str, master_port: int) -> ParallelStore:
        return ParallelStore(master_addr, master_port, is_master=True, multi_tenant=True)

    def next_rendezvous(self) -> RendezvousInfo:
        with _says_for_whom(self.params) if self.params else contextlib.nullcontext():
            info = super().next_rendezvous()
        self._workers.serve(info.bootstrap_store_info, self._state_holder.state.round)
        return info


def _server_or_client(host: str, port: int, params: RendezvousParameters) -> ParallelStore:
    """The launcher on the endpoint's host has the server; of several there, the first."""
    timeout = timedelta(seconds=params.get_as_int("read_timeout", 60))
    is_host = params.get_as_bool("is_host")
    if is_host if is_host is not None else _matches_machine_hostname(host):
        try:
            return ParallelStore(host, port, is_master=True, timeout=timeout, multi_tenant=True)
        except RuntimeError as error:
            if is_host:
                raise RendezvousConnectionError(str(error)) from error
    try:
        return ParallelStore(host, port, timeout=timeout)
    except RuntimeError as error:
        raise RendezvousConnectionError(str(error)) from error


def create_handler(params: RendezvousParameters) -> RendezvousHandler:
    host, port = parse_rendezvous_endpoint(params.endpoint, default_port=DEFAULT_PORT)
    if params.get("rank") is not None:
        return StaticParallelRendezvous(host, port, params)
    store = _server_or_client(host, port, params)

    def seconds(name: str) -> timedelta | None:
        value = params.get_as_int(name + "_timeout")
        return None if value is None else timedelta(seconds=value)

    made = DynamicParallelRendezvous.from_backend(
        params.run_id,
        store,
        C10dRendezvousBackend(store, params.run_id),
        params.min_nodes,
        params.max_nodes,
        params.local_addr,
        RendezvousTimeout(*(seconds(name) for name in ("join", "last_call", "close", "heartbeat"))),
        keep_alive_interval=params.get_as_int("keep_alive_interval", 5),
        keep_alive_max_attempt=params.get_as_int("keep_alive_max_attempt", 3),
    )
    made.params = params
    return made


def handler():
    """The entry point torchrun.handlers: what creates a handler."""
    return create_handler

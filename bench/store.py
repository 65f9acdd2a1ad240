"""The parallel store's server against TCPStore's (libuv), in turns, under the same light clients.

    python bench/store.py [--clients 64 256 1000 2000] [--rounds 3]

Clients are sockets of one process, so that there can be ten thousand. Each connects, greets, counts itself, and five
times sets a key and gets its neighbour's; then all meet in a barrier. `cpu` is the server process's seconds, `wall` the
time all clients took, their own included, `ratio` the seconds against TCPStore's. TCPStore's requests are sent to both;
`own` is the parallel store under the requests of its own client, where a get is one round trip, from other hosts;
`local` the same on the server's host, where that client takes a local socket; `tiered` from other hosts through a proxy
for every 16 clients, as torch_npu_run starts one a node (a proxy's seconds are the node's). TCPStore
looks up the name of every client; so that no resolver is measured, the servers see an /etc/hosts that knows it (a mount
namespace), where that is allowed.
"""

from __future__ import annotations

import argparse
import os
import resource
import selectors
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

MAGIC = struct.pack("<I", 0x3C85F7CE)
SET, GET, ADD, WAIT, PING, BARRIER, WAIT_GET = 1, 3, 4, 6, 13, 18, 64
KEYS = 5
RANKS_A_NODE = 16  # behind one proxy


def text(data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + data


def key(i: int, n: int) -> bytes:
    return text(b"/job/%d/%d" % (i, n))


def raise_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Load:
    """n connected clients that all take each step together."""

    def __init__(self, port: int, n: int, own: bool, names: list[str]):
        self.n, self.own = n, own
        self.sockets = []
        self.selector = selectors.EpollSelector()
        for i in range(n):
            if names:
                s = socket.socket(socket.AF_UNIX)
                s.connect(f"\0anycend-store-{names[i * len(names) // n]}")
            else:
                s = socket.create_connection(("127.0.0.1", port))
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.sockets.append(s)
            self.selector.register(s, selectors.EVENT_READ, i)

    def step(self, request, size: int) -> None:
        """Everybody sends request(i) and reads `size` bytes."""
        left = [size] * self.n
        waiting = self.n
        for i, s in enumerate(self.sockets):
            s.sendall(request(i))
        while waiting:
            for ready, _ in self.selector.select():
                i = ready.data
                left[i] -= len(self.sockets[i].recv(left[i]))
                waiting -= left[i] == 0

    def run(self) -> None:
        value = text(b"x" * 64)
        self.step(lambda i: b"\x00" + MAGIC + bytes([PING]) + MAGIC, 4)
        self.step(lambda i: bytes([ADD]) + text(b"/init/") + struct.pack("<q", 1), 8)
        for k in range(KEYS):
            self.set_and_get(k, value)
        self.step(lambda i: bytes([BARRIER]) + text(b"/end") + struct.pack("<q", self.n), 1)

    def set_and_get(self, k: int, value: bytes) -> None:
        def ours(i: int) -> bytes:
            return bytes([SET]) + key(i, k) + value

        def theirs(i: int) -> bytes:
            return key((i + 1) % self.n, k)

        if self.own:
            self.step(lambda i: ours(i) + bytes([WAIT_GET]) + theirs(i), 1 + len(value))
        else:
            self.step(lambda i: ours(i) + bytes([WAIT]) + struct.pack("<Q", 1) + theirs(i), 1)
            self.step(lambda i: bytes([GET]) + theirs(i), len(value))

    def close(self) -> None:
        for s in self.sockets:
            s.close()


def serve(kind: str) -> None:
    import torch  # noqa: F401
    from torch.distributed import TCPStore

    raise_limit()
    if kind == "tcp":
        store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, use_libuv=True)
    else:
        from torch_npu.distributed import ParallelStore

        store = ParallelStore("127.0.0.1", 0, is_master=True)
    print(store.port, flush=True)
    for _ in sys.stdin:
        print(time.process_time(), flush=True)


def serve_proxies(port: int, nodes: int) -> None:
    """A process for each: clients find a proxy by its process."""
    from datetime import timedelta

    import torch  # noqa: F401
    from torch_npu._C._distributed_c10d import _StoreProxy

    for _ in range(nodes):
        ready, tell = os.pipe()
        if os.fork() == 0:
            # Not 127.0.0.1: the link is to be TCP's, as another host's.
            proxy = _StoreProxy("127.0.0.2", port, timedelta(seconds=60))
            os.write(tell, b"x")
            sys.stdin.read()  # until the bench closes it
            del proxy
            os._exit(0)
        os.close(tell)
        os.read(ready, 1)
        os.close(ready)
    print(*Path(f"/proc/self/task/{os.getpid()}/children").read_text().split(), flush=True)
    for _ in range(nodes):
        os.wait()


@contextmanager
def proxies(port: int, nodes: int) -> Iterator[list[str]]:
    """Their processes."""
    command = [sys.executable, "-W", "ignore", __file__, "--proxies", str(nodes), str(port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process.stdout.readline().split()


def names_known(hosts: Path) -> list[str]:
    """What a server's command begins with: the clients' addresses have a name in its /etc/hosts."""
    hosts.write_text("127.0.0.1 localhost\n::1 localhost\n::ffff:127.0.0.1 localhost\n")
    why = ""
    for rights in ([], ["--map-root-user"]):
        inside = 'mount --bind "$0" /etc/hosts && exec "$@"'
        prefix = ["unshare", *rights, "--mount", "sh", "-c", inside, str(hosts)]
        try:
            subprocess.run([*prefix, "true"], check=True, capture_output=True, text=True)
            return prefix
        except OSError as error:
            why = str(error)
        except subprocess.CalledProcessError as error:
            why = error.stderr.strip()
    print(f"TCPStore's lookups of its clients' names are measured, too: no mount namespace ({why})")
    return []


def measure(kind: str, n: int, own: bool, prefix: list[str], by: str = "tcp") -> tuple[float, float]:
    """CPU seconds of a fresh server and wall seconds."""
    command = [*prefix, sys.executable, "-W", "ignore", __file__, "--serve", kind]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as server:

        def cpu() -> float:
            server.stdin.write("\n")
            return float(server.stdout.readline())

        port = int(server.stdout.readline())
        names = [f"port-{port}"] if by == "local" else []
        with proxies(port, -(-n // RANKS_A_NODE)) if by == "proxy" else nullcontext(names) as names:
            before, start = cpu(), time.perf_counter()
            load = Load(port, n, own, names)
            load.run()
            wall = time.perf_counter() - start
            used = cpu() - before
            load.close()
        server.stdin.close()
        server.wait(60)
    return used, wall


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+", default=[64, 256, 1000, 2000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", choices=["tcp", "parallel"])
    parser.add_argument("--proxies", type=int, nargs=2, metavar=("NODES", "PORT"))
    args = parser.parse_args()
    if args.serve:
        return serve(args.serve)
    if args.proxies:
        return serve_proxies(args.proxies[1], args.proxies[0])
    raise_limit()
    with tempfile.TemporaryDirectory() as folder:
        compare(args.clients, args.rounds, names_known(Path(folder) / "hosts"))


def compare(clients: list[int], rounds_of_each: int, prefix: list[str]) -> None:
    ways = {"TCPStore": ("tcp", False), "parallel": ("parallel", False), "own": ("parallel", True)}
    ways |= {"local": ("parallel", True, "local"), "tiered": ("parallel", True, "proxy")}
    print("clients" + "".join(f"  {name + ' cpu':>12}  {'wall':>5}  {'ratio':>5}" for name in ways))
    for n in clients:
        rounds = [
            [measure(kind, n, own, prefix, *more) for kind, own, *more in ways.values()] for _ in range(rounds_of_each)
        ]
        cells = [[statistics.median(r[w][i] for r in rounds) for i in range(2)] for w in range(len(ways))]
        print(
            f"{n:7}" + "".join(f"  {cpu:12.3f}  {wall:5.2f}  {cpu / cells[0][0]:5.2f}" for cpu, wall in cells),
            flush=True,
        )


if __name__ == "__main__":
    main()

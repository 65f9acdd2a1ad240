"""The parallel store's server against TCPStore's (libuv), in turns, under the same light clients.

    python bench/store.py [--clients 64 256 1000 2000] [--rounds 3]

Clients are sockets of one process, so that there can be ten thousand. Each connects, greets, counts itself, and five
times sets a key and gets its neighbour's; then all meet in a barrier. `cpu` is the server process's seconds, `wall` the
time all clients took, their own included. TCPStore's requests are sent to both; `own` is the parallel store under the
requests of its own client, where a get is one round trip. TCPStore looks up the name of every client; so that no
resolver is measured, the servers see an /etc/hosts that knows it (a mount namespace), where that is allowed.
"""

from __future__ import annotations

import argparse
import resource
import selectors
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MAGIC = struct.pack("<I", 0x3C85F7CE)
SET, GET, ADD, WAIT, PING, BARRIER, WAIT_GET = 1, 3, 4, 6, 13, 18, 64
KEYS = 5


def text(data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + data


def key(i: int, n: int) -> bytes:
    return text(b"/job/%d/%d" % (i, n))


def raise_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Load:
    """n connected clients that all take each step together."""

    def __init__(self, port: int, n: int, own: bool):
        self.n, self.own = n, own
        self.sockets = []
        self.selector = selectors.EpollSelector()
        for i in range(n):
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


def measure(kind: str, n: int, own: bool, prefix: list[str]) -> tuple[float, float]:
    """CPU seconds of a fresh server and wall seconds."""
    command = [*prefix, sys.executable, "-W", "ignore", __file__, "--serve", kind]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as server:

        def cpu() -> float:
            server.stdin.write("\n")
            return float(server.stdout.readline())

        port = int(server.stdout.readline())
        before, start = cpu(), time.perf_counter()
        load = Load(port, n, own)
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
    args = parser.parse_args()
    if args.serve:
        return serve(args.serve)
    raise_limit()
    with tempfile.TemporaryDirectory() as folder:
        compare(args.clients, args.rounds, names_known(Path(folder) / "hosts"))


def compare(clients: list[int], rounds_of_each: int, prefix: list[str]) -> None:
    ways = [("tcp", False), ("parallel", False), ("parallel", True)]
    print("clients   TCPStore cpu  wall    parallel cpu  wall    own cpu  wall    cpu ratio  own ratio")
    for n in clients:
        rounds = [[measure(kind, n, own, prefix) for kind, own in ways] for _ in range(rounds_of_each)]
        cells = [[statistics.median(r[w][i] for r in rounds) for i in range(2)] for w in range(len(ways))]
        (a, wall_a), (b, wall_b), (c, wall_c) = cells
        print(
            f"{n:7}   {a:12.3f} {wall_a:6.2f}  {b:12.3f} {wall_b:6.2f}  {c:7.3f} {wall_c:6.2f}"
            f"  {b / a:9.2f}  {c / a:9.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()

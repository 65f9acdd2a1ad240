"""Hosts for tests: network namespaces of this machine, joined by a pair of virtual network cards.

`Hosts(2)` makes two with the addresses 10.77.0.1 and 10.77.0.2 on eth0; `prefix(i)` is what a command line begins with
to run in the i-th, `addresses[i]` its address. Namespaces belong to a process that sleeps in them, and so do the
cards: nothing is left when it ends. Where that is not allowed, `reason()` says why; a test takes `hosts_or_skip()`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# /sys is looked at, too: the network cards it shows are those of the namespace that mounted it.
NEW = ["unshare", "--net", "--mount", "sh", "-c", 'mount -t sysfs none /sys && exec "$@"', "sh"]


@cache
def reason() -> str:
    """Why there can be no namespaces; empty when there can."""
    for tool in ("ip", "unshare", "nsenter"):
        if not shutil.which(tool):
            return f"network namespaces need the command {tool}"
    tried = subprocess.run([*NEW, "true"], capture_output=True, text=True)
    return f"no rights for network namespaces: {tried.stderr.strip()}" if tried.returncode else ""


def asleep(pid: int) -> bool:
    """It has become the program that sleeps: its namespace is made ready."""
    return Path(f"/proc/{pid}/comm").read_text().strip() == "sleep"


class Hosts:
    def __init__(self, count: int = 2):
        assert count == 2, "a pair of cards joins two"
        self.sleepers = [subprocess.Popen([*NEW, "sleep", "infinity"]) for _ in range(count)]
        self.addresses = [f"10.77.0.{i + 1}" for i in range(count)]
        own = os.readlink("/proc/self/ns/net")
        for sleeper in self.sleepers:
            while os.readlink(f"/proc/{sleeper.pid}/ns/net") == own or not asleep(sleeper.pid):
                time.sleep(0.005)
        self.ip(0, "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", str(self.sleepers[1].pid))
        for i, address in enumerate(self.addresses):
            self.ip(i, "link", "set", "lo", "up")
            self.add(i, "eth0", address)
        for i in range(count):  # a card is up before its carrier is
            while (
                b"state UP"
                not in subprocess.run([*self.prefix(i), "ip", "link", "show", "eth0"], capture_output=True).stdout
            ):
                time.sleep(0.01)

    def prefix(self, host: int, folder: Path = ROOT) -> list[str]:
        return ["nsenter", "--target", str(self.sleepers[host].pid), "--net", "--mount", f"--wd={folder}"]

    def ip(self, host: int, *args: str) -> None:
        subprocess.run([*self.prefix(host), "ip", *args], check=True)

    def add(self, host: int, card: str, address: str) -> None:
        self.ip(host, "addr", "add", f"{address}/24", "dev", card)
        self.ip(host, "link", "set", card, "up")

    def second_card(self, host: int, address: str) -> None:
        """A card that leads nowhere: nobody may listen on it unasked."""
        self.ip(host, "link", "add", "eth1", "type", "veth", "peer", "name", "end1")
        self.add(host, "eth1", address)

    def cut(self) -> None:
        """The cable between them."""
        self.ip(0, "link", "set", "eth0", "down")

    def mend(self) -> None:
        """The cable again."""
        self.ip(0, "link", "set", "eth0", "up")

    def close(self) -> None:
        for sleeper in self.sleepers:
            sleeper.kill()
            sleeper.wait()


def hosts_or_skip() -> Hosts:
    import pytest  # not a bench's

    if why := reason():
        pytest.skip(why)
    return Hosts()

"""hccn_tool and `anycend preflight` on a host of their own: a network namespace."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hccl.namespaces import hosts_or_skip
from tests.hccl.ranks import library_folder


class Host:
    def __init__(self, conf: Path, prefix: list[str] = (), **env: str):
        self.conf, self.prefix = conf, list(prefix)
        self.env = {**os.environ, "ANYCEND_HCCN_CONF": str(conf), **env}
        self.env.pop("HCCL_IF_BASE_PORT", None)

    def run(self, *command) -> tuple[int, str, str]:
        done = subprocess.run(
            [*self.prefix, *map(str, command)], env=self.env, capture_output=True, text=True, timeout=600
        )
        return done.returncode, done.stdout, done.stderr

    def tool(self, *args) -> tuple[int, str, str]:
        return self.run(library_folder().parent / "bin" / "hccn_tool", *args)

    def get(self, *args) -> str:
        code, out, err = self.tool(*args)
        assert (code, err) == (0, ""), err
        return out

    def set_ip(self, device: int, address: str) -> None:
        assert self.get("-i", device, "-ip", "-s", "address", address, "netmask", "255.255.255.0") == ""

    def preflight(self, *args) -> tuple[int, str, str]:
        # Where the library under test lies, the command does, too.
        package = library_folder().parents[1]
        site, name = (package.parent, "anycend") if package.name == "torch_npu" else (package, "softnpu")
        self.env["PYTHONPATH"] = str(site)
        return self.run(sys.executable, "-m", name, "preflight", *args)


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path / "hccn.conf")


@pytest.fixture
def pair(tmp_path):
    """Two hosts that are joined; 10.77.0.1 and 10.77.0.2 on their eth0."""
    hosts = hosts_or_skip()
    yield hosts, [Host(tmp_path / f"hccn{i}.conf", hosts.prefix(i)) for i in range(2)]
    hosts.close()

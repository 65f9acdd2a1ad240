"""Is this host ready for training over several hosts? What the vendor's guides have people check by hand.

Reads the kernel's settings and the device addresses (hccn.conf of this host, and of others where their files are given)
and says of each whether it is right, with the line that repairs it.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from . import Refused
from .arguments import whole
from .finding import Finding

PORTS = 16
BASE = 60000  # unless HCCL_IF_BASE_PORT names another
KERNEL = Path("/proc/sys/net")


class Device(NamedTuple):
    host: str
    number: int
    address: ipaddress.IPv4Interface

    def __str__(self) -> str:
        return f"{self.host} device {self.number} ({self.address.ip})"


def read_conf(path: Path, host: str) -> list[Device]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}; hccn_tool -i 0 -ip -s address … netmask … writes it") from None
    except UnicodeDecodeError:
        raise Refused(f"{path} is no text: name a hccn.conf, lines such as address_0=192.168.100.101") from None
    values = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    found = []
    for key, value in values.items():
        stem, _, number = key.rpartition("_")
        if stem == "address" and value:
            if not number.isdigit() or (device := whole(number)) is None:
                raise Refused(f"{path}: {key} names no device: address_0 is that of the first")
            mask = values.get(f"netmask_{number}", "255.255.255.0")
            try:
                found.append(Device(host, device, ipaddress.IPv4Interface(f"{value}/{mask}")))
            except ValueError as error:
                raise Refused(f"{path}: {key}: {error}") from None
    return sorted(found, key=lambda device: device.number)


def ranges(text: str) -> set[int]:
    """ "1-3,7" """
    ports: set[int] = set()
    for part in text.strip().split(","):
        if part:
            first, _, last = part.partition("-")
            ports.update(range(int(first), int(last or first) + 1))
    return ports


def written(ports: set[int]) -> str:
    """The shortest text that ranges() reads as these."""
    parts: list[list[int]] = []
    for port in sorted(ports):
        if parts and parts[-1][1] == port - 1:
            parts[-1][1] = port
        else:
            parts.append([port, port])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def check_ports(base: int) -> Finding:
    """Nobody else may get these ports for an outgoing connection."""
    wanted = set(range(base, base + PORTS))
    low, high = map(int, (KERNEL / "ipv4/ip_local_port_range").read_text().split())
    reserved = ranges((KERNEL / "ipv4/ip_local_reserved_ports").read_text())
    what = f"ports {base}-{base + PORTS - 1}"
    if not wanted & set(range(low, high + 1)):
        return Finding(True, f"{what} lie outside the kernel's own ({low}-{high})")
    if wanted <= reserved:
        return Finding(True, f"{what} are reserved")
    line = f"sysctl -w net.ipv4.ip_local_reserved_ports={written(reserved | wanted)}"
    return Finding(False, f"{what} are not reserved: the kernel may give them away", line)


def check_backlog(ranks: int) -> Iterator[Finding]:
    """All ranks connect to the first at once."""
    for name, file in (
        ("net.core.somaxconn", "core/somaxconn"),
        ("net.ipv4.tcp_max_syn_backlog", "ipv4/tcp_max_syn_backlog"),
    ):
        value = int((KERNEL / file).read_text())
        enough = value >= ranks
        yield Finding(
            enough, f"{name} is {value}, for {ranks} ranks", "" if enough else f"sysctl -w {name}={max(65535, ranks)}"
        )


def check_kernel(base: int, ranks: int) -> Iterator[Finding]:
    """check_ports and check_backlog; a note where a container hides the settings."""
    try:
        yield check_ports(base)
        yield from check_backlog(ranks)
    except (OSError, ValueError) as error:
        yield Finding(None, f"the kernel's settings of ports cannot be read: {error}")


def check_granularity(hosts: dict[str, list[Device]]) -> Iterator[Finding]:
    for host, devices in hosts.items():
        right = len(devices) in (1, 2, 4, 8)
        yield Finding(
            right, f"{host} has {len(devices)} devices with addresses", "" if right else "use 1, 2, 4 or 8 on each host"
        )
    counts = {len(devices) for devices in hosts.values()}
    if len(counts) > 1:
        yield Finding(False, "hosts have different numbers of devices", "use the same number on each host")


def set_address(device: Device, network: ipaddress.IPv4Network) -> str:
    return f"on {device.host}: hccn_tool -i {device.number} -ip -s address <one of {network}> netmask {network.netmask}"


def check_subnets(hosts: dict[str, list[Device]], rule: str) -> Iterator[Finding]:
    devices = [device for of_host in hosts.values() for device in of_host]
    before = 0
    owner: dict[ipaddress.IPv4Address, Device] = {}
    for device in devices:
        other = owner.setdefault(device.address.ip, device)
        if other is not device:
            before += 1
            yield Finding(False, f"{device} has the address of {other}", set_address(device, device.address.network))
    # Atlas: 0/4, 1/5, 2/6, 3/7 share a network, the four networks differ. A2: one network for all.
    lanes: dict[int, Device] = {}
    for device in devices:
        lane = device.number % 4 if rule == "atlas" else 0
        first = lanes.setdefault(lane, device)
        if device.address.network != first.address.network:
            before += 1
            yield Finding(
                False,
                f"{device} is in {device.address.network}, {first} in {first.address.network}: "
                "they must share a network",
                set_address(device, first.address.network),
            )
    networks = {lane: device for lane, device in lanes.items()}
    for lane, device in networks.items():
        for other_lane, other in networks.items():
            if other_lane < lane and device.address.network == other.address.network:
                before += 1
                yield Finding(
                    False,
                    f"{device} and {other} are both in {other.address.network}: "
                    "devices 0 to 3 need networks of their own",
                    f"on {device.host}: hccn_tool -i {device.number} -ip -s address <of another network> netmask "
                    f"{device.address.netmask}",
                )
    if devices and not before:
        yield Finding(True, f"{len(devices)} device addresses follow the rule of {rule}")


def check_present(devices: list[Device]) -> Iterator[Finding]:
    """libhccl binds to them."""
    for device in devices:
        with socket.socket() as probe:
            try:
                probe.bind((str(device.address.ip), 0))
            except OSError:
                line = f"ip addr add {device.address} dev <interface>"
                yield Finding(False, f"no interface of this host has the address of {device}", line)
                continue
        yield Finding(True, f"{device} is on an interface of this host")


def reaches(source: str, target: str, seconds: float) -> str:
    """Why not; empty when it does. A refused connection is an answer."""
    with socket.socket() as probe:
        probe.settimeout(seconds)
        try:
            probe.bind((source, 0))
            probe.connect((target, 60000))
        except ConnectionRefusedError:
            return ""
        except OSError as error:
            return errno.errorcode.get(error.errno, "timeout") if error.errno else "timeout"
    return ""


def check_reach(own: list[Device], others: list[Device], seconds: float) -> Iterator[Finding]:
    failed = 0
    for device in own:
        for other in others:
            if why := reaches(str(device.address.ip), str(other.address.ip), seconds):
                failed += 1
                line = f"hccn_tool -i {device.number} -ping -g address {other.address.ip}; is a firewall in between?"
                yield Finding(False, f"{device} does not reach {other}: {why}", line)
    if own and others and not failed:
        yield Finding(True, f"all {len(own) * len(others)} pairs of devices reach each other")


def base_port(environment: Mapping[str, str]) -> int | None:
    """The first of libhccl's ports; None: the variable names none."""
    number = whole(environment.get("HCCL_IF_BASE_PORT") or str(BASE))
    return number if number is not None and 1024 <= number <= 65520 else None


def conf_path() -> Path:
    return Path(os.environ.get("ANYCEND_HCCN_CONF") or "/etc/hccn.conf")


def check(others: list[Path], rule: str, ranks: int | None, timeout: float) -> Iterator[Finding]:
    if (base := base_port(os.environ)) is None:
        what = f"HCCL_IF_BASE_PORT={os.environ['HCCL_IF_BASE_PORT']} is no port from 1024 to 65520"
        yield Finding(False, what, "unset it, or give such a number")
        base = BASE
    own = read_conf(conf_path(), "this host")
    hosts = {"this host": own, **{str(path): read_conf(path, str(path)) for path in others}}
    yield from check_kernel(base, ranks if ranks is not None else max(1, sum(map(len, hosts.values()))))
    yield from check_granularity(hosts)
    yield from check_subnets(hosts, rule)
    yield from check_present(own)
    yield from check_reach(own, [device for host in list(hosts)[1:] for device in hosts[host]], timeout)

"""softnpu/command/preflight.py: what it finds, and that its lines repair it."""

from __future__ import annotations

import pytest


def settle(hosts, host: int, name: str, value: str) -> None:
    path = "/proc/sys/" + name.replace(".", "/")
    import subprocess

    subprocess.run([*hosts.prefix(host), "sh", "-c", f'echo "{value}" > {path}'], check=True)


def spread(hosts, host, number: int, addresses: list[str]) -> None:
    """Device i has the i-th address, and eth0 has them all."""
    for i, address in enumerate(addresses):
        host.set_ip(i, address)
        if address not in hosts.addresses:
            hosts.ip(number, "addr", "add", f"{address}/24", "dev", "eth0")


def test_what_it_prints_repairs_the_kernels_settings(pair):
    hosts, (first, _) = pair
    first.set_ip(0, hosts.addresses[0])
    for name, value in {
        "net.ipv4.ip_local_port_range": "32768 60999",
        "net.ipv4.ip_local_reserved_ports": "8080,60002-60003",
        "net.core.somaxconn": "16",
        "net.ipv4.tcp_max_syn_backlog": "64",
    }.items():
        settle(hosts, 0, name, value)
    code, out, _ = first.preflight("--ranks", 100)
    assert code == 1
    assert out == (
        "FAIL  ports 60000-60015 are not reserved: the kernel may give them away\n"
        "      sysctl -w net.ipv4.ip_local_reserved_ports=8080,60000-60015\n"
        "FAIL  net.core.somaxconn is 16, for 100 ranks\n"
        "      sysctl -w net.core.somaxconn=65535\n"
        "FAIL  net.ipv4.tcp_max_syn_backlog is 64, for 100 ranks\n"
        "      sysctl -w net.ipv4.tcp_max_syn_backlog=65535\n"
        "ok    this host has 1 devices with addresses\n"
        "ok    1 device addresses follow the rule of a2\n"
        "ok    this host device 0 (10.77.0.1) is on an interface of this host\n"
        "3 to repair\n"
    )
    for line in out.splitlines():
        if line.startswith("      sysctl -w "):
            settle(hosts, 0, *line.removeprefix("      sysctl -w ").split("="))
    code, out, _ = first.preflight("--ranks", 100)
    assert code == 0 and out.endswith("ready\n") and "ok    ports 60000-60015 are reserved\n" in out


def test_ports_that_the_kernel_does_not_give_away_need_no_reservation(pair):
    hosts, (first, _) = pair
    first.set_ip(0, hosts.addresses[0])
    first.env["HCCL_IF_BASE_PORT"] = "20000"
    settle(hosts, 0, "net.ipv4.ip_local_port_range", "32768 60999")
    assert "ok    ports 20000-20015 lie outside the kernel's own (32768-60999)\n" in first.preflight()[1]


@pytest.mark.parametrize("port", ["sixty", "80", "65521", "-1", "6e4"])
def test_a_port_that_is_none_is_named_and_the_default_is_checked(host, port):
    host.set_ip(0, "127.0.0.1")
    host.env["HCCL_IF_BASE_PORT"] = port
    code, out, err = host.preflight()
    assert code == 1 and "Traceback" not in err, err
    assert out.startswith(f"FAIL  HCCL_IF_BASE_PORT={port} is no port from 1024 to 65520\n"), out
    assert "ports 60000-60015 " in out


def test_two_hosts_by_the_rule_of_a2(pair):
    hosts, (first, second) = pair
    spread(hosts, first, 0, ["10.77.0.1", "10.77.0.11"])
    spread(hosts, second, 1, ["10.77.0.2", "10.77.0.12"])
    _, out, _ = first.preflight(second.conf)
    assert "ok    4 device addresses follow the rule of a2\n" in out
    assert "ok    all 4 pairs of devices reach each other\n" in out
    hosts.cut()
    code, out, _ = first.preflight(second.conf, "--timeout", "0.2")
    assert code == 1 and out.count("does not reach") == 4
    assert "hccn_tool -i 1 -ping -g address 10.77.0.12; is a firewall in between?" in out


def test_two_hosts_by_the_rule_of_atlas(host, tmp_path):
    other = tmp_path / "other.conf"
    lines = [f"address_{i}=192.168.{100 + i % 4}.{20 + i}\nnetmask_{i}=255.255.255.0\n" for i in range(8)]
    other.write_text("".join(lines))
    for i in range(8):
        host.set_ip(i, f"192.168.{100 + i % 4}.{10 + i}")
    quick = ("--rule", "atlas", "--timeout", "0.01")
    assert "ok    16 device addresses follow the rule of atlas\n" in host.preflight(other, *quick)[1]
    host.set_ip(5, "192.168.102.15")
    out = host.preflight(other, *quick)[1]
    assert (
        "FAIL  this host device 5 (192.168.102.15) is in 192.168.102.0/24, this host device 1 (192.168.101.11) in "
        "192.168.101.0/24: they must share a network\n"
        "      on this host: hccn_tool -i 5 -ip -s address <one of 192.168.101.0/24> netmask 255.255.255.0\n"
    ) in out
    host.set_ip(5, "192.168.101.11")
    assert (
        "device 5 (192.168.101.11) has the address of this host device 1 (192.168.101.11)\n"
        in host.preflight(other, *quick)[1]
    )


def test_atlas_devices_0_to_3_need_networks_of_their_own(host):
    host.set_ip(0, "10.1.0.1"), host.set_ip(1, "10.1.0.2")
    out = host.preflight("--rule", "atlas")[1]
    assert "device 1 (10.1.0.2) and this host device 0 (10.1.0.1) are both in 10.1.0.0/24: devices 0 to 3 need" in out


@pytest.mark.parametrize(("count", "right"), [(1, True), (2, True), (3, False), (4, True), (5, False), (8, True)])
def test_granularity(host, count, right):
    for i in range(count):
        host.set_ip(i, f"10.1.0.{i + 1}")
    line = f"this host has {count} devices with addresses\n"
    want = f"ok    {line}" if right else f"FAIL  {line}      use 1, 2, 4 or 8 on each host\n"
    assert want in host.preflight()[1]


def test_an_address_that_no_interface_has(host):
    host.set_ip(0, "203.0.113.7")
    out = host.preflight()[1]
    assert (
        "FAIL  no interface of this host has the address of this host device 0 (203.0.113.7)\n"
        "      ip addr add 203.0.113.7/24 dev <interface>\n"
    ) in out


def test_without_a_file_it_says_how_to_write_one(host):
    code, out, err = host.preflight()
    assert (code, out) == (1, "")
    assert (
        err == f"anycend: {host.conf}: No such file or directory; hccn_tool -i 0 -ip -s address … netmask … writes it\n"
    )

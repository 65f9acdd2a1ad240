"""softnpu/tools/hccn: what is set, what is printed."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.hccl.ranks import library_folder


def test_an_address_is_set_and_told(host):
    host.set_ip(3, "192.168.100.4")
    assert host.get("-i", 3, "-ip", "-g") == "ipaddr:192.168.100.4\nnetmask:255.255.255.0\n"
    assert host.conf.read_text() == "address_3=192.168.100.4\nnetmask_3=255.255.255.0\n"


def test_what_else_is_in_the_file_stays(host):
    host.conf.write_text("send_arp_status_0=1\naddress_0=10.0.0.1\n")
    host.set_ip(1, "10.0.0.2")
    assert (
        host.conf.read_text()
        == "address_0=10.0.0.1\naddress_1=10.0.0.2\nnetmask_1=255.255.255.0\nsend_arp_status_0=1\n"
    )


def test_eight_at_a_time_all_stand_in_the_file(host):
    tool = library_folder().parent / "bin" / "hccn_tool"
    words = ["-ip", "-s", "address", "10.0.0.1", "netmask", "255.255.255.0"]
    running = [subprocess.Popen([tool, "-i", str(i), *words], env=host.env) for i in range(8)]
    assert [p.wait(30) for p in running] == [0] * 8
    assert host.conf.read_text().count("address_") == 8


def test_a_gateway_and_an_address_to_detect(host):
    assert host.get("-i", 0, "-gateway", "-s", "gateway", "192.168.100.254") == ""
    assert host.get("-i", 0, "-gateway", "-g") == "default gateway:192.168.100.254, Iface:eth0\n"
    assert host.get("-i", 0, "-net_health", "-g") == "net health status: Init\n"
    assert host.get("-i", 0, "-netdetect", "-s", "address", "127.0.0.1") == ""
    assert host.get("-i", 0, "-netdetect", "-g") == "netdetect addr: 127.0.0.1\n"
    assert host.get("-i", 0, "-net_health", "-g") == "net health status: Success\n"


def test_tls(host):
    form = (
        "dev_id:2, tls switch[{}](0:disable, 1:enable), tls preconfigured[1](0:non-preset, 1:preset), "
        "tls alarm time threshold[60]days\n"
    )
    assert host.get("-i", 2, "-tls", "-g") == form.format(0)
    host.get("-i", 2, "-tls", "-s", "enable", 0)
    assert host.get("-i", 2, "-tls", "-g") == form.format(0)


def test_the_link_is_that_of_the_interface_with_the_address(host):
    assert host.get("-i", 0, "-link", "-g") == "link status: DOWN\n"
    host.set_ip(0, "127.0.0.1")
    assert host.get("-i", 0, "-link", "-g") == "link status: UP\n"
    lldp = host.get("-i", 0, "-lldp", "-g")
    assert "Port ID TLV\n\tIfname: lo\n" in lldp and lldp.endswith("End of LLDPDU TLV\n")


def test_hosts_reach_each_other_until_the_cable_is_cut(pair):
    hosts, (first, second) = pair
    first.set_ip(0, hosts.addresses[0]), second.set_ip(0, hosts.addresses[1])
    out = first.get("-i", 0, "-ping", "-g", "address", hosts.addresses[1])
    lines = out.splitlines()
    assert lines[0] == "device 0 PING 10.77.0.2"
    assert [re.sub(r"[\d.]+ms", "Tms", line) for line in lines[1:4]] == [f"recv seq={i},time=Tms" for i in range(3)]
    assert lines[4:] == ["3 packets transmitted, 3 received, 0.00% packet loss"]
    first.get("-i", 0, "-netdetect", "-s", "address", hosts.addresses[1])
    assert first.get("-i", 0, "-net_health", "-g") == "net health status: Success\n"
    assert "Ifname: eth0" in first.get("-i", 0, "-lldp", "-g")
    counters = dict(line.split(":") for line in first.get("-i", 0, "-stat", "-g").splitlines()[1:])
    assert int(counters["mac_tx_total_pkt_num"]) >= 3 and int(counters["mac_rx_total_oct_num"]) > 100
    hosts.cut()
    assert first.get("-i", 0, "-link", "-g") == "link status: DOWN\n"
    assert first.get("-i", 0, "-net_health", "-g") != "net health status: Success\n"
    assert "3 packets transmitted, 0 received, 100.00% packet loss" in first.get(
        "-i", 0, "-ping", "-g", "address", hosts.addresses[1]
    )


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "expected -i <device> first"),
        (("-i", "8", "-ip", "-g"), "device '8' does not exist: there are 8 (ANYCEND_DEVICES), counted from 0"),
        (("-i", "x", "-ip", "-g"), "device 'x' does not exist"),
        (("-i", "0", "-fec", "-g"), "unknown option '-fec'"),
        (("-i", "0", "-link", "-s"), "-link takes -g, not '-s'"),
        (("-i", "0", "-ip", "-s", "address", "192.168.1"), "192.168.1 is not an IPv4 address"),
        (("-i", "0", "-ip", "-s", "address", "192.168.1.1"), "a value for netmask is missing"),
        (("-i", "0", "-ip", "-s", "address", "10.0.0.1", "netmask", "255.0.255.0"), "255.0.255.0 is not a netmask"),
        (("-i", "0", "-ip", "-g"), "device 0 has no address in"),
        (("-i", "0", "-stat", "-g"), "device 0 has no address in"),
        (("-i", "0", "-ip", "-g", "nonsense"), "'nonsense' is not understood: hccn_tool -i <device> -ip -g"),
        (
            ("-i", "0", "-ping", "-g", "address", "::1", "pkt", "3"),
            "'pkt' is not understood: hccn_tool -i <device> -ping",
        ),
        (("-i", "0", "-tls", "-s", "enable", "2"), "takes 0 or 1, not 2"),
        (("-i", "0", "-tls", "-s", "enable", "1"), "not encrypted"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, tuple) else "",
)
def test_what_cannot_be_done_is_said(host, words, reason):
    code, out, err = host.tool(*words)
    assert code == 1 and out == ""
    assert err.startswith("hccn_tool: ") and reason in err and err.endswith("\nCmd execute failed!\n")
    assert not host.conf.exists()


def test_a_number_of_devices_that_is_none_is_named(host):
    host.env["ANYCEND_DEVICES"] = "x"
    code, _, err = host.tool("-i", 0, "-ip", "-g")
    assert code == 1 and "ANYCEND_DEVICES=x: give a number from 0 to 64" in err and "Cmd execute failed!" in err


def test_a_file_that_cannot_be_written_is_named(host):
    host.env["ANYCEND_HCCN_CONF"] = "/proc/none/hccn.conf"
    code, _, err = host.tool("-i", 0, "-gateway", "-s", "gateway", "10.0.0.1")
    assert code == 1 and "cannot write /proc/none/hccn.conf" in err and "ANYCEND_HCCN_CONF" in err

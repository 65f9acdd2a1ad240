"""network/: communicators over several hosts, which are network namespaces here. Three hosts, and hosts whose ranks are
not in order, are one namespace with ANYCEND_HOST_ID: what goes over the network is the same. What goes wrong while they
run: test_hosts_faults.py. Data through UCX: test_ucx.py.
"""

from __future__ import annotations

import json
import time

import pytest

from tests.hccl import programs
from tests.hccl.ranks import OTHER_SIZE, HcclError, Job, named_hosts, until_joining

# As in test_execute.py: what lies in the shared page, and what travels in pieces.
SIZES = [0, 1, 13, 4097, 40_000]


def test_all_reduce(apart):
    sums = apart.run(programs.all_reduce_matrix, SIZES, ["int8", "int64", "fp16", "fp32", "bf16"])
    assert all(s == sums[0] for s in sums)


def test_all_reduce_gives_the_same_bits_every_time(apart):
    assert len(set(apart.run(programs.all_reduce, "bf16", "sum", 100_001, False, 20))) == 1


def test_all_reduce_of_a_large_odd_size(apart):
    assert len(set(apart.run(programs.all_reduce, "fp32", "sum", 1_234_567))) == 1


def test_reduce_and_reduce_scatter(apart):
    apart.run(programs.reduce_matrix, SIZES, ["int32", "fp16", "fp32", "bf16"])


def test_moves(apart):
    apart.run(programs.move_matrix, [0, 1, 777, 30_000], ["int8", "fp32", "bf16", "uint64"])


@pytest.mark.parametrize("scale", [1, 5_000])
def test_uneven(apart, scale):
    apart.run(programs.uneven_matrix, scale)


@pytest.mark.parametrize("way", ["batch", "group", "alone"])
@pytest.mark.parametrize("size", [0, 1, 1000, 300_000])
def test_messages(apart, way, size):
    apart.run(programs.ring, size, way)


def test_messages_in_order_and_without_a_waiting_receiver(apart):
    apart.run(programs.many_messages, 60)
    apart.run(programs.ring, 500, "plain")


def test_barrier_waits_for_the_slowest(apart):
    times = apart.run(programs.barrier_waits, 1)
    assert max(came for came, _ in times) <= min(left for _, left in times), times


def test_queued_calls_run_in_order(apart):
    apart.run(programs.chained, 20, 100)
    apart.run(programs.chained, 5, 30_000)


def test_sub_communicators_over_and_within_hosts(apart):
    apart.run(programs.sub_communicators)


def test_two_communicators_at_a_time(apart):
    (info,) = apart.run(programs.make_root, ranks=[0])
    apart.run(programs.two_communicators, info, 10)


def test_the_bits_are_those_of_one_host():
    with Job(6) as one, named_hosts(list("aabbcc")) as three:
        one.connect(), three.connect()
        for dtype in ("fp32", "bf16", "fp16"):
            bits = one.run(programs.own_bits, dtype, 20_000) + three.run(programs.own_bits, dtype, 20_000)
            assert len(set(bits)) == 1


def test_hosts_of_different_sizes_whose_ranks_are_not_in_order():
    with named_hosts(list("abaacb")) as job:
        job.connect()
        assert len(set(job.run(programs.own_bits, "fp32", 30_000))) == 1
        job.run(programs.move_matrix, [5, 30_000], ["fp32"])
        job.run(programs.all_gather_v, "fp32", [3_000 * r for r in range(6)])
        job.run(programs.all_to_all_v, "fp32", [[(5 * i + 3 * j) % 7 * 3_000 for j in range(6)] for i in range(6)])
        job.run(programs.ring, 300_000, "batch")


def test_sockets_are_on_the_chosen_interface_only(lan):
    lan.hosts.second_card(1, "10.78.0.2")
    job = lan.job(1)
    (info,) = job.run(programs.make_root, ranks=[0])
    assert job.run(programs.listening, ranks=[0]) == [{"10.77.0.1"}]
    job.run(programs.join_world, info)
    job.run(programs.all_reduce, "fp32", "sum", 100_000)
    assert job.run(programs.listening) == [{"10.77.0.1"}, {"10.77.0.2"}]


def test_the_interface_can_be_named(lan):
    lan.hosts.second_card(1, "10.78.0.2")
    job = lan.job(1, env={"HCCL_IF_IP": "", "HCCL_SOCKET_IFNAME": "=eth0", "HCCL_IF_BASE_PORT": "23456"})
    job.connect().run(programs.all_reduce, "fp32", "sum", 100_000)
    assert job.run(programs.listening)[1] == {"10.77.0.2"}


def test_an_address_that_leads_nowhere_ends_in_time(lan):
    lan.hosts.second_card(0, "10.78.0.1")
    job = lan.job(1, env={"HCCL_CONNECT_TIMEOUT": "2"}, each={0: {"HCCL_IF_IP": "10.78.0.1"}})
    (info,) = job.run(programs.make_root, ranks=[0])
    began = time.monotonic()
    job.start(programs.join_world, info)
    errors = job.results()
    assert time.monotonic() - began < 40
    assert "rank 1 of 2 did not connect within 2 s (HCCL_CONNECT_TIMEOUT)" in errors[0].text
    assert "cannot connect to 10.78.0.1 port" in errors[1].text


@pytest.mark.parametrize("listed", [True, False])
def test_the_white_list_over_hosts(lan, tmp_path, listed):
    file = tmp_path / "whitelist.json"
    file.write_text(json.dumps({"host_ip": ["10.77.0.1"] + ["10.77.0.2"] * listed, "device_ip": []}))
    on = {"HCCL_WHITELIST_DISABLE": "0", "HCCL_WHITELIST_FILE": str(file)}
    job = lan.job(1, env={"HCCL_CONNECT_TIMEOUT": "2"}, each={0: on})
    (info,) = job.run(programs.make_root, ranks=[0])
    job.start(programs.join_world, info)
    errors = job.results()
    if listed:
        assert errors == [None, None]
        return
    assert "the root refused 10.77.0.2: not in the white list" in errors[1].text
    assert "rank 1 of 2 did not connect within 2 s" in errors[0].text


def test_a_rank_refuses_ranks_that_are_not_listed(lan, tmp_path):
    file = tmp_path / "whitelist.json"
    file.write_text(json.dumps({"host_ip": ["10.77.0.1"]}))
    job = lan.job(1, each={1: {"HCCL_WHITELIST_DISABLE": "0", "HCCL_WHITELIST_FILE": str(file)}})
    (info,) = job.run(programs.make_root, ranks=[0])
    job.start(programs.join_world, info)
    errors = job.results()
    assert all("the rank's address 10.77.0.2 is not in the white list" in e.text for e in errors), errors


def test_a_wrong_world_size_fails_all_hosts(lan):
    job = lan.job(1)
    (info,) = job.run(programs.make_root, ranks=[0])
    job.start(programs.join_world, info, 3, ranks=[0])
    time.sleep(0.3)
    job.start(programs.join_world, info, 2, ranks=[1])
    errors = job.results()
    assert all(isinstance(e, HcclError) and OTHER_SIZE.search(e.text) for e in errors), errors


def test_data_goes_by_the_devices_address(lan, tmp_path):
    """hccn.conf gives the devices a network of their own; the roots stay on the hosts'."""
    each = {}
    lan.hosts.ip(
        0, "link", "add", "dev0", "type", "veth", "peer", "name", "dev0", "netns", str(lan.hosts.sleepers[1].pid)
    )
    for i in range(2):
        lan.hosts.add(i, "dev0", f"10.79.0.{i + 1}")
        conf = tmp_path / f"hccn{i}.conf"
        conf.write_text(f"address_{i}=10.79.0.{i + 1}\nnetmask_{i}=255.255.255.0\n")
        each[i] = {"ANYCEND_HCCN_CONF": str(conf)}
    time.sleep(1.1)  # the carrier
    job = lan.job(1, each=each)
    (info,) = job.run(programs.make_root, ranks=[0])
    assert job.run(programs.listening, ranks=[0]) == [{"10.77.0.1"}]
    job.run(programs.join_world, info)
    job.run(programs.all_reduce, "fp32", "sum", 100_000)
    assert job.run(programs.listening) == [{"10.79.0.1"}, {"10.79.0.2"}]


def test_a_device_address_that_no_interface_has_is_named(lan, tmp_path):
    conf = tmp_path / "hccn.conf"
    conf.write_text("address_1=203.0.113.7\n")
    job = lan.job(1, each={1: {"ANYCEND_HCCN_CONF": str(conf)}})
    (info,) = job.run(programs.make_root, ranks=[0])
    job.start(programs.join_world, info)
    errors = job.results()
    assert all("no interface of this host has the address 203.0.113.7" in e.text for e in errors), errors


def two_servers(devices: list[list[str]], servers: list[str]) -> dict:
    """A rank table: devices[i] are the device_ip of server i."""
    ranks = iter(range(8))
    return {
        "version": "1.0",
        "status": "completed",
        "server_count": str(len(servers)),
        "server_list": [
            {
                "server_id": server,
                "device": [
                    {"device_id": str(i), "device_ip": ip, "rank_id": str(next(ranks))} for i, ip in enumerate(ips)
                ],
            }
            for server, ips in zip(servers, devices, strict=True)
        ],
    }


def test_a_rank_table_of_two_servers(lan, tmp_path):
    """The device's address of a table counts where an interface has it; the others' are those of real cards."""
    lan.hosts.second_card(1, "10.78.0.2")
    file = tmp_path / "hccl.json"
    file.write_text(
        json.dumps(two_servers([["192.168.9.1", "10.77.0.1"], ["10.77.0.2", "10.77.0.2"]], lan.hosts.addresses))
    )
    job = lan.job(2, env={"HCCL_IF_BASE_PORT": "24000"})
    for _ in range(2):
        assert len(set(job.run(programs.join_table, str(file)))) == 1
    assert job.run(programs.listening)[2] == {"10.77.0.2"}


def test_a_rank_table_whose_servers_have_names_only(lan, tmp_path):
    file = tmp_path / "hccl.json"
    file.write_text(json.dumps(two_servers([["10.77.0.1"], ["10.77.0.2"]], ["node-a", "node-b"])))
    job = lan.job(1)
    job.start(programs.join_table_only, str(file))
    words = 'server_id "node-a" of rank 0 must be an IP address, which the ranks of "node-b" connect to'
    assert all(words in e.text for e in job.results())


def test_a_rank_joining_twice_from_another_host_fails_everybody(lan):
    job = lan.job(1)
    (info,) = job.run(programs.make_root, ranks=[0])
    job.start(programs.join_world, info, 3, 1)
    errors = job.results()
    assert all(e.code == "PARA" and "rank 1 joined twice" in e.text for e in errors), errors


def test_a_rank_that_ends_while_joining_fails_the_other_host(lan):
    job = lan.job(2)
    (info,) = job.run(programs.make_root, ranks=[0])
    job.run(programs.mapped, "libhccl")  # all have started
    job.start(programs.join_world, info, ranks=[0, 1, 3])
    until_joining(job, 3)
    job.kill(3)
    for error in job.results(ranks=[0, 1]):
        assert error.code == "REMOTE" and "rank 3 left while the communicator was being made" in error.text

"""network/: communicators over several hosts, which are network namespaces here. Three hosts, and hosts whose ranks are
not in order, are one namespace with ANYCEND_HOST_ID: what goes over the network is the same.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time

import pytest

from tests.hccl import faults, programs
from tests.hccl.ranks import HcclError, Job, library_folder

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
    waits = apart.run(programs.barrier_waits, 1)
    assert min(w for r, w in enumerate(waits) if r != 1) > 0.3 > waits[1]


def test_queued_calls_run_in_order(apart):
    apart.run(programs.chained, 20, 100)
    apart.run(programs.chained, 5, 30_000)


def test_sub_communicators_over_and_within_hosts(apart):
    apart.run(programs.sub_communicators)


def test_two_communicators_at_a_time(apart):
    (info,) = apart.run(programs.make_root, ranks=[0])
    apart.run(programs.two_communicators, info, 10)


def named_hosts(hosts: list[str], **env) -> Job:
    return Job(len(hosts), env=env, each={r: {"ANYCEND_HOST_ID": h} for r, h in enumerate(hosts)})


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


def test_ucx_is_loaded_over_hosts_and_where_it_is_wanted_only():
    with Job(2) as job:
        job.connect().run(programs.all_reduce_once)
        assert job.run(programs.mapped, "libucp") == [False, False]
    with named_hosts(["a", "b"]) as job:
        job.connect().run(programs.all_reduce_once)
        assert job.run(programs.mapped, "libucp") == [False, False]
    with named_hosts(["a", "b"], UCX_TLS="tcp") as job:
        job.connect().run(programs.all_reduce_once)
        assert job.run(programs.mapped, "libucp") == [True, True]


def test_ucx_leaves_the_programs_munmap_alone():
    with named_hosts(["a", "b"], UCX_TLS="tcp") as job:
        before = job.run(programs.munmap_code)
        job.connect().run(programs.all_reduce, "fp32", "sum", 500_000)
        assert job.run(programs.munmap_code) == before


def test_without_ucx_every_rank_names_the_package(tmp_path):
    lib = tmp_path / "softnpu" / "lib64"
    shutil.copytree(library_folder(), lib)
    with named_hosts(["a", "b"], ANYCEND_TEST_CANN_LIB=str(lib), UCX_TLS="tcp") as job:
        (info,) = job.run(programs.make_root, ranks=[0])
        job.start(programs.join_world, info)
        errors = job.results()
    assert all("pip install --no-deps libucx-cu12" in e.text for e in errors), errors
    assert all("because UCX_TLS is set (without it data goes by TCP" in e.text for e in errors), errors


def test_through_ucx():
    with named_hosts(list("aabb"), UCX_TLS="tcp") as job:
        job.connect()
        assert len(set(job.run(programs.own_bits, "bf16", 30_000))) == 1
        job.run(programs.move_matrix, [5, 30_000], ["fp32"])
        job.run(programs.ring, 300_000, "batch")
        job.run(programs.many_messages, 20)


def test_ucx_on_one_host_only_is_named():
    each = {0: {"ANYCEND_HOST_ID": "a"}, 1: {"ANYCEND_HOST_ID": "b", "UCX_TLS": "tcp"}}
    with Job(2, each=each) as job:
        (info,) = job.run(programs.make_root, ranks=[0])
        job.start(programs.join_world, info)
        errors = job.results()
    assert all("UCX_TLS" in e.text for e in errors), errors


def test_ucxs_port_takes_nothing_from_strangers(lan):
    """It is open for the job's life, and UCX believes what it reads there: the kernel keeps others' packets from it."""
    lan.hosts.ip(1, "addr", "add", "10.77.0.9/24", "dev", "eth0")
    job = lan.job(1, env={"UCX_TLS": "tcp"}).connect()
    job.run(programs.all_reduce, "fp32", "sum", 100_000)
    ports = [port for host, address, port in faults.listening(job, lan.hosts) if host == 0]
    assert len(ports) == 1
    assert job.run(programs.reach, "10.77.0.1", ports[0], "10.77.0.9", ranks=[1]) == [False]
    assert job.run(programs.reach, "10.77.0.1", ports[0], "10.77.0.2", ranks=[1]) == [True]
    job.run(programs.all_reduce, "fp32", "sum", 100_000)


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
    assert time.monotonic() - began < 8
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


@pytest.mark.parametrize("victim", [0, 2, 3], ids=["root", "leader", "last"])
@pytest.mark.parametrize("size", [100, 500_000])
def test_a_killed_rank_is_reported_on_the_other_host_within_a_second(lan, victim, size):
    job = lan.job(2).connect()
    job.run(programs.all_reduce_once)
    job.start(programs.all_reduce_until_error, size, 20.0)
    time.sleep(0.3)
    job.kill(victim)
    killed = time.time()
    for seen, code, text in job.results(ranks=[r for r in range(4) if r != victim]):
        assert seen - killed < 1
        assert code == "REMOTE" and f"rank {victim} is gone: process" in text, text


def test_a_rank_that_calls_nothing_learns_of_a_death_on_the_other_host(lan):
    job = lan.job(2).connect()
    job.start(programs.watch_async_error, 5.0, ranks=[0, 1, 2])
    time.sleep(0.2)
    job.kill(3)
    killed = time.time()
    for seen, code in job.results(ranks=[0, 1, 2]):
        assert code == "REMOTE" and seen - killed < 1


def test_a_host_that_is_cut_off_is_reported(lan):
    job = lan.job(2, env={"ANYCEND_HOST_TIMEOUT": "1"}).connect()
    job.run(programs.all_reduce_once)
    job.start(programs.watch_async_error, 10.0)
    time.sleep(0.3)
    lan.hosts.cut()
    cut = time.time()
    for seen, code in job.results():
        assert code == "REMOTE" and seen - cut < 3


def test_an_outage_of_two_seconds_is_survived(lan):
    job = lan.job(2).connect()
    job.run(programs.all_reduce_once)
    lan.hosts.cut()
    job.start(programs.all_reduce, "fp32", "sum", 300_000)  # some of it is under way while nothing gets through
    time.sleep(2)
    lan.hosts.mend()
    assert len(set(job.results())) == 1
    assert all(code == "SUCCESS" for _, code in job.run(programs.watch_async_error, 0.3))


def test_a_missing_rank_is_named_with_the_host_that_is_silent(lan):
    job = lan.job(2, env={"HCCL_EXEC_TIMEOUT": "1"}).connect()
    job.run(programs.all_reduce_once)
    lan.hosts.cut()
    job.start(programs.absent_from_start, [])
    answers = job.results()
    for r, (seconds, text) in enumerate(answers):
        away = "10.77.0.2" if r < 2 else "10.77.0.1"
        assert seconds < 4 and "within 1 s (HCCL_EXEC_TIMEOUT)" in text, text
        assert f"nothing is heard from {away}" in text or any(f"nothing is heard from {away}" in t for _, t in answers)


def test_a_process_that_is_silent_is_lost_though_its_sockets_stand(lan):
    job = lan.job(1, env={"ANYCEND_HOST_TIMEOUT": "1"}).connect()
    job.run(programs.all_reduce_once)
    job.kill(1, signal.SIGSTOP)
    ((_, code, text),) = job.run(programs.all_reduce_until_error, 100, 10.0, ranks=[0])
    job.kill(1, signal.SIGCONT)
    assert code == "REMOTE" and "on 10.77.0.2 was not heard for 1 s (ANYCEND_HOST_TIMEOUT)" in text, text


def test_a_rank_that_stood_still_blames_nobody_else(lan):
    job = lan.job(1, env={"ANYCEND_HOST_TIMEOUT": "3"}).connect()
    job.run(programs.all_reduce_once)
    for rank in (0, 1):
        job.kill(rank, signal.SIGSTOP)
    time.sleep(3.5)
    for rank in (0, 1):
        job.kill(rank, signal.SIGCONT)
    assert len(set(job.run(programs.all_reduce_once))) == 1


@pytest.mark.parametrize("victim", [0, 1], ids=["root", "other"])
def test_a_forked_child_does_not_hide_a_death_from_the_other_host(lan, victim):
    """The child has all descriptors, and nobody of its host is left to tell."""
    job = lan.job(1).connect()
    (child,) = job.run(programs.fork_sleeper, ranks=[victim])
    try:
        job.start(programs.watch_async_error, 5.0, ranks=[1 - victim])
        time.sleep(0.2)
        job.kill(victim)
        killed = time.time()
        ((seen, code),) = job.results(ranks=[1 - victim])
        assert code == "REMOTE" and seen - killed < 1
    finally:
        os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("missing", [[3], [1, 2]])
def test_a_missing_rank_is_named_on_all_hosts(lan, missing):
    answers = lan.job(2).connect().run(programs.absent, 1, missing)
    for r in set(range(4)) - set(missing):
        seconds, code, text = answers[r]
        assert 0.9 < seconds < 3 and code == "TIMEOUT"
        names = ", ".join(map(str, missing))
        assert f"rank {names} did not call it within 1 s (HCCL_EXEC_TIMEOUT)" in text, text
        assert "HcclAllReduce (fp32 x 16, sum, communicator" in text


def test_a_stopped_rank_is_a_timeout_that_names_it(lan):
    job = lan.job(2, env={"HCCL_EXEC_TIMEOUT": "1"}).connect()
    job.kill(3, signal.SIGSTOP)
    job.start(programs.absent_from_start, [], ranks=[0, 1, 2])
    answers = job.results(ranks=[0, 1, 2], timeout=20)
    job.kill(3, signal.SIGCONT)
    assert all(s < 4 and "rank 3 did not call it within 1 s" in text for s, text in answers), answers


@pytest.mark.parametrize("moment", [0.3, 0.37, 0.45])
def test_what_comes_after_an_operation_was_given_up_is_not_written(lan, moment):
    """Large messages go from a rank's buffer into another's: both are the caller's again once the call has failed. Only
    what its two threads were writing when a rank of the same host was stopped, that rank goes on with."""
    job = lan.job(2, env={"HCCL_EXEC_TIMEOUT": "1"}).connect()
    job.start(programs.all_to_all_until_it_fails, 1 << 22)
    time.sleep(moment)
    job.kill(3, signal.SIGSTOP)
    answers = job.results(ranks=[0, 1, 2], timeout=30)
    named = re.compile(r"rank \d.* within 1 s \(HCCL_EXEC_TIMEOUT\)")
    assert all(seconds < 4 and named.search(text) for seconds, text in answers), answers
    job.kill(3, signal.SIGCONT)
    job.results(ranks=[3], timeout=30)
    time.sleep(0.3)
    written = job.run(programs.not_sevens)
    assert [written[r] for r in (0, 1, 3)] == [0, 0, 0] and written[2] <= 2 * 512 * 1024, written


@pytest.mark.parametrize("per_host", [1, 2])
@pytest.mark.parametrize("what", programs.MISMATCHES)
def test_mismatches_are_named_on_all_hosts(lan, per_host, what):
    texts = lan.job(per_host).connect().run(programs.mismatched, what)
    odd = f"rank {2 * per_host - 1}"
    assert all(word in text for text in texts for word in [odd, *programs.MISMATCHES[what]]), texts


def test_another_collective_with_tables_is_named(lan):
    job = lan.job(1).connect()
    job.start(programs.all_reduce_once, ranks=[0])
    job.start(programs.all_gather_v, "fp32", [3, 4], ranks=[1])
    assert all("disagrees about the collective" in e.text for e in job.results())


def test_an_error_can_be_resumed_from(lan):
    job = lan.job(2).connect()
    job.run(programs.mismatched, "dtype")
    job.run(programs.resume)
    sums = job.run(programs.all_reduce, "fp32", "sum", 100_000)
    assert len(set(sums)) == 1


def test_leaving_in_order_is_no_error_until_somebody_waits(lan):
    job = lan.job(1).connect()
    job.run(programs.all_reduce_once)
    job.start(programs.exit_now, ranks=[1])
    job.workers[1].wait(10)
    ((_, code),) = job.run(programs.watch_async_error, 1.5, ranks=[0])
    assert code == "SUCCESS"
    ((_, code, text),) = job.run(programs.all_reduce_until_error, 100, 10.0, ranks=[0])
    assert code == "REMOTE" and "rank 1 has left the communicator" in text


def test_a_goodbye_is_read_though_the_connection_is_gone(lan):
    """The root's process stands still while four leave: when it passes on what the first three said, the connection of
    the last one is closed already, and what that one said before is unread."""
    job = lan.job(4).connect()
    job.run(programs.all_reduce_once)
    job.kill(0, signal.SIGSTOP)
    for rank in (7, 6, 5, 4):
        job.run(programs.leave, ranks=[rank])
    job.kill(0, signal.SIGCONT)
    ((_, code),) = job.run(programs.watch_async_error, 0.5, ranks=[0])
    assert code == "SUCCESS"


def test_the_first_message_is_delivered_though_the_sender_ends(lan):
    """The last thing a rank does is to send; its process ends at once."""
    job = lan.job(1).connect()
    job.run(programs.all_reduce_once)
    job.run(programs.many_messages, 3)
    job.start(programs.send_and_exit, ranks=[0])
    time.sleep(0.5)
    assert job.run(programs.receive_from_the_gone, ranks=[1]) == [True]


def test_a_wrong_world_size_fails_all_hosts(lan):
    job = lan.job(1)
    (info,) = job.run(programs.make_root, ranks=[0])
    job.start(programs.join_world, info, 3, ranks=[0])
    time.sleep(0.3)
    job.start(programs.join_world, info, 2, ranks=[1])
    assert all(
        isinstance(e, HcclError) and "rank 1 was started for 2 ranks, others for 3" in e.text for e in job.results()
    )


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
    time.sleep(0.5)
    job.kill(3)
    for error in job.results(ranks=[0, 1]):
        assert error.code == "REMOTE" and "rank 3 left while the communicator was being made" in error.text

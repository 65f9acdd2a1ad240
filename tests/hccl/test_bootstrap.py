"""bootstrap*.cpp, settings.cpp, whitelist.cpp: ports, keys, addresses, and what goes wrong while a communicator is
made.
"""

from __future__ import annotations

import json
import socket
import time

import pytest

from tests.hccl import programs
from tests.hccl.ranks import OTHER_SIZE, HcclError, until_joining
from tests.ports import free_ports


def port_of(info: bytes) -> int:
    return int.from_bytes(info[12:16], "little")


def test_the_named_port_is_used_and_given_back(fresh):
    base = free_ports(16)
    job = fresh(2, env={"HCCL_IF_BASE_PORT": str(base)})
    (info,) = job.run(programs.make_root, ranks=[1])  # rank 1 uses device 1
    assert port_of(info) == base + 1
    job.run(programs.join_world, info)
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # the connections that are over may stand in TIME_WAIT
        s.bind(("127.0.0.1", base + 1))
        s.listen()  # nobody does while the communicator lives
    job.run(programs.all_reduce_once)


def test_a_taken_port_that_was_named_is_an_error(fresh):
    base = free_ports(16)
    with socket.socket() as s:
        s.bind(("127.0.0.1", base))
        s.listen()
        with pytest.raises(HcclError) as error:
            fresh(1, env={"HCCL_IF_BASE_PORT": str(base)}).run(programs.make_root)
    assert (
        error.value.code == "UNAVAIL"
        and f"port {base} of 127.0.0.1 is taken (HCCL_IF_BASE_PORT={base}, device 0)" in error.value.text
    )


def test_a_taken_default_port_is_replaced(fresh):
    first, second = fresh(1), fresh(1)  # both on device 0
    (a,), (b,) = first.run(programs.make_root), second.run(programs.make_root)
    assert port_of(a) != port_of(b)
    first.run(programs.join_world, a)
    second.run(programs.join_world, b)


@pytest.mark.parametrize("name", ["HCCL_IF_BASE_PORT", "HCCL_WHITELIST_DISABLE"])
def test_a_bad_variable_is_named(fresh, name):
    with pytest.raises(HcclError) as error:
        fresh(1, env={name: "false"}).run(programs.make_root)
    assert error.value.code == "PARA" and f"{name}=false: expected a number" in error.value.text


def test_an_address_that_is_not_ours_is_refused(fresh):
    with pytest.raises(HcclError) as error:
        fresh(1, env={"HCCL_IF_IP": "192.0.2.1"}).run(programs.make_root)
    assert "HCCL_IF_IP=192.0.2.1: no interface of this host has that address" in error.value.text


def test_interfaces_are_chosen_by_name(fresh):
    assert b"127.0.0.1" in fresh(1, env={"HCCL_IF_IP": "", "HCCL_SOCKET_IFNAME": "=lo"}).run(programs.make_root)[0]
    with pytest.raises(HcclError) as error:
        fresh(1, env={"HCCL_IF_IP": "", "HCCL_SOCKET_IFNAME": "=none7"}).run(programs.make_root)
    assert "HCCL_SOCKET_IFNAME==none7" in error.value.text


def test_a_wrong_key_is_refused_and_disturbs_nobody(fresh):
    job = fresh(3)
    (info,) = job.run(programs.make_root, ranks=[0])
    forged = info[:16] + bytes(16) + info[32:]
    with pytest.raises(HcclError) as error:
        job.run(programs.join_world, forged, 2, 1, ranks=[2])
    assert error.value.code == "PARA" and "the root knows no such communicator" in error.value.text
    job.run(programs.join_world, info, 2, ranks=[0, 1])


def test_garbage_is_not_a_root_info(fresh):
    with pytest.raises(HcclError) as error:
        fresh(1).run(programs.join_world, bytes(4108))
    assert "was not made by HcclGetRootInfo" in error.value.text


def test_noise_on_the_port_disturbs_nobody(fresh):
    job = fresh(2)
    (info,) = job.run(programs.make_root, ranks=[0])
    with socket.create_connection(("127.0.0.1", port_of(info))) as noise:
        noise.sendall(b"GET / HTTP/1.1\r\n\r\n" * 100)
        with socket.create_connection(("127.0.0.1", port_of(info))):  # and one that says nothing
            job.run(programs.join_world, info)
    job.run(programs.all_reduce_once)


def test_a_rank_joining_twice_fails_everybody(fresh):
    job = fresh(3)
    (info,) = job.run(programs.make_root, ranks=[0])
    job.start(programs.join_world, info, 3, 1, ranks=[0, 1])
    errors = job.results(ranks=[0, 1])
    assert all(isinstance(e, HcclError) and e.code == "PARA" and "rank 1 joined twice" in e.text for e in errors), (
        errors
    )


def test_different_world_sizes_fail_everybody(fresh):
    job = fresh(2)
    (info,) = job.run(programs.make_root, ranks=[0])
    job.start(programs.join_world, info, 3, ranks=[0])
    time.sleep(0.2)
    job.start(programs.join_world, info, 2, ranks=[1])
    errors = job.results()
    assert all(OTHER_SIZE.search(e.text) for e in errors), errors


def test_missing_ranks_are_named_when_time_is_over(fresh):
    job = fresh(4, env={"HCCL_CONNECT_TIMEOUT": "1"})
    (info,) = job.run(programs.make_root, ranks=[0])
    began = time.monotonic()
    job.start(programs.join_world, info, ranks=[0, 2])
    errors = job.results(ranks=[0, 2])
    assert time.monotonic() - began < 40
    assert all(
        e.code == "TIMEOUT" and "rank 1, 3 of 4 did not connect within 1 s (HCCL_CONNECT_TIMEOUT)" in e.text
        for e in errors
    ), errors


def test_a_root_that_has_ended_is_not_waited_for(fresh):
    """Its port refuses, though it listened before its root info was there: known long before HCCL_CONNECT_TIMEOUT."""
    job = fresh(2, env={"HCCL_CONNECT_TIMEOUT": "100"})
    (info,) = job.run(programs.make_root, ranks=[0])
    job.kill(0)
    job.workers[0].wait()
    began = time.monotonic()
    with pytest.raises(HcclError) as error:
        job.run(programs.join_world, info, ranks=[1])
    assert error.value.code == "TCP_CONNECT" and "cannot connect to 127.0.0.1 port" in error.value.text
    assert time.monotonic() - began < 60


def test_a_rank_that_dies_while_joining_fails_the_others(fresh):
    job = fresh(3)
    (info,) = job.run(programs.make_root, ranks=[0])
    job.run(programs.mapped, "libhccl")  # all have started
    job.start(programs.join_world, info, ranks=[0, 1])
    until_joining(job, 1)
    job.kill(1)
    (error,) = job.results(ranks=[0])
    assert error.code == "REMOTE" and "rank 1 left while the communicator was being made" in error.text


@pytest.mark.parametrize("listed", [True, False])
def test_the_white_list(fresh, tmp_path, listed):
    file = tmp_path / "whitelist.json"
    file.write_text(json.dumps({"host_ip": ["127.0.0.1"] if listed else ["10.1.2.3"], "device_ip": []}))
    root_allows = tmp_path / "root.json"
    root_allows.write_text(json.dumps({"host_ip": ["127.0.0.2"] if not listed else ["127.0.0.1"]}))
    on = {"HCCL_WHITELIST_DISABLE": "0"}
    job = fresh(2, env={**on, "HCCL_WHITELIST_FILE": str(root_allows)}, each={1: {"HCCL_WHITELIST_DISABLE": "1"}})
    (info,) = job.run(programs.make_root, ranks=[0])
    if listed:
        job.run(programs.join_world, info)
        return
    with pytest.raises(HcclError) as error:
        job.run(programs.join_world, info, ranks=[1])
    assert error.value.code == "TCP_CONNECT" and "the root refused 127.0.0.1: not in the white list" in error.value.text


def test_a_rank_refuses_a_root_that_is_not_listed(fresh, tmp_path):
    file = tmp_path / "whitelist.json"
    file.write_text(json.dumps({"host_ip": ["10.1.2.3"]}))
    job = fresh(2, each={1: {"HCCL_WHITELIST_DISABLE": "0", "HCCL_WHITELIST_FILE": str(file)}})
    (info,) = job.run(programs.make_root, ranks=[0])
    with pytest.raises(HcclError) as error:
        job.run(programs.join_world, info, ranks=[1])
    assert "the root's address 127.0.0.1 is not in the white list" in error.value.text


def test_a_malformed_white_list_is_named(fresh, tmp_path):
    file = tmp_path / "whitelist.json"
    file.write_text("{")
    with pytest.raises(HcclError) as error:
        fresh(1, env={"HCCL_WHITELIST_DISABLE": "0", "HCCL_WHITELIST_FILE": str(file)}).run(programs.make_root)
    assert error.value.code == "PARA" and str(file) in error.value.text

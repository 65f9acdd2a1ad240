"""network/: ucx.cpp, carrier_ucx.cpp, gate.cpp. When UCX is loaded, what is said without it, data through it."""

from __future__ import annotations

import shutil

from tests.hccl import faults, programs
from tests.hccl.ranks import Job, library_folder, named_hosts


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

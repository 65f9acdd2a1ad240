"""peers.cpp, hub.cpp, communicator.cpp: death, hanging, leaving, and what is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.hccl import programs
from tests.hccl.ranks import REGISTRY, ROOT, library_folder, soon

FORK_FIRST = """
import ctypes, os, sys
from tests.hccl.ranks import Rank, library_folder
ctypes.CDLL(str(library_folder() / "libascendcl.so"), mode=ctypes.RTLD_GLOBAL)
hccl = ctypes.CDLL(str(library_folder() / "libhccl.so"))
hccl.HcclGetCommConfigCapability()
if os.fork() == 0:
    rank = Rank(0, 1)
    rank.destroy(rank.join(rank.root_info()))
    print("joined", flush=True)
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


def shared_memory() -> set[str]:
    """What libhccl or the runtime could have left; other programs use the folder, too."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith(("pytest-", "tmp", "torch_", "sem."))}


@pytest.mark.parametrize("size", [100, 500_000])
def test_a_killed_rank_is_reported_to_all_within_a_second(fresh, size):
    def attempt() -> float:
        before = shared_memory()
        job = fresh(4).connect()
        job.run(programs.all_reduce_once)
        job.start(programs.all_reduce_until_error, size, 60.0)
        time.sleep(0.3)
        job.kill(2)
        killed, told = time.time(), job.results(ranks=[0, 1, 3])
        for _, code, text in told:
            assert code == "REMOTE" and "rank 2 is gone: process" in text, text
        end = time.monotonic() + 60  # other programs' files go again
        while not shared_memory() <= before:
            assert time.monotonic() < end, shared_memory() - before
            time.sleep(0.1)
        return max(seen for seen, *_ in told) - killed

    soon(attempt, 1)


def test_a_rank_that_calls_nothing_learns_of_it_too(fresh):
    def attempt() -> float:
        job = fresh(3).connect()
        job.start(programs.watch_async_error, 50.0, ranks=[0, 1])
        time.sleep(0.2)
        job.kill(2)
        killed, told = time.time(), job.results(ranks=[0, 1])
        assert [code for _, code in told] == ["REMOTE"] * 2
        return max(seen for seen, _ in told) - killed

    soon(attempt, 1)


def test_the_next_job_starts_clean(fresh):
    job = fresh(2).connect()
    job.kill(0), job.kill(1)
    fresh(2).connect().run(programs.all_reduce_once)


def test_a_missing_rank_is_named_with_the_collective(fresh):
    answers = fresh(4).connect().run(programs.absent, 1, [1, 3])
    for r in (0, 2):
        seconds, code, text = answers[r]
        assert 0.9 < seconds < 30 and code == "TIMEOUT"
        assert (
            "HcclAllReduce (fp32 x 16, sum, communicator" in text
            and "rank 1, 3 did not call it within 1 s (HCCL_EXEC_TIMEOUT)" in text
        )
    assert [answers[r][1] for r in (1, 3)] == ["TIMEOUT", "TIMEOUT"]  # those who came late are told


def test_a_stopped_rank_is_a_timeout_not_a_hang(fresh):
    job = fresh(2, env={"HCCL_EXEC_TIMEOUT": "1"}).connect()
    job.kill(1, signal.SIGSTOP)
    job.start(programs.all_reduce_until_error, 100, 10.0, ranks=[0])
    ((_, code, text),) = job.results(ranks=[0])
    job.kill(1, signal.SIGCONT)
    assert code == "TIMEOUT" and "rank 1 did not call it within 1 s" in text


def test_leaving_in_order_is_no_error_until_somebody_waits(fresh):
    job = fresh(3).connect()
    job.run(programs.all_reduce_once)
    job.start(programs.exit_now, ranks=[1])
    job.workers[1].wait(60)
    ((_, code),) = job.run(programs.watch_async_error, 0.5, ranks=[0])
    assert code == "SUCCESS"
    ((_, code, text),) = job.run(programs.all_reduce_until_error, 100, 10.0, ranks=[0])
    gone = f"rank 1 has left the communicator: process {job.workers[1].pid} on 127.0.0.1 ended; see that rank's log"
    assert code == "REMOTE" and gone in text, text


def test_destroying_is_leaving(fresh):
    job = fresh(2).connect()
    job.run(programs.leave, ranks=[1])
    ((_, code, text),) = job.run(programs.all_reduce_until_error, 100_000, 10.0, ranks=[0])
    gone = f"rank 1 has left the communicator: process {job.workers[1].pid} on 127.0.0.1 destroyed it"
    assert code == "REMOTE" and gone in text, text


def test_an_aborted_communicator_can_be_resumed(fresh):
    job = fresh(3).connect()
    assert all(job.run(programs.mismatched, "count"))
    job.run(programs.resume)
    assert len(set(job.run(programs.all_reduce_once))) == 1
    job.run(programs.ring, 100_000, "batch")


def test_what_waits_ends_when_the_communicator_is_resumed(fresh):
    job = fresh(2).connect()
    job.run(programs.receive_in_vain, ranks=[0])
    texts = job.run(programs.resumed_over_waiting)
    assert "called HcclCommResume before this was done" in texts[0] and texts[1] == "", texts


def test_a_call_beside_a_resumption_is_refused_and_does_not_wait_for_it(fresh, tmp_path):
    file = str(tmp_path / "called")
    refusal, last = fresh(2).connect().run(programs.resumed_while_another_thread_calls, file)[1]
    assert "called HcclCommResume before this was done" in refusal and last == "resumed"


def test_communicators_that_come_and_go_on_two_threads(fresh):
    job = fresh(2).connect()
    job.run(programs.leave)
    infos = [job.run(programs.make_root, ranks=[0])[0] for _ in range(20)]
    job.run(programs.made_and_destroyed, infos, 40_000)


def test_communicators_leave_no_descriptors(fresh):
    job = fresh(4).connect()
    job.run(programs.sub_communicators)
    before = job.run(programs.descriptors)
    for _ in range(5):
        job.run(programs.sub_communicators)
    assert job.run(programs.descriptors) == before


def test_a_forked_child_that_holds_the_sockets_does_not_hide_a_death(fresh):
    def attempt() -> float:
        job = fresh(2).connect()
        (child,) = job.run(programs.fork_sleeper, ranks=[1])
        try:
            job.start(programs.watch_async_error, 50.0, ranks=[0])
            time.sleep(0.1)
            job.kill(1)
            killed = time.time()
            ((seen, code),) = job.results(ranks=[0])
            assert code == "REMOTE"
            return seen - killed
        finally:
            os.kill(child, signal.SIGKILL)

    soon(attempt, 1)


def test_a_child_forked_before_the_first_use_may_use_the_library(libraries):
    """The library is loaded, as by `import torch_npu`, and was asked what needs neither thread nor socket."""
    done = subprocess.run(
        [sys.executable, "-c", FORK_FIRST],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        env={
            **os.environ,
            "ANYCEND_TEST_CANN_LIB": str(library_folder()),
            "ANYCEND_MEMORY": "1G",
            "XDG_RUNTIME_DIR": REGISTRY.name,
        },
    )
    assert done.stdout == "joined\n" and done.returncode == 0, done.stdout + done.stderr


def test_a_forked_child_is_refused(fresh):
    code, text = fresh(1).connect().run(programs.call_in_forked_child)[0]
    assert code == "UNAVAIL" and "forked" in text


def test_a_child_of_a_forked_child_keeps_its_files(fresh):
    """The descriptors that a child closes had numbers, which its own files then have."""
    assert fresh(2).connect().run(programs.files_in_a_childs_child) == [64, 64]

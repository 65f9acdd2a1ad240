"""network/: what goes wrong between hosts. Ranks that are killed, stopped or disagree, networks that are cut, and how
those who are left learn of it.
"""

from __future__ import annotations

import os
import re
import signal
import time

import pytest

from tests.hccl import programs
from tests.hccl.ranks import soon


@pytest.mark.parametrize("victim", [0, 2, 3], ids=["root", "leader", "last"])
@pytest.mark.parametrize("size", [100, 500_000])
def test_a_killed_rank_is_reported_on_the_other_host_within_a_second(lan, victim, size):
    def attempt() -> float:
        job = lan.job(2).connect()
        job.run(programs.all_reduce_once)
        job.start(programs.all_reduce_until_error, size, 60.0)
        time.sleep(0.3)
        job.kill(victim)
        killed, told = time.time(), job.results(ranks=[r for r in range(4) if r != victim])
        for _, code, text in told:
            assert code == "REMOTE" and f"rank {victim} is gone: process" in text, text
        return max(seen for seen, *_ in told) - killed

    soon(attempt, 1)


def test_a_rank_that_calls_nothing_learns_of_a_death_on_the_other_host(lan):
    def attempt() -> float:
        job = lan.job(2).connect()
        job.start(programs.watch_async_error, 50.0, ranks=[0, 1, 2])
        time.sleep(0.2)
        job.kill(3)
        killed, told = time.time(), job.results(ranks=[0, 1, 2])
        assert [code for _, code in told] == ["REMOTE"] * 3
        return max(seen for seen, _ in told) - killed

    soon(attempt, 1)


def test_a_host_that_is_cut_off_is_reported(lan):
    job = lan.job(2, env={"ANYCEND_HOST_TIMEOUT": "1"}).connect()
    job.run(programs.all_reduce_once)
    job.start(programs.watch_async_error, 50.0)
    time.sleep(0.3)
    lan.hosts.cut()
    cut = time.time()
    for seen, code in job.results():
        assert code == "REMOTE" and seen - cut < 30


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
        assert seconds < 30 and "within 1 s (HCCL_EXEC_TIMEOUT)" in text, text
        silent = re.compile(rf"nothing is heard from {away}|rank 0 .* on {away}\), which passes on .*, says nothing")
        assert silent.search(text) or any(silent.search(t) for _, t in answers), text


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

    def attempt() -> float:
        job = lan.job(1).connect()
        (child,) = job.run(programs.fork_sleeper, ranks=[victim])
        try:
            job.start(programs.watch_async_error, 50.0, ranks=[1 - victim])
            time.sleep(0.2)
            job.kill(victim)
            killed = time.time()
            ((seen, code),) = job.results(ranks=[1 - victim])
            assert code == "REMOTE"
            return seen - killed
        finally:
            os.kill(child, signal.SIGKILL)

    soon(attempt, 1)


@pytest.mark.parametrize("missing", [[3], [1, 2]])
def test_a_missing_rank_is_named_on_all_hosts(lan, missing):
    answers = lan.job(2).connect().run(programs.absent, 1, missing)
    for r in set(range(4)) - set(missing):
        seconds, code, text = answers[r]
        assert 0.9 < seconds < 30 and code == "TIMEOUT"
        names = ", ".join(map(str, missing))
        assert f"rank {names} did not call it within 1 s (HCCL_EXEC_TIMEOUT)" in text, text
        assert "HcclAllReduce (fp32 x 16, sum, communicator" in text


def test_a_stopped_rank_is_a_timeout_that_names_it(lan):
    job = lan.job(2, env={"HCCL_EXEC_TIMEOUT": "1"}).connect()
    job.kill(3, signal.SIGSTOP)
    job.start(programs.absent_from_start, [], ranks=[0, 1, 2])
    answers = job.results(ranks=[0, 1, 2])
    job.kill(3, signal.SIGCONT)
    assert all(s < 30 and "rank 3 did not call it within 1 s" in text for s, text in answers), answers


@pytest.mark.parametrize("moment", [0.3, 0.37, 0.45])
def test_what_comes_after_an_operation_was_given_up_is_not_written(lan, moment):
    """Large messages go from a rank's buffer into another's: both are the caller's again once the call has failed. Only
    what its two threads were writing when a rank of the same host was stopped, that rank goes on with."""
    job = lan.job(2, env={"HCCL_EXEC_TIMEOUT": "1"}).connect()
    job.start(programs.all_to_all_until_it_fails, 1 << 22)
    time.sleep(moment)
    job.kill(3, signal.SIGSTOP)
    answers = job.results(ranks=[0, 1, 2])
    named = re.compile(r"rank \d.* within 1 s \(HCCL_EXEC_TIMEOUT\)")
    assert all(seconds < 30 and named.search(text) for seconds, text in answers), answers
    job.kill(3, signal.SIGCONT)
    job.results(ranks=[3])
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
    job.workers[1].wait(60)
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


def hosts_of_ranks(fault: str, **env: str) -> dict:
    """Two ranks that take each other for another host's; the first has a fault."""
    each = {r: {"ANYCEND_HOST_ID": f"host{r}"} for r in range(2)}
    each[0]["ANYCEND_FAULT"] = fault
    return {"each": each, "env": env}


def test_a_cut_link_is_survived_where_it_is_mended_in_time(fresh):
    job = fresh(2, **hosts_of_ranks("link:cut:1500ms:2")).connect()
    job.run(programs.all_reduce_once)
    began = time.monotonic()
    assert len(set(job.run(programs.all_reduce, "fp32", "sum", 300_000))) == 1
    assert time.monotonic() - began > 1.4
    assert all(code == "SUCCESS" for _, code in job.run(programs.watch_async_error, 0.1))


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"HCCL_EXEC_TIMEOUT": "1"}, "HCCL_EXEC_TIMEOUT"),
        ({"ANYCEND_HOST_TIMEOUT": "1"}, "rank [01] .*(is gone|nothing is heard)|ANYCEND_HOST_TIMEOUT"),
    ],
    ids=["the_collectives_limit", "the_hosts_limit"],
)
def test_a_link_that_stays_cut_is_one_error_on_every_rank(fresh, limits, said):
    job = fresh(2, **hosts_of_ranks("link:cut:3s:2", **limits)).connect()
    job.run(programs.all_reduce_once)
    began = time.time()
    for seen, code, text in job.run(programs.all_reduce_until_error, 300_000, 60.0):
        assert code != "SUCCESS" and re.search(said, text) and seen - began < 40, (seen - began, code, text)

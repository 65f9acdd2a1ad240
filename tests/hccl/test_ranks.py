"""ranks.py: the end of a job names ranks that end badly."""

from __future__ import annotations

import signal

import pytest

from tests.hccl import programs
from tests.hccl.ranks import BadEnd, Job


def test_a_crash_is_named(libraries):
    job = Job(2)
    job.start(programs.end, "abort", ranks=[1])
    with pytest.raises(BadEnd, match="^rank 1 of 2 ended with SIGABRT$"):
        job.close()


def test_a_rank_that_does_not_end_is_named(libraries):
    job = Job(2)
    job.run(programs.mapped, "libhccl")
    job.ENDING = 1
    job.kill(0, signal.SIGSTOP)
    with pytest.raises(BadEnd, match="rank 0 of 2 did not end within 1 s and was killed"):
        job.close()
    assert [worker.returncode is not None for worker in job.workers] == [True, True]


def test_who_may_die_is_not_judged(libraries):
    with Job(3) as job:
        job.may_die(1)
        job.start(programs.end, "abort", ranks=[1])
        job.kill(2)


def test_what_a_test_raised_stays_its_error(libraries):
    with pytest.raises(ZeroDivisionError) as error, Job(2) as job:
        job.start(programs.end, "abort", ranks=[0])
        job.workers[0].wait(60)
        raise ZeroDivisionError
    assert error.value.__notes__ == ["rank 0 of 2 ended with SIGABRT"]

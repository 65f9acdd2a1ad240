"""csrc/distributed/lifetime: splitting, timeouts, meeting over the store, giving up, beginning anew."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from tests.distributed import failures


def test_abort_frees_who_waits(fresh):
    told = fresh(2).run(failures.aborted)[0]
    assert "rank 0 aborted the group" in told["work"], told
    assert "synchronize" not in told, told  # the works have been told; the device has nothing to report
    assert "aborted" in told["after"] or "destroyed" in told["after"], told
    assert told["waited"] < 10 and told["destroyed"] < 10 and told["device"] == 6.0, told


def test_abort_ends_a_collective_on_all_ranks(fresh):
    told = fresh(3).run(failures.aborted_in_a_collective)
    assert "rank 0 aborted the group" in told[0]["work"], told
    assert "rank 0" in told[1]["work"] and "destroyed the communicator" in told[1]["work"], told
    assert max(told[0]["waited"], told[1]["waited"]) < 10, told


def test_what_a_peers_end_makes_calls_raise_is_a_backend_error(fresh):
    assert fresh(2).run(failures.called_after_a_peer_gave_up)[0] == ["DistBackendError"]


@pytest.mark.parametrize("pause", [0, 0.5], ids=["at_once", "later"])
def test_a_group_that_failed_ends_quietly(fresh, tmp_path, pause):
    for told in fresh(2).run(failures.destroyed_after_a_failure, pause, str(tmp_path / "store")):
        assert "HcclAllReduce" in told["collective"] and told["left"] is False, told


def test_abort_frees_who_waits_in_the_first_call(fresh):
    told = fresh(2).run(failures.aborted_in_its_first_call)[0]
    assert "the group was destroyed" in told["error"] or "aborted the group" in told["error"], told
    assert told["seconds"] < 10, told


def test_who_left_in_order_may_end_without_a_word(fresh):
    job = fresh(3)
    job.start(failures.left_in_order_and_ended_at_once)
    assert job.results(ranks=[1, 2]) == [3.0, 3.0]


def test_a_split_below_zero_is_refused(fresh):
    assert all("the output splits hold -1" in text for text in fresh(2).run(failures.split_below_zero))


def test_a_group_ends_while_its_mailbox_asks_a_store_of_pythons(fresh):
    """Its last reference goes without destroy_process_group, with the interpreter's lock held."""
    assert fresh(1).run(failures.left_while_it_looks) == ["done"]


def test_a_group_ends_after_a_capture(fresh):
    assert fresh(2).run(failures.destroyed_after_a_capture) == [[4.0] * 4] * 2


def test_a_longer_timeout_counts_at_once(fresh):
    assert fresh(2, timeout=3).run(failures.longer_timeout) == ["", ""]


def test_a_shorter_timeout_counts_at_once(fresh):
    text, seconds = fresh(2).run(failures.shorter_timeout)[0]
    assert "rank 1 did not call it within 1 s" in text and seconds < 30, (text, seconds)


@pytest.mark.parametrize("rebuild", [False, True], ids=["resumed", "rebuilt"])
def test_reinit_process_group(fresh, rebuild):
    fresh(2, timeout=3).run(failures.reinitialized, rebuild)


@pytest.mark.parametrize("rebuild", [False, True], ids=["resumed", "rebuilt"])
def test_ranks_go_on_after_a_device_was_stopped_in_a_collective(fresh, rebuild):
    told = fresh(2).run(failures.restarted, rebuild)[0]
    assert "FORCE STOP" in told["error"] and told["seconds"] < 10, told


def test_split_group(fresh):
    fresh(3, bound=True).run(failures.split)


def test_monitored_barrier_names_who_is_missing(fresh):
    for text in fresh(3).run(failures.monitored)[:2]:
        assert "DistBackendError" in text and "Rank 2 failed to pass monitored_barrier in 1000 ms" in text, text


def test_a_dead_rank_is_named_and_its_log_pointed_to(fresh):
    job = fresh(3)
    job.may_die(2)
    job.start(failures.dies, ranks=[0, 1, 2])
    for text in job.results(ranks=[0, 1]):
        assert "rank 2" in text and "log" in text, text


@pytest.mark.parametrize("rank", [0, 1])
def test_a_monitored_barrier_whose_store_is_lost_names_no_rank(rank):
    from torch.distributed import DistNetworkError
    from torch_npu._C._distributed_c10d import ProcessGroupHCCL

    from torch_npu.distributed import ParallelStore

    limit = timedelta(seconds=60)
    server = [ParallelStore("127.0.0.1", 0, is_master=True, timeout=limit, wait_for_workers=False)]
    store = ParallelStore("127.0.0.1", server[0].port, timeout=limit)
    group = ProcessGroupHCCL(store, rank, 2, ProcessGroupHCCL.Options())
    threading.Timer(0.3, server.clear).start()
    with pytest.raises(DistNetworkError, match="closed the connection"):
        group.monitored_barrier(limit)

"""csrc/distributed/recorder: the flight recorder."""

from __future__ import annotations

import pickle
import time

import torch

from tests.distributed import failures, programs
from tests.distributed.conftest import start


def test_the_last_calls_are_recorded(fresh):
    told = fresh(2, TORCH_HCCL_TRACE_BUFFER_SIZE="10").run(failures.recorded)[0]
    calls = [entry["profiling_name"] for entry in told["json"]]
    assert calls == ["hccl:all_reduce", "hccl:broadcast", "hccl:send", "hccl:coalesced"], calls
    assert [entry["is_p2p"] for entry in told["json"]] == [False, False, True, True]
    assert [(e["collective_seq_id"], e["p2p_seq_id"]) for e in told["json"]] == [(1, 0), (2, 0), (2, 1), (2, 2)]
    assert told["json"][0]["input_sizes"] == [[3, 4]] and told["json"][0]["state"] == "completed"
    assert "recorded" in told["frames"] and told["config"]["0"]["ranks"] == "[0, 1]", told
    assert "entries" not in told["bare"]


def test_nothing_is_recorded_unless_asked(two):
    assert two.run(failures.recorded)[0]["json"] == []


def test_a_failure_leaves_a_dump(fresh, tmp_path):
    job = fresh(
        2,
        timeout=2,
        TORCH_HCCL_TRACE_BUFFER_SIZE="10",
        TORCH_HCCL_DUMP_ON_TIMEOUT="1",
        TORCH_HCCL_DEBUG_INFO_TEMP_FILE=str(tmp_path / "trace_"),
    )
    job.run(programs.all_reduce, "SUM", torch.float32, False)
    job.run(programs.missing_rank)
    end = time.monotonic() + 60  # written by a thread of its own
    while not (tmp_path / "trace_0").exists() and time.monotonic() < end:
        time.sleep(0.1)
    last = pickle.loads((tmp_path / "trace_0").read_bytes())["entries"][-1]
    assert last["profiling_name"] == "hccl:all_reduce" and last["input_sizes"] == [[4]], last


def test_a_rank_that_ends_writes_its_dump_first(tmp_path):
    """Its stacks need the interpreter, whose end waits for them."""
    options = {"TORCH_HCCL_TRACE_BUFFER_SIZE": "2000", "TORCH_HCCL_DUMP_ON_TIMEOUT": "1"}
    with start(2, timeout=2, TORCH_HCCL_DEBUG_INFO_TEMP_FILE=str(tmp_path / "trace_"), **options) as job:
        for _ in range(20):
            job.run(programs.all_reduce, "SUM", torch.float32, False)
        job.run(programs.missing_rank)
    assert len(pickle.loads((tmp_path / "trace_0").read_bytes())["entries"]) > 20

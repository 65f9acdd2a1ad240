"""The race of PyTorch's PowerSGD hook (docs/race.md has the reasoning), and that a wait behind the hook mends it."""

from __future__ import annotations

import json

from tests.race.test_race import program


def test_the_copy_of_the_gradients_is_freed_while_the_hooks_stream_reads_it():
    run = ["-P", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "tests.race.hooks"]
    done = program(*run, OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("REPORTS ")]
    ranks = json.loads(line[8:])
    assert len(ranks) == 2
    for found in ranks:
        assert found["waited_for"] == [] and found["as_it_is"]
        for report in found["as_it_is"]:  # of `input_tensor_cp - input_tensor`, and of nothing else
            assert "first   aclnnSub on stream " in report and " reads " in report
            assert "the block was freed while stream " in report and "call record_stream(" in report

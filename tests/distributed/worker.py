"""A rank with torch: reads (function of programs.py or its like, arguments) from its pipe and answers with the
result, or the exception.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import traceback
from multiprocessing.connection import Connection
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The torch_npu under test comes before an installed one; the clone's own has no compiled part, and comes last.
sys.path[:] = [os.environ["ANYCEND_TEST_PACKAGE"], *(p for p in sys.path if p not in ("", str(ROOT))), str(ROOT)]

import torch  # noqa: E402

from tests.distributed import (  # noqa: E402
    apex_programs,
    attention,
    coalescing,
    experts,
    failures,
    faults,
    first_calls,
    fused,
    fused_edges,
    fused_quant,
    messages,
    mixes,
    parallel,
    programs,
    uneven,
)

MODULES = (
    programs, parallel, attention, mixes, coalescing, messages, first_calls, failures, apex_programs, uneven, fused,
    experts, fused_edges, fused_quant, faults,
)  # fmt: skip


def main() -> None:
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    pipe, rank, size = Connection(int(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    while True:
        try:
            name, args = pipe.recv()
        except EOFError:
            return
        try:
            program = next(found for m in MODULES if (found := getattr(m, name, None)))
            answer = program(rank, size, *args)
        except BaseException as error:  # the test decides what an error means; not every exception can be sent
            answer = RuntimeError(f"{type(error).__name__}: {error}\n{traceback.format_exc()}")
        pipe.send(answer)


if __name__ == "__main__":
    main()

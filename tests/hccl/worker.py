"""A rank: reads (function of programs, arguments) from its pipe and answers with the result, or the exception."""

from __future__ import annotations

import faulthandler
import signal
import sys
from multiprocessing.connection import Connection

from tests.hccl import programs
from tests.hccl.ranks import Rank


def main() -> None:
    faulthandler.register(signal.SIGUSR1, all_threads=True)  # Job asks where a rank is that does not answer
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs inherit that it is ignored
    pipe, rank = Connection(int(sys.argv[1])), Rank(int(sys.argv[2]), int(sys.argv[3]))
    while True:
        try:
            name, args = pipe.recv()
        except EOFError:
            return
        try:
            answer = getattr(programs, name)(rank, *args)
        except Exception as error:  # the test decides what an error means
            answer = error
        pipe.send(answer)


if __name__ == "__main__":
    main()

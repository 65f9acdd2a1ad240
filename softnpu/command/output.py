"""Standard output that is closed, lacks our characters, is a pipe that nobody reads or a full disk."""

from __future__ import annotations

import errno
import os
import signal
import sys

BROKEN = 128 + signal.SIGPIPE  # what a shell says of a program that ended by the signal
INTERRUPTED = 128 + signal.SIGINT


def prepare() -> bool:
    """Before anything is opened or printed. False: standard output is closed, and what is printed goes nowhere."""
    was_open = sys.stdout is not None
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:  # a file opened later would be taken for the closed one
        os.set_inheritable(number, True)
    os.close(number)
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, os.fdopen(number, "w", errors="backslashreplace", closefd=False))
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    return was_open


def flush() -> OSError | None:
    """Writes what is left; where that fails, discards it, as the interpreter would try again at its end."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return error
    return None


def concerns(error: OSError | None) -> bool:
    """An unbuffered write failed; the verbs name the file of any other."""
    reasons = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
    return error is not None and error.filename is None and error.errno in reasons


def default_signals() -> None:
    """Those that Python ignores, as a program has them that is started from here in its place."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)

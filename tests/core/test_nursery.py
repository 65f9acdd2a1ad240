"""tests/nursery.py: what forks from it ends as a process ends, and its return code is known."""

from __future__ import annotations

import multiprocessing
import signal
import subprocess

import pytest

from tests.core.tools import LIBRARY, environment
from tests.nursery import Child, Nursery, can_fork

# Its stream is not waited for: the runtime's handler of exit does that. Python's memory is gone then: the text is C's.
QUEUED = f"""
import ctypes as C
acl, libc, stream = C.CDLL({str(LIBRARY)!r}), C.CDLL(None), C.c_void_p()
assert acl.aclInit(None) == 0 and acl.aclrtSetDevice(0) == 0 and acl.aclrtCreateStream(C.byref(stream)) == 0
libc.strdup.restype = C.c_void_p
for function, argument in ((libc.usleep, 300_000), (libc.perror, libc.strdup(b"the last task"))):
    assert acl.aclrtLaunchHostFunc(stream, C.cast(function, C.c_void_p), C.c_void_p(argument)) == 0
"""


@pytest.fixture(scope="module", params=[False, True], ids=["short_end", "whole_end"])
def nursery(request):
    made = Nursery("tests.core.program", environment(), whole_end=request.param)
    yield made
    made.close()


@pytest.fixture
def run(nursery, tmp_path):
    def start(program: str) -> Child:
        ours, theirs = multiprocessing.Pipe()
        with ours, theirs:
            child = nursery.fork(theirs.fileno(), environment())
            for name in ("out", "err"):
                (tmp_path / name).touch()
            ours.send((program, str(tmp_path / "out"), str(tmp_path / "err")))
        return child

    return start


def test_handlers_of_exit_run(run, tmp_path):
    assert run(QUEUED).wait(60) == 0
    assert "the last task" in (tmp_path / "err").read_text()


@pytest.mark.parametrize(
    ("program", "code"),
    [("raise SystemExit(7)", 7), ("1 / 0", 1), ("import os; os.abort()", -signal.SIGABRT), ("pass", 0)],
    ids=["exit", "exception", "abort", "success"],
)
def test_return_codes_are_the_processs_own(run, program, code):
    assert run(program).wait(60) == code


def test_a_wait_has_a_limit(run):
    child = run("import time; time.sleep(600)")
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.05)
    child.kill()
    assert child.wait(60) == -signal.SIGKILL == child.returncode


@pytest.mark.parametrize("name", ["TORCH_LOGS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_X", "KMP_X", "GOMP_X"])
def test_what_is_read_at_import_needs_a_process_of_its_own(name):
    assert not can_fork({name: "1"})
    assert can_fork({"ANYCEND_MEMORY": "1G"})

"""Records that are lost, and texts that are kept: whoever reads a profile hears that it lacks something."""

from __future__ import annotations

import ctypes as C
import json
import os
import sys
from pathlib import Path

import pytest
import torch

from tests import forked
from tests.profiler import msprof, mspti
from tests.profiler.mspti import Subscriber
from tests.profiler.test_mspti import mstx
from tests.runtime.acl import Acl

torch_npu = pytest.importorskip("torch_npu", reason="the plugin is not built", exc_type=ImportError)

MARKS = 80_000  # more than libmspti keeps for nobody (4 MB) of records of 56 bytes

FULL = """
import os, resource, torch, torch_npu
a = torch.ones(3).npu() + 1
torch.npu.synchronize()
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))  # a disk that is full: writes fail with EFBIG
for _ in range(3000): a = a + 1
torch.npu.synchronize()
print("done", flush=True)
{end}
"""


@pytest.mark.parametrize("end", ["", "os._exit(0)"])
def test_a_full_disk_is_told_by_the_program_and_by_msprof(tmp_path: Path, end: str):
    # A child of fork writes each record at once, and may end without a word: what stands in the folder has to tell.
    program = (
        FULL.format(end="") if not end else f"import os\nif os.fork(): os.wait(); os._exit(0)\n{FULL.format(end=end)}"
    )
    done = msprof.run(f"--output={tmp_path}", sys.executable, "-c", program)
    assert done.returncode == 0 and done.stdout.startswith("done\n"), done.stderr
    (folder,) = tmp_path.iterdir()
    info = json.loads((folder / "host" / "info.json").read_text())
    assert (info["whole"], info["lost"]) == (False, True)
    lacks = f"{folder} lacks records"
    if not end:
        assert f"[WARNING] msprof: process {info['process']}: {lacks}: the memory or the disk was full" in done.stderr
    again = msprof.run("--export=on", f"--output={tmp_path}")
    for said in (done.stderr, again.stderr):
        assert f"[WARNING] msprof: {lacks}: process {info['process']} had no disk or memory for them" in said
        assert "has not ended its profile" not in said and "damaged" not in said
    rows = msprof.Profile(folder).rows["calls"]
    assert again.returncode == 0 and 100 < [c["name"] for c in rows].count("aclnnAdds") < 3000


def test_a_folder_that_cannot_be_made_is_told_on_stderr():
    program = "import torch, torch_npu; print((torch.ones(3).npu() + 1).cpu().tolist())"
    done = forked.run(["-c", program], env={**os.environ, "ANYCEND_MSPROF": "/proc/none"})
    assert done.returncode == 0 and done.stdout == "[2.0, 2.0, 2.0]\n"
    assert done.stderr.count("has no profile: the folder /proc/none/") == 1


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_text_that_nobody_reads_is_not_kept():
    acl = Acl()
    stamp = C.c_void_p(acl.raw.aclprofCreateStamp())
    mark, tell = acl.raw.aclprofMarkEx, acl.raw.aclprofSetStampTraceMessage
    before = resident()
    for i in range(60_000):
        text = b"a mark that no other one has the words of, number %d" % i
        assert mark(text, len(text), None) == 0 and tell(stamp, text, len(text)) == 0
    acl.raw.aclprofDestroyStamp(stamp)
    assert resident() - before < 4 << 20  # kept, they took 16 MB


def test_a_range_that_ends_unheard_is_forgotten():
    lib, stream = mstx(), torch.npu.Stream()
    with Subscriber(mspti.MARKER):
        number = lib.mstxRangeStartA(b"cut", stream.npu_stream)
        stream.synchronize()
    lib.mstxRangeEnd(number)
    with Subscriber(mspti.MARKER) as s:
        lib.mstxRangeEnd(number)  # a number like any other
        stream.synchronize()
    assert [(r.source, r.flag) for r in s.records] == [(0, 4)]


def test_records_that_nobody_takes_are_lost_and_the_flush_tells_which_way():
    acl, lib, marks = Acl(), mspti.library(), mstx()

    def flush() -> tuple[int, str]:
        acl.raw.aclGetRecentErrMsg()  # of what was refused before
        result = lib.msptiActivityFlushAll(1)
        words = C.cast(acl.raw.aclGetRecentErrMsg(), C.c_char_p).value or b""
        return result, words.decode().removeprefix("msptiActivityFlushAll: ")

    class Reluctant(Subscriber):
        gives = True

        def _give(self, buffer: C._Pointer, size: C._Pointer, most: C._Pointer) -> None:
            if self.gives:
                return super()._give(buffer, size, most)
            buffer[0], size[0] = None, 0

    s = Reluctant(buffer=1 << 20)
    assert lib.msptiSubscribe(C.byref(s.handle), None, None) == mspti.OK
    try:
        assert flush() == (mspti.OK, "")
        assert lib.msptiActivityEnable(mspti.MARKER) == mspti.OK
        for _ in range(MARKS):
            marks.mstxMarkA(b"here", None)
        why = "there is nobody to give the records to: call msptiActivityRegisterCallbacks first"
        assert flush() == (mspti.INNER, why)
        assert lib.msptiActivityRegisterCallbacks(s._request, s._complete) == mspti.OK
        lost = "records are lost: there was no buffer with room for one, or no memory to keep them"
        assert flush() == (mspti.INNER, lost) and 70_000 < len(s.records) < MARKS
        assert flush() == (mspti.OK, "")
        # The same where it is a thread that submits work which finds no buffer.
        s.gives = False
        for _ in range(MARKS):
            marks.mstxMarkA(b"there", None)
        torch.ones(3).npu() + 1
        s.gives = True
        assert flush() == (mspti.INNER, lost) and flush() == (mspti.OK, "")
    finally:
        assert lib.msptiUnsubscribe(s.handle) == mspti.OK

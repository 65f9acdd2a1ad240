"""Fork and exit."""

from __future__ import annotations

import time

from tests.runtime.acl import run

BUSY = """
acl.start(0)
s = acl.stream()
p = acl.malloc(1 << 28)
for i in range(20): acl.aclrtMemsetAsync(p, 1 << 28, i, 1 << 28, s)
"""


def test_a_forked_child_counts_devices_and_is_refused():
    code = (
        BUSY
        + """
pid = os.fork()
if pid == 0:
    count = C.c_uint32()
    codes = [acl.raw.aclrtGetDeviceCount(C.byref(count)), acl.raw.aclrtSetDevice(0), acl.raw.aclrtFree(p)]
    print(count.value, codes, 'forked' in acl.message(), flush=True)
    os._exit(0)
os.waitpid(pid, 0)
acl.aclrtSynchronizeStream(s)
print(acl.download(p, 1))"""
    )
    out = run(code).stdout.split("\n")
    assert out[0] == "8 [0, 507033, 507033] True"
    assert out[1] == "b'\\x13'"


def test_a_child_forked_before_first_use_has_its_own_npu():
    code = """
acl.out('aclrtGetDeviceCount', C.c_uint32)
pid = os.fork()
acl.start(0)
p = acl.malloc(1 << 20)
acl.upload(p, b'own')
print(acl.download(p, 3), flush=True)
if pid == 0: os._exit(0)
os.waitpid(pid, 0)"""
    assert run(code).stdout.count("b'own'") == 2


def test_exit_runs_what_is_queued():
    code = """
acl.start(0)
s = acl.stream()
task = C.CFUNCTYPE(None, C.c_void_p)(('usleep', C.CDLL(None)))
for _ in range(20): acl.aclrtLaunchHostFunc(s, C.cast(task, C.c_void_p), 10000)
print('queued', flush=True)"""
    began = time.time()
    assert run(code).stdout == "queued\n"
    assert time.time() - began > 0.2


def test_underscore_exit_waits_for_nothing():
    code = BUSY + "os._exit(7)"
    assert run(code, check=False).returncode == 7


def test_an_exception_at_exit_ends_the_process():
    done = run(BUSY + "raise ValueError('bye')", check=False)
    assert done.returncode == 1
    assert "ValueError: bye" in done.stderr


def test_exit_from_another_threads_point_of_view():
    """A daemon thread that keeps calling while the process exits gets errors, not a crash."""
    code = """
acl.start(0)
def forever():
    acl.aclrtSetDevice(0)
    s = acl.stream()
    p = acl.malloc(4096)
    while True: acl.raw.aclrtMemsetAsync(p, 4096, 1, 4096, s); acl.raw.aclrtSynchronizeStream(s)
threading.Thread(target=forever, daemon=True).start()
time.sleep(0.05)"""
    assert run(code).returncode == 0

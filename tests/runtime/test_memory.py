"""Device memory, host memory, copies, virtual memory, sharing."""

from __future__ import annotations

import ctypes as C
from random import Random

import pytest

from tests.runtime.acl import AclError, run

H2H, H2D, D2H, D2D, DEFAULT = range(5)


def test_memory_keeps_what_is_copied_in(acl):
    p = acl.malloc(1000)
    acl.upload(p, bytes(range(250)) * 4)
    assert acl.download(p, 1000) == bytes(range(250)) * 4
    acl.aclrtFree(p)


def test_blocks_are_aligned(acl):
    small, large = acl.malloc(1), acl.malloc(3 << 20)
    assert small % 512 == 0
    assert large % (2 << 20) == 0
    acl.aclrtFree(small)
    acl.aclrtFree(large)


def test_bad_frees_are_named(acl):
    p = acl.malloc(64)
    acl.aclrtFree(p)
    for pointer in (p, p + 8, 4096):
        with pytest.raises(AclError) as e:
            acl.aclrtFree(pointer)
        assert e.value.code == 207002
        assert f"{pointer:#x}" in e.value.message


def test_a_size_of_zero_is_refused(acl):
    assert acl.raw.aclrtMalloc(C.byref(C.c_void_p()), 0, 0) == 100000


def test_out_of_memory_is_clean_and_goes_away(tmp_path):
    code = """
acl.start(0)
p = acl.malloc(48 << 20)
try: acl.malloc(32 << 20)
except AclError as e: print(e.code, e.message)
acl.aclrtFree(p)
q = acl.malloc(60 << 20)
acl.aclrtMemset(q, 60 << 20, 7, 60 << 20)
print(acl.download(q + (60 << 20) - 1, 1))"""
    out = run(code, ANYCEND_MEMORY="64M", XDG_RUNTIME_DIR=str(tmp_path)).stdout.split("\n")
    assert out[0].startswith("207001 aclrtMalloc: device 0 is out of memory: 32.00 MiB asked")
    assert out[1] == "b'\\x07'"


def test_processes_share_a_devices_capacity(tmp_path):
    code = """
import subprocess
acl.start(0)
p = acl.malloc(40 << 20)
child = "from tests.runtime.acl import *\\n"
child += "print(Acl().start(%d).raw.aclrtMalloc(C.byref(C.c_void_p()), 40 << 20, 0))"
for device in (0, 1):
    print(subprocess.run([sys.executable, '-c', child % device], capture_output=True, text=True).stdout.strip())"""
    out = run(code, ANYCEND_MEMORY="64M", XDG_RUNTIME_DIR=str(tmp_path)).stdout.split()
    assert out == ["207001", "0"]


def test_a_dead_process_holds_nothing(tmp_path):
    code = "acl.start(0); acl.malloc(60 << 20); os.kill(os.getpid(), 9)"
    for _ in range(2):
        assert run(code, check=False, ANYCEND_MEMORY="64M", XDG_RUNTIME_DIR=str(tmp_path)).returncode == -9


def test_memory_info_counts(acl):
    free, total = C.c_size_t(), C.c_size_t()
    acl.aclrtGetMemInfo(1, C.byref(free), C.byref(total))
    assert 0 < free.value <= total.value


@pytest.mark.parametrize("kind", [H2D, DEFAULT])
def test_pageable_memory_may_change_after_an_asynchronous_call(acl, stream, kind):
    p = acl.malloc(1 << 20)
    started, go = __import__("threading").Event(), __import__("threading").Event()
    acl.host_task(stream, lambda: (started.set(), go.wait()))
    started.wait()
    source = C.create_string_buffer(b"a" * (1 << 20), 1 << 20)
    acl.aclrtMemcpyAsync(p, 1 << 20, C.addressof(source), 1 << 20, kind, stream)
    C.memset(source, ord("b"), 1 << 20)
    go.set()
    acl.aclrtSynchronizeStream(stream)
    assert acl.download(p, 1 << 20) == b"a" * (1 << 20)
    acl.aclrtFree(p)


def test_pinned_memory_is_read_when_its_turn_comes(acl, stream):
    import threading

    p, h = acl.malloc(64), acl.malloc_host(64)
    go = threading.Event()
    acl.host_task(stream, go.wait)
    C.memset(h, ord("a"), 64)
    acl.aclrtMemcpyAsync(p, 64, h, 64, H2D, stream)
    C.memset(h, ord("b"), 64)
    go.set()
    acl.aclrtSynchronizeStream(stream)
    assert acl.download(p, 64) == b"b" * 64
    acl.aclrtFree(p)
    acl.aclrtFreeHost(h)


def test_a_copy_to_pageable_memory_has_arrived_when_the_call_returns(acl, stream):
    import time

    p = acl.malloc(64)
    acl.aclrtMemset(p, 64, 0, 64)
    acl.host_task(stream, lambda: time.sleep(0.02))
    acl.aclrtMemsetAsync(p, 64, ord("x"), 64, stream)
    out = C.create_string_buffer(64)
    acl.aclrtMemcpyAsync(C.addressof(out), 64, p, 64, D2H, stream)
    assert out.raw == b"x" * 64
    acl.aclrtFree(p)


def test_copies_between_devices(acl, stream):
    p = acl.malloc(4096)
    acl.aclrtSetDevice(1)
    q = acl.malloc(4096)
    acl.aclrtSetDevice(0)
    acl.upload(p, b"peer" * 1024)
    acl.aclrtMemcpyAsync(q, 4096, p, 4096, D2D, stream)
    acl.aclrtSynchronizeStream(stream)
    assert acl.download(q, 4096) == b"peer" * 1024


def test_two_dimensional_copies(acl):
    p = acl.malloc(64)
    acl.aclrtMemset(p, 64, 0, 64)
    acl.aclrtMemcpy2d(p, 8, b"abcdef", 2, 2, 3, H2D)
    assert acl.download(p, 24) == b"ab\0\0\0\0\0\0cd\0\0\0\0\0\0ef\0\0\0\0\0\0"


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ((None, 8, b"12345678", 8, H2D), 100000),
        ((1, 4, b"12345678", 8, H2D), 100000),
        ((1, 8, b"12345678", 8, 77), 100000),
    ],
)
def test_bad_copies_are_refused(acl, args, code):
    assert acl.raw.aclrtMemcpy(*args) == code


def test_pointer_attributes(acl):
    p, h, other = acl.malloc(64), acl.malloc_host(64), C.create_string_buffer(64)
    acl.aclrtSetDevice(2)
    q = acl.malloc(64)
    acl.aclrtSetDevice(0)
    seen = []
    for pointer in (p, q, h, C.addressof(other)):
        attributes = (C.c_uint32 * 7)()
        acl.aclrtPointerGetAttributes(pointer, attributes)
        seen.append((attributes[0], attributes[1]))
    assert seen == [(0, 1), (2, 1), (0, 0), (0, 2)]


class Prop(C.Structure):
    _fields_ = [
        ("handle_type", C.c_int),
        ("allocation", C.c_int),
        ("attr", C.c_int),
        ("id", C.c_uint32),
        ("kind", C.c_int),
        ("reserve", C.c_uint64),
    ]


def physical(acl, size, device=0):
    prop = Prop(0, 0, 4, device, 1, 0)
    return acl.out("aclrtMallocPhysical", C.c_void_p, size, C.byref(prop), 0)


def test_expandable_segments(acl):
    page = 2 << 20
    assert C.sizeof(Prop) == 32
    base = acl.out("aclrtReserveMemAddress", C.c_void_p, 16 * page, 0, None, 1)
    handles = [physical(acl, page) for _ in range(3)]
    for i, h in enumerate(handles):
        acl.aclrtMapMem(base + i * page, page, 0, h, 0)
    acl.aclrtMemset(base, 3 * page, 9, 3 * page)
    assert acl.download(base + 2 * page, 2) == b"\x09\x09"
    attributes = (C.c_uint32 * 7)()
    acl.aclrtPointerGetAttributes(base + page, attributes)
    assert (attributes[0], attributes[1]) == (0, 1)
    assert acl.raw.aclrtMapMem(base, page, 0, handles[0], 0) == 107000  # mapped already
    assert acl.raw.aclrtReleaseMemAddress(base) == 107000  # still mapped
    for i, h in enumerate(handles):
        acl.aclrtUnmapMem(base + i * page)
        acl.aclrtFreePhysical(h)
    acl.aclrtReleaseMemAddress(base)
    assert acl.raw.aclrtUnmapMem(base) == 107000
    assert acl.raw.aclrtFreePhysical(handles[0]) == 107017


def test_physical_memory_can_be_mapped_twice(acl):
    page = 2 << 20
    base, h = acl.out("aclrtReserveMemAddress", C.c_void_p, 2 * page, 0, None, 1), physical(acl, page)
    acl.aclrtMapMem(base, page, 0, h, 0)
    acl.aclrtMapMem(base + page, page, 0, h, 0)
    acl.aclrtFreePhysical(h)  # the mappings keep it
    acl.upload(base, b"twice")
    assert acl.download(base + page, 5) == b"twice"
    acl.aclrtUnmapMem(base)
    acl.aclrtUnmapMem(base + page)
    acl.aclrtReleaseMemAddress(base)


def test_a_stale_physical_handle_frees_nothing():
    """A device's reset takes its physical handles with it: what lies there afterwards is another's."""
    code = """
from tests.runtime.test_memory import physical
page = 2 << 20
acl.start(0)
h = physical(acl, page)
base = acl.out('aclrtReserveMemAddress', C.c_void_p, page, 0, None, 1)
acl.aclrtResetDevice(0)
acl.aclrtSetDevice(0)
p = acl.malloc(page)
acl.upload(p, b'mine')
print(acl.raw.aclrtMapMem(base, page, 0, h, 0), acl.raw.aclrtFreePhysical(h))
q = acl.malloc(page)
acl.upload(q, b'other')
print(acl.download(p, 4), p != q)
acl.aclrtFree(p)"""
    assert run(code).stdout.split() == ["107017", "107017", "b'mine'", "True"]


@pytest.mark.parametrize("size, offset", [(1, -1), (2, -1), (-1, 2)], ids=str)
def test_sizes_that_wrap_around_are_refused(acl, size, offset):
    page = 2 << 20
    size, offset = size * page % 2**64, offset * page % 2**64
    base, h = acl.out("aclrtReserveMemAddress", C.c_void_p, 4 * page, 0, None, 1), physical(acl, 4 * page)
    assert acl.raw.aclrtMapMem(base, size, offset, h, 0) == 107000
    acl.aclrtFreePhysical(h)
    acl.aclrtReleaseMemAddress(base)


def test_copies_at_random_are_done_or_refused(acl):
    """Rows, pitches and sizes at the edges of 64 bits: a product that wraps must not pass for a small one."""
    random = Random(7)
    p, host = acl.malloc(4096), acl.malloc_host(4096)
    huge = (2**31, 2**32, 2**61, 2**63, 2**64 - 1)
    for _ in range(500):
        height, pitch = random.choice(huge), random.choice(huge)
        width = min(random.choice((1, 7, 64)), pitch)
        if (height - 1) * pitch + width < 2**64:
            continue
        assert acl.raw.aclrtMemcpy2d(p, pitch, host, pitch, width, height, 1) == 107000
    assert acl.raw.aclrtHostRegister(C.c_void_p(2**40), 2**64 - 1, 0, C.byref(C.c_void_p())) == 107000
    assert acl.raw.aclrtIpcMemGetExportKey(p, 2**64 - 8, C.create_string_buffer(65), 65, 0) == 107000
    acl.aclrtFree(p)
    acl.aclrtFreeHost(host)


CHILD = """
import subprocess
def child(code, *args):
    head = "import sys\\nfrom tests.runtime.acl import *\\nacl = Acl().start(0)\\n"
    done = subprocess.run([sys.executable, '-c', head + code, *map(str, args)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
acl.start(0)
"""


def test_memory_is_shared_by_key():
    code = (
        CHILD
        + """
p = acl.malloc(5000)
acl.upload(p, b'from the parent')
key = C.create_string_buffer(65)
acl.aclrtIpcMemGetExportKey(p + 5, 100, key, 65, 0)
print(child('''
key = sys.argv[1].encode()
q = acl.out('aclrtIpcMemImportByKey', C.c_void_p, key, 0)
print(acl.download(q, 10))
acl.upload(q, b'OVER')
acl.aclrtIpcMemClose(key)
print(acl.raw.aclrtIpcMemClose(key))''', key.value.decode()))
print(acl.download(p, 15))"""
    )
    assert run(code).stdout.split("\n")[:3] == ["b'the parent'", "507022", "b'from OVERparent'"]


def test_a_key_can_be_imported_anew_after_a_reset():
    code = (
        CHILD
        + """
p = acl.malloc(64)
acl.upload(p, b'from the parent')
key = C.create_string_buffer(65)
acl.aclrtIpcMemGetExportKey(p, 64, key, 65, 0)
print(child('''
key = sys.argv[1].encode()
for _ in range(2):
    q = acl.out('aclrtIpcMemImportByKey', C.c_void_p, key, 0)
    print(C.string_at(q, 15))
    acl.aclrtResetDevice(0)
    acl.aclrtSetDevice(0)
    print(acl.raw.aclrtIpcMemClose(key))''', key.value.decode()))"""
    )
    assert run(code).stdout.split("\n")[:4] == ["b'from the parent'", "507022"] * 2


def test_a_range_ends_in_the_address_space(acl, stream):
    host, p = C.create_string_buffer(64), acl.malloc(64)
    for size in (2**64 - 1, 2**64 - 64):
        calls = {
            "memset": acl.raw.aclrtMemset(host, size, 1, size),
            "memsetAsync": acl.raw.aclrtMemsetAsync(p, size, 1, size, stream),
            "memcpy": acl.raw.aclrtMemcpy(p, size, host, size, 1),
            "memcpyAsync": acl.raw.aclrtMemcpyAsync(p, size, host, size, 1, stream),
            "memcpy2d": acl.raw.aclrtMemcpy2d(p, size, host, size, size, 1, 1),
        }
        assert calls == dict.fromkeys(calls, 100000)
        assert acl.raw.aclrtHostRegister(host, size, 0, C.byref(C.c_void_p())) in (100000, 107000)
        assert acl.raw.MsprofGetHashId(host, size) == 0
    acl.aclrtSynchronizeStream(stream)


def test_physical_memory_is_shared_by_handle():
    code = (
        CHILD
        + """
from tests.runtime.test_memory import physical
page = 2 << 20
h = physical(acl, page)
base = acl.out('aclrtReserveMemAddress', C.c_void_p, page, 0, None, 1)
acl.aclrtMapMem(base, page, 0, h, 0)
acl.upload(base, b'shared')
handle = acl.out('aclrtMemExportToShareableHandle', C.c_uint64, h, 0, 0, first=False)
print(child('''
page = 2 << 20
h = acl.out('aclrtMemImportFromShareableHandle', C.c_void_p, int(sys.argv[1]), 0, first=False)
base = acl.out('aclrtReserveMemAddress', C.c_void_p, page, 0, None, 1)
acl.aclrtMapMem(base, page, 0, h, 0)
print(acl.download(base, 6))''', handle))"""
    )
    assert run(code).stdout.strip() == "b'shared'"


@pytest.mark.parametrize("key", [b"", b"anycend1:1:1:1:1:1", b"x" * 64])
def test_a_foreign_key_is_refused(acl, key):
    assert acl.raw.aclrtIpcMemImportByKey(C.byref(C.c_void_p()), key, 0) == 507022


def test_checked_mode_names_bad_pointers():
    code = """
acl.start(0)
p, h, other = acl.malloc(64), acl.malloc_host(64), C.create_string_buffer(64)
freed = acl.malloc(64)
acl.aclrtFree(freed)
def check(pointer, size, device=0):
    f = acl.raw.library['_ZN7softnpu13check_pointerEPKvmi']
    f.argtypes, f.restype = [C.c_void_p, C.c_size_t, C.c_int], C.c_bool
    return f(pointer, size, device), acl.message()
print(check(p, 64))
print(check(p, 64, 1))
print(check(p, 4096))
print(check(freed, 64))
print(check(C.addressof(other), 64))
print(acl.raw.aclrtMemcpy(C.addressof(other), 64, h, 64, 1), acl.message())
print(acl.raw.aclrtMemcpy(p, 64, p, 64, 1), acl.message())"""
    out = run(code, ANYCEND_CHECK="1").stdout.strip().split("\n")
    assert out[0] == "(True, '')"
    assert "is memory of device 0, the work is on device 1" in out[1]
    assert "passes the end of its block of 64 bytes" in out[2]
    assert "is freed memory of device 0" in out[3]
    assert "is host memory, not memory of a device" in out[4]
    assert out[5].startswith("107000 aclrtMemcpy: dst: ")
    assert "the kind of the copy says host" in out[6]

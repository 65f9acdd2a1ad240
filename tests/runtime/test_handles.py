"""Handles of the runtime: any number that is not a live one is refused, and nothing is touched."""

from __future__ import annotations

import ctypes as C
from random import Random

from tests.runtime.acl import Acl, run
from tests.runtime.test_memory import physical

STALE = 107017


def test_numbers_at_random_are_no_handles():
    """In a process of its own: every handle that lives there is known."""
    run("from tests.runtime.test_handles import try_numbers; try_numbers(acl.start(0))")


def try_numbers(acl: Acl) -> None:
    random, stream = Random(11), acl.stream()
    page = 2 << 20
    event, context = acl.event(), acl.out("aclrtGetCurrentContext", C.c_void_p)
    memory, base = physical(acl, page), acl.out("aclrtReserveMemAddress", C.c_void_p, page, 0, None, 1)
    live = [stream, event, context, memory]
    raw, status = acl.raw, C.c_int()
    calls = [
        lambda h: raw.aclrtDestroyStream(h),
        lambda h: raw.aclrtSynchronizeStream(h),
        lambda h: raw.aclrtStreamQuery(h, C.byref(status)),
        lambda h: raw.aclrtRecordEvent(event, h),
        lambda h: raw.aclrtStreamWaitEvent(stream, h),
        lambda h: raw.aclrtDestroyEvent(h),
        lambda h: raw.aclrtQueryEventStatus(h, C.byref(status)),
        lambda h: raw.aclrtSetCurrentContext(h),
        lambda h: raw.aclrtDestroyContext(h),
        lambda h: raw.aclrtFreePhysical(h),
        lambda h: raw.aclrtMapMem(base, page, 0, h, 0),
    ]
    for _ in range(3000):
        number = random.choice(live) if random.random() < 0.8 else random.getrandbits(random.choice((12, 32, 47, 64)))
        for _ in range(random.choice((1, 1, 2, 5))):
            number ^= 1 << random.randrange(64)
        if number not in live and number:
            assert [call(number) for call in calls] == [STALE] * len(calls), hex(number)
    acl.aclrtRecordEvent(event, stream)
    acl.aclrtSynchronizeStream(stream)
    acl.aclrtMapMem(base, page, 0, memory, 0)
    acl.aclrtUnmapMem(base)
    acl.aclrtReleaseMemAddress(base)
    acl.aclrtFreePhysical(memory)
    acl.aclrtDestroyEvent(event)


def test_a_handle_stays_stale_after_many_uses_of_its_slot(acl):
    old = acl.event()
    acl.aclrtDestroyEvent(old)
    for _ in range(20_000):
        new = acl.event()
        assert new != old
        acl.aclrtDestroyEvent(new)
    new = acl.event()
    assert acl.raw.aclrtDestroyEvent(old) == STALE
    acl.aclrtDestroyEvent(new)

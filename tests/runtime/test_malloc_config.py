"""Attributes of an allocation (aclrtMallocWithCfg, aclrtMallocHostWithCfg)."""

from __future__ import annotations

import ctypes as C

import pytest

from tests.runtime.acl import AclError


class MallocConfig(C.Structure):
    """aclrtMallocConfig: attributes of (kind, value) in three words each."""

    _fields_ = [("attrs", C.c_void_p), ("count", C.c_size_t)]


@pytest.mark.parametrize(
    "kind, value, code", [(1, 7, 0), (2, 0, 0), (2, 1, 100000), (3, 1, 0), (0, 0, 200006), (9, 0, 200006)]
)
def test_attributes_of_an_allocation_work_or_are_refused(acl, kind, value, code):
    words = (C.c_uint32 * 3)(kind, value, 0)
    config, p = MallocConfig(C.addressof(words), 1), C.c_void_p()
    for release, call in (
        (acl.aclrtFree, lambda: acl.aclrtMallocWithCfg(C.byref(p), C.c_size_t(64), 0, C.byref(config))),
        (acl.aclrtFreeHost, lambda: acl.aclrtMallocHostWithCfg(C.byref(p), C.c_uint64(64), C.byref(config))),
    ):
        if code:
            with pytest.raises(AclError, match=r"cfg->attrs\[0\]") as e:
                call()
            assert e.value.code == code
        else:
            call()
            release(p)

"""Operators called by name: descriptions and attributes are kept, and the call is refused with the operator's name."""

from __future__ import annotations

import ctypes as C

import pytest

from tests.runtime.acl import library_folder

FLOAT, ND = 0, 2


@pytest.fixture
def lib() -> C.CDLL:
    library = C.CDLL(str(library_folder() / "libacl_op_compiler.so"))
    acl = C.CDLL(str(library_folder() / "libascendcl.so"))
    for name in ("aclCreateTensorDesc", "aclCreateDataBuffer", "aclopCreateAttr", "aclGetDataBufferAddr"):
        getattr(acl, name).restype = C.c_void_p
    acl.aclGetTensorDescDim.restype = C.c_int64
    acl.aclGetTensorDescSize.restype = acl.aclGetTensorDescNumDims.restype = C.c_size_t
    acl.aclGetTensorDescName.restype = acl.aclGetRecentErrMsg.restype = C.c_char_p
    acl.compiler = library
    acl.aclInit(None)
    return acl


def dims(*values: int) -> C.Array:
    return (C.c_int64 * len(values))(*values)


def test_a_description_tells_what_it_was_given(lib):
    desc = C.c_void_p(lib.aclCreateTensorDesc(FLOAT, 2, dims(3, 5), ND))
    assert lib.aclGetTensorDescType(desc) == FLOAT and lib.aclGetTensorDescFormat(desc) == ND
    assert [lib.aclGetTensorDescDim(desc, C.c_size_t(i)) for i in range(lib.aclGetTensorDescNumDims(desc))] == [3, 5]
    assert lib.aclGetTensorDescSize(desc) == 60
    lib.aclSetTensorDescName(desc, b"x")
    assert lib.aclGetTensorDescName(desc) == b"x"
    assert lib.aclSetTensorShape(desc, 3, dims(1, 3, 5)) == 0 and lib.aclSetTensorFormat(desc, 29) == 0
    lib.aclDestroyTensorDesc(desc)


def test_a_destroyed_description_is_refused(lib):
    desc = C.c_void_p(lib.aclCreateTensorDesc(FLOAT, 1, dims(3), ND))
    lib.aclDestroyTensorDesc(desc)
    assert lib.aclGetTensorDescNumDims(desc) == 0
    assert b"not a live tensor description" in lib.aclGetRecentErrMsg()
    assert lib.aclSetTensorFormat(desc, ND) == 107017
    assert lib.aclCreateTensorDesc(FLOAT, -1, None, ND) is None
    assert lib.aclCreateTensorDesc(FLOAT, 2, None, ND) is None


def test_buffers_and_attributes(lib):
    memory = (C.c_char * 16)()
    buffer = C.c_void_p(lib.aclCreateDataBuffer(memory, C.c_size_t(16)))
    assert lib.aclGetDataBufferAddr(buffer) == C.addressof(memory) and lib.aclGetDataBufferSize(buffer) == 16
    assert lib.aclDestroyDataBuffer(buffer) == 0
    assert lib.aclDestroyDataBuffer(buffer) == 107017
    attr = C.c_void_p(lib.aclopCreateAttr())
    assert lib.aclopSetAttrInt(attr, b"axis", C.c_int64(3)) == 0
    assert lib.aclopSetAttrString(attr, b"mode", b"mean") == 0
    assert lib.aclopSetAttrListInt(attr, b"dims", 2, dims(1, 2)) == 0
    assert lib.aclopSetAttrString(attr, b"mode", None) == 100000
    assert lib.aclopSetAttrInt(attr, None, C.c_int64(3)) == 100000
    lib.aclopDestroyAttr(attr)
    assert lib.aclopSetAttrInt(attr, b"axis", C.c_int64(3)) == 107017


@pytest.mark.parametrize("call", ["aclopCompileAndExecute", "aclopCompileAndExecuteV2"])
def test_the_call_names_the_operator(lib, call):
    nothing = (None, None)
    status = getattr(lib.compiler, call)(b"DynamicRNN", 0, *nothing, 0, *nothing, None, 0, 0, None, None)
    assert status == 200006  # ACL_ERROR_FEATURE_UNSUPPORTED
    assert b"not supported by the software NPU: DynamicRNN" in lib.aclGetRecentErrMsg()

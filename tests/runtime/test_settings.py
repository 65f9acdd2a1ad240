"""What clients set works, or is refused by name: time limits, system parameters, compile options, aclInit's file."""

from __future__ import annotations

import ctypes as C
import threading

import pytest

from tests.runtime.acl import Raw, constants, run

NOT_SUPPORTED, INVALID = 207000, 100000


def test_a_stream_waits_for_an_event_no_longer_than_the_limit(acl, stream):
    other, event, gate = acl.stream(), acl.event(), threading.Event()
    acl.aclrtSetOpWaitTimeout(1)
    try:
        acl.host_task(other, gate.wait)
        acl.aclrtRecordEvent(event, other)
        acl.aclrtStreamWaitEvent(stream, event)
        assert acl.raw.aclrtSynchronizeStream(stream) == 107019
        assert "aclrtSetOpWaitTimeout" in acl.message()
    finally:
        acl.aclrtSetOpWaitTimeout(0)
        gate.set()
    acl.aclrtSynchronizeStream(other)
    acl.aclrtStreamWaitEvent(stream, event)
    acl.aclrtSynchronizeStream(stream)
    acl.aclrtDestroyStream(other)


@pytest.mark.parametrize("flag", [None, 0])
def test_a_wait_has_a_limit_of_its_own(acl, stream, flag):
    """In seconds; what comes behind it in the stream is skipped."""
    other, event, gate, ran = acl.stream(), acl.event(), threading.Event(), []
    wait = acl.raw.aclrtStreamWaitEventWithTimeout if flag is None else acl.raw.aclrtStreamWaitEventWithFlag
    more = () if flag is None else (flag,)
    acl.host_task(other, gate.wait)
    acl.aclrtRecordEvent(event, other)
    assert wait(stream, event, 1, *more) == 0
    acl.host_task(stream, lambda: ran.append(1))
    assert acl.raw.aclrtSynchronizeStream(stream) == 107019
    assert "has not happened within 1 s (aclrtStreamWaitEventWith" in acl.message()
    assert wait(stream, event, 0, *more) == 0  # for ever
    acl.host_task(stream, lambda: ran.append(2))
    gate.set()
    acl.aclrtSynchronizeStream(stream)
    assert ran == [2]
    acl.aclrtSynchronizeStream(other)
    assert wait(stream, event, 1, *more) == 0  # it has happened
    acl.aclrtSynchronizeStream(stream)
    if flag is None:
        assert wait(stream, event, -1) == INVALID
    acl.aclrtDestroyStream(other)


def test_the_operators_limit_is_told_in_milliseconds(acl):
    def told() -> int:
        return acl.out("aclrtGetOpExecuteTimeout", C.c_uint32)

    assert told() == 0
    acl.aclrtSetOpExecuteTimeOut(2)
    assert told() == 2000
    acl.aclrtSetOpExecuteTimeOutWithMs(7)
    assert told() == 7
    assert acl.out("aclrtSetOpExecuteTimeOutV2", C.c_uint64, 2500, first=False) == 2500
    assert told() == 2
    acl.aclrtSetOpExecuteTimeOut(2**32 - 1)
    assert told() == (2**32 - 1)  # more than the answer holds
    acl.aclrtSetOpExecuteTimeOut(0)


@pytest.mark.parametrize("scope", ["aclrt", "aclrtCtx"])
def test_system_parameters_work_or_are_refused(acl, scope):
    put, get = getattr(acl.raw, f"{scope}SetSysParamOpt"), getattr(acl.raw, f"{scope}GetSysParamOpt")
    value = C.c_int64(9)
    for on in (1, 0):
        assert put(0, on) == 0
        assert get(0, C.byref(value)) == 0 and value.value == on
    assert put(0, 2) == INVALID and put(99, 0) == INVALID
    for parameter in (1, 2, 3):  # debug kernels, strong consistency, early start
        assert put(parameter, 1) == NOT_SUPPORTED
        assert put(parameter, 0) == 0
        assert get(parameter, C.byref(value)) == 0 and value.value == 0


def test_determinism_is_one_setting_with_several_doors(acl):
    compiler, value, text = Raw(name="libacl_op_compiler.so"), C.c_int64(9), C.create_string_buffer(4)
    option = constants()["ACL_OP_DETERMINISTIC"]

    def told() -> list[int]:
        found = []
        for get in (acl.raw.aclrtGetSysParamOpt, acl.raw.aclrtCtxGetSysParamOpt):
            assert get(0, C.byref(value)) == 0
            found.append(value.value)
        assert compiler.aclGetCompileopt(option, text, C.c_size_t(4)) == 0
        return [*found, int(text.value)]

    doors = (
        lambda on: compiler.aclSetCompileopt(option, str(on).encode()),
        lambda on: acl.raw.aclrtSetSysParamOpt(0, on),
        lambda on: acl.raw.aclrtCtxSetSysParamOpt(0, on),
    )
    for on in (1, 0):
        for put in doors:
            acl.aclrtSetSysParamOpt(0, 1 - on)
            assert put(on) == 0 and told() == [on] * 3
            assert compiler.aclSetCompileopt(option, b"") == 0 and told() == [on] * 3  # nothing is asked for


@pytest.mark.parametrize(
    "option, value, code",
    [
        ("ACL_OP_DETERMINISTIC", b"2", INVALID),
        ("ACL_OP_COMPILER_CACHE_MODE", b"sometimes", INVALID),
        ("ACL_OP_JIT_COMPILE", b"enable", 200006),
        ("ACL_OP_JIT_COMPILE", b"perhaps", INVALID),
        ("ACL_OP_JIT_COMPILE", b"disable", 0),
        ("ACL_OP_DEBUG_LEVEL", b"1", 200006),
        ("ACL_OP_DEBUG_OPTION", b"oom", 200006),
        ("ACL_OP_COMPILER_CACHE_MODE", b"enable", 0),
        ("ACL_OP_DEBUG_LEVEL", b"0", 0),
        ("ACL_ALLOW_HF32", b"01", 0),
        ("ACL_ALLOW_HF32", b"yes", INVALID),
        ("ACL_PRECISION_MODE", b"must_keep_origin_dtype", 0),
        ("ACL_PRECISION_MODE", b"", 0),
        ("ACL_PRECISION_MODE", b"must_keep", INVALID),
        ("ACL_PRECISION_MODE_V2", b"origin", 0),
        ("ACL_PRECISION_MODE_V2", b"force_fp16", INVALID),
        ("ACL_OP_SELECT_IMPL_MODE", b"low_precision", INVALID),
    ],
)
def test_compile_options_work_or_are_refused(acl, option, value, code):
    compiler = Raw(name="libacl_op_compiler.so")
    assert compiler.aclSetCompileopt(constants()[option], value) == code
    if code:
        assert "aclSetCompileopt" in acl.message()


@pytest.mark.parametrize("flag, code", [(0, 0), (1, 0), (2, INVALID), (-1, INVALID)])
def test_a_compile_flag_is_one_of_two(acl, flag, code):
    assert Raw(name="libacl_op_compiler.so").aclopSetCompileFlag(flag) == code


@pytest.mark.parametrize(
    "text, code, said",
    [
        (None, 100003, "cannot be read"),
        ("", 100003, "empty"),
        ("no json", 100006, "no JSON object"),
        ("[1]", 100006, "no JSON object"),
        ('{"dump": {"dump_path": "/tmp"}}', 200006, '"dump"'),
        ('{"profiler": {"switch": "on"}}', 200006, '"profiler"'),
        ('{"defaultDevice": {"default_device": "77"}}', 107001, "device 77"),
        ('{"defaultDevice": {"default_device": "one"}}', 100008, "not a number"),
        ('{"defaultDevice": 3}', 100008, "defaultDevice"),
        ('{"err_msg_mode": "1"}', 200006, "err_msg_mode"),
        ('{"max_opqueue_num": "-5"}', 100008, "max_opqueue_num"),
        ("{}", 0, ""),
        ('{"dump": {"dump_scene": "lite_exception"}, "defaultDevice": {"default_device": "0"}}', 0, ""),
        ('{"dump": {"dump_scene": "watcher"}}', 200006, '"dump"'),
        ('{"dump": {}, "err_msg_mode": "0", "max_opqueue_num": "20000"}', 0, ""),
    ],
)
def test_the_file_of_aclinit(acl, tmp_path, text, code, said):
    path = tmp_path / "acl.json"
    if text is not None:
        path.write_text(text)
    acl.raw.aclFinalize()
    try:
        got = acl.raw.aclInit(str(path).encode())
        assert got == code
        assert said in acl.message()
    finally:
        acl.raw.aclFinalize()
        acl.raw.aclInit(None)


def test_the_default_device_of_the_file(tmp_path):
    path = tmp_path / "acl.json"
    path.write_text('{"defaultDevice": {"default_device": "3"}}')
    code = f"""
acl.aclInit({str(path)!r}.encode())
p = acl.malloc(64)
attributes = (C.c_uint32 * 7)()
acl.aclrtPointerGetAttributes(p, attributes)
print(attributes[0], attributes[1])"""
    assert run(code).stdout.split() == ["3", "1"]


def test_the_last_error_is_the_threads_own(acl):
    get, peek = acl.raw.aclrtGetLastError, acl.raw.aclrtPeekAtLastError
    get(0)
    assert (peek(0), get(0)) == (0, 0)
    assert acl.raw.aclrtSetDevice(99) == 107001
    acl.raw.aclrtSynchronizeDevice()  # success changes nothing
    seen = []
    thread = threading.Thread(target=lambda: seen.append(peek(0)))
    thread.start()
    thread.join()
    assert seen == [0]
    assert (peek(0), peek(0)) == (107001, 107001)
    assert (get(0), peek(0), get(0)) == (107001, 0, 0)
    assert acl.raw.aclrtFree(4096) == 207002 and acl.raw.aclrtSetDevice(98) == 107001
    assert get(0) == 107001  # the last one
    assert (get(5), peek(5)) == (107000, 107000)  # no such level
    acl.raw.library.aclmdlLoadFromFile()
    assert get(0) == 200006

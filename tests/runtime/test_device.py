"""Devices, contexts, the machine's configuration."""

from __future__ import annotations

import ctypes as C
import threading

import pytest

from tests.runtime.acl import AclError, run


def test_eight_devices_by_default(acl):
    assert acl.out("aclrtGetDeviceCount", C.c_uint32) == 8


@pytest.mark.parametrize(
    ("visible", "count"),
    [("2,3", 2), ("0,1,2,3,4,5,6,7", 8), ("", 0), ("3,2", 1), ("1,9,2", 1), ("0,1x,2", 2), ("a", 0), ("5", 1)],
)
def test_visible_devices(visible, count):
    done = run("print(acl.out('aclrtGetDeviceCount', C.c_uint32))", ASCEND_RT_VISIBLE_DEVICES=visible)
    assert int(done.stdout) == count


def test_visible_devices_are_renumbered():
    code = "acl.start(1); p = C.c_int32(); acl.aclrtGetPhyDevIdByLogicDevId(1, C.byref(p)); print(p.value)"
    assert run(code, ASCEND_RT_VISIBLE_DEVICES="2,5").stdout.strip() == "5"


def test_number_of_devices_is_configured():
    assert run("print(acl.out('aclrtGetDeviceCount', C.c_uint32))", ANYCEND_DEVICES="3").stdout.strip() == "3"


@pytest.mark.parametrize(
    ("name", "value"), [("ANYCEND_DEVICES", "many"), ("ANYCEND_MEMORY", "lots"), ("ANYCEND_SOC", "Ascend1")]
)
def test_a_bad_setting_is_named(name, value):
    code = "print(acl.raw.aclInit(None), acl.message())"
    out = run(code, **{name: value}).stdout
    assert out.startswith("100000 ")
    assert f"{name}={value}" in out


def test_an_unknown_chip_is_told_families_and_chips():
    out = run("print(acl.raw.aclInit(None), acl.message())", ANYCEND_SOC="Ascend910B9").stdout
    assert "known are Ascend910, Ascend910_93, Ascend950, Ascend910A, Ascend910B, " in out and "Ascend950DT_9591" in out


def test_an_unknown_device_is_named(acl):
    with pytest.raises(AclError) as e:
        acl.aclrtSetDevice(99)
    assert e.value.code == 107001
    assert "device 99 does not exist: 8 visible" in e.value.message


def test_no_device_before_one_is_set(acl):
    seen = []

    def body():
        seen.append(acl.raw.aclrtGetDevice(C.byref(C.c_int32())))
        seen.append(acl.raw.aclrtCreateStream(C.byref(C.c_void_p())))

    t = threading.Thread(target=body)
    t.start()
    t.join()
    assert seen == [107002, 107002]


def test_set_device_starts_nothing():
    code = """
acl.start(0)
for i in range(8): acl.aclrtSetDevice(i)
print(len(os.listdir('/proc/self/task')), open('/proc/self/maps').read().count('anycend-npu'))"""
    assert run(code).stdout.split() == ["1", "0"]


def test_contexts_belong_to_threads(acl):
    mine = acl.out("aclrtGetCurrentContext", C.c_void_p)
    other = acl.out("aclrtCreateContext", C.c_void_p, 3)
    assert acl.out("aclrtGetDevice", C.c_int32) == 3
    acl.aclrtSetCurrentContext(mine)
    assert acl.out("aclrtGetDevice", C.c_int32) == 0
    acl.aclrtDestroyContext(other)
    assert acl.raw.aclrtSetCurrentContext(other) == 107017


def test_reset_frees_memory_and_makes_handles_stale():
    code = """
acl.start(0)
s, p = acl.stream(), acl.malloc(1 << 20)
acl.aclrtResetDevice(0)
print(acl.raw.aclrtGetDevice(C.byref(C.c_int32())), acl.raw.aclrtSynchronizeStream(s))
acl.aclrtSetDevice(0)
q = acl.malloc(1 << 20)
acl.upload(q, b'abc')
print(acl.download(q, 3))"""
    assert run(code).stdout.split() == ["107002", "107017", "b'abc'"]


@pytest.mark.parametrize(
    ("soc", "name"),
    [
        (None, "Ascend910B3"),
        ("Ascend910A", "Ascend910A"),
        ("ascend910b2", "Ascend910B2"),
        ("Ascend910_93", "Ascend910_9391"),
        ("Ascend950", "Ascend950PR_9599"),
    ],
)
def test_soc_name(soc, name):
    assert (
        run("print(acl.raw.aclrtGetSocName().decode())", **({"ANYCEND_SOC": soc} if soc else {})).stdout.strip() == name
    )


def test_versions_are_9_or_later(acl):
    text = C.create_string_buffer(128)
    acl.aclsysGetVersionStr(C.create_string_buffer(b"runtime"), text)
    assert text.value == b"9.0.0"
    package = C.create_string_buffer(512)
    acl.aclsysGetCANNVersion(0, package)
    assert package.raw[:6] == b"9.0.0\0"
    assert package.raw[128:130] == b"9\0"


def test_peers(acl):
    assert acl.out("aclrtDeviceCanAccessPeer", C.c_int32, 0, 1) == 1
    assert acl.out("aclrtDeviceCanAccessPeer", C.c_int32, 2, 2) == 0
    acl.aclrtDeviceEnablePeerAccess(1, 0)
    assert acl.raw.aclrtDeviceEnablePeerAccess(0, 0) == 100000


def test_init_twice_and_finalize_twice():
    out = run("print(*[f() for f in (lambda: acl.raw.aclInit(None),) * 2 + (acl.raw.aclFinalize,) * 2])").stdout
    assert out.split() == ["0", "100002", "0", "100001"]


def test_the_message_is_consumed(acl):
    assert acl.raw.aclrtSetDevice(-1) == 107001
    assert acl.message().startswith("aclrtSetDevice: device -1")
    assert acl.message() == ""

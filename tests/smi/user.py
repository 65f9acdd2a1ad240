"""A program that uses a device through the C ABI: python user.py LIBRARY DEVICE MIB [UID], then words, a line each.

With UID it becomes that user, after the library was loaded, which that user need not be able to read.

work    copies until the next line comes
wait    a stream waits for another one that a host function keeps, until the next line
rest    does nothing until the next line
lose    copies until a copy fails, as ANYCEND_FAULT asks
find    aborts the device's tasks, which brings a lost device back
rate    prints what aclrtGetDeviceUtilizationRate says of the device
"""

from __future__ import annotations

import ctypes as C
import os
import select
import sys


def main() -> None:
    library, device, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) << 20
    acl = C.CDLL(library)
    if len(sys.argv) > 4:
        os.setgroups([])
        os.setgid(int(sys.argv[4]))
        os.setuid(int(sys.argv[4]))

    def check(name: str, *args) -> None:
        status = getattr(acl, name)(*args)
        if status:
            acl.aclGetRecentErrMsg.restype = C.c_char_p
            sys.exit(f"{name}: {status} {acl.aclGetRecentErrMsg()}")

    block, stream, other, event = C.c_void_p(), C.c_void_p(), C.c_void_p(), C.c_void_p()
    check("aclInit", None)
    check("aclrtSetDevice", device)
    check("aclrtMalloc", C.byref(block), C.c_size_t(size), 0)
    check("aclrtCreateStream", C.byref(stream))
    check("aclrtCreateStream", C.byref(other))
    check("aclrtCreateEvent", C.byref(event))
    half = C.c_size_t(size // 2)
    target = C.c_void_p(block.value + size // 2)
    kept = C.CFUNCTYPE(None, C.c_void_p)(lambda _: select.select([sys.stdin], [], []))

    print("ready", flush=True)
    while line := sys.stdin.readline():
        word = line.strip()
        print(word, flush=True)
        while word == "work" and not select.select([sys.stdin], [], [], 0)[0]:
            for _ in range(4):
                check("aclrtMemcpyAsync", target, half, block, half, 3, stream)
            check("aclrtSynchronizeStream", stream)
        if word == "wait":
            check("aclrtLaunchHostFunc", stream, kept, None)
            check("aclrtRecordEvent", event, stream)
            check("aclrtStreamWaitEvent", other, event)
            check("aclrtMemcpyAsync", target, half, block, half, 3, other)
            check("aclrtSynchronizeStream", other)
        while word == "lose" and not acl.aclrtMemcpyAsync(target, half, block, half, 3, stream):
            if acl.aclrtSynchronizeStream(stream):
                break
        if word == "find":
            check("aclrtDeviceTaskAbort", device, 0)
        if word == "rate":
            rate = (C.c_int32 * 6)()
            check("aclrtGetDeviceUtilizationRate", device, rate)
            print(*rate[:4], flush=True)


if __name__ == "__main__":
    main()

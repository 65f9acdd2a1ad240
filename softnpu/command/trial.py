"""The program that `anycend doctor` runs in a process of its own: a + b on the first device.

Through torch where there is one with a device npu, else through the C ABI alone. Prints its findings as JSON on the
last line: [[ok, what, remedy], ...]; before it what it is about to do, where that may take long.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import sys
from pathlib import Path


def doing(what: str) -> None:
    print(f"doing: {what}", flush=True)


def by_torch() -> list[tuple[bool | None, str, str]]:
    doing("import torch")
    import torch

    doing("import torch_npu")
    import torch_npu  # noqa: F401, the vendor's wheel wants to be imported by name

    doing("start the device")
    torch.npu.init()  # says why there is no device, where device_count() says 0
    count = torch.npu.device_count()
    if not count:
        remedy = "ASCEND_RT_VISIBLE_DEVICES and ANYCEND_DEVICES say which devices there are"
        named = [name for name in remedy.split() if name in os.environ]
        said = " and ".join(f"{name}={os.environ[name]}" for name in named)
        return [(False, f"torch.npu sees no device{', of ' + said if said else ''}", remedy)]
    total = torch.npu.get_device_properties(0).total_memory
    found = [(True, f"{count} devices {torch.npu.get_device_name(0)}, {total / 2**30:.1f} GiB each", "")]
    doing("add")
    a = torch.arange(4.0, device="npu")
    right = (a + a).tolist() == [0.0, 2.0, 4.0, 6.0]
    found.append((right, f"a + b on npu:0 is {'right' if right else 'wrong: ' + str((a + a).tolist())}", ""))
    maps = Path("/proc/self/maps").read_text().split()
    used = sorted({entry for entry in maps if entry.endswith("/libascendcl.so")})
    found.append((True, f"CANN in use: {', '.join(used)}", ""))
    return found


def by_abi(root: Path) -> list[tuple[bool | None, str, str]]:
    library = ctypes.CDLL(str(root / "lib64" / "libascendcl.so"))
    count = ctypes.c_uint32()
    for status in (library.aclInit(None), library.aclrtGetDeviceCount(ctypes.byref(count))):
        if status:
            library.aclGetRecentErrMsg.restype = ctypes.c_char_p
            why = (library.aclGetRecentErrMsg() or b"").decode(errors="replace")
            return [(False, f"libascendcl answers {status}: {why}", "anycend docs errors lists the codes")]
    return [(True, f"libascendcl answers: {count.value} devices", "")]


def main() -> None:
    both = all(importlib.util.find_spec(name) for name in ("torch", "torch_npu"))
    print(json.dumps(by_torch() if both else by_abi(Path(sys.argv[1]))))


if __name__ == "__main__":
    main()

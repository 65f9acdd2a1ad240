"""The program that `anycend doctor` runs in a process of its own: a + b on the first device.

Through torch where there is one with a device npu, else through the C ABI alone. Prints its findings as JSON on the
last line: [[ok, what, remedy], ...]; before it what it is about to do, where that may take long. Where an exception
ends it, the last line is {"failed": [the exception, what it came from, ...]}; the traceback is on standard error.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import sys
import traceback
import warnings
from pathlib import Path

DEEPEST = 4  # exceptions of a chain that are told


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


def chain(error: BaseException) -> list[str]:
    """The exception, what it came from, and so on down to the first; of many, the last and the first ones."""
    found: list[str] = []
    at: BaseException | None = error
    seen = set[int]()
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        text = "".join(traceback.format_exception_only(type(at), at)).strip()
        if not any(text in other for other in found):
            found.append(text)
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)
    return found if len(found) <= DEEPEST else [found[0], *found[1 - DEEPEST :]]


def main() -> None:
    both = all(importlib.util.find_spec(name) for name in ("torch", "torch_npu"))
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always", UserWarning)
        try:
            found = by_torch() if both else by_abi(Path(sys.argv[1]))
        except BaseException as error:
            print(json.dumps({"failed": chain(error)}), flush=True)
            raise
    # What import says of variables that do not do what they ask for.
    ours = dict.fromkeys(text for one in given if (text := str(one.message)).startswith("npu: "))
    print(json.dumps([(None, " ".join(text.removeprefix("npu: ").split()), "") for text in ours] + found))


if __name__ == "__main__":
    main()

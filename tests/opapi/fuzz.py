"""Phase one of every aclnn operator with handles and values at random: no crash, and only documented statuses.

    python -m tests.opapi.fuzz --calls 100000 [--family unary] [--seed 1]    calls a family: a section of ops/aclnn.yaml

Handles are right, null, destroyed, of another kind, or numbers nobody made; integers and reals are ordinary or extreme.
Every second call has right handles and at most one that is not. Strings are strings: C's cannot be checked. Under
AddressSanitizer: `make fuzz`.
"""

from __future__ import annotations

import argparse
import ctypes as C
import faulthandler
import random
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "codegen"))
import abi  # noqa: E402
import tables  # noqa: E402

P = C.c_void_p
ALLOWED = {0: "taken", 161001: "null", 161002: "invalid", 561000: "inner", 561101: "memory"}
INTEGERS = (0, 1, 2, 3, -1, -2, 7, 64, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63))
REALS = (0.0, 1.0, -1.0, 0.5, 1e-5, float("inf"), float("-inf"), float("nan"), 1e308)
STRINGS = (b"", b"mean", b"BSH", b"TND", b"none", b"x" * 300, None)
DTYPES = (0, 1, 2, 3, 4, 6, 9, 11, 12, 16, 27, 33, 99, -1)
SHAPES = ((), (0,), (1,), (3,), (2, 3), (3, 2), (2, 3, 4), (1, 2, 3, 4), (2, 0, 3), (4, 4), (1, 1, 1, 1, 1), (2,) * 8)


class Handles:
    """Live and destroyed handles of each kind."""

    def __init__(self, lib: C.CDLL, acl: C.CDLL, rng: random.Random):
        self.lib, self.rng = lib, rng
        for kind in ("Tensor", "Scalar", "IntArray", "FloatArray", "BoolArray", "TensorList", "ScalarList"):
            getattr(lib, f"aclCreate{kind}").restype = P
        lib.aclCreateTensor.argtypes = [P, C.c_uint64, C.c_int, P, C.c_int64, C.c_int, P, C.c_uint64, P]
        self.memory = P()
        assert acl.aclrtMalloc(C.byref(self.memory), C.c_size_t(1 << 16), 0) == 0
        self.live: dict[str, list[int]] = {}
        self.dead: dict[str, list[int]] = {}
        makers = {
            "Tensor": self.tensor,
            "Scalar": self.scalar,
            "IntArray": lambda: self.array("Int", C.c_int64),
            "FloatArray": lambda: self.array("Float", C.c_float),
            "BoolArray": lambda: self.array("Bool", C.c_bool),
            "TensorList": lambda: self.list("Tensor", self.tensor),
            "ScalarList": lambda: self.list("Scalar", self.scalar),
        }
        for kind, make in makers.items():
            self.live[kind] = [h for h in (make() for _ in range(60)) if h]
            self.dead[kind] = [h for h in (make() for _ in range(20)) if h]
        for kind, handles in self.dead.items():
            for handle in handles:
                getattr(lib, f"aclDestroy{kind}")(P(handle))

    def tensor(self) -> int | None:
        shape = self.rng.choice(SHAPES)
        n = len(shape)
        strides, step = [], 1
        for size in reversed(shape):
            strides.insert(0, step)
            step *= max(size, 1)
        data = self.memory if self.rng.random() < 0.9 else P(None)
        return self.lib.aclCreateTensor((C.c_int64 * n)(*shape), n, self.rng.choice(DTYPES), (C.c_int64 * n)(*strides),
                                        self.rng.choice((0, 0, 1)), 2, (C.c_int64 * 1)(4096), 1, data)  # fmt: skip

    def scalar(self) -> int | None:
        value = C.c_double(self.rng.choice(REALS))
        return self.lib.aclCreateScalar(C.byref(value), self.rng.choice((0, 3, 9, 11, 12)))

    def array(self, kind: str, c_type: type) -> int | None:
        n = self.rng.choice((0, 1, 2, 3, 9))
        values = [self.rng.choice((0, 1, 2, -1, 5)) for _ in range(n)]
        return getattr(self.lib, f"aclCreate{kind}Array")((c_type * max(n, 1))(*values), C.c_uint64(n))

    def list(self, kind: str, member: object) -> int | None:
        members = [m for m in (member() for _ in range(self.rng.choice((0, 1, 3)))) if m]
        data = (P * max(len(members), 1))(*members)
        return getattr(self.lib, f"aclCreate{kind}List")(data, C.c_uint64(len(members)))

    def pick(self, kind: str, right: bool) -> int | None:
        chance = 0.0 if right else self.rng.random()
        if chance < 0.65:
            return self.rng.choice(self.live[kind])
        if chance < 0.75:
            return None
        if chance < 0.83:
            return self.rng.choice(self.dead[kind])
        if chance < 0.91:
            return self.rng.choice(self.live[self.rng.choice(list(self.live))])
        if chance < 0.95:
            return self.rng.choice(self.live[kind]) + self.rng.choice((1, 8, 64, 256, -256, 1 << 20))
        return self.rng.getrandbits(self.rng.choice((8, 32, 48, 64)))


def argument(param: abi.Param, handles: Handles, rng: random.Random, right: bool) -> object:
    kind = param.type.replace("const", "").replace("*", "").strip()
    if kind.startswith("acl") and "*" in param.type:
        return P(handles.pick(kind.removeprefix("acl"), right))
    if kind == "char":
        return C.c_char_p(rng.choice(STRINGS))
    if kind in ("double", "float"):
        return (C.c_double if kind == "double" else C.c_float)(rng.choice(REALS))
    if kind == "aclDataType":
        return C.c_int(rng.choice(DTYPES))
    return C.c_int64(rng.choice(INTEGERS))


def fuzz(lib: C.CDLL, ops: list[str], calls: int, handles: Handles, rng: random.Random,
         acl: C.CDLL, stream: P) -> Counter:  # fmt: skip
    """How often each status came; raises at one that no table knows."""
    signatures, counts = abi.aclnn(), Counter()
    size, executor = C.c_uint64(), P()
    for _ in range(calls):
        op = rng.choice(ops)
        wrong = rng.randrange(2 * len(signatures[op])) if rng.random() < 0.5 else None  # None: any may be
        arguments = [argument(p, handles, rng, wrong not in (None, i)) for i, p in enumerate(signatures[op])]
        outputs = [C.byref(size), C.byref(executor)]
        if rng.random() < 0.02:
            outputs[rng.randrange(2)] = P(None)
        status = getattr(lib, op + "GetWorkspaceSize")(*arguments, *outputs)
        if status not in ALLOWED:
            raise AssertionError(f"{op}GetWorkspaceSize returned {status} for {arguments}")
        if status == 0 and stream:  # what phase one takes must end as a result or as an error of the stream
            print(op, [a.value for a in arguments], file=sys.stderr, flush=True)
            getattr(lib, op)(P(None), size, executor, stream)
            acl.aclrtSynchronizeStream(stream)
        elif status == 0 and lib.aclDestroyAclOpExecutor(executor):
            raise AssertionError(f"{op}: its executor cannot be destroyed")
        counts[status] += 1
    return counts


def main() -> None:
    from tests.opapi.client import library_folder

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--family", default="")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--launch", action="store_true", help="run phase two of what phase one takes")
    options = parser.parse_args()
    faulthandler.enable()
    folder, rng = library_folder(), random.Random(options.seed)
    acl, lib = C.CDLL(str(folder / "libascendcl.so")), C.CDLL(str(folder / "libopapi.so"))
    assert acl.aclInit(None) == 0 and acl.aclrtSetDevice(0) == 0
    handles, stream = Handles(lib, acl, rng), P()
    assert not options.launch or acl.aclrtCreateStream(C.byref(stream)) == 0
    table = tables.load(ROOT / "ops" / "aclnn.yaml")
    for family, rows in table.items():
        if options.family in ("", family):
            start, ops = time.monotonic(), [name for name in rows if name != "_"]
            counts = fuzz(lib, ops, options.calls, handles, rng, acl, stream)
            said = ", ".join(f"{ALLOWED[status]} {n}" for status, n in sorted(counts.items()))
            print(f"{family:12} {len(ops):4} operators {options.calls} calls: {said}"
                  f"  ({time.monotonic() - start:.0f} s)", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()

"""Phase one refuses the types that phase two cannot compute: each kernel with operands of other types than in a log.

    ANYCEND_CALL_LOG=build/calls python -m pytest tests/opapi             a log of calls
    python -m tests.opapi.types build/calls [--family unary] [--all]      the trials that phase one takes and phase two
                                                                          refuses; or every trial and how it went

A call of the log is made again with zeros or ones; then all its tensors of one type get another, then each alone. Where
the first ends well and the second does not, a type is why. The rows of ops/types.yaml come from such trials.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import torch

from tests.opapi.client import CODES, DTYPES, PAIRS, ROOT, AclError, Client, abi

sys.path.insert(0, str(ROOT / "tools" / "codegen"))
import opapi  # noqa: E402
import tables  # noqa: E402

LINE = re.compile(r"^(acl\w+)\((.*)\): 0$")
TENSOR = re.compile(r"(\w+)\[([\d, ]*)\]")
NAMES = {str(dtype).removeprefix("torch."): dtype for dtype in DTYPES}
SMALL = 1 << 16  # elements of a call together


class Blank(NamedTuple):
    """A tensor of a logged call: its type and shape; of a list, how many."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    members: int | None = None

    def make(self, dtype: torch.dtype) -> torch.Tensor | list[torch.Tensor]:
        """Ones where numbers are real, zeros where they count or name elements, as another type."""
        value = 1.0 if self.dtype.is_floating_point or self.dtype.is_complex else 0.0
        if dtype == CODES:
            made = torch.full(self.shape, 0x08 if value else 0, dtype=torch.uint8).view(dtype)
        else:
            made = pairs(self.shape, value, dtype) if dtype in PAIRS else torch.full(self.shape, value).to(dtype)
        return made if self.members is None else [made.clone() for _ in range(self.members)]


def pairs(shape: tuple[int, ...], value: float, dtype: torch.dtype) -> torch.Tensor:
    """Elements of 4 bits, of which torch counts the bytes; of an odd number one more."""
    held = (*shape[:-1], (shape[-1] + 1) // 2) if shape else ()
    return torch.full(held, 0x22 if value else 0, dtype=torch.uint8).view(dtype)


def split(text: str) -> list[str]:
    """Arguments of a logged call."""
    parts, depth, quoted, start = [], 0, False, 0
    for i, c in enumerate(text):
        quoted ^= c == '"'
        depth += 0 if quoted else (c == "[") - (c == "]")
        if c == "," and not depth and not quoted:
            parts.append(text[start:i].strip())
            start = i + 1
    return [*parts, text[start:].strip()] if text else []


def parse(text: str, param: abi.Param) -> object:
    """A logged argument; ValueError for what cannot be made again."""
    text = text.removeprefix("-> ").removeprefix("<> ")
    kind = opapi.kind_of(param)
    if text == "null":
        return None
    if kind in ("aclTensor", "aclTensorList"):
        if kind == "aclTensorList" and text == "0 tensors":
            return []
        members = int(text.split()[0]) if kind == "aclTensorList" else None
        if not (found := TENSOR.search(text)) or found[1] not in NAMES:
            raise ValueError(text)
        return Blank(NAMES[found[1]], tuple(int(n) for n in found[2].split(",") if n.strip()), members)
    if kind == "aclScalar":
        _, dtype, value = text.split(" ", 2)
        if dtype in ("bool", "int64", "int32"):
            return bool(int(value)) if dtype == "bool" else int(value)
        return float(value)
    if kind == "aclScalarList":
        return [1.0] * int(text.split()[0])
    if kind == "char":
        return text.strip('"')
    if text.startswith("["):
        if "..." in text:
            raise ValueError(text)
        number = float if kind == "aclFloatArray" else int
        return [number(n) for n in text.strip("[]").split(",") if n.strip()]
    return float(text) if kind in ("float", "double") else int(text)


def size(value: object) -> int:
    if not isinstance(value, Blank):
        return 0
    return torch.Size(value.shape).numel() * (value.members or 1)


def calls(logs: list[Path], client: Client, each: int = 8) -> dict[str, list[dict]]:
    """Operator → some of its logged calls, small ones of different types, shapes and nulls."""
    found: dict[str, dict[str, dict]] = defaultdict(dict)
    for log in logs:
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
            if not (match := LINE.match(line)) or match[1] not in client.signatures:
                continue
            op, key = match[1], re.sub(r"\[[^\]]*\]|[-\d.e+]+(?=,|$)", "", match[2])
            if key in found[op] or len(found[op]) >= each:
                continue
            params, texts = client.signatures[op], split(match[2])
            if len(params) != len(texts):
                continue
            try:
                arguments = {p.name: parse(t, p) for p, t in zip(params, texts, strict=True)}
            except ValueError:
                continue
            sizes = [size(v) for v in arguments.values() if isinstance(v, Blank)]
            if all(sizes) and 0 < sum(sizes) <= SMALL:  # of nothing, nothing is computed: any type is right
                found[op][key] = arguments
    return {op: list(kinds.values()) for op, kinds in found.items()}


def attempt(client: Client, op: str, arguments: dict, change: dict[str, torch.dtype]) -> tuple[str, str]:
    """Which step refused the call, and its words: ("", "") for none."""
    values = {n: v.make(change.get(n, v.dtype)) if isinstance(v, Blank) else v for n, v in arguments.items()}
    try:
        executor, workspace = client.prepare(op, **values)
    except AclError as error:
        return "phase one", str(error)
    try:
        client.launch(op, executor, workspace)
        client.synchronize()
    except AclError as error:
        return "launch", error.message
    return "", ""


def adapted(client: Client, op: str, arguments: dict, change: dict[str, torch.dtype]) -> Iterator[dict]:
    """The call as it is, and with numbers and named types that go with its tensors' new ones."""
    yield arguments
    forms = [arguments]
    for kind in (int, bool):
        form = dict(arguments)
        for p in client.signatures[op]:
            value = arguments[p.name]
            if opapi.kind_of(p) == "aclScalar" and value is not None and math.isfinite(value):
                form[p.name] = kind(value)
            elif opapi.kind_of(p) == "aclScalarList" and value:
                form[p.name] = [kind(number) for number in value]
        if repr(form) != repr(forms[-1]):
            forms.append(form)
            yield form
    named = [n for n in arguments if n.lower().endswith(("dtype", "dsttype", "datatype"))]
    outputs = {change[p.name] for p in client.signatures[op] if p.way != "in" and p.name in change}
    for form in forms:
        for dtype in outputs if named else ():
            yield form | dict.fromkeys(named, DTYPES[dtype])


def outcome(client: Client, op: str, arguments: dict, change: dict[str, torch.dtype]) -> tuple[str, str]:
    """The best of a call's forms."""
    first = None
    for form in adapted(client, op, arguments, change):
        found = attempt(client, op, form, change)
        if not found[0]:
            return found
        first = first or found
    return first


def trials(client: Client, op: str, arguments: dict) -> Iterator[tuple[dict[str, torch.dtype], str, str]]:
    """The types that the tensors had, and how it went."""
    own = {name: value.dtype for name, value in arguments.items() if isinstance(value, Blank)}
    if attempt(client, op, arguments, {})[0]:
        return
    yield own, "", ""
    bases = [own]
    for kind in set(own.values()):
        group = [name for name in own if own[name] == kind]
        for dtype in DTYPES:
            change = own | dict.fromkeys(group, dtype)
            if dtype != kind:
                step, words = outcome(client, op, arguments, change)
                yield change, step, words
                if not step and kind == torch.float32 and dtype == torch.float16:
                    bases.append(change)
    for base in bases:
        for name in base:
            for dtype in DTYPES:
                if dtype != base[name]:
                    change = base | {name: dtype}
                    yield change, *outcome(client, op, arguments, change)


class Trial(NamedTuple):
    op: str
    types: str
    step: str  # that refused it, or ""
    words: str


def every(logs: list[Path], ops: Iterable[str]) -> Iterator[Trial]:
    client = Client()
    known = calls(logs, client)
    for op in ops:
        for arguments in known.get(op, []):
            for change, step, words in trials(client, op, arguments):
                types = " ".join(f"{name}:{str(dtype).removeprefix('torch.')}" for name, dtype in change.items())
                yield Trial(op, types, step, words.partition("\n")[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="+", type=Path)
    parser.add_argument("--family", default="")
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    table = tables.load(opapi.TABLE)
    for family, rows in table.items():
        if options.family in ("", family):
            for trial in every(options.logs, [name for name in rows if name != "_"]):
                if options.all or trial.step == "launch":
                    print(trial.op, trial.types, trial.step or "right", trial.words, sep="\t", flush=True)


if __name__ == "__main__":
    main()

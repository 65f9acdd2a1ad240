"""Which tests of values call which of the NPU's own operators, recorded where the operators are called and not where
their names are written: names that are put together count, a mention and a refused call do not.

    python -m tests.npu_ops.called                          runs the rooms below and writes called.yaml
    python -m tests.npu_ops.called tests/npu_ops/test_norm.py  runs these files, and keeps the rest

A test of values computes what it expects without the operator: by a formula from its page, by PyTorch's operators, by
several ranks' operands. An operator counts for a file where a test of it has passed in which the operator returned;
what runs in a gradient counts, too. Of programs that ranks run the calls are read from their text. Not counted are the
judges that need no formula (JUDGES). What it is not: a proof that the test would notice every wrong value. Who reads
called.yaml: tools/codegen/npu_status.py.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from tools.codegen import tables

ROOT = Path(__file__).resolve().parents[2]
RECORD = Path(__file__).with_name("called.yaml")
ROOMS = ("npu_ops", "contrib", "optim")
# Files of tests without an expected value: the samples' judges, refusals, tables, names.
JUDGES = (
    "absent", "arguments", "autocast", "behaviour", "both", "errors", "hostile", "late", "names", "operand_types",
    "operands", "samples", "strict", "table", "without_derivative",
)  # fmt: skip
PROGRAMS = ("fused.py", "fused_edges.py", "fused_quant.py", "experts.py")  # of tests/distributed, which ranks run
OPERATOR = re.compile(r"(?:torch_npu|torch\.ops\.npu)\._?npu_\w+")  # in code, called there or by another name
OUT = "ANYCEND_TEST_CALLED"  # where a recording run writes


def name_of(func: Any) -> str | None:
    """`npu_x` or `npu_x.overload` of an operator of ours."""
    if isinstance(func, torch._ops.OpOverload) and func.namespace == "npu":
        return func._schema.name[5:] + (f".{func._schema.overload_name}" if func._schema.overload_name else "")
    return None


class Functions(TorchFunctionMode):
    """Calls by name, of composed operators, too. Of a name with overloads the default one, if all is in order."""

    def __init__(self, seen: set[str]) -> None:
        super().__init__()
        self.seen = seen

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(func, torch._ops.OpOverloadPacket) and func._qualified_op_name.startswith("npu::"):
            if len(func.overloads()) == 1:
                self.seen.add(name_of(getattr(func, func.overloads()[0])))
            elif "default" in func.overloads() and not kwargs:
                self.seen.add(func._qualified_op_name[5:])
        elif name := name_of(func):
            self.seen.add(name)
        return result


class Dispatched(TorchDispatchMode):
    """Calls that reach a kernel, with their overload: those of gradients and of composed operators' parts, too."""

    def __init__(self, seen: set[str]) -> None:
        super().__init__()
        self.seen = seen

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if name := name_of(func):
            self.seen.add(name)
        return result


CALLED: dict[str, set[str]] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    seen: set[str] = set()
    with Functions(seen), Dispatched(seen):
        result = yield
    for name in seen:
        CALLED.setdefault(name, set()).add(f"{item.path.parent.name}/{item.path.name}")
    return result


def pytest_sessionfinish() -> None:
    Path(os.environ[OUT]).write_text(json.dumps({name: sorted(files) for name, files in CALLED.items()}))


def of_programs() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for program in PROGRAMS:
        text = (ROOT / "tests" / "distributed" / program).read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute) and OPERATOR.fullmatch(ast.unparse(node)):
                found.setdefault(node.attr, set()).add(f"distributed/{program}")
    return found


def record(files: list[str]) -> dict[str, set[str]]:
    """Operator -> files whose tests of values call it."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "called.json"
        ignored = [f"--ignore=tests/npu_ops/test_{name}.py" for name in JUDGES]
        command = [
            sys.executable,
            "-m",
            "pytest",
            *files,
            "-q",
            "-p",
            "tests.npu_ops.called",
            "-m",
            "not full",
            *ignored,
        ]
        subprocess.run(command, cwd=ROOT, env=os.environ | {OUT: str(out)}, check=False)
        return {name: set(found) for name, found in json.loads(out.read_text()).items()}


def main() -> None:
    found = record(sys.argv[1:] or [f"tests/{room}" for room in ROOMS])
    again = {f"{Path(name).parent.name}/{Path(name).name}" for name in sys.argv[1:]}
    kept = tables.load(RECORD) if again else {}
    for name, files in kept.items():
        found.setdefault(name, set()).update(set(files) - again)
    for name, files in of_programs().items():
        found.setdefault(name, set()).update(files)
    head = "# Recorded by `python -m tests.npu_ops.called`, whose head says what counts: operator, and the files whose"
    head += " tests of values call it. Long because there is a row an operator.\n"
    lines = [f"{name}: [{', '.join(sorted(files))}]\n" for name, files in sorted(found.items()) if files]
    RECORD.write_text(head + "".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()

"""The vendor's names of tier 1 and 2 (facts/torch_npu/api.tsv) as a table: what is there, and which test calls it.

    python -m tests.python.names_table > docs/api_names.md

A test calls a name that it uses: as code, by getattr or in a program for another process, of a module by its whole
name, of a class beside the class; lists of names are no tests.
"""

from __future__ import annotations

import ast
import csv
import functools
import importlib
import re
import sys
import textwrap
import types
from pathlib import Path
from typing import Any, NamedTuple

import torch

import torch_npu

ROOT = Path(__file__).resolve().parents[2]
FACTS = ROOT.parent / "shared" / "facts"
LISTS = {"test_names_exist.py", "names_table.py", "test_docstrings.py", "test_help.py"}
# What is no name but a way to use several; each has a test of its own.
WAYS = {
    "entry_points torch.backends: torch_npu = torch_npu:_autoload": "tests/python/test_import.py",
    "import torch_npu before/after torch; TORCH_DEVICE_BACKEND_AUTOLOAD=0": "tests/python/test_import.py",
    'torch.Generator(device="npu")': "tests/core/test_generator.py",
    'torch.accelerator.* (current_accelerator()=="npu")': "tests/core/test_device.py",
    'torch.autocast("npu") / torch.amp.GradScaler("npu")': "tests/amp/test_autocast.py",
    'torch.device("npu"[:i])': "tests/core/test_device.py",
    'torch.distributed backend "hccl"': "tests/distributed/test_group.py",
    "torch.npu is torch_npu.npu": "tests/python/test_names.py",
    "torch_npu.npu_*: torch.ops.npu.<op>": "tests/npu_ops/test_samples.py",
    'init_method="parallel://" + rdzv_backend=parallel + ParallelStore': "tests/distributed/test_rendezvous.py",
    "torch_npu.distributed.run / torch_npu_run": "tests/distributed/test_rendezvous.py",
}
# Rows of several names.
SEVERAL = {
    "dist.ProcessGroup._get_backend(npu).get_hccl_comm(rank)/get_hccl_comm_name": [
        "torch_npu._C._distributed_c10d.ProcessGroupHCCL.get_hccl_comm",
        "torch_npu._C._distributed_c10d.ProcessGroupHCCL.get_hccl_comm_name",
    ],
    "torch.npu.aclnn.version / allow_hf32": ["torch.npu.aclnn.version", "torch.npu.aclnn.allow_hf32"],
    "torch.npu.matmul.allow_hf32 / cubeMathType; conv.allow_hf32": [
        "torch.npu.matmul.allow_hf32",
        "torch.npu.matmul.cube_math_type",  # as the vendor's documents spell it
        "torch.npu.conv.allow_hf32",
    ],
    "torch_npu._C._distributed_c10d.ProcessGroupHCCL(.Options)": [
        "torch_npu._C._distributed_c10d.ProcessGroupHCCL",
        "torch_npu._C._distributed_c10d.ProcessGroupHCCL.Options",
    ],
}


class Row(NamedTuple):
    tier: str
    name: str
    kind: str


def rows(facts: Path) -> list[Row]:
    """One for each name; custom operators have tables of their own (docs/status.md)."""
    found = []
    with (facts / "torch_npu" / "api.tsv").open(newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            if row["tier"] in ("1", "2") and row["kind"] != "custom op":
                found += [Row(row["tier"], name, row["kind"]) for name in SEVERAL.get(row["name"], [row["name"]])]
    return found


def find(name: str) -> Any:
    """What has the name; modules are imported. AttributeError where there is none."""
    parts = name.split(".")
    value: Any = {"torch": torch, "torch_npu": torch_npu}[parts[0]]
    for part in parts[1:]:
        try:
            value = getattr(value, part)
        except AttributeError:
            if part in getattr(value, "__annotations__", {}):
                return None
            if not isinstance(value, types.ModuleType):
                raise
            try:
                value = importlib.import_module(f"{value.__name__}.{part}")
            except ModuleNotFoundError:
                raise AttributeError(name) from None
    return value


def state(name: str) -> str:
    """ "there", "refused: why" or "absent"."""
    if name in WAYS:
        return "there"
    try:
        value = find(name)
    except AttributeError:
        return "absent"
    said = re.match(r"Raises NotImplementedError[:,] (.*?)\.?$", getattr(value, "__doc__", None) or "", re.S)
    return f"refused: {' '.join(said[1].split())}" if said else "there"


class Uses(NamedTuple):
    """Of one test file."""

    names: set[str]  # whole, as torch.npu.Event.query: what the code's own names stand for is put in
    words: set[str]  # attributes of whatever, keywords, and texts that could be for getattr


def uses_of(code: str) -> Uses:
    """Of a test's code, and of the programs for other processes that it holds as text."""
    known = {"torch": "torch", "torch_npu": "torch_npu"}
    uses = Uses(set(), set())

    def whole(node: ast.AST) -> str:
        if isinstance(node, ast.Name):
            return known.get(node.id, "")
        if isinstance(node, ast.Attribute) and (owner := whole(node.value)):
            return f"{owner}.{node.attr}"
        return ""

    nodes = list(ast.walk(ast.parse(code)))
    for node in nodes:  # what a name stands for, anywhere in the file
        if isinstance(node, ast.Import):
            known |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            known |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and whole(node.value):
            known[node.targets[0].id] = whole(node.value)
    uses.names.update(name for name in known.values() if name.startswith("torch"))
    for node in nodes:
        if isinstance(node, ast.Attribute):
            uses.words.add(node.attr)
            uses.names.add(whole(node))
        elif isinstance(node, ast.keyword) and node.arg:
            uses.words.add(node.arg)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node.value.isidentifier():
                uses.words.add(node.value)
            elif "torch" in node.value:
                _add_program(node.value, uses)
    return uses


def _add_program(text: str, uses: Uses) -> None:
    try:
        inner = uses_of(textwrap.dedent(text))
        uses.names.update(inner.names)
        uses.words.update(inner.words)
    except SyntaxError:  # a part of a program, or words
        for module, names in re.findall(r"from (torch[\w.]*) import ([\w, ]+)", text):
            uses.names.update(f"{module}.{name.split()[0]}" for name in names.split(",") if name.strip())
        uses.names.update(re.findall(r"\btorch(?:\.\w+|_npu\.\w+)[\w.]*\w", text))
        uses.words.update(re.findall(r"\.(\w+)", text))


@functools.cache
def used() -> dict[str, Uses]:
    """Test files → what they use."""
    paths = [path for path in sorted((ROOT / "tests").rglob("*.py")) if path.name not in LISTS]
    return {str(path.relative_to(ROOT)): uses_of(path.read_text("utf-8")) for path in paths}


@functools.cache
def index() -> dict[str, dict[str, set[str]]]:
    """Last words → whole names → the files that use them."""
    found: dict[str, dict[str, set[str]]] = {}
    for file, uses in used().items():
        for name in uses.names:
            found.setdefault(name.rpartition(".")[2], {}).setdefault(name, set()).add(file)
    return found


@functools.cache
def thing(name: str) -> Any:
    """What has the name, or something that nothing else is."""
    try:
        return find(name)
    except (AttributeError, KeyError, ImportError, ValueError):
        return object()


def users(name: str) -> set[str]:
    """Of the name, of the same function or class under another one, of a name of the same module under another one."""
    owner, _, last = name.rpartition(".")
    return {
        file
        for used, files in index().get(last, {}).items()
        if used == name
        or (callable(thing(name)) and thing(used) is thing(name) and not isinstance(thing(owner), type))
        or thing(used.rpartition(".")[0]) is thing(owner)
        for file in files
    }


def files_of(name: str) -> set[str]:
    """That use it: of a module by its whole name, or by getattr beside its owner's; of a class beside the class's."""
    owner, _, last = name.rpartition(".")
    # Of these every test has some.
    everywhere = owner in ("torch.Tensor", "torch.nn.Module", "torch.UntypedStorage")
    beside = used() if everywhere else files_of(owner) if isinstance(thing(owner), type) else users(owner)
    return users(name) | {file for file in beside if last in used()[file].words}


def tested(name: str) -> str:
    """A test that calls it, rather one that is named like it; "" where none does."""
    if name in WAYS:
        return WAYS[name]
    words = {w for part in name.lower().split(".") for w in part.split("_")} - {"torch", "npu", ""}
    return max(
        sorted(files_of(name)),
        key=lambda f: ("/test_" in f, len(words & set(re.split(r"\W|_", f.lower())))),
        default="",
    )


def page(facts: Path) -> str:
    found = [(row, state(row.name), tested(row.name)) for row in rows(facts)]
    lines = [
        "# The vendor's Python names, by tier",
        "",
        "Names of the Ascend extension that programs use most (tier 1) and next (tier 2), without operators, which",
        "[status.md](status.md) has. A name that has no meaning here is refused with its reason when it is called.",
        "The last column is a test that uses it by this name, or beside its class."
        " Written by `python -m tests.python.names_table > docs/api_names.md`.",
        "",
        "| tier | names | there | refused with a reason | absent | in a test |",
        "|---|---|---|---|---|---|",
    ]
    for tier in ("1", "2"):
        of = [(s, t) for row, s, t in found if row.tier == tier]
        states = [s.partition(":")[0] for s, _ in of]
        counts = [states.count(s) for s in ("there", "refused", "absent")]
        lines.append(f"| {tier} | {len(of)} | {' | '.join(map(str, counts))} | {sum(bool(t) for _, t in of)} |")
    for tier in ("1", "2"):
        lines += ["", f"## Tier {tier}", "", "| name | | test |", "|---|---|---|"]
        for row, s, t in found:
            if row.tier == tier:
                lines.append(f"| `{row.name}` | {'' if s == 'there' else s} | {t.removeprefix('tests/')} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page(Path(sys.argv[1]) if len(sys.argv) > 1 else FACTS))

"""ANYCEND_STRICT=1: phase one refuses the data types that the chosen chip does not take (ops/hardware.yaml)."""

from __future__ import annotations

import json
import os

import pytest

from tests import forked
from tests.opapi.client import ROOT, library_folder
from tests.opapi.types import abi, opapi
from tools.codegen import tables

opapi_types = opapi.opapi_types

# A call → the words of its refusal, or none: one process a chip.
CALLS = """
import json, sys, torch
from tests.opapi.client import AclError, Client
npu, found = Client(), {}
F, D, B = torch.ones(4), torch.ones(4).double(), torch.ones(4).bfloat16()
def t(name, op, **arguments):
    try:
        npu.prepare(op, **arguments)
        found[name] = [0, ""]
    except AclError as error:
        found[name] = [error.status, str(error)]
t("add", "aclnnAdd", self=F, other=F, alpha=1, out=F)
t("add bf16", "aclnnAdd", self=B, other=B, alpha=1, out=B)
t("acosh bf16", "aclnnAcosh", self=B, out=B)
t("norm fp64", "aclnnNorm", self=D, pScalar=2.0, dim=[0], keepdim=False, out=D[0])
t("list", "aclnnForeachExp", x=[F, D], out=[F, D])
t("rms", "aclnnRmsNorm", x=F, gamma=F, epsilon=1e-6, yOut=F, rstdOut=F[:1])
json.dump(found, sys.stdout)
"""


def answers(**environment: str) -> dict[str, list]:
    known = os.environ | {"ANYCEND_TEST_CANN": str(library_folder())} | environment
    done = forked.run(["-c", CALLS], cwd=ROOT, env=known)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


# What each chip refuses of CALLS.
REFUSED = {
    "Ascend910B1": {"acosh bf16", "norm fp64", "list"},
    "Ascend910_9391": {"norm fp64", "list"},
    "Ascend910A": {"add bf16", "acosh bf16", "norm fp64", "list", "rms"},
}


@pytest.mark.parametrize("chip", REFUSED)
def test_what_a_chip_does_not_take_is_refused(chip):
    found = answers(ANYCEND_STRICT="1", ANYCEND_SOC=chip)
    assert {name for name, (status, _) in found.items() if status} == REFUSED[chip]
    assert all(status in (0, 161002) for status, _ in found.values())
    words = found["norm fp64"][1]
    assert f"parameter self has data type float64, which {chip} does not take" in words


def test_without_it_the_software_npu_takes_what_it_computes():
    assert not any(status for status, _ in answers(ANYCEND_STRICT="0").values())


def test_the_table_names_known_functions_and_parameters():
    table = tables.load(opapi_types.HARDWARE)
    rows, params = {r.name for r in opapi.rows()}, abi.aclnn()
    for op, families in opapi_types.hardware().items():
        assert op in rows and len(families) == len(table["families"])
        tensors = {p.name for p in params[op] if opapi.kind_of(p) in ("aclTensor", "aclTensorList")}
        assert all(set(takes) == tensors for takes in families if takes), op


def test_where_the_software_npu_takes_less_than_the_hardware_the_table_says_why():
    table, numbers = tables.load(opapi_types.HARDWARE), tables.load(opapi_types.TYPES)["numbers"]
    letters = {letter: 1 << numbers[name] for letter, name in table["letters"].items()}
    narrower = set()
    known = opapi_types.types(tuple(r.name for r in opapi.rows()))
    for op, families in opapi_types.hardware().items():
        taken = known[op].takes if op in known else {}
        for name, documented in (pair for family in families for pair in (family or {}).items()):
            missing = documented & ~taken[name][0] if name in taken else 0
            narrower |= {(op.removeprefix("aclnn"), letter) for letter, bit in letters.items() if missing & bit}
    explained = [(op, letter) for row in table["narrower"] for op in row["functions"] for letter in row["types"]]
    assert len(explained) == len(set(explained))
    assert narrower <= set(explained)
    beside = set(explained) - narrower  # what the documents name and this table does not: tools/abi/compare_types.py
    for op, letter in beside:
        assert any(not bits & letters[letter] for bits, _, _ in known[f"aclnn{op}"].takes.values()), (op, letter)
    assert all(row["why"] for row in table["narrower"])

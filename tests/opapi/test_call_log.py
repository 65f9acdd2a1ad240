"""ANYCEND_CALL_LOG: what a client passed to an operator and what it was answered."""

from __future__ import annotations

import os

from tests import forked
from tests.opapi.client import ROOT, library_folder

PROGRAM = """
import torch
from tests.opapi.client import AclError, Client
npu = Client()
one = torch.ones(2, 3)
npu.call("aclnnAdd", self=one.t(), other=torch.ones(2), alpha=2.5, out=torch.ones(3, 2))
for wrong in ({"other": None}, {"out": torch.ones(5)}):
    try:
        npu.call("aclnnAdd", **({"self": one, "other": one, "alpha": 1, "out": one} | wrong))
    except AclError:
        pass
npu.call("aclnnCat", tensors=[one, one], dim=-1, out=torch.ones(2, 6))
npu.call("aclnnInplaceZero", selfRef=one.bfloat16())
"""


def lines(path: str) -> list[str]:
    environment = os.environ | {"ANYCEND_TEST_CANN": str(library_folder()), "ANYCEND_CALL_LOG": path}
    done = forked.run(["-c", PROGRAM], cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()


def test_each_call_is_a_line(tmp_path):
    log = tmp_path / "calls"
    lines(str(log))
    assert log.read_text().splitlines() == [
        "aclnnAdd(float32[3, 2] strides [1, 3], float32[2], scalar float64 2.5, -> float32[3, 2]): 0",
        "aclnnAdd(float32[2, 3], ...): 161001",
        "aclnnAdd(float32[2, 3], float32[2, 3], scalar int64 1, -> float32[5]): 161002",
        "aclnnCat(2 tensors float32[2, 3], -1, -> float32[2, 6]): 0",
        "aclnnInplaceZero(<> bfloat16[2, 3]): 0",
    ]


def test_a_file_that_cannot_be_opened_is_told_and_the_program_runs(tmp_path):
    said = [line for line in lines(str(tmp_path / "no" / "folder")) if "ANYCEND_CALL_LOG" in line]
    assert len(said) == 1 and "No such file or directory; calls are not logged" in said[0]

"""Calls in a process under ANYCEND_STRICT, and what refused each. Used by test_strict.py of ops and of npu_ops."""

from __future__ import annotations

import json

from tests.core import tools

HEAD = """
import json, sys, torch, torch.nn.functional as F, torch_npu
found = {}
def t(name, call):
    try:
        call()
        torch.npu.synchronize()
        found[name] = ""
    except RuntimeError as error:
        found[name] = str(error)
"""
TAIL = "\njson.dump(found, sys.stdout)\n"


def results(calls: str, chip: str, strict: str = "1") -> dict[str, str]:
    """Name → the error, or nothing, of the calls `t(name, function)` in that text."""
    return json.loads(tools.output(HEAD + calls + TAIL, ANYCEND_STRICT=strict, ANYCEND_SOC=chip))

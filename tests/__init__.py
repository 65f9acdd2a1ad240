"""Tests by room: tests/<room>/test_<source>.py.

They judge the installed torch_npu (or a staged build on PYTHONPATH). The clone holds a directory of the same name
without the compiled parts, so the clone's root goes to the end of sys.path before anything imports torch, which loads
torch_npu. Tests that start programs elsewhere inherit PYTHONPATH, so its entries become absolute.
"""

import os
import sys
from pathlib import Path

_ROOT = str(Path(__file__).resolve().parents[1])
sys.path[:] = [entry for entry in sys.path if entry not in ("", _ROOT)] + [_ROOT]
if "PYTHONPATH" in os.environ:
    entries = (str(Path(entry).absolute()) for entry in os.environ["PYTHONPATH"].split(os.pathsep) if entry)
    os.environ["PYTHONPATH"] = os.pathsep.join(entry for entry in entries if entry != _ROOT)

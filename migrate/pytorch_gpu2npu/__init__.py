"""The console command pytorch_gpu2npu: runs the tool that lies in torch_npu/bin.

A package of its own, because importing torch_npu imports torch, and the tool needs neither.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path


def find_tool() -> Path | None:
    """torch_npu/bin/pytorch_gpu2npu of the installed torch_npu, which is located but not imported."""
    spec = importlib.util.find_spec("torch_npu")
    for folder in (spec.submodule_search_locations if spec else None) or []:
        tool = Path(folder) / "bin" / "pytorch_gpu2npu"
        if tool.is_file():
            return tool
    return None


def main() -> int:
    tool = find_tool()
    if tool is None:
        print(
            "pytorch_gpu2npu: the tool is not in this build of torch_npu (built with ANYCEND_MIGRATE=OFF?)",
            file=sys.stderr,
        )
        return 1
    os.execv(tool, ["pytorch_gpu2npu", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())

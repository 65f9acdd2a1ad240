"""A test's program in a process that forks from one with torch alone, and imports the plugin as torch does itself."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
ROOT = Path(__file__).resolve().parents[2]
sys.path[:] = [p for p in sys.path if p not in ("", str(ROOT))]

import torch  # noqa: E402

from tests.core import program  # noqa: E402


def main() -> int:
    text = program.received()
    torch._import_device_backends()
    return program.executed(text)

"""The command msprof of the root under test, and its reader of records."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.runtime.acl import library_folder

HOME = library_folder().parent / "tools" / "profiler"
sys.path.insert(0, str(HOME / "profiler_tool" / "analysis"))
try:
    from msprof import msprof as command  # noqa: F401
    from msprof.recorded import Damaged, Profile  # noqa: F401
finally:
    sys.path.pop(0)


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(HOME / "bin" / "msprof"), *arguments]
    given = {**os.environ, **environment}
    return subprocess.run(command, env=given, capture_output=True, text=True, timeout=600)

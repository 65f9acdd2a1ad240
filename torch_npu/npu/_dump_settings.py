"""The file that torch.npu.set_dump reads: CANN's JSON for dumps, of which single operators have a part.

Who uses it: dump.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

MODES = {"input": ("input",), "output": ("output",), "all": ("input", "output")}
# What is accepted besides dump_path, the default first.
VALUES = {
    "dump_mode": ("output", "input", "all"),
    "dump_op_switch": ("off", "on"),
    "dump_level": ("all", "op", "kernel"),
    "dump_data": ("tensor",),
    "dump_debug": ("off",),
    "dump_list": ([],),
}


class DumpSettings(NamedTuple):
    path: Path
    sides: tuple[str, ...]  # of "input", "output"
    on: bool


def _refuse(file: str, what: str) -> ValueError:
    return ValueError(f"npu: set_dump: {file}: {what}")


def read(file: str) -> DumpSettings:
    """Raises OSError for a file that cannot be read, ValueError for what it does not say or what is not done here."""
    try:
        data: Any = json.loads(Path(file).read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise _refuse(file, f"no JSON: {error}") from None
    except OSError as error:
        told = f"npu: set_dump: {file} cannot be read ({error.strerror}): give the JSON file that describes the dump"
        raise type(error)(error.errno, told) from error
    given = data.get("dump") if isinstance(data, dict) else None
    if not isinstance(given, dict):
        raise _refuse(file, 'it has no object "dump"')
    path = given.get("dump_path")
    if not isinstance(path, str) or not path:
        raise _refuse(file, "dump_path is missing: the folder for the dump")
    for key, value in given.items():
        if key != "dump_path" and key not in VALUES:
            raise _refuse(file, f"{key} is not done here; there are dump_path, {', '.join(VALUES)}")
        if key in VALUES and value not in VALUES[key]:
            allowed = " or ".join(json.dumps(each) for each in VALUES[key])
            raise _refuse(file, f"{key} is {allowed} here, not {json.dumps(value)}")
    mode = given.get("dump_mode", VALUES["dump_mode"][0])
    return DumpSettings(Path(path), MODES[mode], given.get("dump_op_switch", "off") == "on")

"""anycend compare -- command: the command with each operator on the CPU, too; one report of all its processes.

The plugin of the command's own Python compares (torch_npu.utils.compare), asked by ANYCEND_COMPARE; here its processes'
findings are put together. Exit codes: the command's own if it failed, else 3 if something deviated, else 0.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from . import Refused
from .arguments import whole
from .failure import one_line

DEVIATED = 3
UNITS = {"K": 10, "M": 20, "G": 30}


def number_of_bytes(text: str) -> int:
    """256M, 1G, 4096."""
    digits, shift = (text[:-1], UNITS[text[-1]]) if text[-1:] in UNITS else (text, 0)
    number = whole(digits) if digits.isdecimal() else None
    if not number or number << shift >= 1 << 63:
        raise Refused(f"--limit {text} is no number of bytes from 1 on, such as 64M or 1G")
    return number << shift


def tolerances(given: list[str]) -> dict[str, float]:
    found = {}
    for one in given:
        kind, _, number = one.partition("=")
        try:
            found[kind] = float(number)
        except ValueError:
            raise Refused(f"--rtol {one} is not of the form TYPE=NUMBER, such as float32=1e-3") from None
    return found


def wait(command: list[str], folder: Path) -> int:
    """The command's exit code, with a shell's number for a signal."""
    try:
        process = subprocess.Popen(command, env={**os.environ, "ANYCEND_COMPARE": str(folder)})
    except OSError as error:
        raise Refused(f"{command[0] or 'the command is empty'}: {error.strerror}") from None
    while True:
        try:
            code = process.wait()
            return code if code >= 0 else 128 - code
        except KeyboardInterrupt:  # it has got the signal, too, and ends with what it found
            continue


def run(command: list[str], output: Path, rtol: list[str], limit: str) -> int:
    command = command[1:] if command[:1] == ["--"] else command
    if not command:
        raise Refused("no command: anycend compare -- python train.py")
    if os.environ.get("ANYCEND_COMPARE"):
        raise Refused("ANYCEND_COMPARE is set: a comparison runs around this one; unset it")
    folder = output.resolve()
    settings = {"rtol": tolerances(rtol), "limit": number_of_bytes(limit)}
    try:
        from torch_npu.utils.compare import report
        from torch_npu.utils.compare.findings import Findings
        from torch_npu.utils.compare.tolerance import Tolerances
    except ImportError as error:
        raise Refused(f"compare needs anycend's own torch_npu in this environment: {error}") from None
    try:
        Tolerances(settings["rtol"])
    except ValueError as error:
        raise Refused(f"--rtol: {error}") from None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("process-*.json"):
            old.unlink()
        (folder / "settings.json").write_text(json.dumps(settings) + "\n", encoding="utf-8")
    except OSError as error:
        raise Refused(one_line(error, "-o names another folder", folder)) from None
    code = wait(command, folder)
    found = Findings()
    files = sorted(folder.glob("process-*.json"))
    for file in files:
        try:
            found.merge(file, file.stem.removeprefix("process-") if len(files) > 1 else "")
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            why = (
                error.strerror
                if isinstance(error, OSError)
                else "its process ended while it wrote it, or the disk is full"
            )
            raise Refused(f"{file} cannot be read ({why}): run it again with -o of a folder that has room") from None
    if not files and code:
        print(
            f"anycend compare: `{' '.join(command)}` ended with status {code} and left no findings: nothing ran on the "
            "npu, or the process ended by a signal or os._exit, which leaves none",
            file=sys.stderr,
        )
        return code
    if not files:
        raise Refused(
            f"no process of `{' '.join(command)}` ran an operator on the npu in its main thread: is its device 'npu'?"
        )
    try:
        report.write(found, folder)
    except OSError as error:
        raise Refused(one_line(error, "make room there", folder)) from None
    print(f"{report.text(found)}\n  {folder / 'compare.html'}, {folder / 'compare.csv'}", flush=True)
    return code or (DEVIATED if found.first else 0)

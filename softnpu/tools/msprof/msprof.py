"""The command msprof: profiles a program on the software NPU, and makes tables, a timeline and databases of it."""

from __future__ import annotations

import argparse
import functools
import json
import os
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from . import export
from .recorded import Damaged, Profile, damaged, profiles

HELP = """\
msprof [--output=FOLDER] [--type=text|db] command arguments...   profiles the command, then exports
msprof --export=on --output=FOLDER [--type=text|db]              tables and a timeline, or a database, of PROF_*
msprof --analyze=on --output=FOLDER [--type=text|db]             communication: times, bytes, links
msprof --query=on --output=FOLDER                                what profiles there are: of which process, device, when

--output        of a command: where PROF_* is made, by default here. Else: a PROF_* folder, or one that has some.
--type          text (the default): csv and json; db: SQLite.
--rule          of --analyze: communication (times) or communication_matrix (links) alone; by default both.
--application   "command arguments...": the same as to write it behind the options.
--ascendcl, --task-time, --hccl, --msproftx, --runtime-api, --model-execution   on: always recorded.
--version       of the CANN whose interface this follows.
Off, and what asks for figures of hardware (--ai-core, --aic-metrics, --aicpu, --l2, --sys-*, ...): ignored with a
warning.
"""
ALWAYS = ("ascendcl", "task-time", "hccl", "msproftx", "runtime-api", "model-execution", "ge-api")
# Of the devices' memory, which a program asks for itself.
MEMORY = ("sys-hardware-mem", "sys-hardware-mem-freq")
# What CANN's msprof has besides, of hardware: said to be ignored.
NEVER = (
    "ai-core", "aic-mode", "aic-freq", "aic-metrics", "aicpu", "l2", "sys-io-profiling", "sys-io-sampling-freq",
    "sys-interconnection-profiling", "sys-interconnection-freq", "sys-profiling", "sys-sampling-freq",
    "sys-pid-profiling", "sys-pid-sampling-freq", "sys-cpu-profiling", "sys-cpu-freq", "sys-devices",
    "dvpp-profiling", "dvpp-freq", "llc-profiling", "instr-profiling", "instr-profiling-freq", "host-sys",
    "host-sys-usage", "storage-limit", "task-memory",
)  # fmt: skip
_BY_THE_PROGRAM = "memory is recorded where the program calls aclprofSetConfig with ACL_PROF_SYS_HARDWARE_MEM_FREQ"
# The vendor's profiler looks for the exported files every 0.1 s, and gives up if this command ends before it has seen
# them.
_SEEN = 0.3
# Of rows that were read, what no table can be made of: numbers of any size, and two of what there is one of.
_NO_TABLE = (ArithmeticError, ValueError, sqlite3.DataError, sqlite3.IntegrityError)


class Refused(Exception):
    """What cannot be done, and the remedy: one line for a person."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:
        raise Refused(f"{message}; `msprof --help` lists the options")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="msprof", add_help=False, allow_abbrev=False)
    parser.add_argument("--help", "-h", action="store_true")
    parser.add_argument("--version", action="store_true")
    parser.add_argument("--output")
    parser.add_argument("--type", default="text", choices=("text", "db"))
    parser.add_argument("--application")
    for name in ("export", "analyze", "query"):
        parser.add_argument(f"--{name}", choices=("on", "off"), default="off")
    parser.add_argument("--rule", choices=tuple(export.RULES))
    for name in ALWAYS:
        parser.add_argument(f"--{name}")
    for name in (*MEMORY, *NEVER):
        parser.add_argument(f"--{name}")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    return parser


def _make(folder: Path, makes: tuple[Callable[[Profile], Path | None], ...], says_none: bool) -> None:
    """What they make of the folder is printed. Raises Damaged, and OSError or OperationalError for what cannot be
    written."""
    profile = Profile(folder)
    if profile.lost:
        print(
            f"[WARNING] msprof: {folder} lacks records: process {profile.process} had no disk or memory for them, and "
            "what is made of it counts too few: make room and profile anew",
            file=sys.stderr,
        )
    elif not profile.whole:
        print(
            f"[WARNING] msprof: {folder}: process {profile.process} has not ended its profile: it still runs, was "
            "killed, or left by os._exit, and its last records, up to 1 MB, are missing",
            file=sys.stderr,
        )
    for make in makes:
        try:
            made = make(profile)
        except _NO_TABLE as error:
            raise damaged(folder, error) from error
        if made:
            print(f"[INFO] {made}")
        elif says_none:
            print(f"[INFO] {folder} has no communication: there is nothing to analyze")


def _made(folders: list[Path], *makes: Callable[[Profile], Path | None], says_none: bool = False) -> int:
    """1 where a folder is damaged or cannot be written, which is said; the others are made all the same."""
    status = 0
    for one in folders:
        try:
            _make(one, makes, says_none)
        except Damaged as error:
            print(f"[ERROR] msprof: {error}", file=sys.stderr)
            status = 1
        except (OSError, sqlite3.OperationalError) as error:  # a full disk's names no file
            file, why = getattr(error, "filename", None) or one, getattr(error, "strerror", None) or error
            print(f"[ERROR] msprof: {file}: {why}: allow it or make room there, then --export=on", file=sys.stderr)
            status = 1
    return status


def _version() -> str:
    """That of the root in which this lies: <root>/tools/profiler/profiler_tool/analysis/msprof."""
    text = (Path(__file__).resolve().parents[5] / "runtime" / "version.info").read_text(encoding="utf-8")
    return text.strip().partition("=")[2]


def _each(folder: str | None, make: Callable[[Profile], Path | None], says_none: bool = False) -> int:
    if folder is None:
        raise Refused("--output is missing: name a PROF_* folder, or one that has some")
    found = profiles(Path(folder).resolve())
    if not found:
        raise Refused(f"{folder} has no PROF_* folder: name one that `msprof command` or a profiler made")
    return _made(found, make, says_none=says_none)


def _query(folder: str | None) -> int:
    """A table with CANN's headings. Models and their iterations are of graphs compiled offline, of which none runs."""
    rows = [("Job Info", "Device ID", "Dir Name", "Collection Time", "Model ID", "Iteration Number",
             "Top Time Iteration", "Rank ID")]  # fmt: skip

    def look(profile: Profile) -> None:
        times = [row["start"] for kind in profile.rows.values() for row in kind]
        began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(min(times) / 1e9)) if times else "N/A"
        ranks = sorted({one["group_rank"] for one in profile.groups.values()})
        for device in profile.devices() or ["N/A"]:
            rows.append((f"process {profile.process}", str(device), profile.folder.name, began, "N/A", "N/A", "N/A",
                         str(ranks[-1]) if ranks else "N/A"))  # fmt: skip

    status = _each(folder, look)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
    return status


def _run(command: list[str], output: str | None, kind: str) -> int:
    """The command's own status; 1 where it left no profile, or one that cannot be exported."""
    folder = Path(output or ".").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    before = set(profiles(folder))
    if shutil.which(command[0]) is None:
        raise Refused(f"{command[0]}: not found")
    # The second is CANN's own: by it the vendor's profiler knows that it must not profile as well.
    environment = {
        **os.environ,
        "ANYCEND_MSPROF": str(folder),
        "PROFILER_SAMPLECONFIG": json.dumps({"result_dir": str(folder)}),
    }
    program = subprocess.Popen(command, env=environment)
    # A terminal interrupts both; a plain end is passed on. Either way the program's records are exported.
    kept = {signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
            signal.SIGTERM: signal.signal(signal.SIGTERM, lambda number, _: program.send_signal(number))}  # fmt: skip
    status = program.wait()
    for number, handler in kept.items():
        signal.signal(number, handler)
    made = [one for one in profiles(folder) if one not in before]
    makes = (export.db, export.analyze_db) if kind == "db" else (export.text, export.analyze_text)
    exported = _made(made, *makes)
    if not made:
        print(
            "[WARNING] msprof: the command put nothing on a software NPU, or has said above why its profile could not "
            "be made: is it run with this one's libraries?",
            file=sys.stderr,
        )
    return 128 - status if status < 0 else status or (exported if made else 1)


def main(arguments: list[str] | None = None) -> int:
    try:
        given = _parser().parse_args(sys.argv[1:] if arguments is None else arguments)
        if given.help or len(sys.argv if arguments is None else ["", *arguments]) == 1:
            print(HELP, end="")
            return 0
        if given.version:
            print(f"msprof of the software NPU, CANN {_version()}")
            return 0
        for name in (*MEMORY, *NEVER):
            if getattr(given, name.replace("-", "_")) not in (None, "off"):
                why = _BY_THE_PROGRAM if name in MEMORY else "it asks for figures of hardware, of which there is none"
                print(f"[WARNING] msprof: --{name} is ignored: {why}", file=sys.stderr)
        for name in ALWAYS:
            if getattr(given, name.replace("-", "_")) == "off":
                print(f"[WARNING] msprof: --{name}=off is ignored: it is always recorded", file=sys.stderr)
        if given.rule and given.analyze != "on":
            print("[WARNING] msprof: --rule is ignored: it chooses what --analyze=on makes", file=sys.stderr)
        if given.export == "on":
            status = _each(given.output, export.db if given.type == "db" else export.text)
            time.sleep(_SEEN)
            return status
        if given.analyze == "on":
            analyze = export.analyze_db if given.type == "db" else export.analyze_text
            return _each(given.output, functools.partial(analyze, rule=given.rule), says_none=True)
        if given.query == "on":
            return _query(given.output)
        named = given.command[1:] if given.command[:1] == ["--"] else given.command
        command = shlex.split(given.application or "") + named
        if not command:
            raise Refused(
                "neither --export=on, --analyze=on, --query=on nor a command; `msprof --help` lists what there is"
            )
        return _run(command, given.output, given.type)
    except (Refused, Damaged, OSError) as error:
        print(f"[ERROR] msprof: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())

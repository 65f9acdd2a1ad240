"""Does NPU code run in this environment, and on which CANN? Each finding is a line, with its remedy where it is wrong.

What is installed and set is read here, without importing it; whether it works is tried in a process of its own
(trial.py), whose crash or hang is a finding, too; patience.py tells a hang from a machine under load.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import resource
import sys
import textwrap
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path

from . import Refused, patience, preflight, root, torch_version, values
from .arguments import MOST_SECONDS
from .failure import one_line
from .finding import Finding

PREFIXES = ("ANYCEND_", "ASCEND_", "HCCL_", "HCCN_", "TORCH_NPU_", "TORCH_HCCL_", "TORCH_TRANSFER_", "PYTORCH_NPU_")
# Taken with the vendor's meaning, of which there is nothing here: the value that asks for it, and what is missing.
NOTHING_OF = {"ASCEND_GLOBAL_EVENT_ENABLE": ("1", "the software NPU logs no events")}
# Read by the launchers, the shell and UCX, too: of these neither values nor likely misspellings are of interest here.
OTHERS = {"HOME", "MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "XDG_RUNTIME_DIR",
          "CUDA_VISIBLE_DEVICES", "TORCHELASTIC_USE_AGENT_STORE", "UCX_TLS", "UCX_NET_DEVICES",
          "UCX_MEM_EVENTS"}  # fmt: skip
# PyTorch's own that change what happens to NPU code: the value that does (None: any), and what then happens.
OF_PYTORCH = {
    "CUDA_VISIBLE_DEVICES": (None, "chooses no NPU; ASCEND_RT_VISIBLE_DEVICES does"),
    "TORCH_DEVICE_BACKEND_AUTOLOAD": ("0", "import torch loads no plugin: scripts have to import torch_npu"),
}
# libhccl's, which says what it refuses when the first group is made.
OF_GROUPS = ("HCCL_", "ANYCEND_HCCL_", "ANYCEND_HOST_TIMEOUT")
LONGEST = 500  # characters of a message of the trial
FILES = 1024  # a rank of a job of eight has some hundred sockets, pipes and memory files
RANKS = 16  # two hosts of eight, the documents' example
HERE = Path(__file__).resolve().parent


def installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def check_packages() -> Iterator[Finding]:
    found = {name: installed(name) for name in ("torch", "anycend", "anycend-softnpu", "torch-npu")}
    wanted = torch_version()
    yield Finding(True, f"Python {sys.version.split()[0]} in {sys.prefix}")
    if found["torch"] is None:
        yield Finding(False, "torch is not installed", f"pip install torch=={wanted}")
    else:
        series = wanted.rpartition(".")[0]
        right = found["torch"].startswith(f"{series}.")
        remedy = "" if right else f"torch_npu is built for {series}.x: pip install torch=={wanted}"
        yield Finding(right, f"torch {found['torch']}", remedy)
    for name in ("anycend", "anycend-softnpu", "torch-npu"):
        if found[name]:
            yield Finding(True, f"{name} {found[name]}")
    if found["anycend"] and found["torch-npu"]:
        yield Finding(
            False,
            "anycend and the vendor's torch-npu are both installed; they own the same module torch_npu",
            "pip uninstall anycend torch-npu, then install the one you want (the vendor's goes with anycend-softnpu)",
        )
    elif not found["anycend"] and not found["torch-npu"]:
        yield Finding(None, "no torch_npu is installed: programs in C and C++ run, PyTorch has no device npu",
                      "pip install . in a clone of anycend")  # fmt: skip


def known_variables() -> set[str]:
    return set((HERE / "variables.txt").read_text(encoding="utf-8").split())


def set_here() -> dict[str, str]:
    """What set_env.sh sets to a place in the root."""
    try:
        place = root()
        script = (place / "set_env.sh").read_text(encoding="utf-8")
    except (Refused, OSError):
        return {}
    return {
        name: f"{place}{tail}" for name, tail in re.findall(r'^export (\w+)="\$\{_anycend_root\}(.*)"$', script, re.M)
    }


def refusal(seconds: float) -> str:
    """What the software NPU's library says about its variables: the first that it cannot take. Empty: nothing."""
    try:
        *_, end = patience.follow([sys.executable, "-I", "-S", str(HERE / "trial.py"), str(root())], seconds)
        return "".join(what for ok, what, _ in json.loads(end.output) if ok is False)
    except (Refused, ValueError):
        return ""  # check_root and check_trial say so


LEVELS = {"debug": 0, "info": 1, "warning": 2, "warn": 2, "error": 3, "null": 4, "none": 4}


TOOLKITS = ("ANYCEND_CANN", "ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")
LIBRARIES = ("libascendcl.so", "libhccl.so", "libnnopbase.so", "libopapi.so")  # what the plugin opens
LIBRARY = "lib64/libascendcl.so"  # without it a folder is no toolkit
SOFT = "share/info/anycend/version.info"  # with it a toolkit is a software NPU


def damaged(place: Path) -> str:
    """Why the folder is no toolkit, or is a software NPU that lacks something. Empty: it can be used."""
    if not (place / LIBRARY).exists():
        return f"{LIBRARY} is missing there"
    if not (place / SOFT).is_file() or re.match(rb"Version=\d", (place / SOFT).read_bytes()):
        return ""
    return f"{SOFT} there does not begin with Version="


def ignored(name: str, value: str) -> tuple[str, str] | None:
    """What is wrong with a value that the library takes without a word, or names no toolkit by; and the remedy."""
    if name == "ASCEND_GLOBAL_LOG_LEVEL" and not re.fullmatch("[0-4]?", value):
        levels = "0 debug, 1 info, 2 warning, 3 error, 4 nothing"
        number = LEVELS.get(value.strip().lower())
        return "is no level, and 3 is used", f"give a number: {levels}" if number is None else f"set {name}={number}"
    if name == "ASCEND_RT_VISIBLE_DEVICES" and not re.fullmatch(r"(\d{1,18}(,\d{1,18})*)?", value, re.ASCII):
        return "is no list of numbers: it is read up to what is none", f"set {name}=0,1 for the first two, or unset it"
    if name == "ASCEND_RT_VISIBLE_DEVICES" and "," in value:
        ids = [int(part) for part in value.split(",")]
        if stop := next((i for i in range(1, len(ids)) if ids[i] <= ids[i - 1]), 0):
            ascending = ",".join(map(str, sorted(set(ids))))
            return f"is read up to {ids[stop - 1]} only: ids must ascend", f"set {name}={ascending}"
    if name in TOOLKITS and value not in ("", "auto", "soft") and (why := damaged(Path(value))):
        why = why if Path(value).is_dir() else "there is no such folder"
        return f"is no CANN toolkit: {why}", f"unset {name}, or source the set_env.sh of a toolkit"
    return None


def refused(name: str, kind: str, environment: Mapping[str, str]) -> tuple[str, str] | None:
    """What is wrong with a value by the column `values` of docs/env.yaml."""
    if found := values.wrong(kind, environment[name], environment):
        what, remedy = found
        when = " when ranks meet" if what == values.REFUSED and name.startswith(OF_GROUPS) else ""
        return what + when, remedy
    return None


def check_variables(environment: Mapping[str, str], said: str = "") -> Iterator[Finding]:
    """A variable that nobody reads does nothing, silently: most often it is misspelt. `said` is refusal()'s."""
    known, ours, kinds = known_variables(), set_here(), values.table()
    others = {name for name in known if not name.startswith(PREFIXES)} - OTHERS
    for name in sorted(environment):
        if name in OF_PYTORCH and OF_PYTORCH[name][0] in (None, environment[name]):
            yield Finding(None, f"{name}={environment[name]}: {OF_PYTORCH[name][1]}")
        if not name.startswith(PREFIXES) and name not in others:
            if name not in known and (near := difflib.get_close_matches(name, others, 1, 0.9)):
                yield Finding(False, f"{name} is read by nobody here", f"unset it; did you mean {near[0]}?")
            continue
        kind = kinds.get(name, "")
        line = f"{name}={values.shown(kind, environment[name])}"
        if name in known and f" {line}: " in said:
            yield Finding(False, line, said.split(f" {line}: ", 1)[1])
        elif wrong := ignored(name, environment[name]) or refused(name, kind, environment):
            yield Finding(False, f"{line} {wrong[0]}", wrong[1])
        elif name in NOTHING_OF and NOTHING_OF[name][0] == environment[name]:
            yield Finding(None, f"{line}: {NOTHING_OF[name][1]}")
        elif name in known or ours.get(name) == environment[name]:
            yield Finding(True, line)
        elif name not in ours and (near := difflib.get_close_matches(name, known, 1, 0.85)):
            yield Finding(False, f"{name} is read by nobody here", f"unset it; did you mean {near[0]}?")
        elif name.startswith("ANYCEND_"):
            yield Finding(False, f"{name} is read by nobody", "unset it; anycend docs env lists the variables")
        else:
            yield Finding(None, f"{name}={environment[name]} is not read here; the vendor's own libraries may")


def check_root(environment: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    try:
        own = root()
    except Refused as refusal:
        yield Finding(False, *str(refusal).split(": ", 1))
        return
    broken = [f"{name} {why}" for name, why in unusable(own)]
    if broken:
        yield Finding(False, f"software NPU in {own}: {', '.join(broken)}", "reinstall this distribution")
    else:
        yield Finding(True, f"software NPU in {own}")
    for place, whence in other_roots(own, environment):
        if whence == "ANYCEND_CANN":
            yield Finding(None, f"another software NPU in {place}, which ANYCEND_CANN names: torch_npu uses that one")
        else:
            yield Finding(None, f"another software NPU in {place}, {whence}: torch_npu here uses the one in {own}")


def unusable(own: Path) -> Iterator[tuple[str, str]]:
    """Libraries of the root that are missing, or end before their last section: a full disk, an interrupted copy."""
    found = {path.name for path in (own / "lib64").glob("*.so")}
    for name in sorted(found | set(LIBRARIES)):
        path = own / "lib64" / name
        if not path.is_file():
            yield f"lib64/{name}", "is missing"
            continue
        with path.open("rb") as file:
            head = file.read(64)
        if len(head) < 64 or head[:5] != b"\x7fELF\2":
            yield f"lib64/{name}", "is no library"
        elif path.stat().st_size < int.from_bytes(head[40:48], "little") + 64 * int.from_bytes(head[60:62], "little"):
            yield f"lib64/{name}", "is incomplete"


def other_roots(own: Path, environment: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """Software NPUs that are not this environment's own: each once, and what names it or how it got there."""
    seen = {(own / "lib64").resolve()}
    named = [(Path(environment[name]), name) for name in TOOLKITS if environment.get(name)]
    beside = [(HERE.parent / "torch_npu" / "softnpu", "installed"), (HERE.parent / "softnpu", "installed")]
    for place, whence in named + beside:
        lib = (place / "lib64").resolve()
        if lib in seen or not (place / SOFT).is_file() or damaged(place):  # check_variables says of a damaged one
            continue
        seen.add(lib)
        if whence == "installed":
            yield place, "installed beside this one"
        else:
            yield place, whence if whence == "ANYCEND_CANN" else f"which {whence} names"


def check_limits() -> Iterator[Finding]:
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    enough = files == resource.RLIM_INFINITY or files >= FILES
    yield Finding(enough, f"open files: {files}", "" if enough else f"ulimit -n {FILES}")
    space = resource.getrlimit(resource.RLIMIT_AS)[0]
    if space != resource.RLIM_INFINITY:
        yield Finding(
            False,
            f"address space is limited to {space >> 20} MiB; a device's memory is reserved as a range, then filled",
            "ulimit -v unlimited",
        )


def check_ports(environment: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """Settings of the kernel that the documents ask for: notes, as jobs of one host need none of them."""
    for ok, what, remedy in preflight.check_kernel(preflight.base_port(environment) or preflight.BASE, RANKS):
        yield Finding(True if ok else None, what, f"for several hosts: {remedy}" if remedy else "")


def check_trial(seconds: float) -> Iterator[Finding]:
    """Runs trial.py; what it prints on its last line are findings. That it takes long is none, and told."""
    try:
        command = [sys.executable, str(HERE / "trial.py"), str(root())]
    except Refused:
        return
    again = " ".join(command)
    for end in patience.follow(command, seconds):
        if isinstance(end, patience.Waiting):
            load = f"load {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} processors"
            yield Finding(None, f"a + b on npu:0 takes {end.seconds:.0f} s so far and is waited for: {end.doing}",
                          f"it {end.state}; {load}")  # fmt: skip
    lines = end.output.splitlines()
    if end.status is None:
        yield Finding(
            False,
            f"a + b on npu:0 {end.why}",
            f"--timeout {min(5 * seconds, MOST_SECONDS):g} waits longer; to see where: {again}",
        )
    elif end.status == 0 and lines:
        for ok, what, remedy in json.loads(lines[-1]):
            yield Finding(ok, what, remedy)
    else:
        how = f"signal {-end.status}" if end.status < 0 else f"exit code {end.status}"
        yield Finding(False, f"a + b on npu:0 failed ({how}): {because(lines, end.errors)}",
                      f"the whole message: {again}")  # fmt: skip


def because(lines: list[str], errors: str) -> str:
    """Why it failed: the exception that ended it, and what that came from, as trial.py says; else the last line."""
    try:
        chain = json.loads(lines[-1])["failed"]
    except (IndexError, ValueError, KeyError, TypeError):
        said = [line for line in errors.splitlines() if line.strip()]
        return said[-1] if said else "nothing was said"
    return "; because of ".join(textwrap.shorten(text, LONGEST, placeholder=" ...") for text in chain)


def check(seconds: float) -> Iterator[Finding]:
    steps = (
        check_packages, check_root, lambda: check_variables(os.environ, refusal(seconds)), check_limits, check_ports,
        lambda: check_trial(seconds),
    )  # fmt: skip
    for step in steps:
        try:
            yield from step()
        except OSError as error:  # of this step; the others may find why
            what, _, remedy = one_line(error, "reinstall this distribution").rpartition(": ")
            yield Finding(False, what, remedy)

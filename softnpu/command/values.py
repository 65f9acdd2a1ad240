"""Whether a variable has a value that it takes, by the column `values` of docs/env.yaml (here values.txt).

What stands there: words and ranges with | between, `0 with NAME` for a word that needs another variable, too; or the
kind of a value, a row of KINDS. The doctor asks, of what would be refused later, or ignored, when nobody looks.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

from .arguments import whole

Wrong = tuple[str, str]  # what is wrong with it, and the remedy
TABLE = Path(__file__).resolve().parent / "values.txt"
RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)?")
REFUSED = "is refused"
SHORTEST = 16  # characters of a secret, as softnpu/hccl/settings.cpp has it


def table() -> dict[str, str]:
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    return {name: kind for name, _, kind in (line.partition(" ") for line in lines)}


def wrong(kind: str, value: str, environment: Mapping[str, str]) -> Wrong | None:
    """None: the variable takes it, or nothing is known of its values. An empty one is as none."""
    if not value or not kind:
        return None
    return KINDS[kind](value) if kind in KINDS else _wrong_choice(kind, value, environment)


def shown(kind: str, value: str) -> str:
    """A secret is in no report."""
    return "***" if kind == "secret" else value


def _wrong_choice(kind: str, value: str, environment: Mapping[str, str]) -> Wrong | None:
    choices, texts = kind.split(" | "), []
    for choice in choices:
        word, _, needed = choice.partition(" with ")
        if found := RANGE.fullmatch(word):
            low, high = int(found[1]), int(found[2]) if found[2] else None
            number = whole(value)
            if number is not None and low <= number and (high is None or number <= high):
                return None
            texts.append(f"a whole number from {low} {'on' if high is None else f'to {high}'}")
        elif value == word:
            if needed and not environment.get(needed):
                return f"needs {needed}, too", f"set {needed}, or unset it"
            return None
        else:
            texts.append(word)
    listed = " or ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))
    return REFUSED, f"give {listed}, or unset it"


def _wrong_file(value: str) -> Wrong | None:
    if Path(value).is_file() and os.access(value, os.R_OK):
        return None
    why = "cannot be read" if Path(value).is_file() else "is a folder" if Path(value).is_dir() else "is no file"
    return why, "name a file that is there and can be read, or unset it"


def _wrong_secret_file(value: str) -> Wrong | None:
    if found := _wrong_file(value):
        return found
    if Path(value).stat().st_mode & 0o77:
        return "can be read by others than its owner", f"chmod 600 {value}"
    short = len(Path(value).read_bytes().rstrip(b"\r\n"))
    return None if short >= SHORTEST else (f"holds {short} characters", _longer(f" > {value}"))


def _wrong_secret(value: str) -> Wrong | None:
    size = len(value.encode(errors="surrogateescape"))
    return None if size >= SHORTEST else (f"has {size} characters", _longer(""))


def _longer(into: str) -> str:
    return f"a secret needs {SHORTEST} or more, on all ranks the same: openssl rand -hex 16{into}"


def _wrong_folders(value: str) -> Wrong | None:
    away = [part for part in value.split(":") if part and not Path(part).is_dir()]
    return (f"names no folder: {', '.join(away)}", "name folders that are there, or unset it") if away else None


def _wrong_place(value: str) -> Wrong | None:
    """A folder that is there, or is made when it is needed."""
    place = Path(value)
    first = next(one for one in (place, *place.absolute().parents) if one.exists())
    if not first.is_dir():
        return f"is no folder: {first} is a file", "name a folder, or unset it"
    return None if os.access(first, os.W_OK) else (f"cannot be written: {first}", "name a folder of yours, or unset it")


def _wrong_address(value: str) -> Wrong | None:
    try:
        address = ipaddress.ip_address(value)
    except ValueError:
        return (
            "is no address",
            "give an address of this host in numbers, as `ip -brief address` lists them, or unset it",
        )
    with socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6) as probe:
        try:
            probe.bind((value, 0))
        except OSError:
            return "is no address of this host", "give one that `ip -brief address` lists, or unset it"
    return None if str(address) == value else ("is not the usual form of the address", f"write {address}")


def _wrong_interfaces(value: str) -> Wrong | None:
    """As libhccl chooses: beginnings of names, =whole names, ^beginnings that are left out."""
    exclude, exact = value[0] == "^", value[0] == "="
    items = [item for item in value[exclude or exact :].split(",") if item]
    there = [name for _, name in socket.if_nameindex() if _is_up(name)]
    for name in there:
        if any(name == item if exact else name.startswith(item) for item in items) != exclude:
            return None
    return "fits no interface of this host that is up", f"choose of {', '.join(there)}, or unset it"


def _is_up(name: str) -> bool:
    try:
        return bool(int(Path("/sys/class/net", name, "flags").read_text(), 16) & 1)
    except (OSError, ValueError):
        return True  # not said: a container without /sys


KINDS: dict[str, Callable[[str], Wrong | None]] = {
    "file": _wrong_file,
    "folders": _wrong_folders,  # with : between
    "place": _wrong_place,
    "secret": _wrong_secret,
    "secret file": _wrong_secret_file,
    "address": _wrong_address,
    "interfaces": _wrong_interfaces,
}

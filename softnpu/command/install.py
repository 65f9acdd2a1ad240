"""`anycend install --prefix FOLDER`: the software NPU where documents and scripts look for CANN, as links to its root.

A record in the folder says what was made; uninstall takes back that and nothing else. A folder in which anything of
CANN's own names was not made here is refused, before anything is done.
"""

from __future__ import annotations

import contextlib
import fnmatch
import json
import os
from pathlib import Path

from . import Refused
from .failure import again, need_rights, one_line

RECORD = "anycend-install.json"
DEFAULT = Path("/usr/local/Ascend")
# Below the folder, and what of the root it leads to.
LINKS = {
    "ascend-toolkit/latest": ".",
    "ascend-toolkit/set_env.sh": "set_env.sh",
    "nnae/latest": ".",
    "nnae/set_env.sh": "set_env.sh",
    "driver/tools/msnpureport": "bin/msnpureport",
}
LEAD = "ascend-toolkit"  # install makes this folder of the prefix always
# What CANN's own installers make there: one of these, and the folder is theirs.
VENDORS = ("ascend-toolkit", "cann", "cann-*", "driver", "firmware", "latest", "nnae", "nnal", "nnrt", "tfplugin")


def read_record(prefix: Path) -> dict:
    """What install made: the root, links (path below the folder → target), folders from the outermost to the innermost.

    Empty where there is none. Of a prefix that was moved since, the folders are those of the new place; what had been
    made above the old one is none of it. Raises Refused for one that cannot be read.
    """
    try:
        found = json.loads((prefix / RECORD).read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise TypeError("it is no record")
        root, links, folders = found.get("root"), found.get("links"), found.get("folders")
        if not isinstance(links, dict) or not isinstance(folders, list):
            raise TypeError("it has no links and folders")
        old = found.get("prefix", "")
        if not all(isinstance(text, str) for text in (root, *links.values(), *folders, old)):
            raise TypeError("something that is no text is where a path belongs")
        if any(Path(path).is_absolute() or ".." in Path(path).parts or not Path(path).parts for path in links):
            raise ValueError("a link lies outside of the folder")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise Refused(f"{prefix / RECORD} cannot be read ({why}): see by hand what is in {prefix}") from None
    if not old:  # a record of an older version
        old = max((Path(folder) for folder in folders if Path(folder).name == LEAD), default=prefix / LEAD).parent
    return {"root": root, "links": links, "folders": _moved(folders, Path(old), prefix)}


def _moved(folders: list[str], old: Path, new: Path) -> list[str]:
    """The folders below `new` that were made below `old`; those above it where both are one by two names."""
    same = old == new or (old.exists() and new.exists() and old.samefile(new))
    return [
        str(new / Path(folder).relative_to(old)) if Path(folder).is_relative_to(old) else folder
        for folder in folders if same or Path(folder).is_relative_to(old)
    ]  # fmt: skip


def foreign(prefix: Path, record: dict) -> list[Path]:
    """What there is of CANN's names that the record does not know."""
    known = {prefix / path for path in record.get("links", ())} | {Path(path) for path in record.get("folders", ())}
    found = []
    there = os.listdir(prefix) if prefix.is_dir() else []  # links that lead nowhere, too
    for top in sorted(prefix / name for name in there if any(fnmatch.fnmatch(name, one) for one in VENDORS)):
        if top not in known:
            found.append(top)
        elif not top.is_symlink():
            for folder, folders, files in os.walk(top):
                found += [path for name in (*folders, *files) if (path := Path(folder, name)) not in known]
    return found


def install(root: Path, prefix: Path) -> tuple[Path, int]:
    """Make the links. Again: the same, or those of this environment where it was another's.

    Returns the folder and the number of links. Raises Refused where the folder is CANN's own or cannot be written.
    """
    prefix = _place(prefix)
    record = read_record(prefix)
    try:
        need_rights({prefix, *((prefix / path).parent for path in LINKS)})
        theirs = foreign(prefix, record)
    except OSError as error:
        raise _refusal(error, prefix) from None
    if theirs:
        raise Refused(
            f"{theirs[0]} was not made by anycend: {prefix} holds a CANN installation, which is left as it is. "
            f"Name another folder: anycend install --prefix {Path.home() / 'Ascend'}"
        )
    missing = [name for name in LINKS.values() if not (root / name).exists()]
    if missing:
        raise Refused(f"{root} has no {', '.join(missing)}: reinstall this distribution")
    links = {path: str(root / target) for path, target in LINKS.items()}
    made: list[str] = []
    try:
        if record:
            _remove(prefix, record)
        wanted = {folder for path in LINKS for folder in (prefix / path).parents}
        made = [str(folder) for folder in sorted(wanted) if not folder.exists()]
        new = {"prefix": str(prefix), "root": str(root), "links": links, "folders": made}
        prefix.mkdir(parents=True, exist_ok=True)
        # The record first: a run that is killed leaves nothing that uninstall does not know.
        (prefix / RECORD).write_text(json.dumps(new, indent=1) + "\n", encoding="utf-8")
        for path, target in links.items():
            (prefix / path).parent.mkdir(parents=True, exist_ok=True)
            (prefix / path).symlink_to(target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            _remove(prefix, {"links": links, "folders": made})
        if isinstance(error, OSError):
            raise _refusal(error, prefix) from None
        raise
    return prefix, len(links)


def uninstall(prefix: Path) -> tuple[Path, int]:
    """Remove what install made, and folders of it that are empty then. Returns the folder and the number of links."""
    prefix = _place(prefix)
    record = read_record(prefix)
    if not record:
        raise Refused(f"nothing is installed in {prefix}: there is no {RECORD}")
    try:
        need_rights({prefix, *((prefix / path).parent for path in record["links"])})
        return prefix, _remove(prefix, record)
    except OSError as error:
        raise _refusal(error, prefix) from None


def _place(prefix: Path) -> Path:
    prefix = prefix.expanduser().absolute()
    for place in (prefix, *prefix.parents):
        if place.is_symlink() and not place.exists():
            raise Refused(
                f"{place} is a link that leads nowhere, to {os.readlink(place)}: remove it, or make that folder"
            )
    return prefix


def _refusal(error: OSError, prefix: Path) -> Refused:
    remedy = f"the folder belongs to another user: {again()}" if isinstance(error, PermissionError) else ""
    return Refused(one_line(error, remedy, prefix))


def _remove(prefix: Path, record: dict) -> int:
    """The links that are still ours, folders that are empty then, at last the record, which knows what is left."""
    count = 0
    for path, target in record["links"].items():
        link = prefix / path
        if link.is_symlink() and os.readlink(link) == target:
            link.unlink()
            count += 1
    within = [folder for folder in map(Path, record["folders"]) if folder != prefix and folder.is_relative_to(prefix)]
    outer = [folder for folder in map(Path, record["folders"]) if folder not in within]
    _remove_empty(within)
    (prefix / RECORD).unlink(missing_ok=True)
    _remove_empty(outer)
    return count


def _remove_empty(folders: list[Path]) -> None:
    for folder in reversed(folders):
        if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
            folder.rmdir()

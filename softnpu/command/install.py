"""`anycend install --prefix FOLDER`: the software NPU where documents and scripts look for CANN, as links to its root.

A record in the folder says what was made; uninstall takes back that and nothing else. A folder in which anything of
CANN's own names was not made here is refused, before anything is done.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from . import Refused

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
# What CANN's own installers make there: one of these, and the folder is theirs.
VENDORS = ("ascend-toolkit", "cann", "cann-*", "driver", "firmware", "latest", "nnae", "nnal", "nnrt", "tfplugin")


def read_record(prefix: Path) -> dict:
    """What install made: the root, links (path below the folder → target), folders from the outermost to the innermost.

    Empty where there is none. Raises Refused for one that cannot be read.
    """
    try:
        found = json.loads((prefix / RECORD).read_text(encoding="utf-8"))
        return {"root": str(found["root"]), "links": dict(found["links"]), "folders": list(found["folders"])}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Refused(f"{prefix / RECORD} cannot be read ({error}): see by hand what is in {prefix}") from None


def foreign(prefix: Path, record: dict) -> list[Path]:
    """What there is of CANN's names that the record does not know."""
    known = {prefix / path for path in record.get("links", ())} | {Path(path) for path in record.get("folders", ())}
    found = []
    for top in sorted(path for name in VENDORS for path in prefix.glob(name)):
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
    prefix = prefix.expanduser().absolute()
    record = read_record(prefix)
    if theirs := foreign(prefix, record):
        raise Refused(
            f"{theirs[0]} was not made by anycend: {prefix} holds a CANN installation, which is left as it is. "
            f"Name another folder: anycend install --prefix {Path.home() / 'Ascend'}"
        )
    missing = [name for name in LINKS.values() if not (root / name).exists()]
    if missing:
        raise Refused(f"{root} has no {', '.join(missing)}: reinstall this distribution")
    try:
        if record:
            _remove(prefix, record)
        wanted = {folder for path in LINKS for folder in (prefix / path).parents}
        made = sorted(folder for folder in wanted if not folder.exists())
        links = {path: str(root / target) for path, target in LINKS.items()}
        prefix.mkdir(parents=True, exist_ok=True)
        # The record first: a run that is interrupted leaves nothing that uninstall does not know.
        text = json.dumps({"root": str(root), "links": links, "folders": list(map(str, made))}, indent=1)
        (prefix / RECORD).write_text(text + "\n", encoding="utf-8")
        for path, target in links.items():
            (prefix / path).parent.mkdir(parents=True, exist_ok=True)
            (prefix / path).symlink_to(target)
    except OSError as error:
        raise _refusal(error) from None
    return prefix, len(links)


def uninstall(prefix: Path) -> tuple[Path, int]:
    """Remove what install made, and folders of it that are empty then. Returns the folder and the number of links."""
    prefix = prefix.expanduser().absolute()
    record = read_record(prefix)
    if not record:
        raise Refused(f"nothing is installed in {prefix}: there is no {RECORD}")
    try:
        return prefix, _remove(prefix, record)
    except OSError as error:
        raise _refusal(error) from None


def _refusal(error: OSError) -> Refused:
    again = f"sudo {' '.join([str(Path(sys.argv[0]).absolute()), *sys.argv[1:]])}"
    remedy = f": the folder belongs to another user: {again}" if isinstance(error, PermissionError) else ""
    return Refused(f"{error.filename}: {error.strerror}{remedy}")


def _remove(prefix: Path, record: dict) -> int:
    count = 0
    for path, target in record["links"].items():
        link = prefix / path
        if link.is_symlink() and os.readlink(link) == target:
            link.unlink()
            count += 1
    (prefix / RECORD).unlink()
    for folder in reversed(record["folders"]):
        if Path(folder).is_dir() and not any(Path(folder).iterdir()):
            Path(folder).rmdir()
    return count

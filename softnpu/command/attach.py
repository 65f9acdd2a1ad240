"""Links where the vendor's torch_npu looks for CANN: site-packages/torch_npu.libs, which its RPATH names.

The wheel does not own that folder's files; a record in it says which links are ours, nothing else is touched.
"""

from __future__ import annotations

import contextlib
import json
import sysconfig
from pathlib import Path

from . import Refused, torch_version
from .failure import again, need_rights, one_line

RECORD = "anycend-attached.json"


def vendor_site(folder: Path | None) -> Path:
    """The site-packages with the vendor's torch_npu."""
    site = (folder or Path(sysconfig.get_path("platlib"))).resolve()
    if not any(site.glob("torch_npu-*.dist-info")) or not (site / "torch_npu").is_dir():
        raise Refused(
            f"the vendor's torch_npu is not installed in {site}: "
            f"pip install --no-deps torch-npu=={torch_version()} there, or name another folder with --site-packages"
        )
    if any(site.glob("anycend-*.dist-info")):
        raise Refused(
            f"{site} has both the vendor's torch_npu and anycend, which own the same module: "
            "pip uninstall anycend torch-npu, then install the one you want (the vendor's goes with anycend-softnpu)"
        )
    return site


def attach(root: Path, site: Path | None) -> tuple[Path, int]:
    """Link every library of the root. Existing files that are not our links stop it before anything is done."""
    folder = vendor_site(site) / "torch_npu.libs"
    if folder.is_symlink() and not folder.exists():
        raise Refused(f"{folder} is a link that leads nowhere, to {folder.readlink()}: remove it")
    before = _read_record(folder)
    libraries = sorted((root / "lib64").glob("lib*.so"))
    own = {folder / name for name in before["links"] if _is_ours(folder / name, before)} if before else set()
    taken = [library.name for library in libraries if (folder / library.name) not in own
             and ((folder / library.name).is_symlink() or (folder / library.name).exists())]  # fmt: skip
    if taken:
        raise Refused(f"{folder} already has {', '.join(taken)}, which attach did not make: move them away first")
    record = {"root": str(root), "made_folder": not folder.exists(), "links": [library.name for library in libraries]}
    if before:
        record["made_folder"] = before["made_folder"]
    try:
        need_rights({folder})
    except OSError as error:
        raise _refusal(error, folder) from None
    try:
        folder.mkdir(exist_ok=True)
        if before:
            _remove_links(folder, before)
        # The record first: a run that is killed leaves nothing that detach does not know.
        (folder / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        for library in libraries:
            (folder / library.name).symlink_to(library)
    except BaseException as error:
        with contextlib.suppress(OSError):
            _remove(folder, record)
        if isinstance(error, OSError):
            raise _refusal(error, folder) from None
        raise
    return folder, len(libraries)


def detach(site: Path | None) -> tuple[Path, int]:
    """Remove the recorded links, and the folder if attach made it."""
    folder = (site or Path(sysconfig.get_path("platlib"))).resolve() / "torch_npu.libs"
    if not (record := _read_record(folder)):
        raise Refused(f"nothing is attached in {folder}")
    try:
        need_rights({folder})
        return folder, _remove(folder, record)
    except OSError as error:
        raise _refusal(error, folder) from None


def _read_record(folder: Path) -> dict:
    """What attach made; empty where there is none. Raises Refused for one that cannot be read."""
    place = folder / RECORD
    try:
        record = json.loads(place.read_text(encoding="utf-8"))
        whole = isinstance(record, dict) and isinstance(record.get("root"), str)
        links = record.get("links") if whole else None
        if not isinstance(links, list) or not all(isinstance(name, str) and name == Path(name).name for name in links):
            raise TypeError("it is no record of links")
        return {"root": record["root"], "links": links, "made_folder": record.get("made_folder") is True}
    except FileNotFoundError:
        return {}
    except NotADirectoryError:
        raise Refused(f"{folder} is a file, where a folder of libraries belongs: move it away") from None
    except (OSError, ValueError, TypeError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        remedy = f"remove the links in {folder} that lead to a lib64 of the software NPU, then it"
        raise Refused(f"{place} cannot be read ({why}): {remedy}") from None


def _is_ours(link: Path, record: dict) -> bool:
    return link.is_symlink() and link.readlink().parent == Path(record["root"]) / "lib64"


def _refusal(error: OSError, folder: Path) -> Refused:
    remedy = f"the folder belongs to another user: {again()}" if isinstance(error, PermissionError) else ""
    return Refused(one_line(error, remedy, folder))


def _remove_links(folder: Path, record: dict) -> int:
    ours = [folder / name for name in record["links"] if _is_ours(folder / name, record)]
    for link in ours:
        link.unlink()
    return len(ours)


def _remove(folder: Path, record: dict) -> int:
    count = _remove_links(folder, record)
    (folder / RECORD).unlink(missing_ok=True)
    if record["made_folder"] and not any(folder.iterdir()):
        folder.rmdir()
    return count

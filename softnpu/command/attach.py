"""Links where the vendor's torch_npu looks for CANN: site-packages/torch_npu.libs, which its RPATH names.

The wheel does not own that folder's files; a record in it says which links are ours, nothing else is touched.
"""

from __future__ import annotations

import json
import sysconfig
from pathlib import Path

from . import Refused, torch_version

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
    if (folder / RECORD).exists():
        _remove(folder)
    libraries = sorted((root / "lib64").glob("lib*.so"))
    taken = [library.name for library in libraries if (folder / library.name).is_symlink()
             or (folder / library.name).exists()]  # fmt: skip
    if taken:
        raise Refused(f"{folder} already has {', '.join(taken)}, which attach did not make: move them away first")
    record = {"root": str(root), "made_folder": not folder.exists(), "links": [library.name for library in libraries]}
    folder.mkdir(exist_ok=True)
    # The record first: a run that is interrupted leaves nothing that detach does not know.
    (folder / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    for library in libraries:
        (folder / library.name).symlink_to(library)
    return folder, len(libraries)


def detach(site: Path | None) -> tuple[Path, int]:
    """Remove the recorded links, and the folder if attach made it."""
    folder = (site or Path(sysconfig.get_path("platlib"))).resolve() / "torch_npu.libs"
    if not (folder / RECORD).is_file():
        raise Refused(f"nothing is attached in {folder}")
    return folder, _remove(folder)


def _remove(folder: Path) -> int:
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    count = 0
    for name in record["links"]:
        link = folder / name
        if link.is_symlink() and link.readlink().parent == Path(record["root"]) / "lib64":
            link.unlink()
            count += 1
    (folder / RECORD).unlink()
    if record["made_folder"] and not any(folder.iterdir()):
        folder.rmdir()
    return count

"""Lay an importable torch_npu into the build tree: links to the Python sources, and metadata for autoload.

python tools/dev/stage.py SOURCE_DIR STAGE_DIR      (run by CMake when it configures)
"""

from __future__ import annotations

import sys
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib


def main() -> None:
    source, stage = Path(sys.argv[1]), Path(sys.argv[2])
    package = stage / "torch_npu"
    package.mkdir(parents=True, exist_ok=True)
    for entry in sorted((source / "torch_npu").iterdir()):
        if entry.name in ("csrc", "include", "__pycache__", "README.md"):  # include: csrc/extension lays it out
            continue
        link = package / entry.name
        if link.is_symlink():
            link.unlink()
        link.symlink_to(entry)
    project = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    info = stage / f"{project['name']}-{project['version']}.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n", encoding="utf-8"
    )
    lines = []
    for group, points in project.get("entry-points", {}).items():
        lines += [f"[{group}]"] + [f"{k} = {v}" for k, v in points.items()]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""What pip's isolated build gives a project: an empty environment to install into, and a folder with the build's
requirements that only the interpreter's path names. `configure` runs CMake's first step there, without pip or network.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import venv
from importlib import metadata
from pathlib import Path

import tomllib
from packaging.requirements import Requirement


def closure(requirements: list[str]) -> dict[str, metadata.Distribution]:
    """The distributions that installing these brings, by name; versions are this environment's."""
    found: dict[str, metadata.Distribution] = {}
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        wanted = waiting.pop()
        if wanted.name in found or (wanted.marker and not wanted.marker.evaluate({"extra": ""})):
            continue
        distribution = metadata.distribution(wanted.name)
        found[wanted.name] = distribution
        waiting += [Requirement(text) for text in distribution.requires or ()]
    return found


def overlay(folder: Path, requirements: list[str]) -> Path:
    """A folder with links to what the requirements install, and to nothing else."""
    folder.mkdir()
    for distribution in closure(requirements).values():
        for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            if not (folder / top).exists():
                (folder / top).symlink_to(distribution.locate_file(top))
    return folder


def configure(project: Path, folder: Path, *settings: str) -> subprocess.CompletedProcess:
    """CMake's first step for the pyproject.toml in `project`, with an empty environment as the target."""
    tables = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))
    options = tables["tool"]["scikit-build"].get("cmake", {})
    venv.EnvBuilder(with_pip=False).create(folder / "target")
    requirements = overlay(folder / "overlay", tables["build-system"]["requires"])
    command = [shutil.which("cmake") or "cmake", "-S", str(project / options.get("source-dir", "."))]
    command += ["-B", str(folder / "build"), "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={shutil.which('ninja')}"]
    command += [f"-D{name}={value}" for name, value in options.get("define", {}).items()]
    command += [f"-DPython3_EXECUTABLE={folder / 'target' / 'bin' / 'python'}", *settings]
    keep = {
        name: os.environ[name] for name in ("HOME", "CXX", "CC", "CMAKE_CXX_COMPILER_LAUNCHER") if name in os.environ
    }
    environment = {**keep, "PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONPATH": str(requirements)}
    return subprocess.run(command, env=environment, capture_output=True, text=True)

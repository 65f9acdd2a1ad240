"""Compiles a unit once a product: what comes out lies in <results>/<product>/<unit>/. Called by __main__.py.

The kernels' header and the host side's are compiled beforehand as tests/ascendc does it (kit.py); else nothing is
between the product's commands and the sources.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.ascendc import kit

from .units import Unit

LIMIT = 900  # seconds
PACKAGE = "package"
LIBRARY = "library.so"


@dataclass
class Compiled:
    folder: Path
    ok: bool
    said: str  # by the compiler
    seconds: float
    fresh: bool  # just now

    @property
    def artifact(self) -> Path:
        package = self.folder / PACKAGE / "op_api" / "lib" / "libcust_opapi.so"
        return package if package.exists() else self.folder / LIBRARY


def product() -> str:
    """Of what compiles and what kernels run on: twelve digits."""
    root = kit.BISHENG.parent.parent
    files = sorted(f for f in (root / "ascendc").rglob("*") if f.is_file() and f.suffix != ".pyc")
    files += [kit.BISHENG, kit.BISHENG.with_name("opp_build"), root / "lib64" / "libsoftnpu_ascendc.so"]
    digest = hashlib.sha256()
    for file in files:
        digest.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:12]


def compiled(unit: Unit, results: Path, anew: bool = False) -> Compiled:
    folder = results / product() / unit.name.replace("/", "+")
    record = folder / "compiled.json"
    if record.exists() and not anew:
        kept = json.loads(record.read_text())
        if kept.pop("identity") == unit.identity:
            return Compiled(folder, fresh=False, **kept)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    start = time.monotonic()
    if unit.is_package:
        command = [kit.BISHENG.with_name("opp_build"), *unit.options(), "-o", folder / PACKAGE]
        compiler = kit.package_compiler()
    else:
        command = [kit.BISHENG, *unit.options(), "-o", folder / LIBRARY]
        compiler = kit.compiler(*(a for a in unit.options() if a == kit.CHIP))
    done = subprocess.run(
        ["timeout", "-k", "5", str(LIMIT), sys.executable, *map(str, command)],  # with the compilers that it starts
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        env={**os.environ, "ANYCEND_CXX": compiler},
    )
    ok = done.returncode == 0
    said = f"stopped after {LIMIT} seconds" if done.returncode in (124, 137) else done.stderr
    (folder / "command.txt").write_text(" ".join(map(str, command)) + "\n")
    told = {"ok": ok, "said": said.replace(f"{unit.folder}/", ""), "seconds": round(time.monotonic() - start, 1)}
    record.write_text(json.dumps({"identity": unit.identity, **told}, indent=1))
    return Compiled(folder, fresh=True, **told)

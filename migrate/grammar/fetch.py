"""Fetch the tree-sitter runtime and Python grammar as source archives and unpack what the build compiles.

    python migrate/grammar/fetch.py DEST [FOLDER_WITH_ARCHIVES]

Run by migrate/CMakeLists.txt. It asks pip, so the user's index, proxy and certificates apply; the archives must have
the hashes in requirements.txt, wherever they come from. A folder with the archives (our own source archive carries them
in migrate/grammar) is used before anything is downloaded. Prints one line and exits 1 if the sources cannot be had.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
REQUIREMENTS = HERE / "requirements.txt"
RUNTIME = "tree_sitter/core/lib/"
# Headers the grammar includes as tree_sitter/*.h; its source archive leaves them out.
SHARED_HEADERS = ("parser.h", "array.h", "alloc.h", "ts_assert.h")


def hashes() -> set[str]:
    return set(re.findall(r"--hash=sha256:([0-9a-f]{64})", REQUIREMENTS.read_text(encoding="utf-8")))


def archives(folder: Path) -> dict[str, Path]:
    """The archives in a folder that have a pinned hash, by hash."""
    found = {hashlib.sha256(path.read_bytes()).hexdigest(): path for path in sorted(folder.glob("*.tar.gz"))}
    return {digest: path for digest, path in found.items() if digest in hashes()}


def download(folder: Path) -> str:
    """Run pip; returns the reason if it failed."""
    arguments = ["download", "--no-deps", "--no-binary", ":all:", "--require-hashes", "--disable-pip-version-check"]
    arguments += ["--quiet", "--no-input", "-r", str(REQUIREMENTS), "-d", str(folder)]
    # -I: inside an isolated build the environment hides the interpreter's own pip.
    # pip asks each archive's setup for its name: in a third of the time with the interpreter's own setuptools, if any.
    own = [sys.executable, "-I", "-m", "pip"]
    launchers = [(own, ["--no-build-isolation"]), (own, []), ([sys.executable, "-m", "pip"], []), (["pip3"], [])]
    reason = "pip was not found"
    for launcher, more in launchers:
        if shutil.which(launcher[0]) is None:
            continue
        command = [*launcher, *arguments, *more]
        run = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if run.returncode == 0:
            return ""
        lines = [line for line in run.stderr.splitlines() if line.startswith("ERROR")] or run.stderr.splitlines()
        reason = lines[-1].strip() if lines else f"pip ended with {run.returncode}"
        if "No matching distribution" in run.stderr or not more and "No module named pip" not in run.stderr:
            break
    return reason


def unpack(paths: list[Path], dest: Path) -> None:
    """runtime/{src,include}, python/src and the shared headers; nothing else of the archives is written."""
    for path in paths:
        with tarfile.open(path) as archive:
            for member in archive.getmembers():
                name = member.name.split("/", 1)[-1]
                if name.startswith(RUNTIME) and name.endswith((".c", ".h")):
                    target = dest / "runtime" / name.removeprefix(RUNTIME)
                elif re.fullmatch(r"src/(parser|scanner)\.c", name):
                    target = dest / "python" / name
                elif name == "LICENSE":
                    target = dest / f"LICENSE.{path.name.split('-')[0]}"
                else:
                    continue
                if not member.isfile():
                    continue
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.extractfile(member).read())  # type: ignore[union-attr]
    shared = dest / "shared" / "tree_sitter"
    shared.mkdir(parents=True, exist_ok=True)
    for header in SHARED_HEADERS:
        shutil.copyfile(dest / "runtime" / "src" / header, shared / header)


def main() -> int:
    dest = Path(sys.argv[1])
    stamp = dest / "stamp"
    wanted = " ".join(sorted(hashes()))
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return 0
    shutil.rmtree(dest, ignore_errors=True)
    dest.mkdir(parents=True)
    folders = [Path(name) for name in [*sys.argv[2:], str(HERE)] if name]
    found: dict[str, Path] = {}
    for folder in folders:
        found.update(archives(folder))
    with tempfile.TemporaryDirectory() as temporary:
        if len(found) < len(hashes()):
            reason = download(Path(temporary))
            found.update(archives(Path(temporary)))
            if len(found) < len(hashes()):
                print(f"the tree-sitter sources cannot be had: {reason or 'the hashes differ from the pinned ones'}")
                return 1
        unpack(sorted(found.values(), key=os.fspath), dest)
    stamp.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

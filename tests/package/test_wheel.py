"""What a wheel and a source archive of the project hold, and how large they are."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from tests.package import isolation

ROOT = Path(__file__).resolve().parents[2]
MOST = 10_000_000


def installed() -> dict[str, Path]:
    """The files that the wheel of `anycend` brought here, by their names in it."""
    if metadata.distribution("anycend").read_text("RECORD") is None:
        pytest.skip("a development build: nothing was installed from a wheel")
    files = [f for f in metadata.files("anycend") or () if f.suffix != ".pyc" and f.parts[0] != ".."]
    return {str(file): Path(str(file.locate())) for file in files}


def is_binary(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def sections(path: Path) -> str:
    return subprocess.run(["readelf", "-SW", str(path)], capture_output=True, text=True, check=True).stdout


def test_what_is_installed_packs_into_ten_mebibytes():
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in installed().items():
            archive.write(path, name)
    assert len(wheel.getvalue()) <= MOST


def test_what_is_installed_carries_no_symbols_for_debuggers():
    binaries = [path for path in installed().values() if is_binary(path)]
    assert len(binaries) > 20
    kept = [path.name for path in binaries if ".symtab" in sections(path) or ".debug_" in sections(path)]
    assert kept == []


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    """The source archive, made by the build's own hook."""
    folder = tmp_path_factory.mktemp("sdist")
    hook = "import sys; from scikit_build_core.build import build_sdist; print(build_sdist(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", hook, str(folder)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return folder / done.stdout.split()[-1]


def test_the_source_archive_is_what_git_tracks(source):
    with tarfile.open(source) as archive:
        names = {member.name.split("/", 1)[1] for member in archive if member.isfile()}
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("not a git clone: there is nothing to compare with")
    tracked = {name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()}
    assert (tracked - names, names - tracked) == (set(), {"PKG-INFO"})
    assert source.stat().st_size <= MOST


@pytest.mark.full
@pytest.mark.parametrize("project", [".", "softnpu"])
def test_the_source_archive_is_configured(source, project, tmp_path):
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.glob("anycend-*")
    done = isolation.configure(unpacked / project, tmp_path, "-DANYCEND_MIGRATE=OFF")
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.full
@pytest.mark.timeout(7200)
def test_the_wheel_is_built_within_ten_mebibytes(tmp_path):
    """By pip, in the folder of `make build` where there is one: minutes instead of an hour."""
    made = ROOT / "build" / "make"
    folder = made if (made / "CMakeCache.txt").is_file() else tmp_path / "build"
    command = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "-w", str(tmp_path)]
    command += [f"--config-settings=build-dir={folder}", "--config-settings=cmake.define.ANYCEND_TESTS=APART"]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run([*command, str(ROOT)], check=True, capture_output=True, env={**os.environ, "PATH": path})
    (wheel,) = tmp_path.glob("anycend-*.whl")
    assert wheel.stat().st_size <= MOST
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.startswith("anycend-")} == {"torch_npu", "pytorch_gpu2npu", "anycend"}

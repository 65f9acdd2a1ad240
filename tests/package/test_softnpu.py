"""The distribution anycend-softnpu: what it installs, and that it has nothing in common with anycend."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built without the kernels and the migration tool: minutes less, and the paths are the same but for theirs."""
    folder = tmp_path_factory.mktemp("wheel")
    settings = [f"build-dir={folder / 'build'}"]
    settings += [f"cmake.define.ANYCEND_{part}=OFF" for part in ("OPAPI", "MIGRATE")]
    command = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "-w", str(folder)]
    command += [f"--config-settings={setting}" for setting in settings]
    source = Path(__file__).resolve().parents[2] / "softnpu"
    subprocess.run([*command, str(source)], check=True, capture_output=True)
    (found,) = folder.glob("anycend_softnpu-*.whl")
    return found


@pytest.mark.full
def test_it_installs_only_its_folder(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert len(tops) == 2 and "softnpu" in tops and any(top.endswith(".dist-info") for top in tops)
    for name in ("__main__.py", "set_env.sh", "lib64/libascendcl.so", "lib64/libhccl.so", "include/acl/acl.h"):
        assert f"softnpu/{name}" in names
    ours = {str(path) for path in metadata.files("anycend") or ()}
    assert ours & set(names) == set()


@pytest.mark.full
def test_its_command_finds_its_root(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path)
    done = subprocess.run([sys.executable, "-m", "softnpu", "root"], cwd=tmp_path, capture_output=True, text=True)
    assert Path(done.stdout.strip()).samefile(tmp_path / "softnpu"), done.stderr

"""The distribution anycend-softnpu: what it installs, and that the vendor's wheel trains on it."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from tests.conformance import environment
from tests.conformance.test_settings import check_training

TRAINED = str(Path(environment.__file__).with_name("trained.py"))


def build(folder: Path, *without: str) -> Path:
    settings = [f"build-dir={folder / 'build'}"]
    settings += [f"cmake.define.ANYCEND_{part}=OFF" for part in without]
    command = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "-w", str(folder)]
    command += [f"--config-settings={setting}" for setting in settings]
    source = Path(__file__).resolve().parents[2] / "softnpu"
    subprocess.run([*command, str(source)], check=True, capture_output=True)
    (found,) = folder.glob("anycend_softnpu-*.whl")
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built without the kernels and the migration tool: minutes less, and the paths are the same but for theirs."""
    return build(tmp_path_factory.mktemp("wheel"), "OPAPI", "MIGRATE")


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The Python of a new environment: torch, the vendor's wheel, and anycend-softnpu with its kernels."""
    home = tmp_path_factory.mktemp("installed")
    try:
        python = environment.python(home / "environment")
    except environment.Unavailable as missing:
        pytest.skip(str(missing))
    whole = os.environ.get("ANYCEND_TEST_SOFTNPU_WHEEL") or build(home, "MIGRATE")
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", str(whole)]
    subprocess.run(command, check=True, capture_output=True)
    return python


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
def test_one_wheel_is_for_every_python_3(wheel):
    assert "-py3-none-linux_" in wheel.name
    assert [name for name in zipfile.ZipFile(wheel).namelist() if "cpython" in name] == []


@pytest.mark.full
def test_its_command_finds_its_root(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path)
    done = subprocess.run([sys.executable, "-m", "softnpu", "root"], cwd=tmp_path, capture_output=True, text=True)
    assert Path(done.stdout.strip()).samefile(tmp_path / "softnpu"), done.stderr


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("order", [[], ["libraries"]], ids=["torch first", "libraries first"])
def test_the_vendors_wheel_trains_with_it(installed, order, tmp_path):
    """By `anycend run`, and with nothing set after `anycend attach`; torch is found, whoever loads it first."""
    anycend = str(installed.with_name("anycend"))
    train = [str(installed), TRAINED, *order]
    check_training([anycend, "run", "--", *train], tmp_path)
    subprocess.run([anycend, "attach"], check=True)
    try:
        check_training(train, tmp_path)
    finally:
        subprocess.run([anycend, "detach"], check=True)

"""The install lines of README and documents: the build needs nothing that its requirements do not name."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.package import isolation

ROOT = Path(__file__).resolve().parents[2]
LINE = re.compile(r"\bpip install (?!-r )[^`\n#]+")  # -r: another project's requirements, in a command of the documents
SUM = "import torch; print((torch.ones(2).npu() + 1).tolist(), torch.ones(2).npu().nonzero().tolist())"
SUM_PRINTS = "[2.0, 2.0] [[0], [1]]"
SOFTNPU = "anycend run -- python -c 'import torch, torch_npu; print((torch.ones(2).npu() + 1).tolist())'"

# Each install line of the text: what runs after it, and what that prints.
LINES = {
    "pip install . --extra-index-url https://download.pytorch.org/whl/cpu": (f"python -c '{SUM}'", SUM_PRINTS),
    "pip install ./softnpu": (f"pip install --no-deps torch-npu==2.13.0 && {SOFTNPU}", "[2.0, 2.0]"),
    "pip install torch==2.13.0 dist/anycend_softnpu-*.whl": ("anycend root", "softnpu"),
    "pip install --no-deps torch-npu==2.13.0": ("pip show torch-npu", "Version: 2.13.0"),
    "pip install --no-deps libucx-cu12": ("python -c 'import libucx; print(libucx.__name__)'", "libucx"),
    "pip install --no-deps triton-ascend==3.2.0 pybind11==2.13.6": (
        "python -c 'import triton; print(triton.__version__)'",
        "3.2.0",
    ),
    "pip install torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu": (
        "python -c 'import torch; print(torch.__version__)'",
        "2.13.0+cpu",
    ),
}


def install_lines() -> set[str]:
    pages = [*ROOT.glob("README*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "softnpu").rglob("README.md")]
    return {found.strip() for page in pages for found in LINE.findall(page.read_text(encoding="utf-8"))}


@pytest.mark.parametrize("project", [".", "softnpu"])
def test_the_build_is_configured_with_its_requirements_alone(project, tmp_path):
    done = isolation.configure(ROOT / project, tmp_path, "-DANYCEND_MIGRATE=OFF")
    assert done.returncode == 0, done.stderr[-3000:]


def test_a_missing_header_is_named_with_its_package(tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.26)\nproject(p NONE)\n"
        f'set(Python3_EXECUTABLE "{sys.executable}")\ninclude("{ROOT}/cmake/PythonHeaders.cmake")\n'
        "python_headers(x no-such-package none/such.h)\n"
    )
    done = subprocess.run(["cmake", "-S", tmp_path, "-B", tmp_path / "b"], capture_output=True, text=True)
    assert done.returncode != 0 and "pip install no-such-package" in " ".join(done.stderr.split())


def test_every_install_line_of_the_text_has_a_test():
    assert install_lines() == set(LINES)


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    """The sources as a clone has them, so that nothing of this one's build is found."""
    folder = tmp_path_factory.mktemp("clone")
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def shell(command: str, home: Path, cwd: Path) -> str:
    keep = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
    environment = {**keep, "PATH": f"{home / 'bin'}:{os.environ['PATH']}", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(["bash", "-c", command], cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.mark.full
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("line", sorted(LINES))
def test_an_install_line_works_in_an_empty_environment(line, clone, tmp_path):
    then, prints = LINES[line]
    home = tmp_path / "environment"
    venv.EnvBuilder(with_pip=True).create(home)
    if "dist/" in line:
        wheels(clone)
    shell(line, home, clone)
    assert prints in shell(then, home, tmp_path)
    assert "2.13.0" in shell("pip list", home, tmp_path) or "torch" not in line


def wheels(clone: Path) -> None:
    """anycend-softnpu without its kernels and the migration tool: how it is installed is judged, no more."""
    settings = [f"--config-settings=cmake.define.ANYCEND_{part}=OFF" for part in ("OPAPI", "MIGRATE")]
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", "dist", *settings, "./softnpu"]
    subprocess.run(command, cwd=clone, check=True, capture_output=True)

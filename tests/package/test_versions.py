"""Another torch than 2.13: where the sources ask for it, packages for it (tools/dev/versions.py), what refuses to run
on the older one."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import anycend
import pytest
import torch
from anycend import attach, doctor

import torch_npu
from tools.dev import versions

HEADER, MODULE = "torch_npu/csrc/core/torch_version.h", "torch_npu/_torch_version.py"
ASKS = {
    ".h": r"(?m)^\s*#\s*(el)?if.*TORCH_(VERSION|ABI)",
    ".py": r"torch\.__version__(\.| *[<>=!]=?| *\[)|\bTorchVersion\b",
}
ASKS[".cpp"] = ASKS[".h"]


def asking(root: Path) -> list[str]:
    files = (path for room in ("torch_npu", "softnpu", "tools/codegen") for path in (root / room).rglob("*"))
    return sorted(
        str(path.relative_to(root))
        for path in files
        if path.suffix in ASKS and re.search(ASKS[path.suffix], path.read_text(encoding="utf-8"))
    )


def test_one_header_and_one_module_ask_for_the_version(root):
    assert asking(root) == [MODULE, HEADER]


def test_a_file_that_asks_is_found(tmp_path):
    for name, text in {
        "torch_npu/a.cpp": "#if TORCH_VERSION_MINOR < 13\n",
        "torch_npu/b.py": "new = torch.__version__ >= '2.13'\n",
        "softnpu/c.h": "#include <torch/headeronly/version.h>\n#if TORCH_VERSION_MAJOR > 2\n",
        "tools/codegen/d.py": "key = torch.__version__\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert asking(tmp_path) == ["softnpu/c.h", "torch_npu/a.cpp", "torch_npu/b.py"]


def test_the_plugins_version_is_torchs():
    assert torch_npu.__version__ == ".".join(torch.__version__.split(".")[:2]) + ".0"


def pins(path: Path) -> list[str]:
    return re.findall(r'^version = "(.*)"$|"(torch==[^"]*)"', path.read_text(), re.M)


@pytest.fixture
def clone(root):
    if (root / versions.RECORD).exists():
        pytest.skip("this tree is for another torch itself, and git does not know it")
    return root


def test_the_tree_for_another_torch_differs_in_two_files(clone, tmp_path):
    versions.lay_out("2.10.0", tmp_path)
    listed = subprocess.run(["git", "-C", str(clone), "ls-files", "-z"], capture_output=True, text=True, check=True)
    names = [name for name in listed.stdout.split("\0") if name and (clone / name).is_file()]
    assert len(names) > 1000
    assert [n for n in names if (tmp_path / n).read_bytes() != (clone / n).read_bytes()] == sorted(versions.PROJECTS)
    for name in versions.PROJECTS:
        assert pins(tmp_path / name) == [("", "torch==2.10.0"), ("2.10.0", ""), ("", "torch==2.10.0")]
        assert len(pins(tmp_path / name)) == len(pins(clone / name))


def test_a_second_layout_writes_what_changed_alone(clone, tmp_path):
    versions.lay_out("2.10.0", tmp_path)
    built, gone, old = tmp_path / "build" / "object.o", tmp_path / "no_longer.cpp", tmp_path / "Makefile"
    built.parent.mkdir()
    built.touch()
    gone.touch()
    with (tmp_path / versions.RECORD).open("a") as record:
        record.write("no_longer.cpp\n")
    old.write_text("old")
    kept = (tmp_path / "README.md").stat().st_mtime_ns
    versions.lay_out("2.10.0", tmp_path)
    assert old.read_bytes() == (clone / "Makefile").read_bytes()
    assert (tmp_path / "README.md").stat().st_mtime_ns == kept
    assert (built.exists(), gone.exists()) == (True, False)


def test_doctor_and_attach_name_the_torch_that_was_built_against(monkeypatch, tmp_path):
    required = {"anycend": ["torch==2.10.0", "numpy"]}
    monkeypatch.setattr(metadata, "requires", required.get)
    monkeypatch.setattr(doctor, "installed", {"torch": "2.13.0", "anycend": "2.10.0"}.get)
    assert str(list(doctor.check_packages())[1]) == (
        "FAIL  torch 2.13.0\n      torch_npu is built for 2.10.x: pip install torch==2.10.0"
    )
    monkeypatch.setattr(doctor, "installed", {"torch": "2.10.0+cu128", "anycend": "2.10.0"}.get)
    assert str(list(doctor.check_packages())[1]) == "ok    torch 2.10.0+cu128"
    monkeypatch.setattr(doctor, "installed", {"torch": "2.1.0", "anycend": "2.10.0"}.get)
    assert list(doctor.check_packages())[1].ok is False  # 2.1 is no 2.10
    try:
        attach.vendor_site(tmp_path)
    except anycend.Refused as refusal:
        assert "pip install --no-deps torch-npu==2.10.0 there" in str(refusal)


def test_without_a_record_it_is_the_torch_of_pyproject(monkeypatch):
    def absent(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", absent)
    assert anycend.torch_version() == "2.13.0"


def test_a_build_folder_has_its_version_alone(monkeypatch):
    monkeypatch.setattr(metadata, "requires", lambda name: None)
    monkeypatch.setattr(metadata, "version", {"anycend": "2.10.0"}.get)
    assert anycend.torch_version() == "2.10.0"


REFUSED = """
import torch, torch._inductor.compile_fx
from torch_npu import _torch_version
_torch_version.refuse_inductor(torch._inductor.compile_fx)
a = torch.ones(3, device="npu")
try:
    torch.compile(lambda x: x + 1)(a)
except Exception as error:
    print(type(error).__name__, error)
print(torch.compile(lambda x: x + 1)(torch.ones(2)).tolist(), (a + 1).tolist())
"""


def test_inductor_is_refused_with_the_remedy_where_torch_is_older():
    done = subprocess.run([sys.executable, "-c", REFUSED], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    said, last = done.stdout.splitlines()[0], done.stdout.splitlines()[-1]
    assert "npu: torch.compile needs torch 2.13 on the npu" in done.stdout, said
    assert "pip install torch==2.13.0" in done.stdout and last == "[2.0, 2.0] [2.0, 2.0, 2.0]"

"""The documentation says what is so: links lead somewhere, commands exist, examples run, tables are complete."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.dev import check_layers, gen_docs

ROOT = Path(__file__).resolve().parents[2]
SCREEN = 90  # lines a room's README may have
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
# How C++ and Python ask for an environment variable by name.
READS = re.compile(
    r"""(?:getenv|environ(?:\.get)?|env_\w+|read_env\w*|setdefault)\s*[(\[]\s*["']([A-Z][A-Z0-9_]{2,})["']"""
)
PRODUCT = ("torch_npu", "softnpu", "migrate")
# Set by launchers, the system or PyTorch for every program; their meaning is not ours to document.
FOREIGN = {"HOME", "PATH", "RANK", "RANK_ID", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "TMPDIR"}


def tracked(*patterns: str) -> list[Path]:
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns]
    names = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def rooms() -> list[Path]:
    """Each room of the include table that has sources, and the rooms that are not C++."""
    table = [ROOT / room for room in check_layers.load_table().rooms]
    others = [ROOT / name for name in ("ops", "softnpu", "tools", "tests", "bench", "examples", "docs")]
    return sorted({room for room in table + others if room.is_dir() and any(room.iterdir())})


def targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*)(?: [a-z-]+)*:(?!=)", (ROOT / "Makefile").read_text(), re.M)) | {"format"}


@pytest.mark.parametrize("page", sorted(gen_docs.pages()), ids=lambda path: path.name)
def test_generated_pages_are_up_to_date(page):
    assert page.read_text(encoding="utf-8") == gen_docs.pages()[page], "run `make format`"


def test_every_variable_the_sources_read_is_documented():
    declared = {row["name"] for row in gen_docs.env_rows()}
    files = [p for p in tracked(*PRODUCT) if p.suffix in {".cpp", ".h", ".py"}]
    read = {(name, p.relative_to(ROOT).as_posix()) for p in files for name in READS.findall(p.read_text("utf-8"))}
    assert sorted((name, path) for name, path in read if name not in declared | FOREIGN) == []


def test_every_documented_variable_is_read():
    text = "".join(
        p.read_text("utf-8") for p in tracked("*.py", "*.cpp", "*.h", "*.cmake", "CMakeLists.txt", "Makefile")
    )
    assert [row["name"] for row in gen_docs.env_rows() if row["name"] not in text] == []


@pytest.mark.parametrize("page", tracked("*.md"), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    links = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_make_commands_exist(page):
    named = set(re.findall(r"(?:^|`)make ([a-z][a-z-]*)", (ROOT / page).read_text("utf-8"), re.M))
    assert named - targets() == set()


@pytest.mark.parametrize("room", rooms(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_each_room_has_a_readme_of_one_screen(room):
    readme = room / "README.md"
    assert readme.exists(), f"{readme.relative_to(ROOT)} is missing"
    assert len(readme.read_text(encoding="utf-8").splitlines()) <= SCREEN


@pytest.mark.parametrize("index", [0, 1])
def test_the_readmes_examples_run(index, tmp_path):
    code = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.M | re.S)[index]
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr


def test_the_readmes_one_liner_prints_the_device(tmp_path):
    command = re.search(r'^python -c "(.*)"$', (ROOT / "README.md").read_text("utf-8"), re.M)[1]
    result = subprocess.run(
        [sys.executable, "-c", command], cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True, timeout=120
    )
    assert "device='npu:0'" in result.stdout, result.stderr

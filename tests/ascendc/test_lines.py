"""READMEs' figures of lines by part: within a tenth, and no header without a row; what headers include."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOM = ROOT / "softnpu" / "ascendc"
HEADERS = ROOM / "include" / "ascendc"
ROW = re.compile(r"^\| (`[^|]*`) \| ([\d,]+) \|", re.MULTILINE)


def lines(files) -> int:
    return sum(f.read_bytes().count(b"\n") for f in files if f.is_file() and f.suffix != ".md" and "__" not in str(f))


def assert_near(said: str, files, what: str) -> None:
    counted, said = lines(files), int(said.replace(",", ""))
    assert abs(counted - said) <= max(20, counted // 10), f"{what} has {counted} lines, and its row says {said}"


def test_folders_of_the_room():
    text = (ROOM / "README.md").read_text(encoding="utf-8")
    rows = {row[1].strip("`"): row[2] for row in ROW.finditer(text)}
    assert set(rows) == {f"{f.name}/" for f in ROOM.iterdir() if f.is_dir()}
    for folder, said in rows.items():
        assert_near(said, (ROOM / folder).rglob("*"), folder)
    tests = re.search(r"the tests, with their kernels, are ([\d,]+) ", text)[1]
    assert_near(tests, (ROOT / "tests" / "ascendc").rglob("*.*"), "tests/ascendc")


def test_headers_of_the_api():
    rows = {tuple(re.findall(r"`(\w+)`", row[1])): row[2] for row in ROW.finditer((HEADERS / "README.md").read_text())}
    assert sorted(name for names in rows for name in names) == sorted(f.stem for f in HEADERS.glob("*.h"))
    for names, said in rows.items():
        assert_near(said, [HEADERS / f"{name}.h" for name in names], ", ".join(names))


def test_no_header_includes_what_takes_long():
    """Every kernel's compilation parses it: <memory> and <chrono> were a quarter of that of an empty one."""
    heavy = re.compile(r"#include <(?:memory|chrono|functional|iostream|sstream|regex)>")
    assert [f.name for f in (ROOM / "include").rglob("*.h") if heavy.search(f.read_text(encoding="utf-8"))] == []

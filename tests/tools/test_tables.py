"""tools/codegen/tables.py: how the project's YAML tables are read, and that all of them are read so."""

from __future__ import annotations

import re
import subprocess

import pytest
import yaml

from tools.codegen import tables

READS_BY_ITSELF = re.compile(r"\byaml\.(?:safe_load|load|full_load|Loader|SafeLoader|CSafeLoader)\b")


@pytest.mark.parametrize(
    "text",
    ["a: 1\nb: 2\na: 3\n", "- {name: x, meaning: one, meaning: two}\n", "top:\n  - inner: {k: 1, k: 1}\n"],
    ids=["block", "flow", "nested"],
)
def test_a_key_written_twice_is_refused(text):
    with pytest.raises(yaml.YAMLError, match="is written twice in one mapping: lines"):
        tables.parse(text)


def test_keys_of_different_mappings_may_be_equal():
    assert tables.parse("- {a: 1, '1': 2, 1: 3}\n- {a: 2}\n") == [{"a": 1, "1": 2, 1: 3}, {"a": 2}]


def test_the_file_is_named(tmp_path):
    path = tmp_path / "rows.yaml"
    path.write_text("a: 1\na: 2\n")
    with pytest.raises(SystemExit, match=r"rows\.yaml: 'a' is written twice in one mapping: lines 1 and 2"):
        tables.load(path)


def test_lines_of_items_are_those_on_which_they_begin():
    text = "# head\na:\n  - x: 1\n    y: [\n      2]\n  # other\n  - z: 1\nb: {}\nc: []\n"
    assert tables.item_lines(text) == {"a": [3, 7], "c": []}
    assert tables.item_lines("- 1\n\n- 2\n") == {"": [1, 3]}


def tracked(root, pattern: str) -> list[str]:
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", pattern]
    return subprocess.run(listing, cwd=root, check=True, capture_output=True, text=True).stdout.split()


def test_every_table_of_the_project_can_be_read(root):
    assert [name for name in tracked(root, "*.yaml") if not tables.load(root / name)] == []


def test_nobody_reads_yaml_without_it(root):
    names = [name for name in tracked(root, "*.py") if (root / name).is_file()]
    own = {"tools/codegen/tables.py", "tests/tools/test_tables.py"}
    assert [
        name for name in names if name not in own and READS_BY_ITSELF.search((root / name).read_text("utf-8"))
    ] == []

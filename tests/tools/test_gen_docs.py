"""tools/dev/gen_docs.py: the table of environment variables and the page made from it."""

from __future__ import annotations

import pytest

from tools.dev import gen_docs

ROW = "- {name: ANYCEND_A, by: plugin, default: '1', meaning: Does a | b.}\n"


@pytest.fixture
def rows(tmp_path):
    def read(text: str) -> list[dict[str, str]]:
        path = tmp_path / "env.yaml"
        path.write_text(text)
        return gen_docs.env_rows(path)

    return read


def test_a_row_becomes_a_line_of_its_readers_table(rows):
    page = gen_docs.env_page(rows(ROW))
    assert "## The plugin (torch_npu)\n\n| name | default | meaning |\n|---|---|---|\n" in page
    assert "| `ANYCEND_A` | 1 | Does a \\| b. |\n" in page
    assert "software NPU" not in page


def test_a_name_is_declared_once(rows):
    with pytest.raises(SystemExit, match="declared twice: ANYCEND_A"):
        rows(ROW + ROW)


def test_a_row_needs_every_column_and_a_known_reader(rows):
    with pytest.raises(SystemExit, match="needs name, by"):
        rows("- {name: ANYCEND_A, by: plugin, meaning: x}\n")
    with pytest.raises(SystemExit, match="needs name, by"):
        rows(ROW.replace("plugin", "nobody"))

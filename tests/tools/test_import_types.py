"""tools/abi/import_types.py: rows of ops/hardware.yaml from documented data types."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.abi import import_types

HEAD = "function\tparameter\tctype\ttypes_A2_A3\ttypes_950\ttypes_910\n"


@pytest.fixture
def row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The row of aclnnAdds, as if it had none, from documented types of self and out and its page's products."""

    def make(own: str, out: str, products: str) -> str | None:
        have = dict(import_types.opapi_types.hardware())
        have.pop("aclnnAdds")
        monkeypatch.setattr(import_types.opapi_types, "hardware", lambda: have)
        types, pages = tmp_path / "types.tsv", tmp_path / "pages.tsv"
        lines = [f"aclnnAdds\tself\tconst aclTensor*\t{own}\n", "aclnnAdds\tother\tconst aclScalar*\tfloat32\t\t\n"]
        types.write_text(HEAD + "".join([*lines, f"aclnnAdds\tout\taclTensor*\t{out}\n"]), encoding="utf-8")
        pages.write_text(f"function\tproducts\naclnnAdds\t{products}\n", encoding="utf-8")
        return import_types.missing(types, pages).get("aclnnAdds")

    return make


@pytest.mark.parametrize(
    ("own", "out", "products", "expected"),
    [
        ("float32,int8\tfloat32,int8\t", "float32\tfloat32\t", "A2 A3 950", "f1:self f:out / = / = / -"),
        ("float32\tfloat16\tbool", "float32\tfloat16\tbool", "A2 950 910", "f:self,out / - / h:self,out / B:self,out"),
        ("float32\tfloat32\tfloat32", "\tint4\tfloat32", "A2 A3 950 910", "f:self ?:out / = / = / f:self,out"),
        ("float64|A3:bool\t\t", "float32\t\t", "A2 A3", "d:self f:out / B:self f:out / - / -"),
        ("\t\t", "\t\t", "A2 A3 950", None),
        ("\tfloat32\t", "\tfloat32\t", "950", None),  # the plugin calls it for add.Tensor on every chip
    ],
)
def test_a_row_says_what_each_family_takes(row, own, out, products, expected) -> None:
    assert row(own, out, products) == expected


def test_rows_already_present_are_kept(tmp_path: Path) -> None:
    types, pages = tmp_path / "types.tsv", tmp_path / "pages.tsv"
    types.write_text(HEAD + "aclnnAdds\tself\tconst aclTensor*\tbool\tbool\tbool\n", encoding="utf-8")
    pages.write_text("function\tproducts\n", encoding="utf-8")
    assert import_types.missing(types, pages) == {}

"""tools/dev/operators_page.py: rows of the pages of operators."""

from __future__ import annotations

from tools.dev import operators_page


def rows(page: str) -> dict[str, list[str]]:
    found = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| `")]
    return {cells[0].strip("`"): cells for cells in found}


def test_an_operator_of_pytorchs() -> None:
    table = rows(operators_page.aten_page())
    assert table["add.Tensor"][1:3] == ["native", "`aclnnAdd`, `aclnnAdds`, `aclnnAddV3`"]
    assert table["add.Tensor"][3].strip("`").startswith("fhbd")
    assert table["fmax"][1] == "composed"
    assert table["_unique2"][1:3] == ["by hand", "`aclnnUnique2`"]


def test_an_operator_of_the_npus_own() -> None:
    swiglu = rows(operators_page.npu_page())["npu_swiglu"]
    assert swiglu[1:3] == ["native", "`aclnnSwiGlu`"]
    assert swiglu[-1].startswith("out = silu(a) * b")


def test_letters_name_a_functions_types_by_chip() -> None:
    assert operators_page.Types().cells("aclnnSwiGlu")[1] == "fhb"

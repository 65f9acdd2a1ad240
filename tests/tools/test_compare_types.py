"""tools/abi/compare_types.py: documented data types against ops/types.yaml and ops/hardware.yaml."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.abi import compare_types

HEAD = "function\tparameter\tinout\tctype\ttypes_A2_A3\ttypes_950\ttypes_910\n"


def found(tmp_path: Path, *rows: str, chip: str = "a2") -> list[compare_types.Difference]:
    path = tmp_path / "types.tsv"
    path.write_text(HEAD + "".join(f"{row}\n" for row in rows), encoding="utf-8")
    return list(compare_types.compare(path, chip))


def test_wider_narrower_and_absent(tmp_path: Path) -> None:
    differences = found(
        tmp_path,
        "aclnnExp\tself\tin\tconst aclTensor*\tfloat32,float16\tfloat32\tfloat32",
        "aclnnPowTensorTensor\tout\tout\taclTensor*\tfloat32,bool\t\t",
        "aclnnNobodyHas\tx\tin\tconst aclTensor*\tfloat32\t\t",
        "aclnnExp\tn\tin\tint64_t\tint64\t\t",
    )
    assert [d.verdict for d in differences] == ["wider", "narrower", "absent"]
    assert "float64" in differences[0].more and differences[0].less == ()
    assert differences[1].less == ("bool",)
    # Of two booleans, whose power alone would be one, the documents have none: ops/hardware.yaml says so.
    assert compare_types.unexplained(differences) == []


def test_what_no_row_explains_is_named(tmp_path: Path) -> None:
    difference = found(tmp_path, "aclnnExp\tself\tin\tconst aclTensor*\tfloat8_e5m2\t\t")
    assert compare_types.unexplained(difference) == difference
    assert difference[0].less == ("float8_e5m2",)


@pytest.mark.parametrize(("chip", "types"), [("a2", {"float64"}), ("a3", {"float32"})])
def test_a_chips_own_type_takes_the_place_of_the_other(chip: str, types: set[str]) -> None:
    assert compare_types.documented("float64|A3:float32", chip) == types

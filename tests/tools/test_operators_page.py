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
    assert table["__irshift__.Tensor"][1:] == ["by hand"]  # a kernel of one line, and not its neighbour's function


def test_an_operator_of_the_npus_own() -> None:
    swiglu = rows(operators_page.npu_page())["npu_swiglu"]
    assert swiglu[1:3] == ["native", "`aclnnSwiGlu`"]
    assert swiglu[-1].startswith("out = silu(a) * b")
    table = rows(operators_page.npu_page())
    assert table["npu_dynamic_mx_quant"][1:3] == ["native", "`aclnnDynamicMxQuantV3`"]
    assert table["_npu_dropout"][2].endswith("`aclnnDropoutDoMask`")  # of a function that the row calls
    assert table["get_npu_format"][1] == "composed" and table["npu_prefetch"][1] == "by hand"


def test_functions_that_a_written_kernel_calls_elsewhere() -> None:
    table = rows(operators_page.npu_page())
    for name in ("npu_fusion_attention", "npu_fusion_attention_v2", "npu_fusion_attention_v3"):
        called = table[name][2].split(", ")
        assert called[0] == "`aclnnFlashAttentionScore`" and "`aclnnFlashAttentionVarLenScoreV5`" in called
        assert table[name][1] == "native" and table[name][4:8] == ["`fhb`", "`=`", "`=`", "`-`"]
        assert table[name.replace("attention", "attention_grad")][2].startswith("`aclnnFlashAttentionScoreGrad`, ")
    assert table["npu_grouped_matmul.List"][1:8] == table["npu_grouped_matmul"][1:8]
    assert table["npu_grouped_matmul"][2] == "`aclnnGroupedMatmulV5`"


def test_letters_name_a_functions_types_by_chip() -> None:
    assert operators_page.Types().cells("aclnnSwiGlu")[1] == "fhb"

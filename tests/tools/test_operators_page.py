"""tools/dev/operators_page.py: rows of the pages of operators."""

from __future__ import annotations

import re

import pytest

from tools.dev import operators_page


def rows(page: str) -> dict[str, list[str]]:
    found = [[cell.strip() for cell in line[1:-1].split(" | ")] for line in page.splitlines() if line.startswith("| `")]
    return {cells[0].strip("`"): cells for cells in found}


def test_an_operator_of_pytorchs() -> None:
    table = rows(operators_page.aten_page())
    assert table["add.Tensor"][1:3] == ["native", "`aclnnAdd`, `aclnnAdds`, `aclnnAddV3`"]
    assert table["add.Tensor"][3].strip("`").startswith("fhbd")
    assert table["fmax"][1] == "composed" and table["fmax"][-1].endswith(": `fmax(self, other)`")
    assert table["_unique2"][1:3] == ["native", "`aclnnUnique2`"]  # whoever wrote its kernel
    # A kernel of one line, and not its neighbour's function; of one that it calls by name it has the types.
    assert table["__irshift__.Tensor"][1:3] == ["composed", "`bitwise_right_shift`"]
    assert table["__irshift__.Tensor"][3:-1] == table["bitwise_right_shift.Tensor"][3:-1]
    assert table["logical_not"][3] != "" and table["igamma"][3:5] == ["`fhbd`", "as called"]
    # Operators of the npu's own rather than PyTorch's composition; the host's; what files share, and no declared name.
    assert table["scaled_dot_product_attention"][2].startswith("`_npu_dot_product_attention`, `npu_fusion_attention`, ")
    assert "`npu_cross_entropy_loss`" in table["cross_entropy_loss"][2].split(", ")
    assert table["linalg_eig"][1:5] == ["PyTorch's", "`at::cpu::linalg_eig`", "`fdcz`", "`fdcz`"]
    for name in ("linalg_householder_product", "ormqr", "linalg_matrix_exp", "_fft_r2c"):
        assert "`matmul`" in table[name][2]  # of the function beside it, whose name other files have for their own
    assert table["_dirichlet_grad"][3] == "`fhbd`" and "`norm_except_dim`" in table["_weight_norm_interface"][2]
    assert table["linalg_lu_solve"][2].startswith("`aclnnTriangularSolve`, ")
    assert "aclnnIndex" not in rows(operators_page.npu_page())["npu_random_choice_with_mask"][2]
    # PyTorch's own C++ has no row of types; a view has any; what moves an element has none to tell.
    assert table["view"][1:5] == ["PyTorch's", "`at::native::view`", "any", ""]
    assert table["glu_backward_jvp"][3:8] == [""] * 5 and table["view_as_real"][3] == "`czk`"
    assert table["_has_compatible_shallow_copy_type"][1] == "by hand"
    assert table["dequantize.self"][1] == "fallback" and table["to_mkldnn"][-1].endswith("which is refused")


def test_each_operator_of_pytorchs_has_a_formula_or_a_page() -> None:
    page = operators_page.aten_page()
    last = {name: re.sub(r"\((https:[^)]*)\)", "", cells[-1]) for name, cells in rows(page).items()}
    assert last["abs"] == "[torch.abs]" and last["sigmoid_backward"] == "the gradient of [torch.sigmoid]"
    assert last["_foreach_add.List"] == "[torch.add] of each tensor" and last["unfold"] == "[torch.Tensor.unfold]"
    assert last["rsub.Tensor"].startswith("`at::cpu::sub_outf(other, self")
    assert last["special_bessel_y0"] == "`bessel_y0(self)`"  # PyTorch's page has no such anchor
    assert last["special_airy_ai"] == "[torch.special.airy_ai]: `airy_ai(x)`"
    assert [name for name, text in last.items() if not text] == []


@pytest.mark.parametrize(("page", "most"), [("aten_page", 18), ("npu_page", 27)])
def test_few_rows_have_no_types(page: str, most: int) -> None:
    """Those whose kernels read no element, but for a few."""
    table = rows(getattr(operators_page, page)())
    empty = [name for name, cells in table.items() if cells[1] != "fallback" and not "".join(cells[2:8])]
    assert 0 < len(empty) <= most, empty


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


def test_types_are_those_of_the_first_tensor() -> None:
    """Of the function, whatever the order of its row of ops/types.yaml."""
    table = rows(operators_page.npu_page())
    assert table["npu_mrope"][3] == "`48`" and "1" in table["npu_fused_infer_attention_score"][3]
    assert table["npu_dtype_cast"][2] == "`aclnnCast`" and "y" in table["npu_dtype_cast"][3]


def test_types_of_a_composed_operator_are_those_of_its_row_on_each_chip() -> None:
    table = rows(operators_page.npu_page())
    assert "f" in table["_npu_index_add"][3]  # what it adds to, not its index, which alone the row names
    assert "e" not in table["npu_conv2d"][6]  # Ascend950's convolution takes float8, the row refuses it there, too
    assert table["npu_giou_backward"][3] == "`fhbd`"  # the boxes, whatever the gradient is
    assert table["npu_mla_prolog"][3] == ""  # the row names a factor far behind the first tensor


def test_letters_name_a_functions_types_by_chip() -> None:
    assert operators_page.Types().cells("aclnnSwiGlu")[1] == "fhb"

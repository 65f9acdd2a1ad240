"""tools/codegen/npu_types.py: rows of ops/types.yaml as the text that "meta" reads."""

from __future__ import annotations

import functools
import re
import sys

from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "tools" / "codegen"))
import npu  # noqa: E402
import opapi_types  # noqa: E402


@functools.cache
def every() -> dict[str, str]:
    return {w.schema.full: w.types for w in npu.wrappers()}


def types(name: str) -> str:
    return every()[name]


def test_groups_and_stars_are_those_of_the_row() -> None:
    assert types("npu_rms_norm") == (
        'check_types("npu_rms_norm", "8000803 a;8000803 a*;8000803 a;8000803\\ninput,gamma,y,rstd", '
        "{input, gamma, y, rstd})"
    )


def test_a_list_is_marked_and_what_is_written_is_asked_always() -> None:
    assert ";2008000e03+;" in types("npu_grouped_matmul_swiglu_quant_v2")
    assert types("npu_grouped_matmul_add_").startswith("check_types(")


def test_a_call_behind_a_copy_is_seen_and_so_is_a_copy_that_it_gets() -> None:
    assert types("npu_grouped_matmul_add").endswith("{x, weight, group_list, out})")
    assert types("npu_batch_gather_matmul_").endswith("{input, x, weight_b, indices, weight_a, input})")


def test_a_row_that_is_no_call_of_one_function_has_none() -> None:
    assert types("npu_fusion_attention") == ""
    assert types("npu_ciou") == ""


def test_lists_of_types_in_cpp_are_those_of_the_table() -> None:
    """What an error names, what phase one knows, and the generators' names."""
    numbers, _ = opapi_types.vocabulary()
    assert set(opapi_types.SCALAR_TYPES) == set(numbers)
    text = (ROOT / "torch_npu/csrc/ops/npu/type_rules.cpp").read_text(encoding="utf-8")
    listed = re.search(r"kTypes = \{(.*?)\};", text, re.S)[1]
    named = re.findall(r"at::(?:k|ScalarType::)(\w+)", listed)
    assert sorted(named) == sorted(opapi_types.SCALAR_TYPES.values())
    text = (ROOT / "softnpu/ops/op.h").read_text(encoding="utf-8")
    packed = int(re.search(r"kPacked = (\d+);", text)[1])
    known = int(re.search(r"\((0x[0-9a-f]+)ULL >> dtype\)", text)[1], 16)
    hifloat8 = numbers["hifloat8"]  # which plan.cpp lets through, as the packed ones
    assert known == sum(1 << number for number in numbers.values() if number < packed and number != hifloat8)
    assert sorted(n for n in numbers.values() if n >= packed) == [numbers["float4_e2m1"], numbers["float4_e1m2"]]


def test_a_row_s_own_types_are_asked_on_the_device_and_for_meta() -> None:
    text = npu.show("npu_scatter_list")
    device, meta = text.index("> device("), text.index("> meta(")
    for part in (text[device:meta], text[meta:]):
        assert "check_list_updates(" in part and "check_types(" in part

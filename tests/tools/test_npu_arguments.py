"""tools/codegen/npu_arguments.py: each argument of the NPU's own operators has a meaning, each meaning an argument."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools" / "codegen"))
import npu  # noqa: E402
import npu_arguments  # noqa: E402
import npu_docs  # noqa: E402

ROWS = {row.schema.full: row for row in npu.rows()}
CALLS = {wrapper.schema.full: wrapper.call for wrapper in npu.wrappers()}


def test_every_argument_has_a_meaning_and_every_meaning_an_argument():
    npu_arguments.check(list(ROWS.values()))


@pytest.mark.parametrize("name", ROWS)
def test_every_argument_is_in_the_docstring(name):
    row = ROWS[name]
    told = npu_docs.text(row, CALLS[name])
    if npu_arguments.REST in row.data.get("ignored", {}):
        assert "Without effect: all arguments (" in told
        return
    listed = re.findall(r"^    (\w+) \(.+?", told.partition("Args:\n")[2], re.MULTILINE)
    assert listed == [a.name for a in row.schema.arguments]


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Write the table of meanings."""

    def write(text):
        path = tmp_path / "npu_arguments.yaml"
        path.write_text(text, encoding="utf-8")
        npu_arguments.meanings.cache_clear()
        monkeypatch.setattr(npu_arguments, "TABLE", path)
        return npu_arguments.meanings()

    yield write
    npu_arguments.meanings.cache_clear()


def test_the_nearest_meaning_is_taken(table):
    told = table("shared: {x: s, y: s, z: s}\nlike: {a: b, b: c d}\noperators:\n  a: {x: a, y: a}\n  b: {x: b}\n")
    assert [told.of("c", name) for name in "xyz"] == ["b", "a", "s"]
    assert [told.of("e", name) for name in "xyz"] == ["s", "s", "s"]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("shared: {}\nlike: {}\noperators: {}\n", "npu_swiglu: input has no meaning; write it under `operators`"),
        (
            "shared: {input: a, dim: b, size: c}\nlike: {}\noperators: {}\n",
            "no argument has the meaning of shared: size",
        ),
        ("shared: {input: a, dim: b}\nlike: {}\noperators: {npu_x: {y: a}}\n", "no operators of ops/npu.yaml: npu_x"),
        ("shared: {input: a, dim: b, c}\nlike: {}\noperators: {}\n", "shared: c is no text; quote one with a comma"),
        ("shared: {}\nlike: {a: b, c: b}\noperators: {}\n", "`like` has twice b"),
    ],
)
def test_what_stops_the_generator(table, text, error):
    with pytest.raises(SystemExit, match=re.escape(error)):
        table(text)
        npu_arguments.check([ROWS["npu_swiglu"]])


def test_a_line_tells_type_and_whether_a_call_may_leave_it_out():
    lines = npu_arguments.lines(ROWS["npu_swiglu"], CALLS["npu_swiglu"])
    assert lines[0].startswith("input (Tensor of float32, float16, float64 or bfloat16): any sizes")
    assert lines[1].startswith("dim (int, optional): ")
    told = {line.split()[0]: line for line in npu_arguments.lines(ROWS["npu_nsa_compress"], CALLS["npu_nsa_compress"])}
    assert told["actual_seq_len"] == "actual_seq_len (list of ints): running ends of the sequences; needed"
    written = npu_arguments.lines(ROWS["npu_silu_"], CALLS["npu_silu_"])
    (types,) = re.match(r"input \(Tensor of (.*)\): the operand; written in place$", written[0]).groups()
    assert len(written) == 1 and {"float16", "bfloat16", "float32"} <= set(re.split(", | or ", types))


def test_a_type_is_what_all_functions_take():
    """Of an operand that several calls of the row take, the types that all of them do."""
    one = npu_arguments.data_types("ACLNN(aclnnSwiGlu)(x, dim, out)")["x"]
    assert one == "float32, float16, float64 or bfloat16"
    assert "x" not in npu_arguments.data_types("ACLNN(aclnnSwiGlu)(wide(x), dim, out)")


def test_a_type_that_the_row_asks_for_is_told():
    told = npu_arguments.lines(ROWS["npu_scaled_masked_softmax"], CALLS["npu_scaled_masked_softmax"])
    assert any(line.startswith("mask (Tensor of bool): ") for line in told)
    told = npu_arguments.lines(ROWS["npu_one_hot"], CALLS["npu_one_hot"])
    assert told[0].startswith("input (Tensor of int32 or int64): ")


@pytest.mark.parametrize(("name", "argument", "types"), [
    ("npu_dropout_backward", "mask", "uint8"), ("npu_dropout_do_mask", "mask", "uint8"),
    ("npu_swiglu_mx_quant", "x", "float16 or bfloat16"),
    ("npu_ffn", "x", "float32, float16, int8, float64 or bfloat16"),
    ("npu_weight_quant_batchmatmul", "weight", "int8 or int32"),
    ("npu_grouped_matmul_finalize_routing", "x", "int8, float8_e5m2 or float8_e4m3fn"),
])  # fmt: skip
def test_types_are_those_that_a_call_takes(name, argument, types):
    told = {line.split()[0]: line for line in npu_arguments.lines(ROWS[name], CALLS[name])}
    assert told[argument].startswith(f"{argument} (Tensor of {types}): ")

"""What a node says has its effect or is refused by name: attributes, types of operands, indices, lengths that 64 bits do not hold."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.graph_engine.border import Refused
from tests.graph_engine.proto import Graph

I64 = (1 << 63) - 1
ODD = (1 << 53) + 1  # no double has it
X = np.arange(6, dtype=np.float32).reshape(2, 3)
V = np.arange(5, dtype=np.float32)
WHOLE = np.arange(5, dtype=np.int64)
IMAGE = np.arange(25, dtype=np.float32).reshape(1, 1, 5, 5)
BATCHES = np.ones((2, 3, 3), np.float32)
HALF = np.ones((1, 2, 8), np.float16)


def ran(
    session, kind: str, attrs: dict | None = None, *, outputs: int = 1, results: int = 1, **inputs
) -> list[np.ndarray]:
    """One node whose inputs are constants: arrays, or lists of int64."""
    graph = Graph()
    given = {}
    for name, value in inputs.items():
        value = np.asarray(value)
        given[name] = graph.const(value, value.dtype.name)
    node = graph.node(kind, given, attrs, name="tested", outputs=outputs)
    graph.result(*(f"{node[:-2]}:{n}" for n in range(results)))
    return session.once(graph.bytes(), [], results)


def numbers(session, kind: str, attrs: dict | None = None, **inputs) -> list:
    return ran(session, kind, attrs, **inputs)[0].tolist()


def refused(session, kind: str, said: str, attrs: dict | None = None, *, outputs: int = 1, **inputs) -> None:
    with pytest.raises(Refused, match=re.escape(f"node 'tested' ({kind}): ") + said):
        ran(session, kind, attrs, outputs=outputs, **inputs)


# What no row computes: a type, an attribute, its value, inputs.
ATTRIBUTES = {
    "Relu": ("mode", 1, {"x": X}),
    "MatMulV2": ("offset_x", 3, {"x1": X, "x2": X.T.copy()}),
    "BatchMatMulV2": ("offset_x", 3, {"x1": BATCHES, "x2": BATCHES}),
    "Conv2D": ("offset_x", 3, {"x": IMAGE, "filter": IMAGE}),
    "Reshape": ("axis", 1, {"x": X, "shape": [3, 2]}),
    "Gather": ("is_preprocessed", True, {"x": X, "indices": [0]}),
    "GatherV2": ("batch_dims", 1, {"x": X, "indices": [0], "axis": 1}),
    "ConcatV2": ("N", 3, {"x0": X, "x1": X, "concat_dim": 0}),
    "Concat": ("N", 1, {"concat_dim": 0, "x0": X, "x1": X}),
    "ConcatD": ("N", 3, {"x0": X, "x1": X}),
    "Pack": ("N", 3, {"x0": X, "x1": X}),
    "Unpack": ("num", 3, {"x": X[:1]}),
    "SplitV": ("num_split", 3, {"x": X, "size_splits": [1, 1], "split_dim": 0}),
    "MaxPoolWithArgmaxV1": ("dtype", 9, {"x": IMAGE}),
    "TopKV2": ("sort_policy", 2, {"x": V, "k": 2}),
    "FusedInferAttentionScore": ("out_dtype", 1, {"query": HALF, "key0": HALF, "value0": HALF}),
    "GeluV2": ("approximate", "quick", {"x": X}),
}
REQUIRED = {
    "FusedInferAttentionScore": {"num_heads": 1},
    "Conv2D": {"strides": [1, 1, 1, 1], "pads": [0, 0, 0, 0], "data_format": "NCHW"},
    "ConcatD": {"concat_dim": 0},
    "MaxPoolWithArgmaxV1": {"ksize": [1, 2, 2, 1], "strides": [1, 1, 1, 1], "pads": [1, 0, 0, 1]},
}


@pytest.mark.parametrize("kind", ATTRIBUTES)
def test_an_attribute_without_effect_is_refused(session, kind):
    name, value, inputs = ATTRIBUTES[kind]
    refused(session, kind, f".*{name}.* ", REQUIRED.get(kind, {}) | {name: value}, **inputs)


def test_an_attribute_of_reshape_counts_alone(session):
    refused(session, "Reshape", "attribute 'num_axes' is 1: only -1 is", {"num_axes": 1}, x=X, shape=[3, 2])


def test_what_the_maker_of_a_graph_notes_is_not_refused(session):
    assert numbers(session, "Relu", {"_note": 1}, x=V) == V.tolist()


def test_a_layout_is_one_of_tensors_as_they_are(session):
    assert numbers(session, "Relu", {"input_layout_info": ["NCHW"]}, x=V) == V.tolist()
    refused(session, "Relu", "attribute 'output_layout_info' names NHWC", {"output_layout_info": ["NHWC"]}, x=V)


@pytest.mark.parametrize(
    ("kind", "name", "inputs"),
    [
        ("MatMulV2", "offset_w", {"x1": X, "x2": X.T.copy(), "offset_w": V}),
        ("TransposeBatchMatMul", "bias", {"x1": BATCHES, "x2": BATCHES, "bias": V[:3]}),
        ("RotaryPositionEmbedding", "rotate", {"x": IMAGE, "cos": IMAGE, "sin": IMAGE, "rotate": IMAGE}),
    ],
)
def test_an_input_without_effect_is_refused(session, kind, name, inputs):
    refused(session, kind, f"input '{name}' is not supported", **inputs)


def test_a_mean_over_no_axes_is_over_all_of_them(session):
    none = np.zeros(0, np.int64)
    assert numbers(session, "ReduceMean", {"noop_with_empty_axes": False}, x=X, axes=none) == 2.5
    assert numbers(session, "ReduceMean", {"noop_with_empty_axes": False, "keep_dims": True}, x=X, axes=none) == [[2.5]]
    assert numbers(session, "ReduceMean", {}, x=X, axes=none) == X.tolist()
    (got,) = ran(session, "ReduceMeanWithCast", {"noop_with_empty_axes": False, "dtype": 1}, x=X, axes=none)
    assert got.dtype == np.float16 and got.tolist() == 2.5


def test_a_closed_range_has_its_limit(session):
    closed = {"is_closed": True}
    assert numbers(session, "Range", closed, start=0, limit=3, delta=1) == [0, 1, 2, 3]
    assert numbers(session, "Range", closed, start=6, limit=0, delta=-4) == [6, 2]
    assert numbers(session, "Range", closed, start=5, limit=5, delta=1) == [5]
    reals = {k: np.float32(v) for k, v in (("start", 0), ("limit", 1), ("delta", 0.25))}
    assert numbers(session, "Range", closed, **reals) == [0, 0.25, 0.5, 0.75, 1]


def test_a_range_of_integers_is_computed_in_integers(session):
    assert numbers(session, "Range", start=ODD, limit=ODD + 2, delta=1) == [ODD, ODD + 1]
    assert numbers(session, "Range", {"is_closed": True}, start=I64 - 2, limit=I64, delta=1) == [I64 - 2, I64 - 1, I64]
    quarters = [-I64 - 1, -(1 << 62), 0, 1 << 62]
    assert numbers(session, "Range", start=-I64 - 1, limit=I64, delta=1 << 62) == quarters


def test_integers_of_a_range_may_have_two_types(session):
    zero = np.array(0, np.int32)
    (got,) = ran(session, "Range", start=zero, limit=4, delta=2)
    assert got.dtype == np.int32 and got.tolist() == [0, 2]
    refused(session, "Range", f"a range of int32 to {1 << 40}", start=zero, limit=(1 << 40) + 1, delta=1 << 40)
    refused(session, "Range", "a range from int64 to float32 by int64", start=0, limit=np.float32(2.5), delta=1)


@pytest.mark.parametrize("wrong", [{"start": np.nan}, {"limit": np.inf}, {"limit": -np.inf}, {"delta": np.inf}])
def test_a_range_is_finite(session, wrong):
    reals = {k: np.float32(v) for k, v in ({"start": 0, "limit": 3, "delta": 1} | wrong).items()}
    refused(session, "Range", "a range from .*: its numbers must be finite", **reals)


def test_numbers_of_int64_stay_what_they_are(session):
    one = np.ones(1, np.int64)
    assert numbers(session, "AxpyV2", x1=one, x2=one, alpha=ODD) == [ODD + 1]
    assert numbers(session, "Sxpy", x1=one, x2=one, alpha=ODD) == [1 - ODD]
    assert numbers(session, "PadV3", x=one, paddings=[1, 0], constant_values=ODD) == [ODD, 1]
    assert numbers(session, "RealDiv", x1=[ODD, -7], x2=[1, 2]) == [ODD, -3]


def test_a_product_of_int8_is_added_up_in_int32(session):
    hundred = np.full((2, 2), 100, np.int8)
    (got,) = ran(session, "MatMulV2", x1=hundred, x2=hundred)
    assert got.dtype == np.int32 and got.tolist() == [[20000] * 2] * 2
    window = {"strides": [1, 1, 1, 1], "pads": [0, 0, 0, 0], "data_format": "NCHW"}
    refused(session, "Conv2D", "a convolution of int8", window, x=hundred[None, None], filter=hundred[None, None])


POOL = {"ksize": [1, 1, 2, 2], "strides": [1, 1, 1, 1], "pads": [1, 1, 1, 1]}


def test_a_pool_over_the_whole_image(session):
    (got,) = ran(session, "AvgPoolV2", POOL | {"global_pooling": True}, x=IMAGE)
    assert got.shape == (1, 1, 1, 1) and got.item() == 12


def test_the_paddings_of_a_pool_follow_its_mode(session):
    (valid,) = ran(session, "AvgPoolV2", POOL | {"padding_mode": "VALID"}, x=IMAGE)
    assert valid[0, 0].tolist() == [[x + 5 * y + 3 for x in range(4)] for y in range(4)]
    same = {"ksize": [1, 1, 3, 3], "strides": [1, 1, 2, 2], "padding_mode": "SAME"}
    (got,) = ran(session, "AvgPoolV2", same, x=IMAGE)
    assert got[0, 0].tolist() == [[3, 4.5, 6], [10.5, 12, 13.5], [18, 19.5, 21]]
    refused(session, "AvgPoolV2", "padding_mode SAME of 1 elements", same, x=IMAGE[:, :, :4, :4])
    refused(session, "AvgPoolV2", "padding_mode FULL", POOL | {"padding_mode": "FULL"}, x=IMAGE)
    refused(
        session,
        "AvgPoolV2",
        "padding_mode VALID with ceil",
        POOL | {"padding_mode": "VALID", "ceil_mode": True},
        x=IMAGE,
    )
    refused(session, "AvgPoolV2", "format NHWC", POOL | {"data_format": "NHWC"}, x=IMAGE)
    refused(session, "AvgPoolV2", r"a list \[2, 1, 2, 2\]", POOL | {"ksize": [2, 1, 2, 2]}, x=IMAGE)


@pytest.mark.parametrize("wrong", [{"ksize": [0, 0]}, {"ksize": [-3, 2]}, {"strides": [0, 1]}, {"dilation": [-1, 1]},
                                   {"pads": [-1, 0]}, {"ksize": [6, 6]}, {"ksize": [I64, I64], "dilation": [I64, 1]}])  # fmt: skip
def test_a_window_has_a_size(session, wrong):
    window = {"ksize": [2, 2], "strides": [1, 1], "pads": [0, 0]} | wrong
    refused(session, "MaxPoolWithArgmaxV3", "a window of ", window, outputs=2, x=IMAGE)


def test_a_window_of_a_convolution_has_a_size(session):
    window = {"strides": [1, 1, 1, 1], "pads": [0, 0, 0, 0], "data_format": "NCHW"}
    for wrong in ({"dilations": [1, 1, -1, 1]}, {"pads": [-1, -1, 0, 0]}, {"strides": [1, 1, 0, 1]}):
        refused(session, "Conv2D", "a window of ", window | wrong, x=IMAGE, filter=IMAGE)


HUGE = np.array(1 << 40)
SMALL = np.array(1, np.int32)
MIXED = {
    **dict.fromkeys(("Add", "Sub", "Mul", "RealDiv", "Div", "TruncateDiv", "FloorDiv", "FloorMod", "Mod", "Maximum", "Minimum", "Pow",
                     "Atan2", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Equal", "NotEqual", "Less", "LessEqual", "Greater",
                     "GreaterEqual", "LogicalAnd", "LogicalOr"), {"x1": SMALL, "x2": HUGE}),
    "AxpyV2": {"x1": SMALL, "x2": SMALL, "alpha": HUGE},
    "Addcmul": {"input_data": SMALL, "x1": SMALL, "x2": HUGE, "value": SMALL},
    "Addcdiv": {"input_data": SMALL, "x1": SMALL, "x2": SMALL, "value": HUGE},
    "Lerp": {"start": V, "end": V, "weight": V.astype(np.float64)},
    "SelectV2": {"condition": np.array(True), "then": SMALL, "else": HUGE},
    "Select": {"condition": np.array(True), "x1": SMALL, "x2": HUGE},
    "MaskedFill": {"x": SMALL, "mask": np.array(True), "value": HUGE},
    "Pack": {"x0": SMALL, "x1": HUGE},
    "ConcatV2": {"x0": V.astype(np.int32), "x1": WHOLE, "concat_dim": 0},
    "MatMul": {"x1": X, "x2": X.T.astype(np.float64)},
    "BatchMatMul": {"x1": BATCHES, "x2": BATCHES.astype(np.float64)},
    "TransposeBatchMatMul": {"x1": BATCHES, "x2": BATCHES.astype(np.float64)},
    "ScatterElements": {"data": V, "indices": [1], "updates": V[:1].astype(np.float64)},
    "Scatter": {"var": X, "indices": [0], "updates": X.astype(np.float64)},
    "ScatterNdUpdate": {"var": V, "indices": [[1]], "updates": V[:1].astype(np.float64)},
    "Assign": {"ref": WHOLE, "value": V + 0.5},
    "PadV3": {"x": WHOLE, "paddings": [1, 0], "constant_values": np.float32(0.5)},
    "AddRmsNorm": {"x1": X, "x2": X.astype(np.float16), "gamma": X[0]},
    "Conv2D": {"x": IMAGE, "filter": IMAGE.astype(np.float16)},
    "RotaryPositionEmbedding": {"x": IMAGE, "cos": IMAGE, "sin": IMAGE.astype(np.float64)},
    "FusedInferAttentionScore": {"query": HALF, "key0": HALF, "value0": HALF.astype(np.float32)},
}  # fmt: skip


@pytest.mark.parametrize("kind", MIXED)
def test_operands_of_two_types_are_refused(session, kind):
    attrs = REQUIRED.get(kind, {}) | {
        "Scatter": {"reduce": "update"},
        "FusedInferAttentionScore": {"num_heads": 1},
    }.get(kind, {})
    refused(session, kind, "input '.*' is .* and input '.*' is .*: they must have one data type", attrs, **MIXED[kind])


def test_a_bias_of_another_type_is_refused(session):
    bias = np.ones(3, np.int64)
    refused(session, "BatchMatMulV2", "input 'bias' is int64 and the result float32", x1=BATCHES, x2=BATCHES, bias=bias)


BYTES = np.array([1, 1, 1], np.uint8)
INDICES = {
    "Gather": ("indices", {"x": V[:3]}, {}),
    "GatherV2": ("indices", {"x": V[:3], "axis": 0}, {}),
    "GatherElements": ("index", {"x": V[:3]}, {}),
    "ScatterElements": ("indices", {"data": V[:3], "updates": V[:3]}, {}),
    "Scatter": ("indices", {"var": V[:3], "updates": V[:3]}, {"reduce": "update"}),
    "ScatterNdUpdate": ("indices", {"var": V[:3], "updates": V[:3]}, {}),
}


@pytest.mark.parametrize("kind", INDICES)
@pytest.mark.parametrize("dtype", ["uint8", "bool", "float32"])
def test_an_index_is_int32_or_int64(session, kind, dtype):
    name, inputs, attrs = INDICES[kind]
    said = f"input '{name}' is {dtype}: int32 or int64 is wanted"
    refused(session, kind, said, attrs, **inputs, **{name: BYTES.astype(dtype)})


def test_numbers_and_results_that_are_indices_have_their_types(session):
    refused(session, "IndexByTensor", "indices of uint8", {"indices_mask": [1]}, x=V, indices0=BYTES)
    refused(
        session,
        "Reshape",
        "numbers of int32 or int64 are wanted, not of float32",
        x=V,
        shape=np.array([5.9], np.float32),
    )
    refused(session, "ArgMaxV2", "indices of float32", {"dtype": 0}, x=V, dimension=0)
    refused(session, "ArgMin", "indices of uint8", {"dtype": 4}, x=V, dimension=0)
    refused(session, "TopKV2", "indices of float32", {"indices_dtype": 0}, outputs=2, x=V, k=2)
    refused(session, "SelectV2", "input 'condition' is float32: bool", condition=V, then=V, **{"else": V})
    refused(session, "MaskedFill", "input 'mask' is uint8: bool", x=V[:3], mask=BYTES, value=np.float32(1))


@pytest.mark.parametrize("inputs", [{"indices": [0]}, {"indices": [-1]}, {"indices": -1}])
def test_an_empty_list_has_no_elements(session, inputs):
    refused(session, "Gather", "index -?[01] of 0 elements", x=np.zeros(0, np.int64), **inputs)
    refused(session, "GatherV2", "index -?[01] of 0 elements", x=np.zeros(0, np.int64), axis=0, **inputs)


@pytest.mark.parametrize("number", [1 << 32, -(1 << 32) + 3, 99, -1, 28])
def test_a_data_type_is_checked_in_all_its_bits(session, number):
    refused(session, "Cast", f"attribute 'dst_type' is {number}, which is no data type", {"dst_type": number}, x=V)


def test_a_step_may_be_as_long_as_64_bits(session):
    for end, step in ((4, I64), (5, I64 - 1), (5, 5)):
        assert numbers(session, "StridedSliceV2", x=V, begin=[0], end=[end], axes=[0], strides=[step]) == [0]


LONG = {
    "Slice": (
        r"9223372036854775807 elements from 2 by 1 of dimension 0 of shape \[5\]",
        {"x": V, "offsets": [2], "size": [I64]},
    ),
    "BroadcastTo": ("broadcast: shapes", {"x": V, "shape": [-1, 5]}),
    "Expand": ("broadcast: shapes", {"x": V[:1], "shape": [-5]}),
    "Tile": (".* more than 64 bits hold", {"x": np.ones((4, 1), np.float32), "multiples": [1 << 62, 1]}),
    "Pad": (".* more than 64 bits hold", {"x": V, "paddings": [I64, I64]}),
    "PadV3": ("padding: shapes", {"x": V, "paddings": [-4, -4]}),
    "SplitV": (".* more than 64 bits hold", {"x": V, "size_splits": [I64, I64], "split_dim": 0}),
    "StridedSliceV2": ("a slice of shape .* whose lists are longer", {"x": V, "begin": [0] * 70, "end": [5] * 70}),
    "StridedSlice": (
        "dimension 0 named twice",
        {"x": X, "begin": [0, 0], "end": [1, 1], "axes": [0, -2], "strides": [1, 1]},
    ),
    "Empty": (r"a result of shape \[4611686018427387904, 2\]", {"shape": [1 << 62, 2]}),
}


@pytest.mark.parametrize("kind", LONG)
def test_a_length_that_nothing_has_is_refused(session, kind):
    said, inputs = LONG[kind]
    kind = "StridedSliceV2" if "axes" in inputs else kind
    refused(session, kind, said, {"dtype": 0} if kind == "Empty" else {}, **inputs)


def test_an_element_that_is_not_there(session):
    ends = {"end": [3], "strides": [1]}
    refused(session, "StridedSlice", "element -9 of dimension 0", {"shrink_axis_mask": 1}, x=X, begin=[-9], **ends)
    refused(session, "StridedSlice", "1 elements from 2", {"shrink_axis_mask": 1}, x=X, begin=[9], **ends)


def test_more_results_than_a_node_declares_are_not_made(session):
    none = np.ones(0, np.float32)
    refused(
        session, "SplitD", "100000000 results, and the node declares 1", {"split_dim": 0, "num_split": 10**8}, x=none
    )
    refused(session, "Unpack", "2 results, and the node declares 5", {"num": 2}, outputs=5, x=X)


def test_memory_that_is_not_there_names_the_node(session):
    refused(session, "Empty", "aclrtMalloc returned .* out of memory", {"dtype": 0}, shape=[1 << 45])


def test_an_assignment_keeps_the_shape(session):
    refused(session, "Assign", r"assignment: shapes \[1\] and \[2, 3\]", ref=X, value=V[:1])

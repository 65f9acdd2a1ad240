"""What operator types compute, against numpy and torch; every row of ops/ge.yaml that no test runs is listed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from tests.graph_engine.proto import Graph
from tools.codegen import ge

RANDOM = np.random.default_rng(0)
A = RANDOM.uniform(0.1, 0.9, (2, 3)).astype(np.float32)
B = RANDOM.uniform(0.1, 0.9, (2, 3)).astype(np.float32)
ROW = RANDOM.uniform(0.1, 0.9, (3,)).astype(np.float32)
WHOLE = np.array([[7, -3, 5], [-2, 9, 4]], np.int64)
OTHER = np.array([[2, 2, -3], [3, -4, 1]], np.int64)
TRUTH = np.array([[True, False, True], [False, False, True]])
CUBE = RANDOM.normal(size=(2, 3, 4)).astype(np.float32)
IMAGE = RANDOM.normal(size=(2, 4, 9, 8)).astype(np.float32)
HALVES = RANDOM.normal(size=(2, 3, 64)).astype(np.float16)
PAGE = RANDOM.normal(size=(2, 1, 16)).astype(np.float16)  # two rows
CACHE = RANDOM.normal(size=(3, 2, 1, 16)).astype(np.float16)  # blocks of two rows
KERNEL = RANDOM.normal(size=(6, 2, 3, 3)).astype(np.float32)


def t(x: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(x)


def case(kind: str, inputs: dict, want: object, attrs: dict | None = None, consts: dict | None = None):
    """Inputs are the graph's; consts are lists of int64 or arrays. `want` may be several."""
    return pytest.param(kind, inputs, consts or {}, attrs or {}, want, id=kind)


def unary(kind: str, function, x: np.ndarray = A, name: str = "x", attrs: dict | None = None):
    return case(kind, {name: x}, function(t(x)), attrs)


def binary(kind: str, function, a: np.ndarray = A, b: np.ndarray = B):
    return case(kind, {"x1": a, "x2": b}, function(t(a), t(b)))


def reduction(kind: str, function, x: np.ndarray = CUBE, axes: tuple = (0, 2), keep: bool = True):
    return case(kind, {"x": x}, function(t(x)), {"keep_dims": keep}, {"axes": list(axes)})


def dynamic_quant(x: torch.Tensor, smooth: float | torch.Tensor = 1.0) -> list[torch.Tensor]:
    y = x.float() * smooth
    scale = y.abs().amax(-1) / 127
    return [(y / scale[..., None]).round().to(torch.int8), scale]


def normed_quant(x: torch.Tensor, gamma: torch.Tensor) -> list[torch.Tensor]:
    y, scale = dynamic_quant(F.rms_norm(x.float(), (x.shape[-1],), gamma.float(), 1e-6))
    return [y, torch.empty(0, dtype=torch.int8), x, scale, torch.empty(0)]


def cached(rows: np.ndarray) -> torch.Tensor:
    """CACHE with the first row at place 5 and the second at place 0."""
    cache = t(CACHE).clone()
    cache[2, 1], cache[0, 0] = t(rows)
    return cache


floor = {"rounding_mode": "floor"}
CASES = [
    binary("Add", torch.add), binary("Sub", torch.sub, A, ROW), binary("Mul", torch.mul, ROW, A), binary("RealDiv", torch.div),
    binary("Div", lambda a, b: torch.div(a, b, rounding_mode="trunc"), WHOLE, OTHER), binary("Pow", torch.pow),
    binary("TruncateDiv", lambda a, b: torch.div(a, b, rounding_mode="trunc"), WHOLE, OTHER),
    binary("FloorDiv", lambda a, b: torch.div(a, b, **floor), WHOLE, OTHER), binary("FloorMod", torch.remainder, WHOLE, OTHER),
    binary("Mod", torch.fmod, WHOLE, OTHER), binary("Maximum", torch.maximum), binary("Minimum", torch.minimum),
    binary("Atan2", torch.atan2), binary("BitwiseAnd", torch.bitwise_and, WHOLE, OTHER),
    binary("BitwiseOr", torch.bitwise_or, WHOLE, OTHER), binary("BitwiseXor", torch.bitwise_xor, WHOLE, OTHER),
    case("Axpy", {"x1": A, "x2": B}, t(A) + 0.5 * t(B), {"alpha": 0.5}),
    case("AxpyV2", {"x1": A, "x2": B}, t(A) + 2 * t(B), {}, {"alpha": np.array(2.0, np.float32)}),
    case("Sxpy", {"x1": A, "x2": B}, t(A) - 2 * t(B), {}, {"alpha": np.array(2.0, np.float32)}),
    case("Addcmul", {"input_data": A, "x1": B, "x2": ROW}, torch.addcmul(t(A), t(B), t(ROW), value=3), {}, {"value": np.array(3.0, np.float32)}),
    case("Addcdiv", {"input_data": A, "x1": B, "x2": ROW}, torch.addcdiv(t(A), t(B), t(ROW), value=3), {}, {"value": np.array(3.0, np.float32)}),
    case("Lerp", {"start": A, "end": B, "weight": ROW}, torch.lerp(t(A), t(B), t(ROW).expand(2, 3))),
    binary("Equal", torch.eq, WHOLE, OTHER), binary("NotEqual", torch.ne, WHOLE, OTHER), binary("Less", torch.lt),
    binary("LessEqual", torch.le), binary("Greater", torch.gt), binary("GreaterEqual", torch.ge, A, A),
    binary("LogicalAnd", torch.logical_and, TRUTH, ~TRUTH), binary("LogicalOr", torch.logical_or, TRUTH, ~TRUTH),
    unary("LogicalNot", torch.logical_not, TRUTH), unary("IsInf", torch.isinf, A / np.array([1, 0, 1], np.float32)),
    unary("IsFinite", torch.isfinite, A / np.array([1, 0, 1], np.float32)),
    *(unary(k, getattr(torch, k.lower())) for k in (
        "Acos", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Erf", "Erfc", "Expm1", "Floor", "Log1p", "Neg", "Reciprocal",
        "Rsqrt", "Sign", "Sin", "Sinh", "Sqrt", "Square", "Tan", "Tanh", "Exp", "Log", "Tril", "Triu", "Relu", "Sigmoid")),
    unary("Abs", torch.abs, -A), unary("Acosh", torch.acosh, A + 1), unary("Invert", torch.bitwise_not, WHOLE),
    unary("Erfinv", torch.erfinv, name="input_x"), unary("Trunc", torch.trunc, A * 9, "input_x"),
    unary("Round", lambda x: torch.round(x, decimals=2), attrs={"decimals": 2}), unary("Muls", lambda x: x * 3, attrs={"value": 3.0}),
    unary("ZerosLike", torch.zeros_like), unary("OnesLike", torch.ones_like), unary("Gelu", F.gelu), unary("LogSigmoid", F.logsigmoid),
    unary("GeluV2", lambda x: F.gelu(x, approximate="tanh"), attrs={"approximate": "tanh"}), unary("Mish", F.mish),
    unary("FastGelu", lambda x: x * torch.sigmoid(1.702 * x)), unary("HardSwish", F.hardswish),
    unary("Swish", lambda x: x * torch.sigmoid(2 * x), attrs={"scale": 2.0}), unary("Elu", F.elu, -A),
    unary("LeakyRelu", lambda x: F.leaky_relu(x, 0.1), -A, attrs={"negative_slope": 0.1}),
    unary("SwiGlu", lambda x: F.silu(x[..., :2]) * x[..., 2:], CUBE), unary("SoftmaxV2", lambda x: x.softmax(1), CUBE, attrs={"axes": [1]}),
    unary("LogSoftmaxV2", lambda x: x.log_softmax(-1), CUBE, "logits"), case("ReverseV2", {"x": A}, t(A).flip(1), {}, {"axis": [1]}),
    case("SelectV2", {"condition": TRUTH, "then": A, "else": ROW}, torch.where(t(TRUTH), t(A), t(ROW))),
    case("Select", {"condition": TRUTH, "x1": A, "x2": B}, torch.where(t(TRUTH), t(A), t(B))),
    case("MaskedFill", {"x": A, "mask": TRUTH}, t(A).masked_fill(t(TRUTH), -1), {}, {"value": np.array([-1.0], np.float32)}),
    case("ArgMaxV2", {"x": CUBE}, t(CUBE).argmax(2), {"dtype": 9}, {"dimension": -1}),
    case("ArgMin", {"x": CUBE}, t(CUBE).argmin(1), {"dtype": 9}, {"dimension": 1}),
    case("TopKV2", {"x": CUBE}, [t(CUBE).topk(2)[0], t(CUBE).topk(2)[1].int()], {}, {"k": 2}),
    case("Cumsum", {"x": CUBE}, t(CUBE).cumsum(1), {}, {"axis": 1}),
    reduction("ReduceSum", lambda x: x.sum((0, 2), True)), reduction("ReduceMean", lambda x: x.mean((0, 2), True)),
    reduction("ReduceMax", lambda x: x.amax((0, 2), True)), reduction("ReduceMin", lambda x: x.amin((0, 2)), keep=False),
    reduction("ReduceProd", lambda x: x.prod(1), axes=(1,), keep=False), reduction("ReduceSum", lambda x: x, axes=()),
    reduction("ReduceAll", lambda x: x.all(1), TRUTH, (1,), False), reduction("ReduceAny", lambda x: x.any(0), TRUTH, (0,), False),
    case("ReduceMeanWithCast", {"x": CUBE.astype(np.float16)}, t(CUBE.astype(np.float16)).mean(1, dtype=torch.float32), {"dtype": 0}, {"axes": [1]}),
    case("MatMul", {"x1": A, "x2": B}, t(A) @ t(B).T, {"transpose_x2": True}),
    case("MatMulV2", {"x1": A, "x2": B, "bias": ROW}, t(A).T @ t(B) + t(ROW), {"transpose_x1": True}),
    case("BatchMatMul", {"x1": CUBE, "x2": CUBE}, t(CUBE) @ t(CUBE).mT, {"adj_x2": True}),
    case("BatchMatMulV2", {"x1": CUBE, "x2": CUBE}, t(CUBE).mT @ t(CUBE), {"adj_x1": True}),
    unary("Identity", lambda x: x), case("Reshape", {"x": CUBE}, t(CUBE).reshape(2, -1), {}, {"shape": [0, -1]}),
    case("Transpose", {"x": CUBE}, t(CUBE).permute(2, 0, 1), {}, {"perm": [2, 0, 1]}),
    case("TransposeD", {"x": CUBE}, t(CUBE).permute(1, 0, 2), {"perm": [1, 0, 2]}),
    case("Permute", {"x": CUBE}, t(CUBE).permute(1, 2, 0), {"order": [1, 2, 0]}),
    case("Unsqueeze", {"x": A}, t(A)[None, :, None], {"axes": [0, 2]}), case("ExpandDims", {"x": A}, t(A)[..., None], {}, {"axis": -1}),
    case("Squeeze", {"x": A[:1]}, t(A[0]), {"axis": [0]}), unary("Flatten", lambda x: x.flatten(1), CUBE),
    unary("FlattenV2", lambda x: x.flatten(0, 1), CUBE, attrs={"axis": 0, "end_axis": 1}),
    case("BroadcastTo", {"x": ROW}, t(ROW).expand(4, 3), {}, {"shape": [4, -1]}),
    case("Expand", {"x": A[:1]}, t(A[:1]).expand(4, 3), {}, {"shape": [4, 3]}),
    case("Tile", {"x": A}, t(A).repeat(2, 1, 3), {}, {"multiples": [2, 1, 3]}),
    case("Shape", {"x": CUBE}, torch.tensor([2, 3, 4]), {"dtype": 9}), unary("Cast", lambda x: x.int(), A * 9, attrs={"dst_type": 3}),
    unary("Bitcast", lambda x: x.view(torch.int32), attrs={"type": 3}),
    case("ConcatV2", {"x0": A, "x1": B}, torch.cat((t(A), t(B)), 1), {"N": 2}, {"concat_dim": -1}),
    case("Concat", {"x0": A, "x1": B}, torch.cat((t(A), t(B))), {"N": 2}, {"concat_dim": 0}),
    case("ConcatD", {"x0": A, "x1": B}, torch.cat((t(A), t(B)), 1), {"concat_dim": 1, "N": 2}),
    case("Pack", {"x0": A, "x1": B}, torch.stack((t(A), t(B)), 1), {"axis": 1, "N": 2}),
    case("Unpack", {"x": CUBE}, [*t(CUBE).unbind(1)], {"num": 3, "axis": 1}),
    case("SplitV", {"x": CUBE}, [*t(CUBE).split([1, 3], 2)], {"num_split": 2}, {"size_splits": [1, -1], "split_dim": 2}),
    case("Split", {"x": CUBE}, [*t(CUBE).chunk(2, 2)], {"num_split": 2}, {"split_dim": 2}),
    case("SplitD", {"x": CUBE}, [*t(CUBE).chunk(3, 1)], {"num_split": 3, "split_dim": 1}),
    case("StridedSliceV2", {"x": CUBE}, t(CUBE)[:, 1:, -3::2], {}, {"begin": [-3, 1], "end": [9, 3], "axes": [2, 1], "strides": [2, 1]}),
    case("StridedSlice", {"x": CUBE}, t(CUBE)[1, :2], {"shrink_axis_mask": 1}, {"begin": [1, 0], "end": [2, 2], "strides": [1, 1]}),
    case("Slice", {"x": CUBE}, t(CUBE)[:, 1:2, 2:], {}, {"offsets": [0, 1, 2], "size": [-1, 1, 2]}),
    case("GatherV2", {"x": CUBE}, t(CUBE)[:, [[0, -1], [1, 1]]], {}, {"indices": [[0, -1], [1, 1]], "axis": 1}),
    case("Gather", {"x": CUBE}, t(CUBE)[1], {}, {"indices": np.array(1)}),
    case("IndexByTensor", {"x": CUBE}, t(CUBE)[:, torch.tensor([2, 0]), torch.tensor([[1], [3]])], {"indices_mask": [0, 1, 1]},
         {"indices0": [2, 0], "indices1": [[1], [3]]}),
    case("IndexByTensor", {"x": CUBE}, t(CUBE)[torch.tensor([1, 0]), :, torch.tensor([1, -1])], {"indices_mask": [1, 0, 1]},
         {"indices0": [1, 0], "indices1": [1, -1]}),
    case("GatherElements", {"x": A}, t(A).gather(1, torch.tensor([[2, 0], [1, 1]])), {"dim": 1}, {"index": [[2, 0], [1, 1]]}),
    case("ScatterElements", {"data": A, "updates": B[:, :1]}, t(A).scatter_add(1, torch.tensor([[2], [0]]), t(B[:, :1])),
         {"axis": 1, "reduction": "add"}, {"indices": [[2], [0]]}),
    case("ScatterNdUpdate", {"var": A, "updates": B[:1]}, torch.stack((t(A)[0], t(B)[0])), {}, {"indices": [[1]]}),
    unary("TensorMove", lambda x: x), case("Fill", {}, torch.full((2, 3), 7.0), {}, {"dims": [2, 3], "value": np.array(7.0, np.float32)}),
    case("Empty", {}, torch.zeros(2, 3), {"dtype": 0}, {"shape": [2, 3]}),
    case("Range", {}, torch.arange(7, -2, -3), {}, {"start": 7, "limit": -2, "delta": -3}),
    case("Range", {}, torch.arange(0.5, 2, 0.25), {}, {k: np.array(v, np.float32) for k, v in (("start", 0.5), ("limit", 2), ("delta", 0.25))}),
    case("Pad", {"x": A}, F.pad(t(A), (0, 2, 1, 0)), {}, {"paddings": [[1, 0], [0, 2]]}),
    case("PadV3", {"x": A}, F.pad(t(A), (0, 2, 1, 0), value=5), {}, {"paddings": [1, 0, 0, 2], "constant_values": np.array(5.0, np.float32)}),
    case("LayerNormV4", {"x": CUBE, "gamma": CUBE[0, 0], "beta": CUBE[1, 1]}, F.layer_norm(t(CUBE), (4,), t(CUBE[0, 0]), t(CUBE[1, 1])), {}, {"normalized_shape": [4]}),
    case("RmsNorm", {"x": CUBE, "gamma": CUBE[0, 0]}, F.rms_norm(t(CUBE), (4,), t(CUBE[0, 0]), 1e-6)),
    case("AddRmsNorm", {"x1": CUBE, "x2": CUBE, "gamma": CUBE[0, 0]}, F.rms_norm(2 * t(CUBE), (4,), t(CUBE[0, 0]), 1e-6)),
    case("BatchNormV3", {"x": IMAGE, "weight": A.ravel()[:4], "bias": B.ravel()[:4], "running_mean": B.ravel()[2:], "running_var": A.ravel()[2:]},
         F.batch_norm(t(IMAGE), t(B.ravel()[2:]), t(A.ravel()[2:]), t(A.ravel()[:4]), t(B.ravel()[:4])), {"is_training": False}),
    case("BNInfer", {"x": IMAGE, "scale": A.ravel()[:4], "offset": B.ravel()[:4], "mean": B.ravel()[2:], "variance": A.ravel()[2:]},
         F.batch_norm(t(IMAGE), t(B.ravel()[2:]), t(A.ravel()[2:]), t(A.ravel()[:4]), t(B.ravel()[:4])), {"epsilon": 1e-5}),
    case("Conv2D", {"x": IMAGE, "filter": KERNEL, "bias": A.ravel()}, F.conv2d(t(IMAGE), t(KERNEL), t(A.ravel()), (2, 1), (1, 2), 1, 2),
         {"strides": [1, 1, 2, 1], "pads": [1, 1, 2, 2], "groups": 2, "data_format": "NCHW"}),
    case("MaxPoolWithArgmaxV3", {"x": IMAGE}, [*F.max_pool2d(t(IMAGE), 3, 2, 1, ceil_mode=True, return_indices=True)],
         {"ksize": [3, 3], "strides": [2, 2], "pads": [1, 1], "dtype": 9, "ceil_mode": True}),
    case("AvgPoolV2", {"x": IMAGE}, F.avg_pool2d(t(IMAGE), (3, 2), 2, 1, count_include_pad=False),
         {"ksize": [1, 1, 3, 2], "strides": [1, 1, 2, 2], "pads": [1, 1, 1, 1]}),
    case("AdaptiveAvgPool2d", {"x": IMAGE}, F.adaptive_avg_pool2d(t(IMAGE), (3, 2)), {"output_size": [3, 2]}),
    case("RotaryPositionEmbedding", {"x": IMAGE, "cos": IMAGE[:1, :1], "sin": IMAGE[1:, 1:2]},
         t(IMAGE) * t(IMAGE[:1, :1]) + torch.cat((-t(IMAGE)[..., 4:], t(IMAGE)[..., :4]), -1) * t(IMAGE[1:, 1:2])),
    case("FusedInferAttentionScore", {"query": IMAGE, "key0": IMAGE, "value0": IMAGE},
         F.scaled_dot_product_attention(t(IMAGE), t(IMAGE), t(IMAGE), scale=0.5), {"num_heads": 4, "scale": 0.5, "input_layout": "BNSD"}),
    case("TransposeBatchMatMul", {"x1": CUBE, "x2": CUBE.transpose(0, 2, 1).copy()}, (t(CUBE) @ t(CUBE).mT).transpose(0, 1)),
    case("TransposeBatchMatMul", {"x1": CUBE, "x2": CUBE}, torch.bmm(t(CUBE).mT, t(CUBE)).transpose(0, 1),
         {"perm_x1": [0, 2, 1], "perm_x2": [0, 1, 2], "perm_y": [1, 0, 2]}),
    case("AddRmsNormDynamicQuant", {"x1": HALVES, "x2": HALVES, "gamma": HALVES[0, 0]}, normed_quant(2 * t(HALVES), t(HALVES[0, 0]))),
    case("AddRmsNormDynamicQuant", {"x1": HALVES, "x2": HALVES, "gamma": HALVES[0, 0], "smooth_scale1": HALVES[1, 0]},
         [torch.empty(0, dtype=torch.int8)], {"output_mask": [False, True]}),
    case("DynamicQuant", {"x": HALVES}, dynamic_quant(t(HALVES))),
    case("DynamicQuant", {"x": HALVES, "smooth_scales": HALVES[1, 0]}, dynamic_quant(t(HALVES), smooth=t(HALVES[1, 0]))),
    case("ScatterPaKvCache", {"key": PAGE, "key_cache": CACHE, "slot_mapping": np.array([5, 0], np.int32), "value": -PAGE, "value_cache": CACHE},
         [cached(PAGE), cached(-PAGE)]),
]  # fmt: skip

# Types that other tests run: what writes in place (test_run.py), collectives (tests/conformance), a pool of other chips.
ELSEWHERE = {
    "Scatter", "Assign", "MaxPoolWithArgmaxV1", "HcomAllReduce", "HcomAllGather", "HcomReduceScatter", "HcomBroadcast", "HcomAllToAll",
}  # fmt: skip


@pytest.mark.parametrize(("kind", "inputs", "consts", "attrs", "want"), CASES)
def test_a_type(session, kind, inputs, consts, attrs, want):
    wanted = want if isinstance(want, list) else [want]
    row = next(row for row in ge.rows() if row.type == kind)
    graph = Graph()
    given = {name: graph.data(i, x.dtype.name, list(x.shape)) for i, (name, x) in enumerate(inputs.items())}
    for name, value in consts.items():
        value = np.asarray(value)
        given[name] = graph.const(value, value.dtype.name)
    lists = any(kinds == "*" for kinds in row.inputs.values())
    ordered = given if lists else {name: given.get(name) for name in row.inputs}
    node = graph.node(kind, ordered, attrs, name="tested", outputs=max(len(row.outputs), len(wanted)))
    graph.result(*(f"{node[:-2]}:{n}" for n in range(len(wanted))))
    for got, expected in zip(
        session.once(graph.bytes(), [x.copy() for x in inputs.values()], len(wanted)), wanted, strict=True
    ):
        torch.testing.assert_close(t(got), expected, rtol=2e-5, atol=2e-5)


def test_every_row_is_run_somewhere():
    assert {row.type for row in ge.rows()} - {case.values[0] for case in CASES} == ELSEWHERE

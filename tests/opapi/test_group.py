"""Operators that hold a collective, through the C ABI alone: a group of one rank, and two ranks as threads.

What several ranks exchange is tested in tests/distributed/test_fused.py.
"""

from __future__ import annotations

import ctypes as C
import threading

import pytest
import torch

from tests.opapi.client import CODES, AclError, Client, P, library_folder
from tests.references import hifloat8, mx

COMMON = {"commTurn": 0, "streamMode": 1}
X = (torch.arange(12).reshape(4, 3) % 5 - 2).half()
W = (torch.arange(6).reshape(3, 2) % 4 - 1).half()
BIAS = torch.tensor([1, -2]).half()
OUT = torch.zeros(4, 2).half()
NONE = torch.zeros(0).half()


def names_of(devices: list[int]) -> tuple[list[P], list[str]]:
    """A communicator for each device, all of this process."""
    hccl = C.CDLL(str(library_folder() / "libhccl.so"))
    comms = (P * len(devices))()
    assert hccl.HcclCommInitAll(len(devices), (C.c_int32 * len(devices))(*devices), comms) == 0
    names = []
    for comm in comms:
        text = C.create_string_buffer(128)
        assert hccl.HcclGetCommName(P(comm), text) == 0
        names.append(text.value.decode())
    return list(comms), names


@pytest.fixture(scope="module")
def group(npu) -> str:
    return names_of([0])[1][0]


def same(got: torch.Tensor, want: torch.Tensor) -> None:
    torch.testing.assert_close(got.float(), want.float(), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("op", ["aclnnMatmulAllReduce", "aclnnMatmulAllReduceV2", "aclnnMatmulAllReduceV3"])
def test_product_and_all_reduce(npu, group, op):
    more = {} if op.endswith("Reduce") else {"x3": OUT + 3}
    mode = {"commMode": "aiv"} if op.endswith("V3") else {}
    out = npu.call(op, x1=X, x2=W, bias=BIAS, group=group, reduceOp="sum", output=OUT, **more, **mode, **COMMON)
    same(out["output"], X @ W + BIAS + (3 if more else 0))


INT_X, INT_W = X.to(torch.int8), W.to(torch.int8)
ROW, COLUMN = torch.tensor([0.5, 1, 2, 1]), torch.tensor([0.25, 2.0])
SCALED = (INT_X.float() @ INT_W.float() + torch.tensor([3.0, -1.0])) * COLUMN


@pytest.mark.parametrize("op", [f"aclnnQuantMatmulAllReduce{v}" for v in ("", "V2", "V3", "V4", "V5")])
def test_quantized_product_and_all_reduce(npu, group, op):
    optional = "" if op.endswith("Reduce") else "Optional"
    new = op.endswith(("V4", "V5"))
    values = {
        "x1": INT_X,
        "x2": INT_W,
        f"bias{optional}": torch.tensor([3, -1]).int(),
        f"x3{optional}": OUT + 1,
        "group": group,
    }
    values |= {"reduceOp": "sum", "output": OUT, **COMMON, "x2Scale" if new else "dequantScale": COLUMN}
    if new:
        values |= {"x1ScaleOptional": ROW, "groupSize": 0, "commQuantMode": 0}
    elif optional:
        values |= {"pertokenScaleOptional": ROW}
    if op.endswith("V5"):
        values |= {"commMode": "aiv"}
    want = SCALED * (ROW[:, None] if optional else 1) + 1
    if op.endswith(("V3", "V4", "V5")):
        coded = values | {f"commQuantScale{i}Optional": torch.full((2,), float(i)).half() for i in (1, 2)}
        codes = want.round().clamp(-128, 127)
        same(npu.call(op, **coded)["output"], (codes / 2).round().clamp(-128, 127) * 2)
        values |= {f"commQuantScale{i}Optional": None for i in (1, 2)}
    same(npu.call(op, **values)["output"], want)


@pytest.mark.parametrize("op", ["aclnnWeightQuantMatmulAllReduce", "aclnnWeightQuantMatmulAllReduceV2"])
def test_product_with_a_quantized_weight(npu, group, op):
    mode = {"commMode": "aiv"} if op.endswith("V2") else {}
    scale, offset = COLUMN.half(), torch.tensor([1.0, 0.0]).half()
    out = npu.call(
        op, x1=X, x2=INT_W, bias=BIAS, antiquantScale=scale, antiquantOffset=offset, x3=OUT + 1, group=group,
        reduceOp="sum", antiquantGroupSize=0, output=OUT, **mode, **COMMON,
    )  # fmt: skip
    same(out["output"], X.float() @ ((INT_W.float() + offset) * scale) + BIAS + 1)


def test_all_gather_and_product(npu, group):
    values = {"x1": X, "x2": W, "bias": BIAS, "group": group, "gatherIndex": 0, "output": OUT, **COMMON}
    out = npu.call("aclnnAllGatherMatmul", **values, gatherOut=torch.zeros_like(X))
    same(out["output"], X @ W + BIAS)
    same(out["gatherOut"], X)
    quant = {"quantScale": None, "blockSize": 0, "groupSize": 0, "commMode": "aiv", "amaxOut": None}
    out = npu.call("aclnnAllGatherMatmulV2", **values, **quant, x1Scale=None, x2Scale=None, gatherOut=NONE)
    same(out["output"], X @ W + BIAS)
    ints = values | {"x1": INT_X, "x2": INT_W, "bias": None}
    scales = {"x1Scale": ROW[:, None], "x2Scale": COLUMN[None]}
    out = npu.call("aclnnAllGatherMatmulV2", **ints, **quant, **scales, gatherOut=torch.zeros_like(INT_X))
    same(out["output"], (INT_X.float() @ INT_W.float()) * COLUMN * ROW[:, None])
    assert torch.equal(out["gatherOut"], INT_X)


def test_product_and_reduce_scatter(npu, group):
    values = {"x1": X, "x2": W, "bias": BIAS, "group": group, "reduceOp": "sum", "output": OUT, **COMMON}
    same(npu.call("aclnnMatmulReduceScatter", **values)["output"], X @ W + BIAS)
    values |= {"quantScale": None, "blockSize": 0, "groupSize": 0, "commMode": "aiv", "amaxOutOptional": None}
    scales = {"x1Scale": ROW[:, None], "x2Scale": COLUMN[None]}
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        given = {"x1": INT_X, "x2": INT_W} | {name: t.to(dtype) for name, t in scales.items()}
        out = npu.call("aclnnMatmulReduceScatterV2", **values | given)
        same(out["output"], (INT_X.float() @ INT_W.float()) * COLUMN * ROW[:, None] + BIAS)


@pytest.mark.parametrize("version", ["", "V2"])
def test_exchanges_of_columns(npu, group, version):
    mode = {"commMode": "aiv"} if version else {}
    values = {"x1": X, "biasOptional": BIAS, "group": group, "transposeX1": False, "output": OUT, **mode}
    for turned in (False, True):
        right = {"x2": W.t().contiguous() if turned else W, "transposeX2": turned}
        out = npu.call(
            f"aclnnAlltoAllMatmul{version}",
            **values,
            **right,
            alltoAllAxesOptional=[-2, -1],
            alltoAllOutOptional=OUT.new_zeros(4, 3),
        )
        same(out["output"], X @ W + BIAS)
        same(out["alltoAllOutOptional"], X)
        out = npu.call(f"aclnnMatmulAlltoAll{version}", **values, **right, alltoAllAxesOptional=None)
        same(out["output"], X @ W + BIAS)


@pytest.mark.parametrize("version", ["", "V2"])
def test_exchanges_of_experts(npu, group, version):
    weight = torch.stack([W, W * 2])
    values = {"gmmX": X, "gmmWeight": weight, "sendCountsTensorOptional": None, "recvCountsTensorOptional": None}
    values |= {"mmXOptional": X, "mmWeightOptional": W, "group": group, "epWorldSize": 1, "sendCounts": [1, 3]}
    values |= {"recvCounts": [1, 3], "transGmmWeight": False, "transMmWeight": False, "mmYOptional": OUT}
    values |= {"commMode": "aiv"} if version else {}
    want = torch.cat([X[:1] @ W, X[1:] @ W * 2])
    permuted = {"permuteOutFlag": True, "permuteOutOptional": torch.zeros_like(X), "gmmY": OUT}
    out = npu.call(f"aclnnAlltoAllvGroupedMatMul{version}", **values, **permuted)
    same(out["gmmY"], want)
    same(out["mmYOptional"], X @ W)
    same(out["permuteOutOptional"], X)
    out = npu.call(f"aclnnGroupedMatMulAlltoAllv{version}", **values, y=OUT)
    same(out["y"], want)
    same(out["mmYOptional"], X @ W)


IDS = torch.tensor([[1, 0], [0, 1], [1, 0], [1, 0]]).int()
FACTORS = torch.tensor([[1, 2], [0.5, 1], [1, 1], [2, 1.0]])
EP = {"epWorldSize": 1, "epRankId": 0, "moeExpertNum": 2, "groupTp": "", "tpWorldSize": 0, "tpRankId": 0}
EP |= {"expertShardType": 0, "sharedExpertNum": 0, "sharedExpertRankNum": 0, "globalBs": 4}
NOBODY = {"zeroExpertNum": 0, "copyExpertNum": 0, "constExpertNum": 0}


def dispatched(npu, group, version: str, x: torch.Tensor = X, scales: torch.Tensor | None = None,
               into: torch.Tensor | None = None, found: torch.Tensor | None = None, mode: int = 0):  # fmt: skip
    o, out = ("Optional", "Out") if version else ("", "")
    values = {"x": x, "expertIds": IDS, f"scales{o}": scales, f"xActiveMask{o}": None, f"expertScales{o}": FACTORS}
    values |= {"groupEp": group, **EP, "quantMode": mode, "expertTokenNumsType": 1}
    if version:
        values |= {"commAlg": ""}
    if version in ("V3", "V4"):
        values |= {"elasticInfoOptional": None, **NOBODY}
    if version == "V4":
        values |= {"performanceInfoOptional": None}
    place = ("assistInfoForCombineOut", 8 * 128) if version else ("expandIdx", 8)
    results = {
        f"expandX{out}": x.new_zeros(8, 3) if into is None else into,
        f"dynamicScales{out}": torch.zeros(8) if found is None else found,
        place[0]: torch.zeros(place[1]).int(),
    }
    results |= {f"expertTokenNums{out}": torch.zeros(2).long(), f"epRecvCounts{out}": torch.zeros(2).int()}
    results |= {f"tpRecvCounts{out}": torch.zeros(1).int(), f"expandScales{out}": torch.zeros(8)}
    got = npu.call(f"aclnnMoeDistributeDispatch{version}", **values, **results)
    return {name.removesuffix("Out"): t for name, t in got.items()}


@pytest.mark.parametrize("version", ["", "V2", "V3", "V4"])
def test_dispatch(npu, group, version):
    got = dispatched(npu, group, version)
    tokens, choices = [0, 1, 2, 3, 0, 1, 2, 3], [1, 0, 1, 1, 0, 1, 0, 0]
    same(got["expandX"], X[tokens])
    same(got["expandScales"], FACTORS[tokens, choices])
    assert got["expertTokenNums"].tolist() == [4, 4] and got["epRecvCounts"].tolist() == [4, 8]
    if version:
        records = got["assistInfoForCombine"].view(8, 128)[:, :3].tolist()
        assert records == [[0, t, k] for t, k in zip(tokens, choices, strict=True)]
    else:
        assert got["expandIdx"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def bytes_of(t: torch.Tensor) -> torch.Tensor:
    return t.view(torch.uint8)


@pytest.mark.parametrize("version", ["V2", "V3", "V4"])
@pytest.mark.parametrize("kind", list(mx.CODES))
@pytest.mark.parametrize("powers", [False, True])
def test_tokens_that_are_quantized_already(npu, group, version, kind, powers):
    """They and their scales go to the experts as they are."""
    x, scale, _ = mx.quantized(4, 96, kind=kind)
    scales = scale.flatten(1) if powers else torch.rand(4, 2, generator=torch.Generator().manual_seed(1))
    tokens = [0, 1, 2, 3, 0, 1, 2, 3]
    room = torch.zeros_like(bytes_of(x)[tokens]).view(kind)
    found = torch.zeros_like(bytes_of(scales)[tokens]).view(scales.dtype)
    if kind in mx.GRIDS and not powers:
        with pytest.raises(AclError, match="do not go with x of 4-bit elements"):
            dispatched(npu, group, version, x, scales, room, found)
        return
    got = dispatched(npu, group, version, x, scales, room, found)
    assert torch.equal(bytes_of(got["expandX"]), bytes_of(x)[tokens])
    assert torch.equal(bytes_of(got["dynamicScales"]), bytes_of(scales)[tokens])
    for change, words in (
        ((x, None, room, found), "scales are needed with x of"),
        ((x, scales, room, found, 2), "is quantized already"),
    ):
        with pytest.raises(AclError, match=words):
            dispatched(npu, group, version, *change)


@pytest.mark.parametrize("version", ["V2", "V3", "V4"])
def test_tokens_of_hifloat8(npu, group, version):
    """They cross with their scales, as they are; tokens of 16 bits become codes, with quantMode 1 by factors."""
    generator = torch.Generator().manual_seed(1)
    plain, scales = (torch.randn(4, 3, generator=generator) * 30).half(), torch.rand(4, 2, generator=generator)
    coded, one, tokens = hifloat8.codes(plain), torch.tensor([0.3]), [0, 1, 2, 3] * 2
    room, found, whole = (torch.zeros(8, 3).byte().view(CODES), torch.zeros(8, 2), torch.zeros(8, 3).char())
    as_codes = lambda *given: bytes_of(dispatched(npu, group, version, *given)["expandX"])
    got = dispatched(npu, group, version, coded.view(CODES), scales, room, found)
    assert torch.equal(bytes_of(got["expandX"]), coded[tokens]) and torch.equal(got["dynamicScales"], scales[tokens])
    assert torch.equal(as_codes(plain, None, room), coded[tokens])
    assert torch.equal(as_codes(plain, one, room, None, 1), hifloat8.clamped(plain.float() * one)[tokens])
    for factors in (one, ROW[:3], torch.stack([ROW[:3], ROW[1:]])):
        each = factors[[0] * 4 + [1] * 4] if factors.dim() == 2 else factors
        got = dispatched(npu, group, version, plain, factors, whole, mode=1)
        assert torch.equal(got["expandX"], (plain.float()[tokens] * each).round().clamp(-128, 127).char())
    for change, words in (
        ((version, coded.view(CODES), None, room, found), "scales are needed with x of Bits8"),
        ((version, coded.view(CODES), scales.to(torch.float8_e8m0fnu), room, found), "do not go with x of hifloat8"),
        ((version, coded.view(CODES), one, room, found, 1), "is quantized already"),
        ((version, plain, ROW[:3], room, None, 1), "scales have sizes .3."),
        ((version, plain, None, room, None, 1), "float32 scales are needed with quantMode 1"),
        ((version, plain, None, room, None, 2), "expandX is Bits8, not Char"),
        (("", coded.view(CODES), scales, room, found), "x has data type hifloat8"),
        (("", plain, one, whole, None, 1), "quantMode 1 is of later versions"),
    ):
        with pytest.raises(AclError, match=words):
            dispatched(npu, group, *change)


@pytest.mark.parametrize("version", ["V2", "V3", "V4"])
@pytest.mark.parametrize("kind", [mx.E4M3, mx.E5M2])
def test_tokens_that_become_8_bit_floats(npu, group, version, kind):
    tokens = [0, 1, 2, 3, 0, 1, 2, 3]
    got = dispatched(npu, group, version, into=torch.zeros(8, 3).to(kind), mode=2)
    step = X.float().abs().amax(1) / torch.finfo(kind).max
    torch.testing.assert_close(got["dynamicScales"], step[tokens])
    wanted = (X.float() / step.masked_fill(step == 0, 1)[:, None]).to(kind)[tokens]
    torch.testing.assert_close(got["expandX"].float(), wanted.float(), rtol=0.13, atol=0)


@pytest.mark.parametrize("version", ["", "V2", "V3", "V4", "AddRmsNorm", "AddRmsNormV2"])
def test_combine(npu, group, version):
    o, norm = "Optional" if version else "", version.startswith("Add")
    sent = dispatched(npu, group, "V2" if version else "")
    values = {
        "expandX": sent["expandX"],
        "expertIds": IDS,
        "epSendCounts": sent["epRecvCounts"],
        "expertScales": FACTORS,
    }
    values |= {"assistInfoForCombine": sent["assistInfoForCombine"]} if version else {"expandIdx": sent["expandIdx"]}
    values |= {
        f"{n}{o}": None
        for n in ("tpSendCounts", "xActiveMask", "activationScale", "weightScale", "groupList", "expandScales")
    }
    values |= {"groupEp": group, **EP, "outDtype": 0, "commQuantMode": 0, "groupListType": 0}
    if version:
        values |= {"sharedExpertXOptional": X * 2, "commAlg": ""}
    if version in ("V3", "V4", "AddRmsNormV2"):
        values |= {"elasticInfoOptional": None, **NOBODY, "oriXOptional": None, "constExpertVOptional": None}
        values |= {"constExpertAlpha1Optional": None, "constExpertAlpha2Optional": None}
    if version == "V4":
        values |= {"performanceInfoOptional": None}
    want = X * FACTORS.sum(1, keepdim=True) + (X * 2 if version else 0)
    if not norm:
        name = "xOut" if version else "x"
        return same(
            npu.call(f"aclnnMoeDistributeCombine{version}", **values, **{name: torch.zeros_like(X)})[name], want
        )
    values |= {"residualX": X.view(4, 1, 3), "gamma": X[0] + 1, "normEps": 1e-5, "rstdOut": torch.zeros(4, 1, 1)}
    places = {"yOut": X.new_zeros(4, 1, 3), "xOut": X.new_zeros(4, 1, 3)}
    got = npu.call(f"aclnnMoeDistributeCombine{version}", **values, **places)
    want = (want + X).view(4, 1, 3).float()
    inverse = (want.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
    same(got["xOut"], want)
    same(got["rstdOut"], inverse)
    same(got["yOut"], want * inverse * (X[0] + 1))


def test_combine_tells_what_is_not_of_a_dispatch(npu, group):
    """On the stream: the numbers are on the device."""
    sent = dispatched(npu, group, "")
    values = {"expandX": sent["expandX"], "expertIds": IDS, "expandIdx": sent["expandIdx"], "expertScales": FACTORS}
    values |= dict.fromkeys(
        ("tpSendCounts", "xActiveMask", "activationScale", "weightScale", "groupList", "expandScales")
    )
    values |= {"groupEp": group, **EP, "outDtype": 0, "commQuantMode": 0, "groupListType": 0, "x": torch.zeros_like(X)}
    for ends in ([4, 9], [4, 3], [-1, 8]):
        with pytest.raises(AclError, match="epSendCounts is not of a dispatch with these sizes"):
            Client().call("aclnnMoeDistributeCombine", **values, epSendCounts=torch.tensor(ends).int())


def test_ranks_that_are_threads_have_one_name(npu):
    """The device of the thread says which of them is meant."""
    comms, names = names_of([0, 1])
    assert names[0] == names[1] and comms[0] != comms[1]
    found: dict[int, torch.Tensor | Exception] = {}

    def rank(device: int) -> None:
        try:
            client = Client()
            client.check("aclrtSetDevice", client.acl.aclrtSetDevice(device))
            client.check("aclrtCreateStream", client.acl.aclrtCreateStream(C.byref(client.stream)))
            values = {"x1": X + device, "x2": W, "bias": None, "group": names[device], "reduceOp": "sum"}
            found[device] = client.call("aclnnMatmulAllReduce", **values, output=OUT, **COMMON)["output"]
        except Exception as error:  # noqa: BLE001
            found[device] = error

    threads = [threading.Thread(target=rank, args=(device,)) for device in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for device in (0, 1):
        same(found[device], X @ W + (X + 1) @ W)


def refuse(npu, words: str, op: str = "aclnnMatmulAllReduce", **values: object) -> None:
    with pytest.raises(AclError, match=words) as refused:
        npu.prepare(op, **values)
    assert refused.value.status == 161002


def test_what_phase_one_refuses(npu, group):
    good = {"x1": X, "x2": W, "bias": None, "group": group, "reduceOp": "sum", "output": OUT, **COMMON}
    refuse(
        npu, "no communicator of this process is called 'other' on device 0; there are: '", **good | {"group": "other"}
    )
    refuse(npu, "the group's name '' has 0 characters, not 1 to 127", **good | {"group": ""})
    refuse(npu, "the reduction is 'max'; 'sum' is the only one", **good | {"reduceOp": "max"})
    refuse(npu, "commTurn is 1; 0 is the only value", **good | {"commTurn": 1})
    refuse(npu, "streamMode is 0; 1 is the only value", **good | {"streamMode": 0})
    refuse(npu, r"factors of \[4, 3\] and \[2, 3\] have no product", **good | {"x2": W.t().contiguous()})
    refuse(npu, r"the bias has sizes \[3\] for 2 columns", **good | {"bias": X[0].contiguous()})
    refuse(npu, r"output has sizes \[3, 2\], not \[4, 2\]", **good | {"output": OUT[:3].clone()})
    refuse(npu, "output of sizes .* is not contiguous", **good | {"output": OUT.new_zeros(2, 4).t()})
    refuse(npu, "parameter x2 has data type float32", **good | {"x2": W.float()})


def test_a_group_that_holds_calls_back_refuses(npu, group):
    hccl = C.CDLL(str(library_folder() / "libhccl.so"))
    assert hccl.HcclGroupStart() == 0
    try:
        good = {"x1": X, "x2": W, "bias": None, "group": group, "reduceOp": "sum", "output": OUT, **COMMON}
        refuse(npu, "cannot stand between HcclGroupStart and HcclGroupEnd", **good)
    finally:
        assert hccl.HcclGroupEnd() == 0


def test_too_small_a_workspace_is_refused(npu, group):
    values = {
        "x1": X,
        "x2": W,
        "bias": None,
        "group": group,
        "gatherIndex": 0,
        "output": OUT,
        "gatherOut": NONE,
        **COMMON,
    }
    executor, size = npu.prepare("aclnnAllGatherMatmul", **values)
    assert size.value == 512
    status = npu.opapi.aclnnAllGatherMatmul(P(None), C.c_uint64(0), executor, npu.stream)
    assert status == 561000 and "the workspace has 0 bytes and needs 512" in npu.message()

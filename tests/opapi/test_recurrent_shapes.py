"""Phase one of recurrent networks: each tensor of a call in turn has a row too many or too few, and is named."""

from __future__ import annotations

import pytest
import torch

from tests.opapi.cases import rand
from tests.opapi.client import AclError

INPUT, HIDDEN, LAYERS, STEPS, BATCH = 3, 4, 2, 5, 2


def weights(gates: int, ways: int, bias: bool) -> list[torch.Tensor]:
    rows, made = gates * HIDDEN, []
    for layer in range(LAYERS):
        for _ in range(ways):
            made += [rand(rows, HIDDEN * ways if layer else INPUT), rand(rows, HIDDEN)]
            made += [rand(rows), rand(rows)] if bias else []
    return made


def network(gates: int, ways: int, batch_first: bool, bias: bool) -> dict:
    """What the calls of a network share, right in every size."""
    first = (BATCH, STEPS) if batch_first else (STEPS, BATCH)
    return {
        "input": rand(*first, INPUT), "params": weights(gates, ways, bias), "batchSizes": None, "hasBias": bias,
        "numLayers": LAYERS, "batchFirst": batch_first, "sequence": rand(*first, ways * HIDDEN),
        "state": rand(LAYERS * ways, BATCH, HIDDEN), "steps": [rand(STEPS, BATCH, HIDDEN)] * (LAYERS * ways),
    }  # fmt: skip


def calls(ways: int, batch_first: bool, bias: bool) -> dict[str, dict]:
    lstm, gru = network(4, ways, batch_first, bias), network(3, ways, batch_first, bias)
    own = lambda n: {k: v for k, v in n.items() if k not in ("sequence", "state", "steps")}
    common = {"dropout": 0.0, "train": True}
    both = {"hx": [lstm["state"], lstm["state"]], "bidirectional": ways == 2}
    back = {k: v for k, v in own(lstm).items() if k != "batchSizes"} | {"batchSizesOptional": None}
    back_gru = own(gru) | {"hx": gru["state"], "bidirection": ways == 2}
    return {
        "aclnnLSTM": own(lstm) | common | both
        | {"output": lstm["sequence"], "hy": lstm["state"], "cy": lstm["state"]}
        | {f"{n}Out": lstm["steps"] for n in ("i", "j", "f", "o", "h", "c", "tanhC")},
        "aclnnLstmBackward": back | common | both | {n: lstm["steps"] for n in "igfohc"}
        | {"tanhc": lstm["steps"], "dy": lstm["sequence"], "dh": lstm["state"], "dc": lstm["state"]}
        | {"outputMask": [True] * 4, "dxOut": lstm["input"], "dhPrevOut": lstm["state"], "dcPrevOut": lstm["state"]}
        | {"dparamsOut": lstm["params"]},
        "aclnnGRU": back_gru | common | {"output": gru["sequence"], "hy": gru["state"]}
        | {f"{n}Out": gru["steps"] for n in ("r", "z", "n", "hn", "h")},
        "aclnnGRUBackward": back_gru | {n: gru["steps"] for n in ("r", "z", "n", "hn", "h")}
        | {"dy": gru["sequence"], "dh": gru["state"], "dxOut": gru["input"], "dhPrevOut": gru["state"]}
        | {"dparamsOut": gru["params"]},
    }  # fmt: skip


STATE, GATES = rand(BATCH, HIDDEN), rand(BATCH, 4 * HIDDEN)
CELLS = {
    "aclnnThnnFusedLstmCell": {
        "inputGates": GATES, "hiddenGates": GATES, "cx": STATE, "inputBiasOptional": GATES[0].clone(),
        "hiddenBiasOptional": GATES[0].clone(), "hyOut": STATE, "cyOut": STATE, "storageOut": GATES,
    },
    "aclnnThnnFusedLstmCellBackward": {
        "gradHyOptional": STATE, "gradCOptional": STATE, "cx": STATE, "cy": STATE, "storage": GATES, "hasBias": True,
        "gradGatesOut": GATES, "gradCxOut": STATE, "gradBiasOut": GATES[0].clone(),
    },
}  # fmt: skip
IGNORED = {"tanhc"}  # the gradient does not read it


def resized(t: torch.Tensor, dim: int, by: int) -> torch.Tensor:
    return torch.zeros([n + by * (d == dim) for d, n in enumerate(t.shape)])


def wrong(arguments: dict, by: int) -> list[tuple[str, dict]]:
    """A name and the call in which that tensor is a row too long or too short."""
    made = []
    for name, value in arguments.items():
        if name in IGNORED:
            continue
        for i, t in enumerate(value if isinstance(value, list) else [value]):
            for dim in range(t.dim() if torch.is_tensor(t) else 0):
                bad = resized(t, dim, by)
                if isinstance(value, list):
                    made.append((f"{name}[{i}]", arguments | {name: [*value[:i], bad, *value[i + 1 :]]}))
                else:
                    made.append((name, arguments | {name: bad}))
        if isinstance(value, list) and len(value) > 1 and torch.is_tensor(value[0]):
            made.append((name, arguments | {name: value[:-1]}))
    return made


def refusals(npu, op: str, arguments: dict) -> None:
    npu.prepare(op, **arguments)  # right as it is
    # The sizes of these decide what the others' must be: any other tensor may be named.
    deciding = {"input", "params[1]", "cx"}
    for by in (1, -1):
        for name, call in wrong(arguments, by):
            with pytest.raises(AclError) as error:
                npu.prepare(op, **call)
            assert error.value.status == 161002
            if name not in deciding:
                assert f"{op}: parameter {name} has" in error.value.message, (name, error.value.message)


@pytest.mark.parametrize("op", ["aclnnLSTM", "aclnnLstmBackward", "aclnnGRU", "aclnnGRUBackward"])
@pytest.mark.parametrize("ways, batch_first, bias", [(1, False, True), (2, True, False)])
def test_each_tensor_of_a_network(npu, op, ways, batch_first, bias):
    refusals(npu, op, calls(ways, batch_first, bias)[op])


@pytest.mark.parametrize("op", CELLS)
def test_each_tensor_of_a_cell(npu, op):
    refusals(npu, op, CELLS[op])


def test_a_weight_that_is_short_is_not_read_past_its_end(npu):
    call = calls(1, False, True)["aclnnLSTM"]
    short = [*call["params"][:5], torch.zeros(1, 1), *call["params"][6:]]
    with pytest.raises(AclError, match=r"parameter params\[5\] has sizes \[1, 1\], not \[16, 4\]"):
        npu.call("aclnnLSTM", **call | {"params": short})

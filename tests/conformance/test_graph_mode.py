"""The vendor's torchair compiles models, the graph engine runs them: each as eager."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable

import pytest

from tests.conformance import client
from tests.conformance.test_settings import ranks

ALLOWED = {
    "mlp": 1e-6,
    "bert": 1e-5,
    "resnet": 1e-5,
    "llama": 1e-5,
    "fused_llama": 1e-5,
    "dynamic_shapes": 1e-5,
    "in_place": 1e-6,
    "copies": 0,
    "cache_compile": 1e-6,
    "npu_backend": 1e-6,
    "frozen_parameters": 1e-6,
    "dim_gears": 1e-6,
    "fused_operators": 1e-6,
    "lookups": 0,
    "export": 0,
    "refused": 0,
}


# Of the graphs, in the order of their compilation: nodes that compute; a call runs all. Also in docs/vendor_wheel.md.
NODES = {"mlp": [9], "bert": [114], "resnet": [49], "llama": [179, 169], "fused_llama": [144, 134]}
NODES_OF_OLDER_CHIPS = {"bert": [114], "resnet": [51]}
OF_OLDER_CHIPS = ("bert", "resnet")  # torchair makes other types for them


def of(vendor, chip: str, programs: Iterable[str]) -> subprocess.CompletedProcess:
    return client.run(vendor, "-m", "tests.conformance.graph_mode", *programs, timeout=600, ANYCEND_SOC=chip)


@pytest.fixture(scope="module")
def done(vendor):
    return of(vendor, "Ascend950", [name for name in ALLOWED if name not in OF_OLDER_CHIPS])


def check(done, program: str) -> dict:
    lines = [json.loads(line[7:]) for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    found = next((line for line in lines if line["program"] == program), {"error": done.stderr[-3000:]})
    assert found.get("difference", 1e9) <= ALLOWED[program], found.get("error")
    return found


@pytest.mark.parametrize("program", [name for name in ALLOWED if name not in OF_OLDER_CHIPS])
def test_a_compiled_model_is_as_eager(done, program):
    found = check(done, program)
    assert found["nodes"] == NODES.get(program, found["nodes"])


@pytest.mark.full  # one on the older chip in every run, both on both in the full one
@pytest.mark.parametrize("program", OF_OLDER_CHIPS)
def test_a_larger_model_is_as_eager(vendor, program):
    assert check(of(vendor, "Ascend950", [program]), program)["nodes"] == NODES[program]


@pytest.mark.parametrize("program", ["bert", pytest.param("resnet", marks=pytest.mark.full)])
def test_a_model_compiled_for_an_older_chip_is_as_eager(vendor, program):
    assert check(of(vendor, "Ascend910B3", [program]), program)["nodes"] == NODES_OF_OLDER_CHIPS[program]


def test_a_type_that_the_engine_lacks_is_named(done):
    (refused,) = [line for line in done.stdout.splitlines() if line.startswith("REFUSED")]
    assert "node 'Sort' (Sort): the software NPU's graph engine has no operator type Sort" in refused


def test_collectives_of_two_ranks(vendor):
    assert all(float(worst) < 1e-6 for worst in ranks(vendor, "graph_ranks", ANYCEND_SOC="Ascend950"))

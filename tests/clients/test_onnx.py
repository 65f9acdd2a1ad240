"""torch.onnx.export of models on the npu, by both exporters: ONNX Runtime computes what the npu does, for any batch."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.clients import environment

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]
MODELS = "MLP", "CNN", "ResNet18", "GPT", "LSTM", "half"


@pytest.fixture(scope="module")
def python() -> Path:
    try:
        return environment.python("onnx")
    except environment.Unavailable as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("exporter", ["dynamo", "script"])
def test_onnx_runtime_computes_what_the_npu_does(python, exporter):
    command = [python, "-m", "tests.clients.onnx_models", "npu", exporter, *MODELS]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=environment.ROOT, env=env, capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    found = {
        name: (int(nodes), float(difference)) for name, nodes, difference in map(str.split, done.stdout.splitlines())
    }
    assert tuple(found) == MODELS
    for name, (nodes, difference) in found.items():
        assert nodes > 1 and difference < (4e-3 if name == "half" else 1e-4), (name, nodes, difference)

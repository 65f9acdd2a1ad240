"""Tiny models of transformers and timm behind torch.compile(fullgraph=True) on the npu: loss and gradients of eager."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.clients import environment

pytestmark = [pytest.mark.full, pytest.mark.timeout(3000)]
MODELS = {
    "transformers": (
        "transformers5",
        ("gpt2", "llama", "mamba", "mixtral", "bert", "vit", "whisper", "t5"),
    ),
    "timm": ("vision", ("vit_tiny_patch16_224", "mobilenetv3_small_050", "resnet10t")),
}


@pytest.mark.parametrize("backend", ["inductor", "npugraphs"])
@pytest.mark.parametrize("client", MODELS)
def test_compiled_models_have_the_losses_and_gradients_of_eager(client, backend):
    family, names = MODELS[client]
    try:
        python = environment.python(family)
    except environment.Unavailable as reason:
        pytest.skip(str(reason))
    command = [python, "-m", "tests.clients.compiled_models", client, "npu", backend, *names]
    env = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, cwd=environment.ROOT, env=env, capture_output=True, text=True, timeout=2900)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    rows = [line.split() for line in done.stdout.splitlines()]
    assert [name for name, *_ in rows] == list(names)
    for name, loss, gradient in rows:
        assert float(loss) < 1e-5 and float(gradient) < 1e-3, (name, loss, gradient)

"""PyTorch's operator database on the wheel: an operator that is refused costs its own samples, not those behind it."""

from __future__ import annotations

import json

import pytest

from tests.conformance import client


@pytest.mark.full
def test_a_refusal_is_of_the_sample_that_asked(vendor, tmp_path):
    out = tmp_path / "status.json"
    choice = ("--kinds", "op", "--ops", "^cdist$", "--dtypes", "float32", "--samples", "3", "--jobs", "1")
    done = client.run(vendor, "-m", "tests.upstream.run", *choice, "--out", str(out), ANYCEND_SOC="Ascend910B3")
    assert out.exists(), done.stderr[-3000:]
    (result,) = json.loads(out.read_text())["cases"].values()
    assert result["samples"] == {"right": 3, "unsupported": 3}
    assert [("gradient" in text, "CdistGrad" in text) for _, text in result["complaints"]] == [(True, True)] * 3

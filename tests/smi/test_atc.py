"""atc (softnpu/tools/atc): conversion of models is refused, and what to do instead is said."""

from __future__ import annotations

import subprocess

import pytest
from anycend import root


@pytest.mark.parametrize("words", [(), ("--help",), ("--model=model.onnx", "--framework=5", "--output=model")])
def test_a_conversion_is_refused(tmp_path, words):
    done = subprocess.run([root() / "bin" / "atc", *words], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "") and not list(tmp_path.iterdir())
    assert "atc: the software NPU converts no models" in done.stderr and "torch.onnx.export" in done.stderr

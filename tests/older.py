"""Which PyTorch judges: what the CPU of 2.10 lacks of 2.13, or has wrong, is left out by name. The plugin's own answers
are the same with both, and stay tested. Tests ask here, and nowhere else."""

from __future__ import annotations

import pytest
import torch

from torch_npu._torch_version import MAJOR, MINOR

OLDER = (MAJOR, MINOR) < (2, 13)


def since_2_13(what: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(OLDER, reason=f"{what} came after this PyTorch, {torch.__version__}")

from __future__ import annotations

from pathlib import Path

import pytest

from tests.extension import build


@pytest.fixture(scope="session")
def contract(tmp_path_factory) -> Path:
    """torch.ops.contract is there; its library."""
    return build.extension(tmp_path_factory.mktemp("contract"), "contract")


@pytest.fixture(scope="session")
def copied(tmp_path_factory) -> Path:
    """torch.ops.copied_macro is there; its library."""
    return build.extension(tmp_path_factory.mktemp("copied"), "copied_macro")

"""Each test compiles anew; what the test before captured is gone."""

from __future__ import annotations

import shutil

import pytest
import torch

from tests.dynamo import cached_model


@pytest.fixture(autouse=True)
def compiled_anew():
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The file of cached_model.Model, made once."""
    folder = tmp_path_factory.mktemp("made")
    cached_model.run(cached_model.fresh(folder))
    return folder


@pytest.fixture
def folder(made, tmp_path):
    """A copy of it, under the same name."""
    shutil.copytree(made, tmp_path / "copy")
    return tmp_path / "copy"

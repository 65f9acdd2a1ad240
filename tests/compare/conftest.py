"""Faults: an operator of the npu replaced by a wrong one while a test runs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import pytest
import torch


@pytest.fixture
def replaced() -> Iterator[Callable[[str, Callable], None]]:
    """replaced("relu", function): aten::relu on the npu, until the test ends; "npu::name": of that namespace."""
    libraries = []

    def replace(name: str, function: Callable) -> None:
        namespace, _, name = name.rpartition("::")
        libraries.append(torch.library.Library(namespace or "aten", "IMPL"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            libraries[-1].impl(name, function, "PrivateUse1", allow_override=True)

    yield replace
    for library in libraries:
        library._destroy()

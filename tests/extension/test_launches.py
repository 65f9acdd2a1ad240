"""Operators in one file of `bisheng` (sources/launches.asc): each way to launch a kernel, eager and in a graph.

tests/conformance/test_extension.py has the same under the vendor's torch_npu.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import forked
from tests.extension import build
from tests.runtime.acl import library_folder
from torch_npu.utils import cpp_extension

PROGRAM = Path(__file__).parent / "launched.py"


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Path:
    """By PyTorch's JIT, whose compiler is `bisheng`."""
    folder = tmp_path_factory.mktemp("launches")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", os.pathsep.join([str(library_folder().parent / "bin"), build.TOOLS]))
        patch.setenv("CXX", "bisheng")
        source = str(build.SOURCES / "launches.asc")
        flags = ["-O0", "-w"]
        cpp_extension.load(
            "launches", [source], extra_cflags=flags, build_directory=str(folder), is_python_module=False
        )
    return folder / "launches.so"


@pytest.mark.full
@pytest.mark.parametrize("queue", ["0", "1", "2"])
def test_each_way_to_launch(library, queue):
    done = forked.run([str(PROGRAM), str(library)], env={**os.environ, "TASK_QUEUE_ENABLE": queue})
    assert done.stdout.splitlines()[-1:] == ["AS WANTED"], done.stderr

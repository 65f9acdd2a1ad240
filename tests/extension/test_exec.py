"""EXEC_NPU_CMD_EXT, and the EXEC_NPU_CMD that extensions carry: aclnn functions by name, from C++ of users."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from tests.extension.build import SOURCES
from torch_npu.utils import cpp_extension


@pytest.fixture(autouse=True)
def ops(contract):
    return torch.ops.contract


def test_tensors_and_scalars(ops):
    x, y = torch.arange(4.0, device="npu"), torch.ones(4, device="npu")
    assert ops.add(x, y, 2.5).tolist() == [2.5, 3.5, 4.5, 5.5]


def test_views_keep_their_strides(ops):
    x = torch.arange(12.0, device="npu").view(3, 4)
    assert torch.equal(ops.add(x.t()[1:], x.t()[1:], 1), 2 * x.t()[1:])


def test_the_device_is_the_tensors(ops):
    x = torch.ones(3, device="npu:2")
    result = ops.add(x, x, 1)
    assert (result.device, result.tolist()) == (torch.device("npu:2"), [2, 2, 2])
    assert torch.npu.current_device() == 0


def test_the_stream_is_the_current_one(ops):
    x = torch.ones(1 << 18, device="npu")
    stream = torch.npu.Stream()
    stream.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(stream):
        for _ in range(20):
            x = ops.add(x, x, 1)
        x.record_stream(stream)
    stream.synchronize()
    assert x[-1].item() == 2**20


def test_lists_numbers_and_types(ops):
    a, b = torch.ones(2, 3, device="npu"), torch.zeros(1, 3, device="npu")
    assert ops.cat([a, b], 0).tolist() == [[1, 1, 1], [1, 1, 1], [0, 0, 0]]
    summed = ops.sum(a, [0], torch.float16)
    assert (summed.dtype, summed.tolist()) == (torch.float16, [2, 2, 2])


def test_what_is_not_given_is_null(ops):
    x = torch.tensor([-2.0, 0, 2], device="npu")
    assert ops.clamp(x, -1, None).tolist() == [-1, 0, 2]
    assert ops.clamp(x, None, 1).tolist() == [-2, 0, 1]


@pytest.mark.parametrize(
    "way", range(11), ids="literal pointer string constant vector array tensors ints shorts symbols optional".split()
)
def test_texts_and_lists_as_cpp_has_them(ops, way):
    x, scale = torch.tensor([[0.3, 1.6], [2.2, -3.6]], device="npu"), torch.tensor([10.0], device="npu")
    wanted = [[25, -20], [25, -20]] if way > 2 else [[3, 16], [22, -36]]
    assert ops.quantized(x, scale, way).tolist() == wanted


def test_a_function_that_nobody_has_is_named(ops):
    with pytest.raises(NotImplementedError, match=r"aclnnNobodyHasThis was not found in libopapi\.so in /.*OPP_PATH"):
        ops.missing(torch.ones(1, device="npu"))


def test_values_that_are_not_as_declared_do_not_compile():
    includes = [flag for path in cpp_extension.include_paths() for flag in ("-isystem", path)]
    command = ["g++", "-std=c++20", "-fsyntax-only", *includes, SOURCES / "declared.cpp"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    kind = (
        "is of another kind than its declaration has in that place; a number in the place of an aclScalar* is "
        "at::Scalar(0.5), nothing is nullptr"
    )
    assert [line.partition(" error: ")[2] for line in done.stderr.splitlines() if " error: " in line] == [
        "static assertion failed: aclnnAdd is declared with another number of values (a, b, out)",
        *(
            f"static assertion failed: of the values of aclnnAdd ({values}) one {kind}"
            for values in ("a, b, out, alpha", "a, b, 0.5, out")
        ),
    ]


def test_tensors_that_cannot_be_passed_are_refused(ops):
    x = torch.ones(3, device="npu")
    with pytest.raises(RuntimeError, match=r"given a tensor on cpu: move it with \.npu\(\)"):
        ops.add(x, torch.ones(3), 1)
    with pytest.raises(NotImplementedError, match="lazy conjugation or negation; resolve_conj"):
        ops.add(x, torch.ones(3, dtype=torch.complex64, device="npu").conj(), 1)
    with pytest.raises(RuntimeError, match="npu:0 and npu:1"):
        ops.add(x, x.to("npu:1"), 1)


def test_what_the_function_refuses_is_an_error_with_its_message(ops):
    with pytest.raises(RuntimeError, match=r"aclnnAddGetWorkspaceSize failed \(returned 161002"):
        ops.add(torch.ones(3, device="npu"), torch.ones(4, device="npu"), 1)


def test_a_graph_records_and_replays_it(ops):
    x = torch.ones(3, device="npu")
    ops.add(x, x, 1)
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        result = ops.add(x, x, 1)
    x.fill_(5)
    graph.replay()
    assert result.tolist() == [10, 10, 10]


def test_the_copied_macro_works_unchanged(copied):
    x, y = torch.arange(6.0, device="npu").view(2, 3), torch.ones(2, 3, device="npu")
    assert torch.equal(torch.ops.copied_macro.add(x, y, 0.5), x + 0.5)
    with pytest.raises(RuntimeError, match="aclnnNobodyHasThis not in libopapi.so"):
        torch.ops.copied_macro.missing(x)
    with pytest.raises(RuntimeError, match="call aclnnAdd failed, detail:.*aclnnAdd"):
        torch.ops.copied_macro.add(x, torch.ones(5, device="npu"), 1)


def test_the_copied_macro_works_before_any_operator_and_its_log_is_canns(copied):
    """In a new process libopapi is opened by the extension, by its bare name."""
    code = f"""
import torch
torch.ops.load_library({str(copied)!r})
x = torch.empty(3, device="npu")
torch.ops.copied_macro.add(x, x, 1)
torch.ops.copied_macro.say("hello")
"""
    own = {"ASCEND_SLOG_PRINT_TO_STDOUT": "1", "ASCEND_GLOBAL_LOG_LEVEL": "3"}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **own}, cwd="/", capture_output=True, text=True, timeout=300
    )
    found = {name: os.environ[name] for name in os.environ if name.startswith(("ASCEND", "ANYCEND", "LD_", "TORCH"))}
    assert done.returncode == 0, (done.stderr, found)
    assert "said by an extension: hello" in done.stdout

"""Compiled kernels are tasks of the current stream: their order, their errors, and what they do not wait for."""

from __future__ import annotations

import ctypes
import pathlib
import sys

import pytest
import torch
from torch._inductor import config, utils

import torch_npu
from tests.core.tools import Gate, busy
from tests.inductor import compiler


@torch.compile(fullgraph=True)
def triple(x):
    return x * 3 + 1


def test_a_kernel_waits_for_its_stream_and_the_host_does_not_wait_for_it():
    triple(torch.ones(8, device="npu"))
    x = torch.zeros(8, device="npu")
    gate = Gate(torch.npu.current_stream())
    x.add_(1)
    y = triple(x)
    event = torch.npu.current_stream().record_event()
    x.fill_(7)  # behind the kernel, which reads 1
    assert not event.query()
    gate.open()
    assert (y + 1).tolist() == [5.0] * 8


def test_the_stream_is_that_of_the_call():
    triple(torch.ones(8, device="npu"))
    x, side = torch.ones(8, device="npu"), torch.npu.Stream()
    torch.npu.synchronize()
    gate = Gate(torch.npu.current_stream())
    behind = torch.npu.current_stream().record_event()
    with torch.npu.stream(side):
        y = triple(x)
        side.synchronize()
        assert y.tolist() == [4.0] * 8
    assert not behind.query()
    gate.open()


def test_arguments_live_until_the_kernel_ran():
    triple(torch.ones(1 << 16, device="npu"))
    busy(torch.npu.current_stream(), 0.3)
    results = [triple(torch.full((1 << 16,), float(k), device="npu")) for k in range(8)]
    assert [r.sum().item() / (1 << 16) for r in results] == [3.0 * k + 1 for k in range(8)]


def test_another_device():
    compiler.same_as_cpu(lambda x: (x.sin() + 1, x.sum(0)), torch.randn(5, 7), device="npu:1")


def test_generated_code_makes_tensors_past_the_parser_of_arguments():
    _, (code,) = utils.run_and_get_code(torch.compile(lambda x: (x.sin(), x.cos())), torch.randn(5, 7, device="npu:1"))
    assert code.count("= empty_strided_npu((5, 7), (7, 1), torch.float32, 1)") == 2 and "= empty_strided(" not in code


def test_a_tensor_that_generated_code_makes():
    for sizes, strides, dtype in (((2, 3), (1, 2), torch.float16), ((), (), torch.bool), ((0, 4), (4, 1), torch.int64)):
        made = torch_npu._C._empty_strided(sizes, strides, dtype, 1)
        assert (made.shape, made.stride(), made.dtype, made.device) == (sizes, strides, dtype, torch.device("npu:1"))
    for arguments, error in (
        (((2,), (1,), torch.float32), TypeError),
        (([2], (1,), torch.float32, 0), TypeError),
        (((2,), (1,), "float32", 0), TypeError),
        (((2, 3), (1,), torch.float32, 0), ValueError),
        (((-1,), (1,), torch.float32, 0), RuntimeError),
        (((1 << 60,), (1,), torch.float32, 0), torch.OutOfMemoryError),
    ):
        with pytest.raises(error):
            torch_npu._C._empty_strided(*arguments)


@torch.compile
def scaled(x, s, d, i):
    return x * s + d, x.int() * i, s + 1  # the last is a kernel of the CPU


def numbers():
    return torch.tensor(2.0), torch.tensor(3.0, dtype=torch.float64), torch.tensor(4)


def test_numbers_on_the_cpu_are_those_of_the_call():
    x, values = torch.arange(6.0, device="npu"), numbers()
    scaled(x, *values)
    busy(torch.npu.current_stream(), 0.2)
    y, z, more = scaled(x, *values)
    done = torch.npu.current_stream().record_event()
    for value in values:
        value.fill_(100)
    assert not done.query()  # nothing was waited for
    assert y.tolist() == [2.0 * k + 3 for k in range(6)] and z.tolist() == [4 * k for k in range(6)]
    assert more.device.type == "cpu" and more.item() == 3


def test_a_graph_captures_numbers_on_the_cpu():
    x, values = torch.ones(6, device="npu"), numbers()
    scaled(x, *values)
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        y, z, _ = scaled(x, *values)
    values[0].fill_(100)
    x.fill_(2)
    graph.replay()
    assert y.tolist() == [7.0] * 6 and z.tolist() == [8] * 6


def test_an_index_on_the_cpu():
    take = torch.compile(lambda x, i: x[i] * 2, fullgraph=True)
    assert take(torch.arange(5.0, device="npu"), torch.tensor([1, 3])).tolist() == [2.0, 6.0]


@pytest.mark.parametrize("count", [8, 100_000])  # on one thread, and in a parallel loop
def test_an_index_out_of_bounds_is_an_error_of_the_stream(count):
    take = torch.compile(lambda x, i: x[i] * 2, fullgraph=True)
    x = torch.arange(16.0, device="npu")
    index = torch.zeros(count, dtype=torch.int64)
    with config.patch({"cpp.threads": 2}):
        take(x, index.npu())
    index[count - 2] = 99
    with pytest.raises(RuntimeError, match="index out of bounds"):
        take(x, index.npu())
        torch.npu.synchronize()
    index[count - 2] = 3
    assert take(x, index.npu())[count - 2].item() == 6


def test_loops_that_threads_share_together():
    """Additions to places that meet are atomic, in two loops over which the threads are spread at once."""
    x = torch.randn(3, 33, 36)
    with config.patch({"cpp.threads": 2, "cpp.fallback_scatter_reduce_sum": False}):
        compiler.same_as_cpu(
            lambda x: x.scatter_add(1, torch.zeros_like(x, dtype=torch.int64), x), x, atol=1e-4, rtol=1e-4
        )


@pytest.mark.parametrize("threads", [pytest.param(1, marks=pytest.mark.full), 2])  # each is a compilation
def test_an_integer_divided_by_zero_is_an_error_of_the_stream(threads):
    count = 1 << 20
    with config.patch({"cpp.threads": threads}):
        divide = torch.compile(lambda a, b: a // b, dynamic=False, fullgraph=True)
        ones, divisor, number = torch.ones(count, dtype=torch.int64).npu(), torch.ones(count).long(), torch.ones(8)
        assert divide(ones, divisor.npu()).sum().item() == count
    add = torch.compile(lambda x: x + 1)  # on the CPU, beside it
    add(number)
    divisor[count // 2 :] = 0
    divisor = divisor.npu()
    torch.npu.synchronize()
    divide(ones, divisor)
    for _ in range(300):
        assert add(number)[0].item() == 2
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        torch.npu.synchronize()
    assert divide(ones, ones).sum().item() == count


def test_an_error_beside_another_does_not_wait_for_the_next_call():
    """An index in one part of a parallel loop and a division in another: the call after that is right."""
    right = torch.ones(3, 1 << 17, dtype=torch.int64).npu().unbind()
    wrong = torch.ones(3, 1 << 17, dtype=torch.int64)
    wrong[0, : 1 << 16], wrong[2, 1 << 16 :] = 99, 0
    wrong, x = wrong.npu().unbind(), torch.arange(16.0, device="npu")
    with config.patch({"cpp.threads": 2}):
        both = torch.compile(lambda x, i, a, b: x[i] + a // b, dynamic=False, fullgraph=True)
        assert both(x, *right).sum().item() == 2 << 17
    with pytest.raises(RuntimeError, match="index out of bounds|ZeroDivisionError"):
        both(x, *wrong)
        torch.npu.synchronize()
    assert both(x, *right).sum().item() == 2 << 17


def test_no_module_shares_its_flag_of_a_division():
    triple(torch.ones(8, device="npu"))
    files = [module.__file__ for name, module in sys.modules.items() if name.endswith(".kernel")]
    ours = [file for file in files if b"torch_npu._C._host_kernel" in pathlib.Path(file).read_bytes()]
    assert ours
    for file in ours:
        assert not hasattr(ctypes.CDLL(file), "inductor_cpu_integer_div_error_flag")


def test_a_branch_inside_a_graph():
    def function(x):
        return torch.cond(x.sum() > 0, lambda x: (x.sin() + 1) * 2, lambda x: x.cos() - 1, (x,))

    x = torch.linspace(-1, 2, 12)
    compiled = torch.compile(function, fullgraph=True)
    for value in (x, -x):
        compiler.same_as_cpu(function, value, compiled=compiled)


def test_a_graph_captures_and_replays():
    x = torch.ones(8, device="npu")
    triple(x)
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        y = triple(x) - 1
    x.fill_(5)
    graph.replay()
    assert y.tolist() == [15.0] * 8

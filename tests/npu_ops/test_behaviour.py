"""Operators without a value that a formula could give (behaviour.yaml): those that refuse every call, and marks."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from tests.conftest import ROOT
from tests.npu_ops import samples
from tools.codegen import tables

TABLE = tables.load(ROOT / "tests/npu_ops/behaviour.yaml")
REFUSED = TABLE["every call is refused"]
MARKS = [samples.operator(name) for name in TABLE["it marks a place, and has no effect"]]
FLOATING = (torch.float32, torch.float16, torch.bfloat16)
KINDS = {"int": 1, "float": 0.5, "number": 0.5, "bool": True}


def test_every_operator_of_the_table_has_a_judge() -> None:
    assert list(TABLE) == ["every call is refused", "it marks a place, and has no effect"]


def calls(name: str, tensor: torch.Tensor) -> list[dict[str, Any]]:
    """With what may be left out, and without."""
    arguments = samples.operator(name)._schema.arguments
    value = lambda kind: tensor if kind == "Tensor" else KINDS[kind]
    whole = {a.name: value(str(a.type).removeprefix("Optional[").removesuffix("]")) for a in arguments}
    needed = {
        a.name: None if str(a.type).startswith("Opt") else whole[a.name] for a in arguments if not a.default_value
    }
    return [whole, needed]


@pytest.mark.parametrize("name", REFUSED)
def test_every_call_is_refused(name: str) -> None:
    """Of each type, on the device, for "meta", of FakeTensors and under autocast; nothing changes."""
    operator, says = samples.operator(name), re.escape(REFUSED[name])
    for dtype in FLOATING:
        x = torch.ones(2, 3, dtype=dtype)
        device, fake = x.npu(), FakeTensorMode().from_tensor(x.npu())
        for where in (device, x.to("meta"), fake):
            for given in calls(name, where):
                with pytest.raises(RuntimeError, match=says):
                    operator(**given)
                with torch.autocast("npu", dtype=torch.bfloat16), pytest.raises(RuntimeError, match=says):
                    operator(**given)
        assert torch.equal(device.cpu(), x)


def test_marks_have_no_effect() -> None:
    """Named or not, one without the other, alone or in another; computed at once, traced, compiled and captured."""
    begin, end = MARKS

    def f(x: torch.Tensor) -> torch.Tensor:
        torch.npu.super_kernel_scope_begin("a")
        y = x * 2
        torch.npu.super_kernel_scope_begin()
        y = y + x
        end()
        end("a")
        begin("never ended")
        with torch.npu.super_kernel_scope():
            return y + 1

    assert [mark(*name) for mark in MARKS for name in ((), ("b",), (None,))] == [None] * 6
    torch.npu.synchronize()
    for mark in MARKS:
        mark("b")
        assert torch.npu.current_stream().query(), "a mark puts nothing on the stream"
    for dtype in FLOATING:
        x = torch.arange(3).to(dtype).npu().requires_grad_()
        for function in (f, make_fx(f)(x)):
            y = function(x)
            assert y.dtype == dtype and y.tolist() == [1, 4, 7]
            assert torch.autograd.grad(y.sum(), x)[0].tolist() == [3, 3, 3]
        with torch.autocast("npu", dtype=torch.float16):
            assert f(x).dtype == dtype
        with FakeTensorMode() as mode:
            assert f(mode.from_tensor(x)).shape == (3,)
    torch._dynamo.reset()
    y = torch.compile(f, backend="aot_eager", fullgraph=True)(x)
    assert y.tolist() == [1, 4, 7] and torch.autograd.grad(y.sum(), x)[0].tolist() == [3, 3, 3]
    graph, x = torch.npu.NPUGraph(), x.detach()
    with torch.npu.graph(graph):
        y = f(x)
    x.fill_(2)
    graph.replay()
    assert y.tolist() == [7, 7, 7]


@pytest.mark.parametrize("name", ["", "   "])
def test_a_mark_whose_name_is_empty_is_refused(name: str) -> None:
    with pytest.raises(RuntimeError, match="no name of a scope"):
        torch.npu.super_kernel_scope_begin(name)
    with pytest.raises(RuntimeError, match="no name of a scope"), torch.npu.super_kernel_scope(name):
        pass


def test_what_is_raised_inside_of_marks_comes_out() -> None:
    with pytest.raises(ValueError, match="inside"), torch.npu.super_kernel_scope("b"):
        raise ValueError("inside")

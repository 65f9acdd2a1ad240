"""Functions of torch.npu that are called while a function is traced, in full graphs."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch._dynamo.testing import CompileCounter
from torch.testing._utils import wrapper_set_seed

npu = torch.npu
UNKNOWN = "Dynamo does not know how to trace"
DRAWS = {"aot_eager": None, "inductor": {"fallback_random": True}}  # as eager does


def full(function):
    counter = CompileCounter()
    return torch.compile(function, backend=counter, fullgraph=True), counter


@pytest.mark.parametrize(
    "ask",
    [
        lambda: npu.is_available(),
        lambda: npu.device_count() > 0,
        lambda: npu.is_bf16_supported(),
        lambda: npu.get_soc_version() >= 220,
        lambda: npu.get_device_name(0) == npu.get_device_name(),
        lambda: npu.get_device_capability() is None,
    ],
)
def test_of_the_machine(ask):
    assert ask()
    function, counter = full(lambda x: x + 1 if ask() else x - 1)
    for _ in range(2):
        assert function(torch.zeros(2, device="npu")).tolist() == [1.0, 1.0]
    assert counter.frame_count == 1


def test_the_current_device_is_asked_at_each_call():
    function, counter = full(lambda x: x + npu.current_device() + int(npu.is_initialized()))
    x = torch.zeros(1)
    for device in (0, 1, 0, 1):
        with npu.device(device):
            assert function(x).tolist() == [device + 1.0]
    assert counter.frame_count == 2


@pytest.mark.parametrize("how", [{}, {"dtype": torch.bfloat16}, {"enabled": False}, {"cache_enabled": False}])
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_autocast(how, backend):
    def function(x):
        with npu.amp.autocast(**how):
            return x @ x

    x = torch.randn(4, 4, device="npu")
    found, expected = torch.compile(function, backend=backend, fullgraph=True)(x), function(x)
    assert (
        found.dtype == expected.dtype == (torch.float32 if how == {"enabled": False} else how.get("dtype", torch.half))
    )
    torch.testing.assert_close(found, expected)


def test_autocast_by_position():
    def function(x):
        with npu.amp.autocast(True, torch.bfloat16, False):
            return x @ x

    x = torch.randn(4, 4, device="npu")
    assert full(function)[0](x).dtype == torch.bfloat16


@pytest.mark.parametrize("name", ["HalfTensor", "LongTensor", "BoolTensor"])
def test_tensors_converted_to_the_old_types(name):
    function, counter = full(lambda x: x.type(getattr(npu, name)))
    for x in (torch.tensor([0.0, 2.5]), torch.tensor([0.0, 2.5], device="npu")):
        found, expected = function(x), x.type(getattr(npu, name))
        assert (found.device, found.dtype, found.tolist()) == (expected.device, expected.dtype, expected.tolist())
    assert counter.frame_count == 2


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_random_state_is_read_and_set_outside_of_graphs(backend):
    def function(x):
        state = npu.get_rng_state()
        first = torch.rand_like(x) + x
        npu.set_rng_state(state)
        return first, torch.rand_like(x) + x

    with warnings.catch_warnings():
        warnings.filterwarnings("error", UNKNOWN)
        first, second = torch.compile(function, backend=backend, options=DRAWS[backend])(torch.ones(8, device="npu"))
    assert torch.equal(first, second) and (first > 1).all()


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_random_state_is_kept_where_no_tensor_can_be_faked(backend):
    x = torch.ones(64, device="npu")
    dropped = lambda x: wrapper_set_seed(torch.nn.functional.dropout, x)  # noqa: E731
    before = npu.get_rng_state()
    found = torch.compile(dropped, backend=backend, options=DRAWS[backend])(x)
    assert torch.equal(found, dropped(x)) and torch.equal(npu.get_rng_state(), before)


@pytest.mark.parametrize(
    "call",
    [
        lambda: npu.synchronize(),
        lambda: npu.set_device(0),
        lambda: npu.empty_cache(),
        lambda: npu.memory_allocated(),
        lambda: npu.manual_seed(3),
        lambda: npu.get_device_properties(0),
    ],
)
def test_what_no_graph_has_ends_it_without_a_warning(call):
    def function(x):
        y = x + 1
        call()
        return y * 2

    with warnings.catch_warnings():
        warnings.filterwarnings("error", UNKNOWN)
        counter = CompileCounter()
        assert torch.compile(function, backend=counter)(torch.ones(2, device="npu")).tolist() == [4.0, 4.0]
    assert counter.frame_count == 2

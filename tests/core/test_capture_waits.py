"""What waits for the device while a graph is captured: the error says what does, and where it belongs."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch.optim.optimizer import _global_optimizer_pre_hooks

import torch_npu
from tests.older import since_2_13
from torch_npu.contrib.apex.optimizers import FusedAdam, FusedLAMB

DEVICE = "npu"
npu = torch.npu


def capture(function):
    with npu.graph(npu.NPUGraph()):
        function()


WAITS = {
    "item": lambda x: x.sum().item(),
    "cpu": lambda x: x.cpu(),
    "mask": lambda x: x[x > 0],
    "nonzero": torch.nonzero,
    "npu": lambda x: torch.ones(2).npu(),
    "synchronize": lambda x: npu.synchronize(),
    "capture": lambda x: capture(lambda: x + 1),
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS.keys())
def test_a_wait_in_a_capture_says_what_waits_and_where_it_belongs(wait):
    x = torch.ones(4, device=DEVICE)
    with pytest.raises(torch.AcceleratorError) as caught:
        capture(lambda: wait(x))
    said = str(caught.value)
    assert caught.value.error_code == 107027 and said.count("Nothing may wait for the device while a graph") == 1
    for name in (".item()", "x[mask]", "nonzero", "a learning rate", "capturable=True", "GradScaler.step"):
        assert name in said
    assert "another capture" in said and "docs graphs" in said
    assert not hasattr(caught.value, "__notes__")  # that the capture is lost is no news


@pytest.mark.parametrize("after", [lambda x: x + 1, lambda x: None], ids=["a call", "the end"])
def test_what_comes_behind_a_wait_that_was_caught_says_it_too(after):
    x = torch.ones(4, device=DEVICE)

    def body():
        with contextlib.suppress(torch.AcceleratorError):
            x.sum().item()
        after(x)

    with pytest.raises(torch.AcceleratorError, match=r"capture again without that call\. Nothing may wait") as caught:
        capture(body)
    assert caught.value.error_code == 507903


def test_a_capture_that_is_lost_for_another_reason_names_that_alone():
    x, side = torch.ones(4, device=DEVICE), npu.Stream()
    with npu.stream(side):
        x.add_(1)
    with pytest.raises(torch.AcceleratorError, match="recorded outside the capture") as caught:
        capture(lambda: npu.current_stream().wait_stream(side))
    assert "507903" in caught.value.__notes__[0] and "Nothing may wait" not in caught.value.__notes__[0]


@pytest.mark.parametrize("options", [{}, {"foreach": False}], ids=str)
@pytest.mark.parametrize("name", ["Adam", "AdamW", "NAdam", "RAdam", "Adamax", "ASGD", "Adafactor"])
def test_a_step_that_is_counted_on_the_host_is_refused_in_a_capture(name, options):
    weight = torch.ones(4, device=DEVICE, requires_grad=True)
    weight.grad = torch.ones_like(weight)
    optimizer = getattr(torch.optim, name)([weight], **options)
    with pytest.raises(
        RuntimeError, match=f"capture of step\\(\\) for an instance of {name} but param_groups' capturable"
    ):
        capture(optimizer.step)
    optimizer.step()  # outside it is as ever
    assert not _global_optimizer_pre_hooks


OURS = {
    "NpuFusedAdam": torch_npu.optim.NpuFusedAdam,
    "NpuFusedAdamW": torch_npu.optim.NpuFusedAdamW,
    "NpuFusedAdamP": torch_npu.optim.NpuFusedAdamP,
    "NpuFusedBertAdam": lambda p: torch_npu.optim.NpuFusedBertAdam(p, lr=0.1),
    "FusedAdam": FusedAdam,
    "FusedLAMB": FusedLAMB,
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr_decay=0.1),
}


@pytest.mark.parametrize("name", OURS)
def test_our_optimizers_refuse_it_too(name):
    weight = torch.ones(4, device=DEVICE, requires_grad=True)
    weight.grad = torch.ones_like(weight)
    optimizer = OURS[name]([weight])
    optimizer.step()
    with pytest.raises(RuntimeError, match=f"for an instance of {name} "):
        capture(optimizer.step)


def test_a_step_whose_closure_makes_the_gradients_is_refused_in_a_capture():
    weight = torch.ones(4, device=DEVICE, requires_grad=True)
    optimizer = torch.optim.Adam([weight], foreach=False)

    def closure():
        weight.grad = None
        loss = weight.square().sum()
        loss.backward()
        return loss

    with pytest.raises(RuntimeError, match="capturable"):
        capture(lambda: optimizer.step(closure))


@since_2_13("torch.accelerator.Graph")
@pytest.mark.parametrize("options", [{}, {"foreach": False}], ids=str)
def test_pytorchs_own_graph_refuses_such_a_step_too(options):
    weight = torch.ones(4, device=DEVICE, requires_grad=True)
    weight.grad = torch.ones_like(weight)
    optimizer, graph = torch.optim.Adam([weight], **options), torch.accelerator.Graph()
    with torch.Stream(device=DEVICE), pytest.raises(RuntimeError, match="capturable"), graph:
        optimizer.step()
    assert not _global_optimizer_pre_hooks
    optimizer.step()
    assert weight.tolist() == pytest.approx([0.999] * 4)


@pytest.mark.timeout(60)
def test_captures_of_two_threads_take_turns_with_python():
    """A capture that begins tells Python, which another thread may have that asks about its own."""
    generators = [torch.Generator(DEVICE) for _ in range(2)]

    def captures(generator):
        for _ in range(300):
            graph = npu.NPUGraph()
            graph.register_generator_state(generator)
            with npu.stream(npu.Stream()):
                graph.capture_begin(capture_error_mode="thread_local")
                for _ in range(30):
                    generator.get_state()  # with Python's lock
                torch.ones(4, device=DEVICE).add_(1)
                graph.capture_end()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(captures, generators))


@pytest.mark.parametrize("make", [lambda p: torch.optim.Adam(p, capturable=True), lambda p: torch.optim.RMSprop(p)])
def test_steps_that_need_no_number_are_captured(make):
    def trained(device, captured):
        weight = torch.full((4,), 3.0, device=device, requires_grad=True)
        optimizer = make([weight]) if captured else type(make([weight]))([weight])
        weight.grad = torch.ones_like(weight)
        optimizer.step()
        step = optimizer.step
        if captured:
            graph = npu.NPUGraph()
            with npu.graph(graph):
                optimizer.step()
            step = graph.replay
        for _ in range(3):
            step()
        return weight.detach().cpu()

    torch.testing.assert_close(trained(DEVICE, True), trained("cpu", False))

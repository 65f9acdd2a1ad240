"""What waits for the device while a graph is captured: the error says what does, and where it belongs."""

from __future__ import annotations

import contextlib

import pytest
import torch

DEVICE = "npu"
npu = torch.npu


def capture(function):
    with npu.graph(npu.NPUGraph()):
        function()


def adam(x):
    weight = torch.ones_like(x).requires_grad_()
    weight.grad = torch.ones_like(x)
    torch.optim.Adam([weight]).step()


WAITS = {
    "item": lambda x: x.sum().item(),
    "cpu": lambda x: x.cpu(),
    "mask": lambda x: x[x > 0],
    "npu": lambda x: torch.ones(2).npu(),
    "synchronize": lambda x: npu.synchronize(),
    "adam": adam,
    "capture": lambda x: capture(lambda: x + 1),
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS.keys())
def test_a_wait_in_a_capture_says_what_waits_and_where_it_belongs(wait):
    x = torch.ones(4, device=DEVICE)
    with pytest.raises(torch.AcceleratorError) as caught:
        capture(lambda: wait(x))
    said = str(caught.value)
    assert caught.value.error_code == 107027 and said.count("Nothing may wait for the device while a graph") == 1
    for name in (".item()", "x[mask]", "capturable=True", "GradScaler.step", "another capture", "docs graphs"):
        assert name in said
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

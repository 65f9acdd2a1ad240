"""make_graphed_callables: a module's or function's forward and backward as graphs."""

from __future__ import annotations

import copy

import pytest
import torch

npu = torch.npu
DEVICE = "npu"


@pytest.mark.parametrize("of", ["module", "function"])
def test_make_graphed_callables(of):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4)).to(DEVICE)
    plain = copy.deepcopy(model)
    sample = torch.randn(5, 8, device=DEVICE, requires_grad=True)
    graphed = npu.make_graphed_callables(model if of == "module" else (lambda x: model(x)), (sample,))
    assert (graphed is model) == (of == "module")
    for _ in range(3):
        ours, theirs = (torch.randn(5, 8, generator=torch.Generator().manual_seed(1)).to(DEVICE) for _ in range(2))
        ours.requires_grad_(), theirs.requires_grad_()
        model.zero_grad(), plain.zero_grad()
        graphed(ours).square().sum().backward()
        plain(theirs).square().sum().backward()
        torch.testing.assert_close(ours.grad, theirs.grad)
        if of == "module":
            for p, q in zip(model.parameters(), plain.parameters(), strict=True):
                torch.testing.assert_close(p.grad, q.grad)
    with pytest.raises(ValueError, match=r"argument 0 .* shape \(5, 8\)"):
        graphed(torch.randn(6, 8, device=DEVICE))
    if of == "module":
        model.eval()
        assert model(torch.randn(6, 8, device=DEVICE)).shape == (6, 4)  # as before: not the mode that was captured


def test_make_graphed_callables_takes_a_tuple_or_list_of_arguments():
    x, layer = torch.ones(3, 2, device="npu"), torch.nn.Linear(2, 2).npu()
    with pytest.raises(TypeError, match=r"sample_args is a tuple of one call's arguments, as \(x,\)"):
        npu.make_graphed_callables(layer, x)
    assert torch.equal(npu.make_graphed_callables(lambda y: layer(y), [x])(x), layer(x))


@pytest.mark.parametrize("other", [torch.Tensor.t, torch._neg_view], ids=["transposed", "negated"])
def test_another_view_of_a_static_argument_is_not_taken_for_it(other):
    static = torch.arange(9.0, device=DEVICE).reshape(3, 3)
    wanted = other(static.cpu()).clone() + 1
    graphed = torch.npu.make_graphed_callables(lambda x: x + 1, (static,))
    assert torch.equal(graphed(other(static)).cpu(), wanted)

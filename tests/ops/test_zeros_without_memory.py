"""Zeros without memory, which autograd makes where nothing depends on an operand: operators read them as zeros."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Seeing(TorchDispatchMode):
    """What every tool that looks at operators does: it calls them."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("f", [torch.sgn, torch.sign, lambda x: torch.sgn(x) * x])
def test_the_gradient_of_sgn(watched, f):
    x = torch.tensor([-2.0, 0.0, 3.0]).npu().requires_grad_()
    leaf = x.detach().cpu().requires_grad_()
    f(leaf).sum().backward()
    if watched:
        with Seeing():
            f(x).sum().backward()
    else:
        f(x).sum().backward()
    assert torch.equal(x.grad.cpu(), leaf.grad)


@pytest.mark.parametrize("device", ["npu:0", "npu:1"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.complex64])
def test_they_are_zeros(device, dtype):
    zeros = torch._efficientzerotensor((2, 3), dtype=dtype, device=device)
    assert zeros.device == torch.device(device) and zeros._is_zerotensor()
    assert torch.equal(zeros.cpu(), torch.zeros(2, 3, dtype=dtype))
    assert torch.equal(zeros.clone().cpu(), torch.zeros(2, 3, dtype=dtype))
    ones = torch.ones(2, 3, dtype=dtype, device=device)
    assert torch.equal((zeros + ones).cpu(), torch.ones(2, 3, dtype=dtype))
    assert torch.equal(ones.copy_(zeros).cpu(), torch.zeros(2, 3, dtype=dtype))
    assert torch.equal((ones + 1).mul_(zeros).cpu(), torch.zeros(2, 3, dtype=dtype))
    assert torch.equal(
        torch.ones(4, 2, 3, dtype=dtype, device=device).copy_(zeros).cpu(), torch.zeros(4, 2, 3, dtype=dtype)
    )
    assert torch.equal(torch.ones(2, 3, dtype=dtype).copy_(zeros), torch.zeros(2, 3, dtype=dtype))
    with pytest.raises(RuntimeError, match="ZeroTensors are immutable"):
        zeros.copy_(ones)

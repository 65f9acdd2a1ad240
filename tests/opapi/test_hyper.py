"""Streams of hyper connections: the gradients of their weights, and the steps of a doubly stochastic matrix."""

from __future__ import annotations

import pytest
import torch

from tests.opapi.cases import FLOATS, compare, rand, refused, wide
from tests.opapi.client import AclError


@pytest.mark.parametrize("dtype", FLOATS)
def test_gradients_of_the_weights_of_streams(npu, dtype):
    n, d, tokens, eps = 3, 4, 5, 1e-3
    x, phi, alpha, gamma = rand(tokens, n, d, dtype=dtype), rand(15, n * d), rand(3), rand(n, d)
    leaves = [t.double().requires_grad_() for t in (x, phi, alpha, rand(15, seed=3), gamma)]
    a, p, scale, bias, by = leaves
    flat = a.flatten(1)
    inv = (flat.square().mean(1) + 1e-6) ** -0.5
    mix = (flat * by.flatten()) @ p.t()
    w = mix * inv[:, None]
    pre = torch.sigmoid(w[:, :n] * scale[0] + bias[:n]) + eps
    post = 2 * torch.sigmoid(w[:, n : 2 * n] * scale[1] + bias[n : 2 * n])
    res = (w[:, 2 * n :] * scale[2] + bias[2 * n :]).reshape(tokens, n, n)
    out = ((pre[:, :, None] * a).sum(1), post, res)
    grads = rand(tokens, d, dtype=dtype, seed=1), rand(tokens, n, seed=2), rand(tokens, n, n, seed=3)
    more = rand(tokens, n, d, dtype=dtype, seed=4)
    wanted = torch.autograd.grad(out, leaves, [g.double() for g in grads])
    inputs = {
        "x": x, "phi": phi, "alpha": alpha, "gamma": gamma, "hcEps": eps, "gradHIn": grads[0], "gradHPost": grads[1],
        "gradHRes": grads[2], "gradXPostOptional": more, "invRms": inv.detach().float(), "hMix": mix.detach().float(),
        "hPre": pre.detach().float(), "hPost": post.detach().float(),
    }  # fmt: skip
    expected = {"gradX": (wanted[0] + more.double()).to(dtype), "gradPhi": wanted[1].float(),
                "gradAlpha": wanted[2].float(), "gradBias": wanted[3].float(), "gradGamma": wanted[4].float(),
    }  # fmt: skip
    near = {"rtol": 1e-3, "atol": 1e-4} if dtype == torch.float32 else {"rtol": 2e-2, "atol": 5e-2}
    compare(npu, "aclnnMhcPreBackward", inputs, expected, **near)
    with pytest.raises(AclError, match="alpha has 2 elements, 3 are expected"):
        compare(npu, "aclnnMhcPreBackward", inputs | {"alpha": alpha[:2]}, expected)


def steps_of(x, rounds, eps=1e-6):
    """All norms and sums of the rounds, the outer dimensions last."""
    y = x.softmax(-1) + eps
    norms, sums = [y], [torch.zeros_like(y[..., 0])]
    for i in range(1, 2 * rounds):
        total = y.sum(-1 if i % 2 == 0 else -2, keepdim=True) + eps
        y = y / total
        norms.append(y)
        sums.append(total.squeeze(-1 if i % 2 == 0 else -2))
    first = lambda t, n: torch.stack(t).movedim(tuple(range(-n, 0)), tuple(range(1, 1 + n))).contiguous()
    return y, first(norms, 2), first(sums, 1)


@pytest.mark.parametrize("outer", [(3,), (2, 3)])
def test_the_steps_of_a_doubly_stochastic_matrix_and_their_gradient(npu, outer):
    x = rand(*outer, 4, 4)
    (leaf,) = wide(x)
    y, norms, sums = steps_of(leaf, 5)
    results = {"output": y.detach().float(), "normOut": norms.detach().float(), "sumOut": sums.detach().float()}
    compare(npu, "aclnnMhcSinkhorn", {"x": x, "eps": 1e-6, "numIters": 5}, results, rtol=1e-4, atol=1e-5)
    grad = rand(*outer, 4, 4, seed=3)
    (made,) = torch.autograd.grad(y, leaf, grad.double())
    inputs = {"gradOutput": grad, "normOut": results["normOut"], "sumOut": results["sumOut"]}
    # eps inside the softmax is left out of the formula of its gradient.
    compare(npu, "aclnnMhcSinkhornBackward", inputs, {"out": made.float()}, rtol=1e-3, atol=1e-4)
    wrong = inputs | {"sumOut": results["sumOut"][:, :3].contiguous()}
    refused(npu, "aclnnMhcSinkhornBackward", wrong, {"out": made.float()}, "sumOut must have sizes")

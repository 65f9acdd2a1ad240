"""F.scaled_dot_product_attention: one operator of the device where that computes the same, else the composition."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

FUSED = "npu::npu_fusion_attention"


class Called(TorchDispatchMode):
    """Names of the operators that were called."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.add(func.name())
        return func(*args, **(kwargs or {}))


def operands(dtype=torch.float32, heads=4, kv_heads=4, rows=65, keys=130, columns=24):
    torch.manual_seed(5)
    sizes = [(2, heads, rows, columns), (2, kv_heads, keys, columns), (2, kv_heads, keys, 16), (2, heads, rows, 16)]
    return [torch.randn(s).to(dtype) for s in sizes]


def run(device, q, k, v, dy, mask=None, **kwargs):
    leaves = [t.to(device).detach().requires_grad_() for t in (q, k, v)]
    mask = mask if mask is None else mask.to(device)
    with Called() as called:
        out = F.scaled_dot_product_attention(*leaves, mask, **kwargs)
        grads = torch.autograd.grad(out, leaves, dy.to(device))
    return [out, *grads], FUSED in called.names


def check(fused, *operands, tolerance=1e-5, **kwargs):
    got, was_fused = run("npu", *operands, **kwargs)
    assert was_fused == fused
    mask = kwargs.pop("mask", None)
    mask = mask if mask is None or mask.dtype == torch.bool else mask.double()
    wanted, _ = run("cpu", *(t.double() for t in operands), mask=mask, **kwargs)
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(a.cpu().double(), b, rtol=tolerance, atol=tolerance * b.abs().max().item())


def sometimes(*sizes):
    return torch.rand(sizes, generator=torch.Generator().manual_seed(2)) < 0.6


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-5), (torch.float16, 4e-3), (torch.bfloat16, 3e-2)])
@pytest.mark.parametrize("causal", [False, True])
def test_every_fused_type(dtype, tolerance, causal):
    check(True, *operands(dtype), tolerance=tolerance, is_causal=causal)


@pytest.mark.parametrize(
    "mask",
    [(65, 130), (1, 130), (65, 1), (4, 65, 130), (2, 4, 65, 130), (2, 1, 1, 130), (1, 4, 65, 1), (2, 1, 65, 130)],
    ids=str,
)
def test_masks_of_every_shape(mask):
    check(True, *operands(), mask=sometimes(*mask))


def test_a_row_that_sees_nothing_is_zero():
    hides = torch.ones(65, 130, dtype=torch.bool)
    hides[3] = False
    check(True, *operands(), mask=hides)
    q, k, v, dy = operands()
    assert run("npu", q, k, v, dy, mask=hides)[0][0][:, :, 3].abs().max().item() == 0


def test_heads_that_share_keys():
    check(True, *operands(kv_heads=2), enable_gqa=True, is_causal=True)
    q, k, v, _ = (t.npu() for t in operands(kv_heads=2))
    with pytest.raises(RuntimeError):
        F.scaled_dot_product_attention(q, k, v)


def test_a_scale_of_ones_own():
    check(True, *operands(), scale=0.7)


def test_strided_operands():
    q, k, v, dy = (t.transpose(1, 2).contiguous().transpose(1, 2) for t in operands())
    check(True, q, k, v, dy[..., :1].expand(dy.shape))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_bias_is_composed(dtype):
    check(
        False, *operands(dtype), mask=torch.randn(65, 130).to(dtype), tolerance=1e-5 if dtype == torch.float32 else 4e-3
    )


def test_what_else_is_composed():
    check(False, *operands(torch.float64))
    with sdpa_kernel(SDPBackend.MATH):
        check(False, *operands())
    q, k, v, _ = (t.npu() for t in operands())
    with Called() as called:
        F.scaled_dot_product_attention(q[0], k[0], v[0])
        F.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
        F.scaled_dot_product_attention(q[:, :, :0], k, v)
    assert FUSED not in called.names


def test_second_derivatives_are_the_compositions():
    q, k, v, _ = (t[:, :1, :3, :4].double().npu().requires_grad_() for t in operands())
    assert torch.autograd.gradgradcheck(F.scaled_dot_product_attention, (q, k, v))
    q, k, v = (t.detach().float().requires_grad_() for t in (q, k, v))
    with sdpa_kernel(SDPBackend.MATH):
        (grad,) = torch.autograd.grad(F.scaled_dot_product_attention(q, k, v).sum(), q, create_graph=True)
        assert torch.autograd.grad(grad.square().sum(), k)[0].abs().max() > 0
    (grad,) = torch.autograd.grad(F.scaled_dot_product_attention(q, k, v).sum(), q, create_graph=True)
    with pytest.raises((RuntimeError, NotImplementedError), match="derivative|differentiat"):
        torch.autograd.grad(grad.square().sum(), k)


def test_forward_mode_is_the_compositions():
    """(f(x + h) - f(x - h)) / 2h is the judge: PyTorch's CPU has no forward derivative of its fused kernel."""
    q, k, v, _ = (t.npu() for t in operands())
    direction = torch.randn_like(q)
    out, tangent = torch.func.jvp(lambda x: F.scaled_dot_product_attention(x, k, v), (q,), (direction,))
    wide = [t.cpu().double() for t in (q, k, v, direction)]
    ahead, behind = (F.scaled_dot_product_attention(wide[0] + h * wide[3], *wide[1:3]) for h in (1e-6, -1e-6))
    torch.testing.assert_close(tangent.cpu().double(), (ahead - behind) / 2e-6, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(out, F.scaled_dot_product_attention(q, k, v), rtol=1e-5, atol=1e-5)


def test_under_vmap():
    q, k, v, _ = (torch.stack([t, t + 1]).npu() for t in operands())
    got = torch.func.vmap(F.scaled_dot_product_attention)(q, k, v)
    wanted = torch.stack([F.scaled_dot_product_attention(*x) for x in zip(q, k, v, strict=True)])
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_within_vmap(causal):
    q, k, v, _ = operands()
    x = torch.randn(3, *q.shape)

    def loss(a, k, v):
        return F.scaled_dot_product_attention(a, k, v, is_causal=causal).square().sum()

    got = torch.func.vmap(torch.func.grad(loss), in_dims=(0, None, None))(x.npu(), k.npu(), v.npu())
    wanted = torch.stack([torch.func.grad(loss)(part, k, v) for part in x])
    torch.testing.assert_close(got.cpu(), wanted, rtol=1e-4, atol=1e-5)
    assert torch.func.jacrev(lambda a: loss(a, k.npu(), v.npu()))(q.npu()).shape == q.shape


def test_in_a_graph_that_is_replayed():
    q, k, v, _ = (t.npu() for t in operands())
    mask = sometimes(65, 130).npu()
    F.scaled_dot_product_attention(q, k, v, mask)
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        out = F.scaled_dot_product_attention(q, k, v, mask)
    q.neg_()
    mask.logical_not_()
    graph.replay()
    torch.testing.assert_close(out, F.scaled_dot_product_attention(q, k, v, mask))


@pytest.mark.parametrize("dynamic", [False, True])
def test_traced(dynamic):
    def step(q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, mask).square().sum()

    compiled = torch.compile(step, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    for rows in (65, 40):
        q, k, v, _ = (t.npu().requires_grad_() for t in operands(rows=rows))
        mask = sometimes(rows, 130).npu()
        got = torch.autograd.grad(compiled(q, k, v, mask), (q, k, v))
        wanted = torch.autograd.grad(step(q, k, v, mask), (q, k, v))
        torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)


def test_on_another_device():
    if torch.npu.device_count() < 2:
        pytest.skip("one device")
    operands_there = [t.to("npu:1") for t in operands()]
    out = F.scaled_dot_product_attention(*operands_there[:3], is_causal=True)
    assert out.device == torch.device("npu:1")
    wanted = F.scaled_dot_product_attention(*(t.cpu() for t in operands_there[:3]), is_causal=True)
    torch.testing.assert_close(out.cpu(), wanted, rtol=1e-5, atol=1e-5)

"""F.scaled_dot_product_attention: one operator of the device where that computes the same, else the composition."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import torch_npu

FUSED = {"npu::npu_fusion_attention", "npu::_npu_dot_product_attention"}


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
    if mask is not None:
        mask = mask.to(device).detach().requires_grad_(mask.requires_grad)
    with Called() as called:
        out = F.scaled_dot_product_attention(*leaves, mask, **kwargs)
        leaves += [mask] if mask is not None and mask.requires_grad else []
        grads = torch.autograd.grad(out, leaves, dy.to(device))
    return [out, *grads], bool(FUSED & called.names)


def check(fused, *operands, tolerance=1e-5, **kwargs):
    got, was_fused = run("npu", *operands, **kwargs)
    assert was_fused == fused
    mask = kwargs.pop("mask", None)
    mask = mask if mask is None or mask.dtype == torch.bool else mask.double()
    wanted, _ = run("cpu", *(t.double() for t in operands), mask=mask, **kwargs)
    largest = [t.abs().max().item() for t in wanted]
    largest[4:] = [max(largest)] * len(largest[4:])  # a mask's gradient: rows of it sum to zero
    for a, b, scale in zip(got, wanted, largest, strict=True):
        torch.testing.assert_close(a.cpu().double(), b, rtol=tolerance, atol=tolerance * scale)


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


HALF = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
NONE = float("-inf")


def added(*sizes, dtype=torch.float32, hides=None):
    """Numbers to add; `hides`: a score that is not to count, in a part of the columns and in all of the second row."""
    out = torch.randn(sizes, generator=torch.Generator().manual_seed(3)).to(dtype)
    if hides is not None:
        out[..., 1::3] = hides
        out.reshape(-1, sizes[-1])[1 % (out.numel() // sizes[-1])] = hides
    return out


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("hides", [None, "-inf", "least"])
@pytest.mark.parametrize("wants", [False, True], ids=["", "gradient of the mask"])
def test_a_mask_that_is_added(dtype, hides, wants):
    number = {None: None, "-inf": NONE, "least": torch.finfo(dtype).min}[hides]
    mask = added(2, 1, 65, 130, dtype=dtype, hides=number).requires_grad_(wants)
    check(True, *operands(dtype), mask=mask, tolerance=HALF[dtype])


@pytest.mark.parametrize(
    "mask",
    [(65, 130), (1, 130), (65, 1), (4, 65, 130), (2, 4, 65, 130), (2, 1, 1, 130), (1, 4, 65, 1), (1, 1, 1, 1)],
    ids=str,
)
def test_a_mask_that_is_added_of_every_shape(mask):
    check(True, *operands(), mask=added(*mask, hides=NONE if mask[-1] > 1 else None).requires_grad_())


def test_what_is_added_is_split_where_the_operator_takes_no_infinity():
    """What hardware is given: -inf as what is hidden."""
    torch_npu._C._prefer_compositions(True)
    try:
        for sizes in [(2, 1, 1, 130), (1, 4, 65, 130), (65, 130)]:
            check(True, *operands(), mask=added(*sizes, hides=NONE).requires_grad_())
    finally:
        torch_npu._C._prefer_compositions(False)


@pytest.mark.parametrize(
    "sizes",
    [{"rows": 1, "keys": 1}, {"rows": 1}, {"columns": 7}, {"rows": 3, "keys": 2, "columns": 1}, {"kv_heads": 2}],
    ids=str,
)
def test_a_mask_that_is_added_to_odd_sizes(sizes):
    q, k, v, dy = operands(**sizes)
    mask = added(2, 1, q.shape[2], k.shape[2])
    check(True, q, k, v, dy, mask=mask, scale=0.4, enable_gqa=k.shape[1] != q.shape[1])
    q, k, v, dy = (t.mT.contiguous().mT for t in (q, k, v, dy))
    check(True, q, k, v, dy, mask=mask.mT.contiguous().mT, enable_gqa=k.shape[1] != q.shape[1])


def weights(q, k, mask=None, is_causal=False):
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + (0 if mask is None else mask)
    if is_causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), NONE)
    return scores.softmax(-1)


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("kind", ["plain", "causal", "hidden", "added"])
def test_dropout_is_a_mask_over_the_weights(dtype, kind):
    """With the identity for values the result is the weights: what is dropped is seen there, and is the gradient's."""
    torch.manual_seed(4)
    q, k = (torch.randn(2, 3, n, 16).to(dtype) for n in (40, 64))
    v, p = torch.eye(64).expand(2, 3, 64, 64).to(dtype), 0.3
    mask = {"hidden": sometimes(40, 64), "added": torch.randn(2, 1, 1, 64).to(dtype)}.get(kind)
    cpu = (
        mask.float() if kind == "added" else torch.zeros(40, 64).masked_fill(~mask, NONE) if kind == "hidden" else None
    )
    leaves = [t.npu().requires_grad_() for t in (q, k, v)]
    with Called() as called:
        given = None if mask is None else mask.npu()
        out = F.scaled_dot_product_attention(*leaves, given, p, is_causal=kind == "causal")
        grads = torch.autograd.grad(out, leaves, torch.ones_like(out))
    assert FUSED & called.names
    wide = [t.double().requires_grad_() for t in (q, k, v)]
    w = weights(wide[0], wide[1], None if cpu is None else cpu.double(), kind == "causal")
    kept = out.cpu().double() != 0
    seen = w > 1e-6
    assert abs(kept[seen].double().mean() - (1 - p)) < 0.02
    reference = (w * (kept & seen) / (1 - p)) @ wide[2]
    wanted = torch.autograd.grad(reference, wide, torch.ones_like(reference))
    for a, b in zip([out, *grads], [reference, *wanted], strict=True):
        torch.testing.assert_close(a.cpu().double(), b, rtol=HALF[dtype], atol=HALF[dtype] * b.abs().max().item())


def test_dropout_follows_the_generator():
    q, k, v, _ = (t.npu() for t in operands())
    draws = []
    for seed in (1, 1, 2):
        torch.npu.manual_seed(seed)
        draws += [F.scaled_dot_product_attention(q, k, v, dropout_p=0.4) for _ in range(2)]
    assert torch.equal(torch.stack(draws[:2]), torch.stack(draws[2:4]))
    assert not torch.equal(draws[0], draws[1]) and not torch.equal(draws[0], draws[4])
    torch.testing.assert_close(
        torch.stack([F.scaled_dot_product_attention(q, k, v, dropout_p=0.4) for _ in range(400)]).mean(0),
        F.scaled_dot_product_attention(q, k, v),
        rtol=0.1,
        atol=0.05,
    )


@pytest.mark.parametrize("amp", [False, True], ids=["", "autocast"])
def test_dropout_under_checkpoint(amp):
    q, k, v, dy = operands()
    grads = []
    for around in (lambda f, *a: f(*a), lambda f, *a: checkpoint(f, *a, use_reentrant=False)):
        torch.npu.manual_seed(5)
        leaves = [t.npu().requires_grad_() for t in (q, k, v)]
        mask = added(2, 1, 1, 130).npu()
        with torch.autocast("npu", torch.bfloat16, enabled=amp):
            out = around(lambda q, k, v, m=mask: F.scaled_dot_product_attention(q, k, v, m, 0.2), *leaves)
        assert out.dtype == (torch.bfloat16 if amp else torch.float32)
        grads.append([out, *torch.autograd.grad(out, leaves, dy.npu().to(out.dtype))])
    torch.testing.assert_close(grads[0], grads[1], rtol=0, atol=0)


def test_dropout_in_a_graph_is_another_at_each_replay():
    q, k, v, dy = (t.npu().requires_grad_() for t in operands())
    F.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        out = F.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
        (grad,) = torch.autograd.grad(out, v, dy)
    seen = []
    for _ in range(3):
        graph.replay()
        seen.append((out.clone(), grad.clone()))
        # The gradient is of the mask that this replay drew: sum(dy * out) is linear in v.
        torch.testing.assert_close((dy * out).sum(), (grad * v).sum(), rtol=1e-4, atol=1e-3)
    assert not torch.equal(seen[0][0], seen[1][0]) and not torch.equal(seen[1][0], seen[2][0])


def test_dropout_traced():
    def step(q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, mask, 0.5) - F.scaled_dot_product_attention(q, k, v, mask, 0.5)

    compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
    q, k, v, _ = (t.npu().requires_grad_() for t in operands())
    mask = added(65, 130).npu().requires_grad_()
    first, second = compiled(q, k, v, mask), compiled(q, k, v, mask)
    assert first.count_nonzero() > 0 and not torch.equal(first, second)
    (grad,) = torch.autograd.grad(first, v, torch.ones_like(first))
    torch.testing.assert_close((grad * v).sum(), first.sum(), rtol=1e-3, atol=1e-2)


def test_layers_that_call_it():
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    x, padded = torch.randn(3, 10, 32), torch.zeros(3, 10, dtype=torch.bool)
    padded[1, 6:] = True
    wanted = layer(x, src_key_padding_mask=padded)
    wanted.square().sum().backward()
    gradients = [p.grad.clone() for p in layer.parameters()]
    layer.zero_grad()
    layer.npu()
    with Called() as called:
        got = layer(x.npu(), src_key_padding_mask=padded.npu())
        got.square().sum().backward()
    assert FUSED & called.names
    torch.testing.assert_close(got.cpu(), wanted, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close([p.grad.cpu() for p in layer.parameters()], gradients, rtol=1e-3, atol=1e-4)
    attention = torch.nn.MultiheadAttention(32, 4, dropout=0.3, batch_first=True).npu().train()
    with Called() as called:
        attention(*[x.npu()] * 3, need_weights=False, attn_mask=torch.randn(10, 10).npu())[0].sum().backward()
    assert FUSED & called.names


def test_what_else_is_composed():
    check(False, *operands(torch.float64))
    with sdpa_kernel(SDPBackend.MATH):
        check(False, *operands())
    check(False, *operands(torch.float16), mask=added(65, 130), tolerance=4e-3)  # CANN's operator takes one type
    q, k, v, _ = (t.npu() for t in operands())
    with Called() as called:
        F.scaled_dot_product_attention(q[0], k[0], v[0])
        assert F.scaled_dot_product_attention(q, k, v, dropout_p=1.0).count_nonzero() == 0
        F.scaled_dot_product_attention(q[:, :, :0], k, v, dropout_p=0.5)
    assert not FUSED & called.names


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
    masked = F.scaled_dot_product_attention(q, k, v, added(3, 3).npu().requires_grad_())
    (grad,) = torch.autograd.grad(masked.sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="use torch.nn.attention.sdpa_kernel"):
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


@pytest.mark.parametrize("first", [True, False])
def test_a_checkpoint_keeps_the_same_whether_or_not_a_mode_looks(first):
    q, k, v, dy = operands()
    grads = []
    for device in ("npu", "cpu"):
        leaves = [t.to(device).requires_grad_() for t in (q, k, v)]
        modes = [Called(), nullcontext()] if first else [nullcontext(), Called()]
        with modes[0]:
            out = checkpoint(lambda *a: F.scaled_dot_product_attention(*a).exp(), *leaves, use_reentrant=False)
        with modes[1]:
            grads.append([g.cpu() for g in torch.autograd.grad(out, leaves, dy.to(device))])
    torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-5)


def test_what_it_leaves_to_pytorch():
    q, k, v, _ = (t.npu() for t in operands())
    wanted = F.scaled_dot_product_attention(q.cpu(), k.cpu(), v.cpu())
    with torch._C._AutoDispatchBelowAutograd():
        below = F.scaled_dot_product_attention(q.clone().requires_grad_(), k, v)
    assert not below.requires_grad
    torch.testing.assert_close(below.cpu(), wanted, rtol=1e-5, atol=1e-5)
    zeros = torch._efficientzerotensor(v.shape, device="npu")
    with Called() as called:
        out = F.scaled_dot_product_attention(q, k, zeros)
        negative = F.scaled_dot_product_attention(torch._neg_view(q), k, v)
    assert not FUSED & called.names
    assert out.count_nonzero() == 0
    wanted = F.scaled_dot_product_attention(-q.cpu(), k.cpu(), v.cpu())
    torch.testing.assert_close(negative.cpu(), wanted, rtol=1e-5, atol=1e-5)


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

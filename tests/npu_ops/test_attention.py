"""npu_fusion_attention and version 2: layouts, masks, heads, bias, dropout and gradients against a plain formula."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import torch_npu
from tests.core import tools
from tests.npu_ops.compare import FLOATING, check

B, N, S, K, D = 2, 4, 5, 7, 8


def heads_first(t, heads, layout):
    """[batch, heads, rows, columns]"""
    if layout == "BNSD":
        return t
    if layout == "BSND":
        return t.transpose(1, 2)
    t = t.transpose(0, 1) if layout == "SBH" else t
    return t.unflatten(-1, (heads, -1)).transpose(1, 2)


def as_layout(t, layout):
    if layout == "BNSD":
        return t
    if layout == "BSND":
        return t.transpose(1, 2)
    t = t.transpose(1, 2).flatten(2)
    return t.transpose(0, 1) if layout == "SBH" else t


def plain(q, k, v, scale=1.0, hidden=None, bias=None, before_scale=True):
    """Heads first; a row that sees nothing is zero."""
    groups = q.shape[-3] // k.shape[-3]
    k, v = k.repeat_interleave(groups, -3), v.repeat_interleave(groups, -3)
    scores = q @ k.transpose(-1, -2)
    if bias is not None:
        scores = (scores + bias) * scale if before_scale else scores * scale + bias
    else:
        scores = scores * scale
    if hidden is not None:
        scores = scores.masked_fill(hidden, float("-inf"))
    return torch.nan_to_num(torch.softmax(scores, -1)) @ v


def operands(layout, kv_heads=N):
    torch.manual_seed(7)
    shapes = [(B, N, S, D), (B, kv_heads, K, D), (B, kv_heads, K, D)]
    return [as_layout(torch.randn(s), layout).contiguous() for s in shapes]


@pytest.mark.parametrize("kv_heads", [N, 2, 1])
@pytest.mark.parametrize("layout", ["BNSD", "BSND", "BSH", "SBH"])
def test_layouts_and_shared_heads(layout, kv_heads):
    def reference(q, k, v, heads, layout, scale):
        parts = [heads_first(q, N, layout), heads_first(k, kv_heads, layout), heads_first(v, kv_heads, layout)]
        return as_layout(plain(*parts, scale=scale), layout)

    check(torch_npu.npu_fusion_attention, reference, [*operands(layout, kv_heads), N, layout], {"scale": D**-0.5})


def band(n, m, before, after, diagonal):
    distance = torch.arange(m)[None, :] - torch.arange(n)[:, None] - diagonal
    return (distance > after) | (distance < -before)


FAR = 2147483647
MASKS = {
    "mask": ({"atten_mask": torch.rand(S, K) < 0.4}, None),
    "mask of each head": ({"atten_mask": torch.rand(B, N, S, K) < 0.4, "sparse_mode": 1}, None),
    "uint8": ({"atten_mask": (torch.rand(B, 1, S, K) < 0.4).byte()}, None),
    "all hidden": ({"atten_mask": torch.ones(S, K, dtype=torch.bool)}, None),
    "band": ({"atten_mask": band(S, K, 2, 1, 0), "pre_tockens": 2, "next_tockens": 1}, band(S, K, 2, 1, 0)),
    "causal": ({"atten_mask": torch.ones(2048, 2048).triu(1).bool(), "sparse_mode": 2}, band(S, K, FAR, 0, 0)),
    "causal from below": (
        {"atten_mask": torch.ones(2048, 2048).triu(1).bool(), "sparse_mode": 3},
        band(S, K, FAR, 0, K - S),
    ),
    "band from below": (
        {"atten_mask": torch.ones(2048, 2048).triu(1).bool(), "sparse_mode": 4, "pre_tockens": 3, "next_tockens": 0},
        band(S, K, 3, 0, K - S),
    ),
}


@pytest.mark.parametrize("name", MASKS)
def test_masks_and_sparse_modes(name):
    kwargs, hidden = MASKS[name]
    hidden = kwargs["atten_mask"].bool() if hidden is None else hidden

    def reference(q, k, v, heads, layout, **_):
        return plain(q, k, v, hidden=hidden)

    check(torch_npu.npu_fusion_attention, reference, [*operands("BNSD"), N, "BNSD"], kwargs)


@pytest.mark.parametrize("sizes", [(B, N, S, K), (1, N, S, K)])
def test_bias_and_its_gradient(sizes):
    def reference(q, k, v, heads, layout, pse, scale):
        return plain(q, k, v, scale, bias=pse)

    check(
        torch_npu.npu_fusion_attention,
        reference,
        [*operands("BNSD"), N, "BNSD"],
        {"pse": torch.randn(sizes), "scale": 0.3},
    )


def test_second_version_adds_the_bias_after_the_scale():
    def reference(q, k, v, heads, layout, pse, scale, pse_type):
        return plain(q, k, v, scale, bias=pse, before_scale=False)

    kwargs = {"pse": torch.randn(B, N, S, K), "scale": 0.3, "pse_type": 0}
    check(torch_npu.npu_fusion_attention_v2, reference, [*operands("BNSD"), N, "BNSD"], kwargs)


def test_second_version_takes_rotary_columns():
    def reference(q, k, v, heads, layout, query_rope, key_rope, scale):
        return plain(torch.cat([q, query_rope], -1), torch.cat([k, key_rope], -1), v, scale)

    kwargs = {"query_rope": torch.randn(B, N, S, 4), "key_rope": torch.randn(B, N, K, 4), "scale": 0.3}
    check(torch_npu.npu_fusion_attention_v2, reference, [*operands("BNSD"), N, "BNSD"], kwargs)


def test_a_sink_takes_part_in_softmax():
    def reference(q, k, v, heads, layout, sink, scale):
        scores = q @ k.transpose(-1, -2) * scale
        scores = torch.cat([scores, sink.reshape(1, N, 1, 1).expand(B, N, S, 1)], -1)
        return torch.softmax(scores, -1)[..., :-1] @ v

    check(
        torch_npu.npu_fusion_attention,
        reference,
        [*operands("BNSD"), N, "BNSD"],
        {"sink": torch.randn(N), "scale": 0.3},
        dtypes=FLOATING[:1],
    )


def test_packed_sequences():
    torch.manual_seed(8)
    q_ends, kv_ends = [3, 4, 9], [2, 7, 12]

    def reference(q, k, v, heads, layout, scale, **_):
        out, at, kv_at = [], 0, 0
        for end, kv_end in zip(q_ends, kv_ends, strict=True):
            parts = (q[at:end], k[kv_at:kv_end], v[kv_at:kv_end])
            out.append(plain(*(t.transpose(0, 1) for t in parts), scale=scale).transpose(0, 1))
            at, kv_at = end, kv_end
        return torch.cat(out)

    args = [torch.randn(9, N, D), torch.randn(12, 2, D), torch.randn(12, 2, D), N, "TND"]
    kwargs = {"scale": 0.3, "actual_seq_qlen": q_ends, "actual_seq_kvlen": kv_ends}
    check(torch_npu.npu_fusion_attention, reference, args, kwargs)


@pytest.mark.parametrize("layout, batch, rows", [("BNSD", 2, 5), ("BSH", 1, 16)])
def test_dropout_is_drawn_from_the_generator_and_drawn_again_for_the_gradient(layout, batch, rows):
    """With values of one column each, out = weights: the result shows which are dropped, and the gradient uses them."""
    torch.manual_seed(9)
    shape = (batch, 1, rows, rows)
    q, k = (as_layout(torch.randn(shape), layout).npu() for _ in range(2))
    v = as_layout(torch.eye(rows).expand(shape), layout).contiguous().npu().requires_grad_()

    def run():
        torch.npu.manual_seed(3)
        return torch_npu.npu_fusion_attention(q, k, v, 1, layout, keep_prob=0.5)

    out, *_, weights = run()
    assert weights == batch * rows * rows
    kept = heads_first(out, 1, layout).detach().cpu()
    full = heads_first(torch_npu.npu_fusion_attention(q, k, v, 1, layout)[0], 1, layout).detach().cpu()
    on = kept != 0
    assert 0.2 < on.float().mean() < 0.8
    torch.testing.assert_close(kept[on], 2 * full[on])
    assert torch.equal(run()[0], out)
    out.sum().backward()
    expected = kept.transpose(-1, -2).sum(-1, keepdim=True).expand(shape)
    torch.testing.assert_close(heads_first(v.grad, 1, layout).cpu(), expected, rtol=1e-4, atol=1e-5)


def test_statistics_of_softmax():
    q, k, v = operands("BNSD")
    _, maximum, total, *_ = torch_npu.npu_fusion_attention(q.npu(), k.npu(), v.npu(), N, "BNSD", scale=0.3)
    scores = (q @ k.transpose(-1, -2) * 0.3).double()
    highest = scores.amax(-1, keepdim=True)
    torch.testing.assert_close(maximum.cpu().double(), highest.expand(B, N, S, 8), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(
        total.cpu().double(), (scores - highest).exp().sum(-1, keepdim=True).expand(B, N, S, 8), rtol=1e-5, atol=1e-5
    )


def test_empty_and_wrong_operands():
    empty = torch_npu.npu_fusion_attention(*(torch.randn(0, N, S, D).npu() for _ in range(3)), N, "BNSD")
    assert empty[0].shape == (0, N, S, D)
    q, k, v = (t.npu() for t in operands("BNSD"))
    for args, kwargs, error, text in [
        ((q, k, v, N, "NBSD"), {}, ValueError, "input_layout is one of"),
        ((q, k, v, N, "BSH"), {}, RuntimeError, "3 dimensions in the layout BSH, not 4"),
        ((q, k, v, 3, "BNSD"), {}, RuntimeError, "the query has 4 heads, head_num is 3"),
        ((q, k[..., :4], v, N, "BNSD"), {}, RuntimeError, "have 8 and 4 columns"),
        ((q, k, v[:, :, :3], N, "BNSD"), {}, RuntimeError, "7 keys and 3 values"),
        ((q, k.half(), v, N, "BNSD"), {}, RuntimeError, "they must be the same"),
        ((q, k, v, N, "BNSD"), {"keep_prob": 0.0}, ValueError, "keep_prob is 0"),
        ((q, k, v, N, "BNSD"), {"sparse_mode": 9}, ValueError, "sparse_mode is 9"),
        ((q[0], k[0], v[0], S, "TND"), {}, RuntimeError, "needs actual_seq_qlen"),
    ]:
        with pytest.raises(error, match=text):
            torch_npu.npu_fusion_attention(*args, **kwargs)


def ones(*sizes, dtype=torch.float32):
    return torch.ones(*sizes, dtype=dtype, device="npu")


OPTIONAL_OPERANDS = {
    "a float mask": ({"atten_mask": ones(S, K)}, "atten_mask must be .*torch.uint8, got torch.float32"),
    "a mask too small": ({"atten_mask": ones(2, 2).bool()}, "atten_mask of 2 x 2 for 5 queries and 7 keys"),
    "a mask of other heads": ({"atten_mask": ones(B, 3, S, K).bool()}, "atten_mask is for 3 heads"),
    "a mask of other sequences": ({"atten_mask": ones(3, 1, S, K).bool()}, "atten_mask is for 3 sequences"),
    "a mask of one's own where none is read": (
        {"sparse_mode": 2, "atten_mask": ones(S, K).bool()},
        r"atten_mask of \[5, 7\] with sparse_mode 2, which takes the triangle \[2048, 2048\]",
    ),
    "half a triangle": ({"sparse_mode": 4, "atten_mask": ones(2048, 1024).bool()}, "takes the triangle"),
    "a triangle a head": ({"sparse_mode": 3, "atten_mask": ones(2, 2048, 2048).bool()}, "takes the triangle"),
    "no mask": ({"sparse_mode": 1}, "sparse_mode 1 needs atten_mask"),
    "packed alone": ({"sparse_mode": 7}, "sparse_mode 7 is for the layout TND"),
    "no prefix": ({"sparse_mode": 5}, "needs a prefix for each of 2 sequences, not 0"),
    "a prefix too long": ({"sparse_mode": 6, "prefix": [3, 8]}, "a prefix of 8 keys"),
    "pse too small": ({"pse": ones(B, N, S, K - 1)}, "pse of 5 x 6 for 5 queries and 7 keys"),
    "a kind of pse": ({"pse_type": 4}, "pse_type is 4"),
    "slopes missing": ({"pse_type": 2}, "pse_type 2 needs pse"),
    "slopes of other heads": ({"pse_type": 3, "pse": ones(1)}, "pse has 1 slopes, head_num is 4"),
    "rope of the key alone": ({"key_rope": ones(B, N, K, 2)}, "query_rope and key_rope go together"),
    "rope of other columns": (
        {"query_rope": ones(B, N, S, 2), "key_rope": ones(B, N, K, 3)}, "have other columns a head",
    ),
    "rope of other rows": (
        {"query_rope": ones(B, N, S, 2), "key_rope": ones(B, N, K - 1, 2)},
        "key_rope must have 7 in dimension 2, got 6",
    ),
    "sink": ({"sink": ones(3)}, "sink must have 4 in dimension 0, got 3"),
    "drop mask": ({"keep_prob": 0.5, "dropout_mask": ones(16, dtype=torch.uint8)}, "is for 128 weights"),
}  # fmt: skip


@pytest.mark.parametrize("device", ["npu", "meta"])
@pytest.mark.parametrize("name", OPTIONAL_OPERANDS)
def test_optional_operands_that_do_not_fit_are_refused_at_the_call(name, device):
    kwargs, text = OPTIONAL_OPERANDS[name]
    if device == "meta" and "keep_prob" in kwargs:
        text = "dropout cannot be traced"
    kwargs = {key: value.to(device) if torch.is_tensor(value) else value for key, value in kwargs.items()}
    with pytest.raises((RuntimeError, ValueError), match=text) as error:
        torch_npu.npu_fusion_attention_v2(*(t.to(device) for t in operands("BNSD")), N, "BNSD", **kwargs)
    assert not isinstance(error.value, torch.AcceleratorError)


@pytest.mark.parametrize("device", ["npu", "meta"])
def test_heads_of_key_and_value(device):
    q, k, v = (t.to(device) for t in operands("BNSD", 2))
    with pytest.raises(RuntimeError, match="the key has 2 heads and the value 4"):
        torch_npu.npu_fusion_attention(q, k, v.repeat_interleave(2, 1), N, "BNSD")
    q, k, v = (t.to(device) for t in operands("BSH"))
    with pytest.raises(RuntimeError, match="the key's last dimension, 31, is no multiple of a head's columns, 8"):
        torch_npu.npu_fusion_attention(q, k[..., 1:], v, N, "BSH")
    with pytest.raises(RuntimeError, match="4 heads, which do not divide the value's last dimension, 30"):
        torch_npu.npu_fusion_attention(q, k, v[..., 2:], N, "BSH")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("mode", [0, 3])
def test_queries_without_keys_see_nothing(dtype, mode):
    q, k, v = (torch.randn(rows, 2, 8, device="npu").to(dtype).requires_grad_() for rows in (10, 11, 11))
    mask = torch.ones(2048, 2048, dtype=torch.bool, device="npu").triu(1) if mode else None
    ends = {"actual_seq_qlen": [3, 8, 10], "actual_seq_kvlen": [4, 4, 11]}
    out, most, total, *_ = torch_npu.npu_fusion_attention(
        q, k, v, 2, "TND", scale=0.3, sparse_mode=mode, atten_mask=mask, **ends
    )
    out.sum().backward()
    for nothing in (out[3:8], most[3:8], total[3:8], q.grad[3:8]):
        assert nothing.count_nonzero().item() == 0
    assert out[:3].count_nonzero().item() > 0 and torch.isfinite(k.grad).all().item()


@pytest.mark.parametrize("layout", ["BNSD", "BSH", "SBH", "BSND"])
def test_no_keys_at_all(layout):
    sizes = {"BNSD": (2, 2, -1, 8), "BSH": (2, -1, 16), "SBH": (-1, 2, 16), "BSND": (2, -1, 2, 8)}[layout]
    q, k, v = (torch.randn([rows if s < 0 else s for s in sizes]).npu().requires_grad_() for rows in (3, 0, 0))
    out = torch_npu.npu_fusion_attention(q, k, v, 2, layout)[0]
    out.sum().backward()
    assert out.shape == q.shape and out.count_nonzero().item() == q.grad.count_nonzero().item() == 0
    assert k.grad.shape == k.shape


@pytest.mark.parametrize(
    ("mode", "q_ends", "kv_ends", "numbers", "hidden"),
    [
        (7, [3, 5], [3, 9], (6, -2), [band(3, 3, FAR, 0, 0), band(2, 6, 6, -2, 4)]),
        (8, [3, 8, 12], [4, 9, 13], (4, 1), [band(3, 4, 4, 1, 1), band(5, 5, FAR, 0, 0), band(4, 4, FAR, 0, 0)]),
        (7, [4], [6], (1, 0), [band(4, 6, 1, 0, 2)]),
        (8, [4], [6], (1, 0), [band(4, 6, 1, 0, 2)]),
    ],
)
def test_a_sequence_that_is_cut_among_devices_has_a_band(mode, q_ends, kv_ends, numbers, hidden):
    """The last one with sparse_mode 7, the first one with 8: the examples of the vendor's page, and one alone."""

    def reference(q, k, v, heads, layout, scale, **_):
        parts, q0, kv0 = [], 0, 0
        for q1, kv1, one in zip(q_ends, kv_ends, hidden, strict=True):
            rows = (t.transpose(0, 1) for t in (q[q0:q1], k[kv0:kv1], v[kv0:kv1]))
            parts.append(plain(*rows, scale=scale, hidden=one.to(q.device)).transpose(0, 1))
            q0, kv0 = q1, kv1
        return torch.cat(parts)

    torch.manual_seed(3)
    q, k, v = torch.randn(q_ends[-1], N, D), torch.randn(kv_ends[-1], N, D), torch.randn(kv_ends[-1], N, D)
    kwargs = {"atten_mask": torch.ones(2048, 2048).triu(1).bool(), "sparse_mode": mode, "scale": 0.3}
    kwargs |= {"pre_tockens": numbers[0], "next_tockens": numbers[1]}
    kwargs |= {"actual_seq_qlen": q_ends, "actual_seq_kvlen": kv_ends}
    check(torch_npu.npu_fusion_attention, reference, [q, k, v, N, "TND"], kwargs)


@pytest.mark.parametrize("mode", [2, 3, 4])
def test_without_a_mask_no_mode_counts(mode):
    def reference(q, k, v, heads, layout, **_):
        return plain(q, k, v)

    kwargs = {"sparse_mode": mode, "pre_tockens": 1, "next_tockens": 0}
    check(torch_npu.npu_fusion_attention, reference, [*operands("BNSD"), N, "BNSD"], kwargs)


WITHOUT_MASK = """
import torch, torch_npu
q = torch.randn(1, 2, 6, 8, device="npu")
whole = torch_npu.npu_fusion_attention(q, q, q, 2, "BNSD")[0]
torch_npu.npu_fusion_attention(q.to("meta"), q.to("meta"), q.to("meta"), 2, "BNSD", sparse_mode=3)
for mode in (2, 3, 4):
    assert torch.equal(torch_npu.npu_fusion_attention(q, q, q, 2, "BNSD", sparse_mode=mode)[0], whole)
"""


def test_a_mode_that_hides_nothing_without_its_mask_says_so_once():
    done = tools.run(WITHOUT_MASK)
    says = "npu_fusion_attention: sparse_mode=2 hides nothing without atten_mask: give the [2048, 2048] triangle"
    assert done.stderr.count(says) == done.stderr.count("hides nothing") == 1, done.stderr


@pytest.mark.parametrize("mode", [7, 8])
def test_cut_sequences_take_no_bias(mode):
    q, k, v = torch.randn(4, N, D).npu(), torch.randn(6, N, D).npu(), torch.randn(6, N, D).npu()
    ends = {"actual_seq_qlen": [4], "actual_seq_kvlen": [6]}
    with pytest.raises(ValueError, match=f"pse does not go with sparse_mode {mode}"):
        torch_npu.npu_fusion_attention(q, k, v, N, "TND", pse=torch.randn(1, N, 4, 6).npu(), sparse_mode=mode, **ends)


@pytest.mark.parametrize("version", ["npu_fusion_attention", "npu_fusion_attention_v2"])
def test_tracing_dropout_says_what_can_be_traced(version):
    text = f"{version}.default: .*dropout cannot be traced, because its seed is a number; use npu_fusion_attention_v3"
    q, k, v = (t.npu() for t in operands("BNSD"))

    def f(q, k, v, keep_prob=0.5):
        return getattr(torch_npu, version)(q, k, v, N, "BNSD", keep_prob=keep_prob)[0]

    with FakeTensorMode() as mode:
        fake = [mode.from_tensor(t) for t in (q, k, v)]
        with pytest.raises(RuntimeError, match=text):
            f(*fake)
        assert f(*fake, keep_prob=1).shape == q.shape and f(*fake, keep_prob=1).device == q.device
    with pytest.raises(torch._dynamo.exc.Unsupported, match=text):
        torch.compile(f, backend="aot_eager", fullgraph=True)(q, k, v)
    torch.manual_seed(3)
    expected = f(q, k, v)
    torch.manual_seed(3)
    assert torch.equal(torch.compile(f, backend="aot_eager")(q, k, v), expected)


def test_tracing_says_what_any_operator_does_not_implement():
    with FakeTensorMode() as mode:
        x, target = (mode.from_tensor(t.npu()) for t in (torch.ones(4, 8), torch.zeros(4, dtype=torch.int64)))
        assert torch_npu.npu_cross_entropy_loss(x, target)[1].shape == (4, 8)
        with pytest.raises(RuntimeError, match="npu_cross_entropy_loss.default: .*the z-loss is not implemented"):
            torch_npu.npu_cross_entropy_loss(x, target, return_zloss=True)

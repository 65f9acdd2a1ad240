"""Attention over a choice of keys: by index, by blocks of a mask, and over two sets of keys."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from tests.npu_ops.compare import assert_close, check
from tests.references import hifloat8
from tests.references.chosen_keys import attend, counts, opened


def operands(batch=2, rows=3, keys=7, heads=4, columns=6, rope=2):
    torch.manual_seed(11)
    make = lambda *s: torch.randn(*s)
    return {
        "q": make(batch, rows, heads, columns),
        "k": make(batch, keys, 1, columns),
        "v": make(batch, keys, 1, 5),
        "qr": make(batch, rows, heads, rope),
        "kr": make(batch, keys, 1, rope),
    }


@pytest.mark.parametrize("block", [1, 2])
@pytest.mark.parametrize("mode", [0, 3])
def test_chosen_keys(block, mode):
    o = operands()
    indices = torch.tensor([[[0, 3, -1]], [[2, 1, -1]], [[3, 0, 1]]]).int().expand(2, 3, 1, 3)
    reference_sums = []

    def reference(q, k, v, qr, kr):
        q, k = torch.cat([q, qr], -1), torch.cat([k, kr], -1)
        parts = [attend(q[b], k[b], v[b], 0.3, counts(indices[b], 7, block, 3, mode == 3)) for b in range(2)]
        reference_sums[:] = parts
        return torch.stack([p[0] for p in parts])

    def op(q, k, v, qr, kr):
        return torch_npu.npu_sparse_flash_attention(
            q,
            k,
            v,
            indices.to(q.device),
            0.3,
            query_rope=qr,
            key_rope=kr,
            attention_mode=2,
            sparse_mode=mode,
            sparse_block_size=block,
        )[0]

    check(op, reference, [o["q"], o["k"], o["v"], o["qr"], o["kr"]])
    got = torch_npu.npu_sparse_flash_attention(
        *(o[n].npu() for n in "qkv"),
        indices.npu(),
        0.3,
        query_rope=o["qr"].npu(),
        key_rope=o["kr"].npu(),
        attention_mode=2,
        sparse_mode=mode,
        sparse_block_size=block,
        return_softmax_lse=True,
    )
    reference(*(o[n].double() for n in ("q", "k", "v", "qr", "kr")))
    for i in (1, 2):
        expected = torch.stack([p[i] for p in reference_sums]).transpose(1, 2).unsqueeze(1)  # [batch, 1, rows, heads]
        assert_close(got[i], expected, torch.float32, "sums")


def test_packed_rows_sinks_and_the_operator_of_the_gradients():
    o = {n: t.double() for n, t in operands().items()}
    lengths = [(2, 4), (1, 3)]
    q, k, v = (o[n].flatten(0, 1)[:s] for n, s in (("q", 3), ("k", 7), ("v", 7)))
    indices, sinks = torch.tensor([[[0, 3]], [[2, -1]], [[1, 0]]]).int(), torch.randn(4, dtype=torch.float64)
    q_ends, k_ends = torch.tensor([2, 3]).int(), torch.tensor([4, 7]).int()

    def reference(q, k, v, sinks=None):
        outs, row, key = [], 0, 0
        for rows, keys in lengths:
            part = attend(
                q[row : row + rows],
                k[key : key + keys],
                v[key : key + keys],
                0.5,
                counts(indices[row : row + rows], keys, 1, rows),
                sinks,
            )
            outs.append(part)
            row, key = row + rows, key + keys
        return [torch.cat([p[0] for p in outs])] + [torch.cat([p[i] for p in outs], 1) for i in (1, 2)]

    packed = {"layout_query": "TND", "layout_kv": "TND"}
    got = torch_npu.npu_sparse_flash_attention(
        *(t.npu() for t in (q, k, v, indices)),
        0.5,
        actual_seq_lengths_query=q_ends.npu(),
        actual_seq_lengths_kv=k_ends.npu(),
        sinks=sinks.npu(),
        return_softmax_lse=True,
        **packed,
    )
    expected = reference(q, k, v, sinks)
    torch.testing.assert_close(got[0].cpu(), expected[0])
    assert got[1].shape == (1, 3, 4)
    torch.testing.assert_close(got[1].cpu().double(), expected[1].T.unsqueeze(0), rtol=1e-5, atol=1e-5)
    leaves = [t.clone().requires_grad_() for t in (q, k, v)]
    out, largest, total = reference(*leaves)
    grad = torch.randn_like(out)
    wanted = torch.autograd.grad(out, leaves, grad)
    made = torch_npu.npu_sparse_flash_attention_grad(
        *(t.detach().npu() for t in (q, k, v, indices, grad, out)),
        *(t.detach().T.unsqueeze(0).npu() for t in (largest, total)),  # [key heads, rows, group]
        0.5,
        1,
        actual_seq_qlen=q_ends.npu(),
        actual_seq_kvlen=k_ends.npu(),
        layout="TND",
    )
    for g, e in zip(made, wanted, strict=False):
        torch.testing.assert_close(g.cpu(), e)
    assert made[3] is None and made[4] is None


def test_the_gradient_of_sinks():
    """A number beside the scores of each head takes a share of the softmax; its gradient needs the sums."""
    o = {n: t.double() for n, t in operands().items()}
    indices = torch.tensor([[[0, 3, -1]], [[2, 1, -1]], [[3, 0, 1]]]).int().expand(2, 3, 1, 3)
    sinks = torch.randn(4, dtype=torch.float64)
    named = {"query": o["q"], "key": o["k"], "value": o["v"], "sinks": sinks}
    leaves = {n: t.clone().requires_grad_() for n, t in named.items()}
    parts = [
        attend(*(leaves[n][b] for n in ("query", "key", "value")), 0.3, counts(indices[b], 7, 1, 3), leaves["sinks"])
        for b in range(2)
    ]
    out = torch.stack([p[0] for p in parts])
    grad = torch.randn_like(out)
    out.backward(grad)
    ours = {n: t.npu().requires_grad_() for n, t in named.items()}
    op = torch_npu.npu_sparse_flash_attention
    got = op(**ours, sparse_indices=indices.npu(), scale_value=0.3, return_softmax_lse=True)[0]
    got.backward(grad.npu())
    for n, leaf in leaves.items():
        # The sums between forward and backward are float32.
        torch.testing.assert_close(ours[n].grad.cpu(), leaf.grad, rtol=1e-5, atol=1e-6)
    got = op(**ours, sparse_indices=indices.npu(), scale_value=0.3)[0]
    with pytest.raises(ValueError, match="a gradient with sinks needs return_softmax_lse=True"):
        got.backward(grad.npu())


def test_pages_and_a_value_that_is_the_key():
    o = operands(batch=2, rows=1, keys=8)
    lengths = torch.tensor([8, 5]).int()
    indices = torch.tensor([[[[0, 4, 7]]], [[[4, 2, -1]]]]).int()
    pages, table = torch.zeros(5, 4, 1, 6), torch.tensor([[3, 0], [4, 1]]).int()
    for b in range(2):
        for i in range(2):
            pages[int(table[b, i])] = o["k"][b, 4 * i : 4 * i + 4]
    got = torch_npu.npu_sparse_flash_attention(
        o["q"].npu(),
        pages.npu(),
        None,
        indices.npu(),
        0.5,
        block_table=table.npu(),
        layout_kv="PA_BSND",
        actual_seq_lengths_kv=lengths.npu(),
    )
    assert [t.numel() for t in got[1:]] == [0, 0]
    for b, n in enumerate(lengths.tolist()):
        k = o["k"][b, :n].double()
        expected = attend(o["q"][b].double(), k, k, 0.5, counts(indices[b], n, 1, 1))[0]
        assert_close(got[0][b], expected, torch.float32, "paged")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("stored", [torch.int8, torch.float8_e4m3fn, torch.uint8])
def test_rows_of_bytes(dtype, stored):
    """hifloat8 is uint8 that is named."""
    torch.manual_seed(15)
    q, turned = torch.randn(2, 3, 4, 10).to(dtype), torch.randn(2, 7, 1, 2).to(dtype)
    indices = torch.tensor([[[0, 3, -1]], [[2, 1, -1]], [[3, 0, 5]]]).int().expand(2, 3, 1, 3)

    def row_bytes(numbers, scales):
        parts = [numbers.view(torch.int8), turned.contiguous().view(torch.int8), scales.view(torch.int8)]
        return torch.cat(parts, -1).view(stored)

    codes = stored == torch.uint8
    whole = [torch.randint(-20, 20, (2, 7, 1, 8)).float() for _ in range(2)]
    numbers = [hifloat8.codes(n) if codes else n.to(stored) for n in whole]
    scales = [torch.rand(2, 7, 1, 2) for _ in range(2)]
    read = hifloat8.values if codes else torch.Tensor.double
    k, v = (read(n) * s.double().repeat_interleave(4, -1) for n, s in zip(numbers, scales, strict=True))
    k = torch.cat([k, turned.double()], -1)
    expected = torch.stack([attend(q[b].double(), k[b], v[b], 0.1, counts(indices[b], 7, 1, 3))[0] for b in range(2)])
    given = [row_bytes(n, s).npu() for n, s in zip(numbers, scales, strict=True)]
    named = {"tile_size": 4, "rope_head_dim": 2, "attention_mode": 2}
    op = torch_npu.npu_kv_quant_sparse_flash_attention
    if codes:
        with pytest.raises(RuntimeError, match="key is uint8, which is read as hifloat8 where key_dtype is torch_npu"):
            op(q.npu(), *given, indices.npu(), 0.1, 2, 2, **named)
        named |= {"key_dtype": torch_npu.hifloat8, "value_dtype": torch_npu.hifloat8}
    got = op(q.npu(), *given, indices.npu(), 0.1, 2, 2, **named)
    assert got.dtype == dtype and got.shape == (2, 3, 4, 8)
    assert_close(got, expected, dtype, "bytes")
    with pytest.raises(RuntimeError, match="a row of key has 20 bytes, not 16"):
        op(q.npu(), *(g[..., :16] for g in given), indices.npu(), 0.1, 2, 2, **named)
    with pytest.raises(NotImplementedError, match="key_quant_mode 1 is not implemented"):
        op(q.npu(), *given, indices.npu(), 0.1, 1, 2, **named)


@pytest.mark.parametrize("lengths", [None, ([5, 3], [4, 7])])
def test_blocks_of_a_mask(lengths):
    torch.manual_seed(12)
    q, k, v = torch.randn(2, 4, 5, 6), torch.randn(2, 2, 7, 6), torch.randn(2, 2, 7, 6)
    mask = (torch.rand(2, 4, 3, 3) > 0.4).to(torch.int8)
    mask[0, 0, 1] = 0  # rows that see nothing give zeros
    given = {} if lengths is None else {"actual_seq_lengths": lengths[0], "actual_seq_lengths_kv": lengths[1]}
    rows_of, keys_of = lengths or ([5, 5], [7, 7])

    def reference(q, k, v):
        outs, sums = [], []
        for b, (r, n) in enumerate(zip(rows_of, keys_of, strict=True)):
            turn = lambda t, c, b=b: t[b, :, :c].transpose(0, 1)
            heads = [t.repeat_interleave(2, 1) for t in (turn(k, n), turn(v, n))]
            out, largest, total = attend(turn(q, r), *heads, 0.4, opened(mask[b], (2, 3), r, n))
            outs.append(torch.nn.functional.pad(out.transpose(0, 1), (0, 0, 0, 5 - r)))
            sums.append(torch.nn.functional.pad(largest + total.log(), (0, 5 - r)).unsqueeze(-1))
        return torch.stack(outs), torch.stack(sums)

    def op(q, k, v):
        return torch_npu.npu_block_sparse_attention(
            q,
            k,
            v,
            mask.to(q.device),
            [2, 3],
            q_input_layout="BNSD",
            kv_input_layout="BNSD",
            num_key_value_heads=2,
            scale_value=0.4,
            softmax_lse_flag=1,
            **given,
        )

    check(lambda *t: op(*t)[0], lambda *t: reference(*t)[0], [q, k, v])
    expected = reference(*(t.double() for t in (q, k, v)))[1]
    got = op(q.npu(), k.npu(), v.npu())[1].cpu().double()
    assert torch.equal(got == -torch.inf, expected == -torch.inf)
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


def test_blocks_of_packed_rows_and_their_gradients():
    torch.manual_seed(13)
    make = lambda *s: torch.randn(*s, dtype=torch.float64)
    q, k, v = make(5, 2, 4), make(6, 1, 4), make(6, 1, 4)
    mask = torch.tensor([[[[1, 0], [1, 1]], [[0, 1], [1, 0]]], [[[1, 1], [0, 0]], [[1, 0], [0, 0]]]]).to(torch.int8)
    leaves = [t.clone().requires_grad_() for t in (q, k, v)]
    parts, row, key = [], 0, 0
    for b, (r, n) in enumerate([(3, 4), (2, 2)]):
        cut = [t[s : s + c] for t, s, c in zip(leaves, (row, key, key), (r, n, n), strict=True)]
        heads = [t.repeat_interleave(2, 1) for t in cut[1:]]
        parts.append(attend(cut[0], *heads, 0.4, opened(mask[b], (2, 2), r, n))[0])
        row, key = row + r, key + n
    out = torch.cat(parts)
    grad = torch.randn_like(out)
    expected = torch.autograd.grad(out, leaves, grad)
    lists = {"actual_seq_lengths": [3, 2], "actual_seq_lengths_kv": [4, 2]}
    args = [t.npu() for t in (q, k, v, mask)]
    got, lse = torch_npu.npu_block_sparse_attention(*args, [2, 2], scale_value=0.4, **lists)
    torch.testing.assert_close(got.cpu(), out.detach())
    assert lse.numel() == 0
    made = torch_npu.npu_block_sparse_attention_backward(
        grad.npu(), *args[:3], got, lse, args[3], [2, 2], [3, 2], [4, 2], "TND", "TND", 1, 0.4
    )
    for g, e in zip(made, expected, strict=True):
        torch.testing.assert_close(g.cpu(), e)


def floyd(q, k1, v1, k2, v2, mask=None, scale=0.5):
    s = (torch.einsum("bhnmd,bhnkd->bhnmk", q, k1) + torch.einsum("bhnmd,bhkmd->bhnmk", q, k2)) * scale
    if mask is not None:
        s = s.masked_fill(mask.bool(), -torch.inf)
    p = s.softmax(-1)
    out = torch.einsum("bhnmk,bhnkd->bhnmd", p, v1) + torch.einsum("bhnmk,bhkmd->bhnmd", p, v2)
    largest = s.amax(-1, keepdim=True)
    return largest.expand(*s.shape[:-1], 8), (s - largest).exp().sum(-1, keepdim=True).expand(*s.shape[:-1], 8), out


@pytest.mark.parametrize("masked", [False, True])
def test_two_sets_of_keys(masked):
    torch.manual_seed(14)
    b, h, n, m, k, d = 2, 3, 2, 3, 5, 4
    given = [torch.randn(b, h, n, m, d), *(torch.randn(b, h, n, k, d) for _ in range(2))]
    given += [torch.randn(b, h, k, m, d) for _ in range(2)]
    mask = torch.rand(b, 1, n, 1, k) > 0.7 if masked else None
    if masked:
        mask[..., 0] = False
    named = lambda t: {"atten_mask": None if mask is None else mask.to(t.device), "scale_value": 0.5}
    op = lambda *t: torch_npu.npu_fused_floyd_attention(*t, **named(t[0]))
    check(lambda *t: op(*t)[2], lambda *t: floyd(*t, mask)[2], given)
    wide = [t.double() for t in given]
    for g, e in zip(op(*(t.npu() for t in given)), floyd(*wide, mask), strict=True):
        assert_close(g, e, torch.float32, "floyd")
    leaves = [t.requires_grad_() for t in wide]
    largest, total, out = floyd(*leaves, mask)
    grad = torch.randn_like(out)
    expected = torch.autograd.grad(out, leaves, grad)
    args = [t.detach().npu() for t in (grad, *leaves, out, largest, total)]
    for g, e in zip(torch_npu.npu_fused_floyd_attention_backward(*args, **named(args[0])), expected, strict=True):
        torch.testing.assert_close(g.cpu(), e)


def test_what_does_not_fit_is_refused():
    o = {n: t.npu() for n, t in operands().items()}
    index = torch.zeros(2, 3, 1, 2).int().npu()
    op = torch_npu.npu_sparse_flash_attention
    with pytest.raises(ValueError, match="attention_mode 2 goes with query_rope and key_rope"):
        op(o["q"], o["k"], o["v"], index, 1.0, attention_mode=2)
    with pytest.raises(RuntimeError, match="sparse_indices must have 3 in dimension 1, got 2"):
        op(o["q"], o["k"], o["v"], index[:, :2], 1.0)
    with pytest.raises(RuntimeError, match="sparse_indices must be torch.int32 or torch.int64, got torch.float32"):
        op(o["q"], o["k"], o["v"], index.float(), 1.0)
    with pytest.raises(ValueError, match="sparse_block_size is 0"):
        op(o["q"], o["k"], o["v"], index, 1.0, sparse_block_size=0)
    q, mask = torch.randn(1, 2, 4, 4).npu(), torch.ones(1, 2, 2, 2).char().npu()
    block = torch_npu.npu_block_sparse_attention
    with pytest.raises(RuntimeError, match="num_key_value_heads is 1, key has 2 heads"):
        block(q, q, q, mask, [2, 2], q_input_layout="BNSD", kv_input_layout="BNSD")
    named = {"q_input_layout": "BNSD", "kv_input_layout": "BNSD", "num_key_value_heads": 2}
    with pytest.raises(RuntimeError, match="block_sparse_mask must have 4 in dimension 2, got 2"):
        block(q, q, q, mask, [1, 2], **named)
    with pytest.raises(ValueError, match="actual_seq_lengths and actual_seq_lengths_kv go together"):
        block(q, q, q, mask, [2, 2], actual_seq_lengths=[4], **named)
    with pytest.raises(RuntimeError, match="value_ij must have 4 in dimension 3, got 3"):
        five = torch.randn(1, 1, 2, 4, 3).npu()
        torch_npu.npu_fused_floyd_attention(five, five, five[:, :, :, :3], five, five)

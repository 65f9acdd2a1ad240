"""Native sparse attention: compressed keys, attention that scores blocks, and attention over the best blocks."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from tests.npu_ops.compare import assert_close, check
from tests.references.chosen_keys import attend, counts


def compressed(x, w, block, stride, lengths):
    outs, row = [], 0
    for n in lengths:
        for start in range(0, n - block + 1, stride):
            outs.append((x[row + start : row + start + block] * w.unsqueeze(-1)).sum(0))
        row += n
    return torch.stack(outs)


def test_compressed_keys_and_their_gradients():
    torch.manual_seed(21)
    x, w, ends = torch.randn(17, 2, 3), torch.randn(4, 2), [9, 12, 17]
    check(
        lambda x, w: torch_npu.npu_nsa_compress(x, w, 4, 2, actual_seq_len=ends),
        lambda x, w: compressed(x, w, 4, 2, [9, 3, 5]),
        [x, w],
    )
    leaves = [t.double().requires_grad_() for t in (x, w)]
    out = compressed(*leaves, 4, 2, [9, 3, 5])
    grad = torch.randn_like(out)
    expected = torch.autograd.grad(out, leaves, grad)
    got = torch_npu.npu_nsa_compress_grad(grad.npu(), *(t.detach().npu() for t in leaves), 4, 2, actual_seq_len=ends)
    for g, e in zip(got, expected, strict=True):
        torch.testing.assert_close(g.cpu(), e)
    assert torch_npu.npu_nsa_compress(x.npu(), w.npu(), 4, 2, actual_seq_len=[3, 5, 8, 11, 14, 17]).shape == (0, 2, 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_window_goes_into_the_cache(dtype):
    torch.manual_seed(22)
    pages, w = torch.randn(5, 4, 2, 3).to(dtype), torch.randn(4, 2).to(dtype)
    table, slots, lengths = torch.tensor([[3, 0], [4, 1], [2, 2]]), torch.tensor([5, 0, 2]), [6, 7, 3]
    cache = torch.zeros(6, 2, 3, dtype=dtype).npu()
    out = torch_npu.npu_nsa_compress_infer(
        pages.npu(),
        w.npu(),
        slots.int().npu(),
        4,
        2,
        4,
        block_table=table.int().npu(),
        actual_seq_len=lengths,
        cache=cache,
    )
    assert out is cache
    expected = torch.zeros(6, 2, 3, dtype=torch.float64)
    rows = pages[table[0]].flatten(0, 1).double()
    expected[5] = (rows[2:6] * w.double().unsqueeze(-1)).sum(0)  # 6 = 4 + 2; 7 and 3 fill no window
    assert_close(cache, expected, dtype, "cache")


def shares(p, block, stride, select, blocks):
    """Of p [.., keys], by its definition."""
    a, b = select // stride, block // stride
    out = torch.zeros(*p.shape[:-1], blocks, dtype=p.dtype)
    for j in range(blocks):
        for m in range(a):
            for n in range(b):
                if 0 <= a * j - m - n < p.shape[-1]:
                    out[..., j] += p[..., a * j - m - n]
    return out


def weights(q, k, scale, hidden=None):
    s = torch.einsum("rhd,khd->hrk", q, k.repeat_interleave(q.shape[1] // k.shape[1], 1)) * scale
    return (s if hidden is None else s.masked_fill(hidden, -torch.inf)).softmax(-1)


def test_attention_over_compressed_keys():
    torch.manual_seed(23)
    rows, keys, blocks = [3, 2], [6, 4], [4, 3]
    q, k, v = torch.randn(5, 4, 6), torch.randn(10, 2, 6), torch.randn(10, 2, 5)
    mask = torch.rand(3, 6) > 0.7
    mask[:, 0] = False
    lists = {"actual_seq_qlen": [3, 5], "actual_cmp_seq_kvlen": [6, 10], "actual_sel_seq_kvlen": [4, 7]}
    kwargs = {"scale_value": 0.4, "head_num": 4, "compress_block_size": 4, "compress_stride": 2, "select_block_size": 8}

    def parts(q, k, v):
        row = key = 0
        for r, n in zip(rows, keys, strict=True):
            yield q[row : row + r], k[key : key + n], v[key : key + n], mask[:r, :n]
            row, key = row + r, key + n

    def reference(q, k, v):
        return torch.cat([attend(q, k, v, 0.4, (~m).double().expand(2, *m.shape))[0] for q, k, v, m in parts(q, k, v)])

    def op(q, k, v):
        return torch_npu.npu_nsa_compress_attention(
            q, k, v, atten_mask=mask.to(q.device), select_block_count=3, **kwargs, **lists
        )

    check(lambda *t: op(*t)[0], reference, [q, k, v])
    out, index, largest, total = op(q.npu(), k.npu(), v.npu())
    assert index.shape == (5, 2, 3) and index.dtype == torch.int32 and largest.shape == total.shape == (5, 4, 8)
    row = 0
    for (q_, k_, v_, m_), r, b in zip(parts(q.double(), k.double(), v.double()), rows, blocks, strict=True):
        score = shares(weights(q_, k_, 0.4, m_), 4, 2, 8, b).unflatten(0, (2, 2)).sum(1)
        got = index[row : row + r].cpu().long().transpose(0, 1)
        # Equal scores may come in either order.
        torch.testing.assert_close(score.gather(-1, got), score.topk(3, -1).values, rtol=1e-5, atol=1e-6)
        sums = attend(q_, k_, v_, 0.4, (~m_).double().expand(2, *m_.shape))
        for g, e in ((largest, sums[1]), (total, sums[2])):
            assert_close(g[row : row + r, :, 3], e.T, torch.float32, "sums")
        row += r
    few = torch_npu.npu_nsa_compress_attention(q.npu(), k.npu(), v.npu(), select_block_count=6, **kwargs, **lists)[1]
    assert (few[:3, :, 4:] == -1).all() and (few[3:, :, 3:] == -1).all() and (few[:3, :, :4] >= 0).all()


def test_attention_over_the_best_blocks_and_its_gradients():
    torch.manual_seed(24)
    rows, keys = [3, 2], [6, 5]
    q, k, v = torch.randn(5, 4, 6), torch.randn(11, 2, 6), torch.randn(11, 2, 5)
    chosen = torch.tensor([[[0, 2], [1, 0]], [[2, -1], [0, 1]], [[1, 2], [1, 0]], [[0, 1], [2, -1]], [[1, 0], [0, 2]]])

    def reference(q, k, v):
        outs, row, key = [], 0, 0
        for r, n in zip(rows, keys, strict=True):
            count = counts(chosen[row : row + r], n, 2, r, causal=False)
            outs.append(attend(q[row : row + r], k[key : key + n], v[key : key + n], 0.4, count))
            row, key = row + r, key + n
        return [torch.cat([o[0] for o in outs]), *(torch.cat([o[i] for o in outs], 1).T for i in (1, 2))]

    named = {"actual_seq_qlen": [3, 5], "actual_seq_kvlen": [6, 11]}
    op = lambda *t: torch_npu.npu_nsa_select_attention(*t, chosen.int().to(t[0].device), 0.4, 4, 2, 2, **named)
    check(lambda *t: op(*t)[0], lambda *t: reference(*t)[0], [q, k, v])
    got, expected = op(q.npu(), k.npu(), v.npu()), reference(q.double(), k.double(), v.double())
    for g, e in zip(got[1:], expected[1:], strict=True):
        assert g.shape == (5, 4, 8)
        assert_close(g[..., 7], e, torch.float32, "sums")
    leaves = [t.double().requires_grad_() for t in (q, k, v)]
    out, largest, total = reference(*leaves)
    grad = torch.randn_like(out)
    wanted = torch.autograd.grad(out, leaves, grad)
    eight = [t.unsqueeze(-1).expand(5, 4, 8) for t in (largest, total)]
    args = [t.detach().npu() for t in (grad, *leaves, out, *eight)]
    made = torch_npu.npu_nsa_select_attention_grad(*args, chosen.int().npu(), 0.4, 4, 2, 2, **named)
    for g, e in zip(made, wanted, strict=True):
        torch.testing.assert_close(g.cpu(), e)


@pytest.mark.parametrize("layout", ["TND", "BSND"])
def test_one_query_over_pages(layout):
    torch.manual_seed(25)
    table, lengths = torch.tensor([[3, 0], [4, 1]]), [7, 5]
    q, k, v = torch.randn(2, 4, 6), torch.randn(5, 4, 2, 6), torch.randn(5, 4, 2, 3)
    query = q if layout == "TND" else q.unsqueeze(1)
    pages = {"block_table": table.int().npu(), "layout": layout}
    out, index = torch_npu.npu_nsa_compress_attention_infer(
        query.npu(), k.flatten(2).npu(), v.npu(), 0.4, 4, 2, 8, 2, 4, 4, 2, actual_cmp_seq_kvlen=lengths, **pages
    )
    chosen = torch.tensor([[[0, 2], [1, -1]], [[1, 0], [2, 0]]]).int()
    named = chosen if layout == "TND" else chosen.unsqueeze(1)
    selected = torch_npu.npu_nsa_select_attention_infer(
        query.npu(), k.npu(), v.flatten(2).npu(), named.npu(), 0.4, 4, 2, 3, 2, 4, actual_seq_kvlen=lengths, **pages
    )
    assert out.shape == selected.shape == (*query.shape[:-1], 3) and index.shape == (*query.shape[:-2], 2, 2)
    for b, n in enumerate(lengths):
        keys, values = (t[table[b]].flatten(0, 1)[:n].double() for t in (k, v))
        row = q[b : b + 1].double()
        all_of = attend(row, keys, values, 0.4, torch.ones(2, 1, n, dtype=torch.float64))[0]
        assert_close(out.reshape(2, 4, 3)[b], all_of[0], torch.float32, "compressed")
        blocks = ((n - 1) * 2 + 4 + 7) // 8
        score = shares(weights(row, keys, 0.4), 4, 2, 8, blocks).unflatten(0, (2, 2)).sum(1)[:, 0]
        got = index.reshape(2, 2, 2)[b].cpu().long()
        torch.testing.assert_close(score.gather(-1, got), score.topk(2, -1).values, rtol=1e-5, atol=1e-6)
        some = attend(row, keys, values, 0.4, counts(chosen[b : b + 1], n, 3, 1, causal=False))[0]
        assert_close(selected.reshape(2, 4, 3)[b], some[0], torch.float32, "selected")


def test_what_does_not_fit_is_refused():
    x, w = torch.randn(6, 2, 3).npu(), torch.randn(4, 2).npu()
    with pytest.raises(ValueError, match="actual_seq_len is needed"):
        torch_npu.npu_nsa_compress(x, w, 4, 2)
    with pytest.raises(ValueError, match="actual_seq_len ends with 5, rows are 6"):
        torch_npu.npu_nsa_compress(x, w, 4, 2, actual_seq_len=[5])
    with pytest.raises(
        RuntimeError, match="weight must have 4 in dimension 0, got 3|weight must have 3 in dimension 0, got 4"
    ):
        torch_npu.npu_nsa_compress(x, w, 3, 2, actual_seq_len=[6])
    q = torch.randn(6, 4, 3).npu()
    lists = {"actual_seq_qlen": [6], "actual_cmp_seq_kvlen": [6], "actual_sel_seq_kvlen": [2]}
    with pytest.raises(ValueError, match="head_num is 2, query has 4 heads"):
        torch_npu.npu_nsa_compress_attention(q, x, x, 1.0, 2, 4, 2, 4, 1, **lists)
    with pytest.raises(ValueError, match="blocks of 4 every 3"):
        torch_npu.npu_nsa_compress_attention(q, x, x, 1.0, 4, 4, 3, 4, 1, **lists)
    with pytest.raises(NotImplementedError, match="topk_mask is not implemented"):
        torch_npu.npu_nsa_compress_attention(
            q, x, x, 1.0, 4, 4, 2, 4, 1, topk_mask=torch.ones(6, 2).bool().npu(), **lists
        )
    with pytest.raises(NotImplementedError, match="several queries of a sequence"):
        torch_npu.npu_nsa_select_attention_infer(
            torch.randn(2, 2, 4, 6).npu(),
            torch.randn(3, 4, 2, 6).npu(),
            torch.randn(3, 4, 2, 3).npu(),
            torch.zeros(2, 2, 2, 1).int().npu(),
            1.0,
            4,
            2,
            2,
            1,
            4,
            block_table=torch.zeros(2, 1).int().npu(),
            actual_seq_kvlen=[2, 3],
        )

"""The indexer of sparse attention: the best keys of a row, and the loss that it is trained with."""

from __future__ import annotations

import functools

import pytest
import torch

import torch_npu
from tests.npu_ops.compare import assert_close
from tests.references import hifloat8
from tests.references.indexer import best, ends, scores, softmax_of


def sequences(lengths, heads=4, columns=6, dtype=torch.float32):
    torch.manual_seed(4)
    make = lambda n, *s: torch.randn(n, *s).to(dtype)
    return [(make(r, heads, columns), make(k, columns), make(r, heads)) for r, k in lengths]


LENGTHS = [(3, 5), (4, 7), (1, 2)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("mode", [0, 3])
def test_best_keys_of_packed_sequences(dtype, mode):
    parts = sequences(LENGTHS, dtype=dtype)
    q, k, w = (torch.cat(t) for t in zip(*parts, strict=True))
    index, values = torch_npu.npu_lightning_indexer(
        q.npu(),
        k.unsqueeze(1).npu(),
        w.npu(),
        actual_seq_lengths_query=ends([r for r, _ in LENGTHS]).npu(),
        actual_seq_lengths_key=ends([n for _, n in LENGTHS]).npu(),
        layout_query="TND",
        layout_key="TND",
        sparse_count=4,
        sparse_mode=mode,
        return_value=True,
    )
    assert index.shape == values.shape == (8, 1, 4) and index.dtype == torch.int32 and values.dtype == dtype
    expected = [best(scores(*(t.double() for t in part), mode == 3), 4) for part in parts]
    wanted_index, wanted = (torch.cat(t) for t in zip(*expected, strict=True))
    kept = wanted_index >= 0
    assert torch.equal(index.squeeze(1).cpu() >= 0, kept)
    assert_close(values.squeeze(1).cpu()[kept], wanted[kept], dtype, "values")
    assert (values.squeeze(1).cpu()[~kept] == -torch.inf).all()
    if dtype == torch.float32:
        assert torch.equal(index.squeeze(1).cpu(), wanted_index)


def test_best_keys_of_batches_and_pages():
    parts = sequences([(3, 8), (3, 8)])
    q, k, w = (torch.stack(t).npu() for t in zip(*parts, strict=True))
    lengths = torch.tensor([8, 5]).int().npu()
    index, values = torch_npu.npu_lightning_indexer(
        q, k.unsqueeze(2), w, actual_seq_lengths_key=lengths, sparse_count=6
    )
    assert values.numel() == 0 and index.shape == (2, 3, 1, 6)
    for b, length in enumerate([8, 5]):
        expected = best(scores(*(t.double() for t in (parts[b][0], parts[b][1][:length], parts[b][2]))), 6)[0]
        assert torch.equal(index[b, :, 0].cpu(), expected)
    # The same keys in pages of four, in another order.
    pages = torch.zeros(5, 4, 1, 6).npu()
    table = torch.tensor([[3, 0], [4, 1]]).int().npu()
    for b in range(2):
        for i in range(2):
            pages[int(table[b, i])] = k[b, 4 * i : 4 * i + 4].unsqueeze(1)
    kwargs = {"actual_seq_lengths_key": lengths, "block_table": table, "layout_key": "PA_BSND", "sparse_count": 6}
    paged, _ = torch_npu.npu_lightning_indexer(q, pages, w, **kwargs)
    assert torch.equal(paged, index)
    packed, _ = torch_npu.npu_lightning_indexer(
        q.flatten(0, 1),
        pages,
        w.flatten(0, 1),
        actual_seq_lengths_query=torch.tensor([3, 6]).int().npu(),
        layout_query="TND",
        **kwargs,
    )
    assert torch.equal(packed, index.flatten(0, 1))


def test_the_gradients_of_the_scores():
    parts = sequences([(3, 5), (3, 5)])
    q, k, w = (torch.stack(t).double() for t in zip(*parts, strict=True))
    leaves = [t.npu().requires_grad_() for t in (q, k.unsqueeze(2), w)]
    index, values = torch_npu.npu_lightning_indexer(*leaves, sparse_count=4, return_value=True)
    seen = index.cpu() >= 0
    dy = torch.randn(values.shape, dtype=torch.float64)
    torch.where(index >= 0, values, 0).backward(dy.npu())
    theirs = [t.clone().requires_grad_() for t in (q, k, w)]
    rows = torch.stack([scores(*(t[b] for t in theirs), False) for b in range(2)])
    chosen = rows.gather(-1, index.squeeze(2).clamp_min(0).cpu().long())
    expected = torch.autograd.grad((chosen * dy.squeeze(2) * seen.squeeze(2)).sum(), theirs)
    got = torch_npu.npu_lightning_indexer_grad(*(t.detach() for t in leaves[:2]), dy.npu(), index, leaves[2].detach())
    for ours, other, e in zip([t.grad for t in leaves], got, expected, strict=True):
        torch.testing.assert_close(ours.cpu().reshape(e.shape), e)
        torch.testing.assert_close(other.cpu().reshape(e.shape), e)


@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn, torch.uint8])
def test_quantized_operands(dtype):
    """hifloat8 is uint8 that is named."""
    torch.manual_seed(6)
    make = lambda *s: torch.randint(-20, 20, s).float()
    q, k, w = make(2, 3, 4, 6), make(2, 5, 1, 6), torch.randn(2, 3, 4)
    sq, sk = torch.rand(2, 3, 4), torch.rand(2, 5, 1)
    codes = dtype == torch.uint8
    stored = [hifloat8.codes(t) if codes else t.to(dtype) for t in (q, k)]
    named = {"query_dtype": torch_npu.hifloat8, "key_dtype": torch_npu.hifloat8} if codes else {}
    call = functools.partial(torch_npu.npu_quant_lightning_indexer, sparse_count=3)
    operands = (*stored, w, sq, sk)
    index = call(*(t.npu() for t in operands), 0, 0, **named)
    assert call(*(t.to("meta") for t in operands), 0, 0, **named).shape == index.shape
    if codes:
        with pytest.raises(RuntimeError, match="key is uint8, which is read as hifloat8 where key_dtype is torch_npu"):
            call(*(t.npu() for t in operands), 0, 0, query_dtype=torch_npu.hifloat8)
    rounded = [hifloat8.values(t) if codes else t.double() for t in stored]
    for b in range(2):
        s = scores(rounded[0][b] * sq[b].unsqueeze(-1), (rounded[1] * sk.unsqueeze(-1))[b, :, 0], w[b].double())
        assert torch.equal(index[b, :, 0].cpu(), best(s, 3)[0])


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_loss_and_its_gradients(packed, sparse):
    torch.manual_seed(8)
    lengths, heads = [(3, 5), (3, 5)], 4
    make = lambda *s: torch.randn(*s, dtype=torch.float64)
    q, k, rope_q, rope_k = make(2, 3, heads, 6), make(2, 5, heads, 6), make(2, 3, heads, 2), make(2, 5, heads, 2)
    qi, ki, w = make(2, 3, 2, 4), make(2, 5, 1, 4), make(2, 3, 2)
    indices = torch.tensor([[0, 2], [3, 1], [4, 0]]).int().expand(2, 3, 2)
    leaves = [t.clone().requires_grad_() for t in (qi, ki, w)]
    total, largest, sums = 0, [], []
    for b in range(2):
        p, m, s = softmax_of(torch.cat([q[b], rope_q[b]], -1), torch.cat([k[b], rope_k[b]], -1), 0.4)
        largest.append(m)
        sums.append(s)
        index = scores(leaves[0][b], leaves[1][b, :, 0], leaves[2][b])
        mass = p.sum(0)
        if sparse:
            named = torch.zeros(3, 5).scatter_(1, indices[b].long(), 1.0) > 0
            index, mass = index.masked_fill(~named, -torch.inf), mass * named
        mass = mass / mass.sum(-1, keepdim=True)
        log = index.log_softmax(-1)
        total = (
            total
            + torch.where(mass > 0, mass * (mass.clamp_min(1e-300).log() - torch.where(mass > 0, log, 0)), 0).sum()
        )
    expected = torch.autograd.grad(total, leaves)
    maxima, total_sums = (torch.stack(t).unsqueeze(-1) for t in (largest, sums))  # [batch, heads, rows, 1]
    operands = [t.npu() for t in (q, k, qi, ki, w)]
    if packed:
        operands = [t.flatten(0, 1) for t in operands]
        maxima, total_sums = (t.transpose(0, 1).flatten(1, 2) for t in (maxima, total_sums))
        rope_q, rope_k, indices = (t.flatten(0, 1) for t in (rope_q, rope_k, indices))
    kwargs = {"query_rope": rope_q.npu(), "key_rope": rope_k.npu(), "layout": "TND" if packed else "BSND"}
    listed = {"actual_seq_qlen": [3, 6], "actual_seq_klen": [5, 10]} if packed else {}
    numbers = [maxima.npu(), total_sums.npu()]
    if sparse:
        named = indices.unsqueeze(-2).contiguous().npu()
        got = torch_npu.npu_sparse_lightning_indexer_grad_kl_loss(*operands, named, *numbers, 0.4, **kwargs, **listed)
    else:
        index_sums = torch_npu.npu_dense_lightning_indexer_softmax_lse(*operands[2:], layout=kwargs["layout"], **listed)
        assert index_sums[0].shape == ((1, 6) if packed else (2, 1, 3))
        got = torch_npu.npu_dense_lightning_indexer_grad_kl_loss(
            *operands, *numbers, *index_sums, 0.4, **kwargs, **listed
        )
    assert len(lengths) == 2 and got[3].shape == (1,)
    torch.testing.assert_close(got[3].cpu().double(), total.detach().reshape(1), rtol=1e-5, atol=1e-5)
    for g, e in zip(got, expected, strict=False):
        torch.testing.assert_close(g.cpu().reshape(e.shape), e)


def test_what_does_not_fit_is_refused():
    q, k, w = torch.randn(2, 3, 4, 6).npu(), torch.randn(2, 5, 1, 6).npu(), torch.randn(2, 3, 4).npu()
    index = torch_npu.npu_lightning_indexer
    with pytest.raises(RuntimeError, match="npu_lightning_indexer: weights must have 4 in dimension 2, got 3"):
        index(q, k, w[..., :3])
    with pytest.raises(RuntimeError, match="key has 5 columns, not the 6 of query"):
        index(q, k[..., :5], w)
    with pytest.raises(NotImplementedError, match="sparse_mode 4 is not implemented"):
        index(q, k, w, sparse_mode=4)
    with pytest.raises(NotImplementedError, match="pre_tokens and next_tokens"):
        index(q, k, w, pre_tokens=3)
    with pytest.raises(ValueError, match="the queries' lengths are needed with TND|the keys' lengths are needed"):
        index(q[0], k[0], w[0], layout_query="TND", layout_key="TND")
    with pytest.raises(ValueError, match="block_table goes with keys of PA_BSND"):
        index(q, k, w, layout_key="PA_BSND")
    with pytest.raises(RuntimeError, match="must have one type"):
        index(q, k.half(), w)
    with pytest.raises(ValueError, match="sparse_count is 0"):
        index(q, k, w, sparse_count=0)

"""Experts of inference and of Megatron: gating in groups, rows by expert, maps of tokens and experts, rows of ranks."""

from __future__ import annotations

import math

import pytest
import torch

import torch_npu
from tests.npu_ops.compare import check


def gate(x, k, bias=None, k_group=1, group_count=1, group_select_mode=0, renorm=0, norm_type=0, factor=1.0, eps=1e-20):
    norm = [lambda t: t.softmax(-1), torch.sigmoid, lambda t: torch.nn.functional.softplus(t).sqrt()][norm_type](x)
    ranked = norm.detach() if bias is None else norm.detach() + bias
    if group_count > 1:
        groups = ranked.reshape(len(x), group_count, -1)
        score = groups.amax(-1) if group_select_mode == 0 else groups.topk(2)[0].sum(-1)
        hidden = torch.ones_like(score, dtype=torch.bool).scatter(1, score.topk(k_group)[1], False)
        ranked = groups.masked_fill(hidden.unsqueeze(-1), -torch.inf).reshape(x.shape)
    chosen = ranked.topk(k)[1]
    y = norm.gather(1, chosen)
    if norm_type or renorm:
        y = y / (y.sum(-1, keepdim=True) + eps)
    return y * factor, chosen.int(), norm.detach()


@pytest.mark.parametrize("norm_type", [0, 1, 2])
@pytest.mark.parametrize("renorm", [0, 1])
def test_gating_and_its_gradient(norm_type, renorm):
    torch.manual_seed(1)
    x = torch.randn(5, 8).half().float()
    kwargs = {"renorm": renorm, "norm_type": norm_type, "routed_scaling_factor": 2.5}

    def reference(x, k, routed_scaling_factor, **kwargs):
        return gate(x, k, factor=routed_scaling_factor, **kwargs)

    check(torch_npu.npu_moe_gating_top_k, reference, [x, 3], kwargs, dtypes=(torch.float32, torch.float16))


@pytest.mark.parametrize("mode", [0, 1])
def test_gating_in_groups_with_a_bias(mode):
    torch.manual_seed(2)
    x, bias = torch.randn(6, 16), torch.randn(16)
    kwargs = {"bias": bias, "k_group": 2, "group_count": 4, "group_select_mode": mode, "norm_type": 1, "renorm": 0}
    check(torch_npu.npu_moe_gating_top_k, gate, [x, 4], kwargs, dtypes=[torch.float32], gradient=False)


def test_gating_by_a_table():
    x, ids, table = torch.randn(3, 6), torch.tensor([2, 0, 1]), torch.tensor([[0, 1], [2, 3], [4, 5]])
    y, experts, _ = torch_npu.npu_moe_gating_top_k(
        x.npu(), 2, input_ids=ids.npu(), tid2eid=table.npu(), norm_type=1, out_flag=True
    )
    chosen = table[ids]
    weights = x.sigmoid().gather(1, chosen)
    assert torch.equal(experts.cpu().long(), chosen)
    torch.testing.assert_close(y.cpu(), weights / weights.sum(1, keepdim=True))


def pairs(experts, first, end):
    flat = experts.flatten()
    order = [i for e in range(first, end) for i in range(len(flat)) if flat[i] == e]
    return order, [int(sum(flat == e)) for e in range(first, end)]


@pytest.mark.parametrize("first, end", [(0, 5), (1, 4)])
@pytest.mark.parametrize("kind", [0, 1, 2])
def test_rows_by_expert(first, end, kind):
    torch.manual_seed(3)
    x, experts, scale = torch.randn(4, 6), torch.randint(0, 5, (4, 3), dtype=torch.int32), torch.rand(4)
    order, counts = pairs(experts, first, end)
    rows, numbers, tokens, scales = torch_npu.npu_moe_init_routing_v2(
        x.npu(), experts.npu(), scale=scale.npu(), active_num=12, expert_num=5, expert_tokens_num_type=kind,
        expert_tokens_num_flag=True, active_expert_range=[first, end],
    )  # fmt: skip
    source = torch.tensor(order) // 3
    torch.testing.assert_close(rows.cpu()[: len(order)], x[source])
    assert not rows.cpu()[len(order) :].any() and rows.shape == (12, 6)
    torch.testing.assert_close(scales.cpu()[: len(order)], scale[source])
    expected = torch.full((12,), -1, dtype=torch.int32)
    expected[order] = torch.arange(len(order), dtype=torch.int32)
    assert torch.equal(numbers.cpu(), expected)
    if kind == 2:
        used = [[e, n] for e, n in zip(range(first, end), counts, strict=True) if n]
        assert tokens.cpu().tolist() == used + [[0, 0]] * (5 - len(used))
    else:
        assert tokens.cpu().tolist() == (counts if kind else torch.tensor(counts).cumsum(0).tolist())


def test_rows_with_a_capacity():
    x = torch.arange(8.0).reshape(4, 2)
    experts = torch.tensor([[0, 1], [0, 1], [0, 2], [0, 1]], dtype=torch.int32)
    rows, numbers, _, _ = torch_npu.npu_moe_init_routing_v2(
        x.npu(), experts.npu(), expert_capacity=2, expert_num=3, drop_pad_mode=1
    )
    zero = torch.zeros(2)
    expected = [x[0], x[1], x[0], x[1], x[2], zero]
    assert torch.equal(rows.cpu().reshape(6, 2), torch.stack(expected))
    assert numbers.cpu().tolist() == [0, 2, 1, 3, -1, 4, -1, -1]


@pytest.mark.parametrize("smooth", [None, 1, 3])
def test_rows_quantized_on_the_way(smooth):
    torch.manual_seed(4)
    x, experts = torch.randn(5, 8), torch.randint(0, 3, (5, 2), dtype=torch.int32)
    scale = None if smooth is None else torch.rand(smooth, 8) + 0.5
    order, counts = pairs(experts, 0, 3)
    value = x[torch.tensor(order) // 2]
    if smooth:
        owner = experts.flatten()[order].long()
        value = value * (scale if smooth == 1 else scale[owner])
    step = value.abs().amax(-1) / 127
    given = None if scale is None else scale.npu()
    rows, _, _, scales = torch_npu.npu_moe_init_routing_v2(
        x.npu(), experts.npu(), scale=given, expert_num=3, quant_mode=1
    )
    torch.testing.assert_close(scales.cpu(), step)
    assert torch.equal(rows.cpu(), torch.round(value / step[:, None]).to(torch.int8))
    rows, _, tokens, before, scales = torch_npu.npu_moe_init_routing_quant(
        x.npu(), experts.npu(), scale=given, active_num=0, expert_num=3, expert_tokens_num_mode=2,
        expert_tokens_before_capacity_flag=True,
    )  # fmt: skip
    assert torch.equal(rows.cpu(), torch.round(value / step[:, None]).to(torch.int8))
    assert tokens.cpu().tolist() == counts == before.cpu().tolist()


def test_rows_with_static_quantization():
    x, experts = torch.randn(3, 4) * 9, torch.tensor([[1], [0], [1]], dtype=torch.int32)
    rows, _, _, _ = torch_npu.npu_moe_init_routing_v2(
        x.npu(),
        experts.npu(),
        scale=torch.tensor([3.0]).npu(),
        offset=torch.tensor([2.0]).npu(),
        expert_num=2,
        quant_mode=0,
    )
    assert torch.equal(rows.cpu(), torch.round(x[[1, 0, 2]] * 3 + 2).clamp(-128, 127).to(torch.int8))


@pytest.mark.parametrize("dtype", [torch.float16, torch.int8])
def test_rows_of_ranks_in_the_order_of_experts(dtype):
    counts = torch.tensor([[2, 0, 1], [1, 2, 1]], dtype=torch.int32)
    tokens, scales = torch.arange(14).reshape(7, 2).to(dtype), torch.arange(7.0)
    order = [0, 1, 3, 4, 5, 2, 6]
    rows, row_scales, index, totals = torch_npu.npu_moe_re_routing(
        tokens.npu(), counts.npu(), per_token_scales=scales.npu()
    )
    assert torch.equal(rows.cpu(), tokens[order]) and torch.equal(row_scales.cpu(), scales[order])
    assert index.cpu().tolist() == order and totals.cpu().tolist() == [3, 2, 2]
    _, _, index, totals = torch_npu.npu_moe_re_routing(tokens.npu(), counts.npu(), expert_token_num_type=0, idx_type=1)
    assert index.cpu().tolist() == torch.tensor(order).argsort().tolist() and totals.cpu().tolist() == [3, 5, 7]


def routing(tokens, experts, k):
    torch.manual_seed(5)
    return torch.stack([torch.zeros(experts).scatter(0, torch.randperm(experts)[:k], 1) for _ in range(tokens)]).bool()


@pytest.mark.parametrize("with_probs", [True, False])
def test_permute_by_a_map_and_back(with_probs):
    chosen = routing(5, 4, 2)
    source = chosen.t().nonzero()[:, 1]
    places = torch.argsort(source, stable=True)

    def permute(tokens, routing_map, probs, num_out_tokens):
        return tokens[source], None if probs is None else probs.t()[chosen.t()], places.int()

    tokens, probs = torch.randn(5, 6), torch.rand(5, 4) if with_probs else None
    check(
        torch_npu.npu_moe_token_permute_with_routing_map,
        permute,
        [tokens, chosen],
        {"probs": probs, "num_out_tokens": 10},
    )

    def unpermute(rows, sorted_indices, restore_shape, probs, routing_map):
        value = rows[places].reshape(5, 2, 6)
        return (value if probs is None else value * probs[chosen].reshape(5, 2, 1)).sum(1)

    check(
        torch_npu.npu_moe_token_unpermute_with_routing_map,
        unpermute,
        [torch.randn(10, 6), places.int(), [5, 6]],
        {"probs": probs, "routing_map": chosen},
    )


@pytest.mark.parametrize("with_probs", [True, False])
def test_permute_with_a_capacity_and_back(with_probs):
    chosen = routing(5, 4, 2)
    places = chosen.t().to(torch.int8).argsort(dim=-1, descending=True, stable=True)[:, :3]
    expert = torch.arange(4).repeat_interleave(3)

    def permute(tokens, routing_map, probs, num_out_tokens, drop_and_pad):
        at = places.flatten()
        return tokens[at], None if probs is None else probs[at, expert], at.int()

    probs = torch.rand(5, 4) if with_probs else None
    kwargs = {"probs": probs, "num_out_tokens": 12, "drop_and_pad": True}
    check(torch_npu.npu_moe_token_permute_with_routing_map, permute, [torch.randn(5, 6), chosen], kwargs)

    def unpermute(rows, sorted_indices, restore_shape, probs, routing_map, drop_and_pad):
        at = places.flatten()
        value = rows if probs is None else rows * probs[at, expert].unsqueeze(1)
        return torch.zeros(5, 6, dtype=rows.dtype).index_add(0, at, value)

    kwargs = {"probs": probs, "routing_map": chosen, "drop_and_pad": True}
    args = [torch.randn(12, 6), places.flatten().int(), [5, 6]]
    check(torch_npu.npu_moe_token_unpermute_with_routing_map, unpermute, args, kwargs)


def test_gradients_by_sizes():
    indices = torch.tensor([[0, 1], [1, 2], [2, 0]])
    places = torch.argsort(torch.argsort(indices.flatten(), stable=True)).int()
    rows = torch.randn(6, 4)
    got = torch_npu.npu_moe_token_permute_grad_v2(rows.npu(), places.npu(), 3, torch.float32, 2)
    torch.testing.assert_close(got.cpu(), rows[places.long()].reshape(3, 2, 4).sum(1))
    grad, probs = torch.randn(3, 4), torch.rand(3, 2)
    d, dp = torch_npu.npu_moe_token_unpermute_grad_v2(
        grad.npu(), places.npu(), 6, torch.float32, probs.npu(), permuted_tokens=rows.npu()
    )
    expected = torch.zeros(6, 4).index_copy(0, places.long(), (grad.unsqueeze(1) * probs.unsqueeze(2)).reshape(6, 4))
    torch.testing.assert_close(d.cpu(), expected)
    torch.testing.assert_close(dp.cpu(), (grad.unsqueeze(1) * rows[places.long()].reshape(3, 2, 4)).sum(-1))


@pytest.mark.parametrize("mode", [0, 1])
def test_copies_of_experts(mode):
    table = torch.tensor([[1, 5, 0], [2, 1, 3], [2, 4, 2]], dtype=torch.int32)
    ids = torch.tensor([[0, 1], [1, 2], [2, 1]], dtype=torch.int32)
    scales, threshold = torch.tensor([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]]), torch.tensor([0.3, 0.3])
    active, rank, world = torch.tensor([True, True, False]), 5, 6
    got, mask = torch_npu.npu_moe_update_expert(
        ids.npu(), table.npu(), expert_scales=scales.npu(), pruning_threshold=threshold.npu(), active_mask=active.npu(),
        local_rank_id=rank, world_size=world, balance_mode=mode,
    )  # fmt: skip

    def place(token, expert):
        count = int(table[expert, 0])
        return int(table[expert, 1 + (token % count if mode else rank // math.ceil(world / count))])

    assert got.cpu().tolist() == [[place(i, e) for e in row] for i, row in enumerate(ids.tolist())]
    assert mask.cpu().tolist() == [[True, False], [True, True], [False, False]]


def test_refusals():
    x, experts = torch.randn(4, 6).npu(), torch.zeros(4, 2, dtype=torch.int32).npu()
    with pytest.raises(NotImplementedError, match="quant_mode 3 is not implemented"):
        torch_npu.npu_moe_init_routing_v2(x, experts, expert_num=2, quant_mode=3)
    with pytest.raises(RuntimeError, match="static quantization needs scale and offset"):
        torch_npu.npu_moe_init_routing_v2(x, experts, expert_num=2, quant_mode=0)


def test_a_scale_of_rows_that_was_not_given_is_zero():
    x, experts = torch.ones(64, 6).npu(), torch.zeros(64, 2, dtype=torch.int32).npu()
    for _ in range(3):
        dirty = torch.full((128,), 7.0).npu()
        torch.npu.synchronize()
        del dirty
        scales = torch_npu.npu_moe_init_routing_v2(x, experts, expert_num=1)[3]
        assert not scales.cpu().any()


def test_what_the_way_back_to_tokens_returns():
    """The fourth result is in the order of the rows; a negative index is a pair without a row."""
    routing_map = torch.tensor([[1, 1, 0], [0, 1, 1], [1, 0, 1], [0, 1, 1]]).bool()
    torch.manual_seed(6)
    probs, x = torch.rand(4, 3), torch.randn(4, 6)
    rows, _, places = torch_npu.npu_moe_token_permute_with_routing_map(x.npu(), routing_map.npu(), num_out_tokens=8)
    op = torch.ops.npu._npu_moe_token_unpermute_with_routing_map
    out, _, _, weights = op(rows, places, [4, 6], probs=probs.npu(), routing_map=routing_map.npu())
    torch.testing.assert_close(weights.cpu(), probs.t().masked_select(routing_map.t()))
    torch.testing.assert_close(out.cpu(), x * (probs * routing_map).sum(1, keepdim=True))

    lost = places.cpu().clone()
    lost[3] = -1  # the second pair of token 1: expert 2
    leaf, weight = rows.detach().requires_grad_(), probs.npu().requires_grad_()
    out = torch_npu.npu_moe_token_unpermute_with_routing_map(
        leaf, lost.npu(), [4, 6], probs=weight, routing_map=routing_map.npu()
    )
    kept = routing_map.clone()
    kept[1, 2] = False
    torch.testing.assert_close(out.cpu(), x * (probs * kept).sum(1, keepdim=True))
    out.sum().backward()
    row = places.cpu()[3]
    assert not leaf.grad.cpu()[row].any() and leaf.grad.cpu()[torch.arange(8) != row].all()
    torch.testing.assert_close(weight.grad.cpu(), x.sum(1, keepdim=True) * kept)

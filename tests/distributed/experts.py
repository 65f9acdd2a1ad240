"""What ranks run for experts on several ranks (torch_npu.npu_moe_distribute_dispatch and combine).

Each rank makes the tokens of all ranks and knows from them which rows it must get, and what must come back.
"""

from __future__ import annotations

import re

import torch

import torch_npu
from tests.distributed.fused import integers, name_of
from tests.distributed.programs import DEVICE, equal
from tests.references.hifloat8 import codes

H, K = 8, 2
HIF8 = torch_npu.hifloat8


def choices(rank: int, tokens: int, experts: int, k: int = K, seed: int = 0) -> torch.Tensor:
    """Distinct experts for each token."""
    generator = torch.Generator().manual_seed(31 * seed + rank)
    return torch.stack([torch.randperm(experts, generator=generator)[:k] for _ in range(tokens)]).int()


def weights(rank: int, tokens: int, k: int = K) -> torch.Tensor:
    return (torch.arange(tokens * k).reshape(tokens, k) % 3 + 1 + rank) / 4


def rows_of(rank: int, per: int, ids: list[torch.Tensor], first: int = 0) -> list[tuple[int, int, int]]:
    """(rank, token, choice) of the rows that `rank` gets, expert by expert."""
    mine = range((rank - first) * per, (rank - first + 1) * per)
    return [(r, t, k) for e in mine for r in range(len(ids)) for t in range(len(ids[r])) for k in range(ids[r].shape[1])
            if ids[r][t, k] == e]  # fmt: skip


def there_and_back(rank: int, size: int, first: bool, dtype: torch.dtype) -> None:
    """Each expert multiplies by its number plus one."""
    group, tokens, experts = name_of(), 5, 2 * size
    x = [integers(r, tokens, H) for r in range(size)]
    ids, scales = [choices(r, tokens, experts) for r in range(size)], [weights(r, tokens) for r in range(size)]
    place = (group, size, rank, experts)
    dispatch = torch_npu.npu_moe_distribute_dispatch if first else torch_npu.npu_moe_distribute_dispatch_v2
    combine = torch_npu.npu_moe_distribute_combine if first else torch_npu.npu_moe_distribute_combine_v2
    rows, _, places, counts, ends, tp, given = dispatch(
        x[rank].to(dtype).npu(), ids[rank].npu(), *place, expert_scales=scales[rank].npu(), tp_world_size=1
    )
    mine = rows_of(rank, 2, ids)
    assert rows.shape == (size * tokens * K, H) and tp.shape == (1,)
    equal("rows", rows[: len(mine)], torch.stack([x[r][t] for r, t, _ in mine]).to(dtype))
    equal("weights", given[: len(mine)], torch.stack([scales[r][t, k] for r, t, k in mine]))
    per = [
        [sum(int(ids[r][t, k]) == 2 * rank + e for t in range(tokens) for k in range(K)) for r in range(size)]
        for e in (0, 1)
    ]
    equal("counts", counts, torch.tensor([sum(c) for c in per]))
    equal("ends", ends[: 2 * size], torch.tensor(per).flatten().cumsum(0).int())
    if first:
        flat = ids[rank].flatten().tolist()
        equal("places", places, torch.tensor([flat[:i].count(e) for i, e in enumerate(flat)]).int())
    else:
        equal("places", places.view(-1, 128)[: len(mine), :3], torch.tensor(mine).int())

    factor = torch.cat([torch.full((int(n), 1), 2.0 * rank + e + 1) for e, n in enumerate(counts.tolist())])
    results = rows.clone()
    results[: len(mine)] *= factor.to(dtype).npu()
    out = combine(results, ids[rank].npu(), places, ends, scales[rank].npu(), *place, expand_scales=given)
    want = x[rank] * (scales[rank] * (ids[rank] + 1)).sum(1, keepdim=True)
    torch.testing.assert_close(out.cpu(), want.to(dtype), rtol=1e-2, atol=1e-2)


def combined(
    rank: int, size: int, sent: tuple, ids: torch.Tensor, factors: torch.Tensor, experts: int, **more
) -> torch.Tensor:
    """What comes back of rows that the experts leave as they are."""
    rows, _, places, _, ends, _, _ = sent
    return torch_npu.npu_moe_distribute_combine_v2(
        rows, ids.npu(), places, ends, factors.npu(), name_of(), size, rank, experts, **more
    )


def quantized(rank: int, size: int) -> None:
    tokens, experts = 4, size
    x = [torch.randn(tokens, H, generator=torch.Generator().manual_seed(r)).half() for r in range(size)]
    ids = [choices(r, tokens, experts) for r in range(size)]
    smooth = (torch.arange(experts * H).reshape(experts, H) % 5 + 1.0) / 2
    mine = rows_of(rank, 1, ids)
    for scales in (None, smooth):
        rows, dynamic, *_ = torch_npu.npu_moe_distribute_dispatch_v2(
            x[rank].npu(), ids[rank].npu(), name_of(), size, rank, experts, quant_mode=2,
            scales=None if scales is None else scales.npu(),
        )  # fmt: skip
        value = torch.stack([x[r][t].float() for r, t, _ in mine]) * (1 if scales is None else scales[rank])
        step = value.abs().amax(1) / 127
        assert rows.dtype == torch.int8
        torch.testing.assert_close(dynamic[: len(mine)].cpu(), step)
        assert (rows[: len(mine)].cpu().float() - value / step[:, None]).abs().max() <= 0.501


def coded(rank: int, size: int) -> None:
    """hifloat8 of rows as they are, of rows times a factor, of tokens that are codes with scales; factors of int8."""
    tokens, experts = 4, size
    x = [torch.randn(tokens, H, generator=torch.Generator().manual_seed(r)).half() for r in range(size)]
    ids = [choices(r, tokens, experts) for r in range(size)]
    mine, call = rows_of(rank, 1, ids), (ids[rank].npu(), name_of(), size, rank, experts)
    dispatch, sent = torch_npu.npu_moe_distribute_dispatch_v2, torch.stack([x[r][t] for r, t, _ in mine])
    rows, *_ = dispatch(x[rank].npu(), *call, y_dtype=HIF8)
    equal("as they are", rows[: len(mine)], codes(sent))
    one = torch.tensor([3.5])
    for factors in (one, torch.arange(1.0, H + 1), torch.arange(1.0, experts * H + 1).view(experts, H)):
        value = sent.float() * (factors[rank] if factors.dim() == 2 else factors)
        kinds = {"y_dtype": HIF8} if factors is one else {}
        rows, *_ = dispatch(x[rank].npu(), *call, quant_mode=1, scales=factors.npu(), **kinds)
        equal("times a factor", rows[: len(mine)], codes(value) if kinds else value.round().clamp(-128, 127).char())
    scales = [torch.rand(tokens, 2, generator=torch.Generator().manual_seed(r)) for r in range(size)]
    held = codes(x[rank]).npu()
    for options in ({}, {"zero_expert_num": 1}):
        rows, kept, *_ = dispatch(held, *call, x_dtype=HIF8, scales=scales[rank].npu(), **options)
        equal("codes", rows[: len(mine)], codes(sent))
        assert kept.shape == (rows.shape[0], 2)
        equal("their scales", kept[: len(mine)], torch.stack([scales[r][t] for r, t, _ in mine]))
    few = tokens if rank else 0  # the first rank has no token
    ids[0] = ids[0][:0]
    rows, *_ = dispatch(
        held[:few], ids[rank].npu(), *call[1:], x_dtype=HIF8, scales=scales[rank][:few].npu(), global_bs=tokens * size
    )
    mine = rows_of(rank, 1, ids)
    equal("codes of the others", rows[: len(mine)], codes(torch.stack([x[r][t] for r, t, _ in mine])))
    for options, words in (
        ({"x_dtype": HIF8}, "scales, .tokens, n., are needed with x of hifloat8"),
        (
            {"x_dtype": HIF8, "scales": scales[rank].npu(), "quant_mode": 2},
            "x of hifloat8 goes with quant_mode 0, not 2",
        ),
        ({"y_dtype": HIF8, "scales": None}, "x must be "),
        ({"quant_mode": 3}, "quant_mode 3 is not implemented; 0, 1, 2 are"),
    ):
        said = refusal(lambda options=options: dispatch(held, *call, **options))
        assert re.search(words, said), said
    said = refusal(lambda: dispatch(x[rank].npu(), *call, y_dtype=HIF8, quant_mode=2))
    assert "y_dtype torch_npu.hifloat8 goes with quant_mode 0 of float16 and bfloat16, and with 1" in said, said


def refusal(call) -> str:
    try:
        call()
    except (RuntimeError, ValueError) as error:
        return str(error)
    return "nothing"


def masked(rank: int, size: int) -> None:
    """A token, or a choice of one, that does not take part."""
    tokens, experts = 4, size
    x, ids, factors = integers(rank, tokens, H), choices(rank, tokens, experts), weights(rank, tokens)
    whole = torch.tensor([True, True, True, False]) if rank else torch.tensor([True, False, False, False])
    single = torch.ones(tokens, K, dtype=torch.bool)
    single[1, 0] = single[2] = False
    for mask in (whole, single):
        sent = torch_npu.npu_moe_distribute_dispatch_v2(
            x.half().npu(), ids.npu(), name_of(), size, rank, experts, x_active_mask=mask.npu()
        )
        out = combined(rank, size, sent, ids, factors, experts, x_active_mask=mask.npu())
        used = factors * (mask if mask.dim() == 2 else mask[:, None])
        equal("masked", out, (x * used.sum(1, keepdim=True)).half())


def unequal(rank: int, size: int) -> None:
    """Ranks have different numbers of tokens; global_bs says the largest."""
    tokens, experts = 2 + rank, size
    x, ids, factors = integers(rank, tokens, H), choices(rank, tokens, experts), weights(rank, tokens)
    all_tokens = (1 + size) * size
    sent = torch_npu.npu_moe_distribute_dispatch_v2(
        x.half().npu(), ids.npu(), name_of(), size, rank, experts, global_bs=all_tokens
    )
    assert sent[0].shape == (all_tokens, H)
    out = combined(rank, size, sent, ids, factors, experts, global_bs=all_tokens)
    equal("unequal", out, (x * factors.sum(1, keepdim=True)).half())


def special(rank: int, size: int) -> None:
    """Experts that give nothing, the token, and constants; and what is added."""
    tokens, experts = 4, size
    x, factors = integers(rank, tokens, H), weights(rank, tokens)
    ids = choices(rank, tokens, experts)
    ids[:, 1] = torch.tensor([experts, experts + 1, experts + 2, experts + 3])  # zero, copy, two constants
    kinds = {"zero_expert_num": 1, "copy_expert_num": 1, "const_expert_num": 2}
    sent = torch_npu.npu_moe_distribute_dispatch_v2(x.half().npu(), ids.npu(), name_of(), size, rank, experts, **kinds)
    first, second, v = (integers(9, 2, H, seed=s) for s in (4, 5, 6))
    more = dict(
        zip(("const_expert_alpha_1", "const_expert_alpha_2", "const_expert_v"), (first, second, v), strict=True)
    )
    added = integers(rank, tokens, H, seed=8)
    out = combined(
        rank, size, sent, ids, factors, experts, **kinds, ori_x=x.half().npu(), shared_expert_x=added.half().npu(),
        **{name: t.half().npu() for name, t in more.items()},
    )  # fmt: skip
    second_choice = torch.stack(
        [torch.zeros(H), x[1], first[0] * x[2] + second[0] * v[0], first[1] * x[3] + second[1] * v[1]]
    )
    equal("special", out, (x * factors[:, :1] + second_choice * factors[:, 1:] + added).half())


def normalized(rank: int, size: int) -> None:
    tokens, experts = 4, size
    x, ids, factors = integers(rank, tokens, H), choices(rank, tokens, experts), weights(rank, tokens)
    residual, gamma = integers(rank, tokens, 1, H, seed=3), integers(rank, H, seed=4)
    group = (name_of(), size, rank, experts)
    rows, _, places, _, ends, _, _ = torch_npu.npu_moe_distribute_dispatch_v2(x.half().npu(), ids.npu(), *group)
    for more in ({}, {"zero_expert_num": 1}):
        y, rstd, total = torch_npu.npu_moe_distribute_combine_add_rms_norm(
            rows,
            ids.npu(),
            places,
            ends,
            factors.npu(),
            residual.half().npu(),
            gamma.half().npu(),
            *group,
            norm_eps=1e-5,
            **more,
        )
        want = (x * factors.sum(1, keepdim=True)).view(tokens, 1, H) + residual
        inverse = (want.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
        equal("sum", total, want.half())
        torch.testing.assert_close(rstd.cpu(), inverse)
        torch.testing.assert_close(y.cpu(), (want * inverse * gamma).half(), rtol=2e-3, atol=2e-3)


def running_counts(rank: int, size: int) -> None:
    """expert_token_nums_type 0: ends instead of counts."""
    x, ids = integers(rank, 4, H).half().npu(), choices(rank, 4, 3 * size)
    call = (x, ids.npu(), name_of(), size, rank, 3 * size)
    counts = torch_npu.npu_moe_distribute_dispatch_v2(*call)[3].cpu()
    ends = torch_npu.npu_moe_distribute_dispatch_v2(*call, expert_token_nums_type=0)[3]
    equal("ends", ends, counts.cumsum(0))


def shared(rank: int, size: int) -> None:
    """Ranks 0 and 1 have copies of one shared expert, which doubles; the others two experts each, which copy."""
    tokens, experts = 4, 2 * (size - 2)
    x = [integers(r, tokens, H) for r in range(size)]
    ids, factors = [choices(r, tokens, experts) for r in range(size)], weights(rank, tokens)
    group, copies = (name_of(), size, rank, experts), {"shared_expert_num": 1, "shared_expert_rank_num": 2}
    rows, _, places, counts, ends, _, _ = torch_npu.npu_moe_distribute_dispatch_v2(
        x[rank].half().npu(), ids[rank].npu(), *group, **copies
    )
    if rank < 2:
        equal("every token of half the ranks", rows, torch.cat(x[rank::2]).half())
        assert counts.tolist() == [tokens * size // 2]
        rows = rows * 2
    else:
        mine = rows_of(rank, 2, ids, first=2)
        equal("rows", rows[: len(mine)], torch.stack([x[r][t] for r, t, _ in mine]).half())
    out = torch_npu.npu_moe_distribute_combine_v2(rows, ids[rank].npu(), places, ends, factors.npu(), *group, **copies)
    equal("with the shared expert", out, (x[rank] * (factors.sum(1, keepdim=True) + 2)).half())
    assert out.device.type == DEVICE

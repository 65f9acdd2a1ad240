"""What ranks run for the edges of operators that hold a collective: lost ranks, no rows, strides, two groups."""

from __future__ import annotations

import torch
import torch.distributed as dist

import torch_npu
from tests.distributed.experts import H, choices, combined, weights
from tests.distributed.fused import integers, name_of
from tests.distributed.groups import still_works, until
from tests.distributed.programs import equal


def left_alone(rank: int, size: int) -> str:
    """The last rank does not come, and is killed when the others have called."""
    store = dist.distributed_c10d._get_default_store()
    still_works(rank, size)
    torch.npu.synchronize()
    if rank == size - 1:
        until(store, [f"alone/{r}" for r in range(size - 1)])
        return "the others wait"
    y = torch_npu.npu_mm_all_reduce_base(torch.ones(400, 300).npu(), torch.ones(300, 200).npu(), name_of())
    store.set(f"alone/{rank}", "1")
    return said_by(lambda: (y + 1).cpu())


def said_by(call) -> str:
    try:
        call()
        return "nothing"
    except RuntimeError as error:
        return str(error)


def a_kernel_fails(rank: int, size: int) -> str:
    """Rank 0's routing names an expert that nobody has, which is seen on the stream."""
    ids = choices(rank, 4, size)
    if rank == 0:
        ids[2, 1] = size
    x = integers(rank, 4, H).half().npu()
    rows, *_ = torch_npu.npu_moe_distribute_dispatch_v2(x, ids.npu(), name_of(), size, rank, size)
    return said_by(lambda: rows.cpu())


def no_rows(rank: int, size: int, dtype: torch.dtype) -> None:
    """Products without rows, without inner size, and tokens that one rank alone, or all, lack."""
    group = name_of()
    x, w = torch.zeros(0, 3, dtype=dtype).npu(), torch.ones(3, 2, dtype=dtype).npu()
    assert torch_npu.npu_mm_all_reduce_base(x, w, group).shape == (0, 2)
    assert torch_npu.npu_mm_reduce_scatter_base(x, w, group, size).shape == (0, 2)
    y, gathered = torch_npu.npu_all_gather_base_mm(x, w, group, size)
    assert y.shape == (0, 2) and gathered.shape == (0, 3)
    thin = torch.zeros(4, 0, dtype=dtype).npu(), torch.zeros(0, 2, dtype=dtype).npu()
    equal("no inner size", torch_npu.npu_mm_all_reduce_base(*thin, group), torch.zeros(4, 2).to(dtype))

    for tokens in (0 if rank == 0 else 3, 0):  # of this rank
        x, ids, factors = integers(rank, tokens, H), torch.zeros(tokens, 2).int(), weights(rank, tokens)
        ids[:, 1] = 1
        options = {"global_bs": 3 * size}
        sent = torch_npu.npu_moe_distribute_dispatch_v2(
            x.to(dtype).npu(), ids.npu(), group, size, rank, size, **options
        )
        out = combined(rank, size, sent, ids, factors, size, **options)
        equal("tokens", out, (x * factors.sum(1, keepdim=True)).to(dtype))
    still_works(rank, size)


def strided(rank: int, size: int) -> None:
    """Operands with gaps, where memory is not exchanged itself."""
    group, every = name_of(), slice(None, None, 2)
    a, b, bias, x3 = (
        [integers(r, *s, seed=i) for r in range(size)]
        for i, s in enumerate([(4 * size, 6), (6, 5), (5,), (4 * size, 5)])
    )

    def gaps(t: torch.Tensor) -> torch.Tensor:
        room = torch.full([2 * n for n in t.shape], 7.0).half().npu()
        room[(every,) * t.dim()] = t.half().npu()
        assert not room[(every,) * t.dim()].is_contiguous()
        return room[(every,) * t.dim()]

    mine = [gaps(t[rank]) for t in (a, b, bias, x3)]
    sums = sum(x @ w + c for x, w, c in zip(a, b, bias, strict=True))
    got = torch_npu.npu_mm_all_reduce_base(*mine[:2], group, bias=mine[2], x3=mine[3])
    equal("sum", got, (sums + sum(x3)).half())
    got = torch_npu.npu_mm_reduce_scatter_base(*mine[:2], group, size, bias=mine[2])
    equal("part", got, sums[4 * rank : 4 * rank + 4].half())
    got, _ = torch_npu.npu_all_gather_base_mm(a[rank].half().npu(), mine[1], group, size)
    equal("gathered", got, (torch.cat(a) @ b[rank]).half())

    x, ids, factors = integers(rank, 4, H), choices(rank, 4, size), weights(rank, 4)
    wide = torch.zeros(4, 4).int().npu()
    wide[:, every] = ids.npu()
    sent = torch_npu.npu_moe_distribute_dispatch_v2(gaps(x), wide[:, every], group, size, rank, size)
    rows, _, places, _, ends, _, _ = sent
    out = torch_npu.npu_moe_distribute_combine_v2(
        gaps(rows.cpu().float()),
        wide[:, every],
        places,
        ends,
        factors.t().contiguous().t().npu(),
        group,
        size,
        rank,
        size,
    )
    equal("experts", out, (x * factors.sum(1, keepdim=True)).half())


def two_groups(rank: int, size: int) -> None:
    """Two groups of the same ranks, on two streams, called in turns without waiting."""
    groups = [dist.new_group(list(range(size))) for _ in range(2)]
    names, streams = [name_of(g) for g in groups], [torch.npu.Stream() for _ in groups]
    assert names[0] != names[1]
    x = integers(rank, 64, 64).npu()
    want = sum(integers(r, 64, 64) for r in range(size))
    torch.npu.synchronize()
    found = []
    for turn in range(8):
        which = turn % 2
        with torch.npu.stream(streams[which]):
            found.append(torch_npu.npu_mm_all_reduce_base(x, (turn + 1) * torch.eye(64).npu(), names[which]))
    torch.npu.synchronize()
    for turn, y in enumerate(found):
        equal(f"turn {turn}", y, want * (turn + 1))


def another_device(rank: int, size: int) -> str:
    """The tensors say the device: a group has one rank in this process, on its own device."""
    other = (torch.npu.current_device() + 1) % torch.npu.device_count()
    x, w, group = torch.ones(4, 3), torch.ones(3, 2), name_of()
    own = torch.npu.current_device()
    said = said_by(lambda: torch_npu.npu_mm_all_reduce_base(x.npu(other), w.npu(other), group))
    torch.npu.set_device(other)  # and back by the tensors
    try:
        equal("own", torch_npu.npu_mm_all_reduce_base(x.npu(own), w.npu(own), group), torch.full((4, 2), 3.0 * size))
    finally:
        torch.npu.set_device(own)
    return said


def captured_experts(rank: int, size: int) -> None:
    """Counts differ from replay to replay."""
    group, experts, tokens = name_of(), size, 4
    x, ids, factors = (
        integers(rank, tokens, H).half().npu(),
        choices(rank, tokens, experts).npu(),
        weights(rank, tokens),
    )
    scales = factors.npu()

    def there_and_back() -> tuple[torch.Tensor, torch.Tensor]:
        rows, _, places, counts, ends, _, _ = torch_npu.npu_moe_distribute_dispatch_v2(
            x, ids, group, size, rank, experts
        )
        return torch_npu.npu_moe_distribute_combine_v2(
            rows * 2, ids, places, ends, scales, group, size, rank, experts
        ), counts

    there_and_back()
    torch.npu.synchronize()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        out, counts = there_and_back()
    for turn in range(3):
        new = [choices(r, tokens, experts, seed=turn + 3) for r in range(size)]
        new_x = integers(rank, tokens, H, seed=turn + 3)
        x.copy_(new_x)
        ids.copy_(new[rank])
        graph.replay()
        equal(f"replay {turn}", out, (2 * new_x * factors.sum(1, keepdim=True)).half())
        assert counts.tolist() == [sum(int((t == rank).sum()) for t in new)]

"""What ranks run for operators that hold a collective (torch_npu.npu_mm_all_reduce_base and its like).

Operands are small integers, so that sums are exact in every type; each rank makes those of all ranks and computes the
result in fp32 on the CPU.
"""

from __future__ import annotations

import time

import torch
import torch.distributed as dist

import torch_npu
from tests.distributed.groups import backend, still_works
from tests.distributed.programs import DEVICE, equal


def name_of(group=None) -> str:
    return backend(group).get_hccl_comm_name(torch.npu.current_device())


def integers(rank: int, *sizes: int, seed: int = 0, dtype=torch.float32, low: int = -2, high: int = 3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(100 * seed + rank)
    return torch.randint(low, high, sizes, generator=generator).to(dtype)


def to(t: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return t.to(dtype).to(DEVICE)


def sum_of_products(rank: int, size: int, dtype: torch.dtype) -> None:
    group = name_of()
    a, b, bias, x3 = (
        [integers(r, *sizes, seed=i) for r in range(size)] for i, sizes in enumerate([(6, 12), (12, 5), (5,), (6, 5)])
    )
    plain = sum(x @ w for x, w in zip(a, b, strict=True))
    mine = [to(t[rank], dtype) for t in (a, b, bias, x3)]
    equal("plain", torch_npu.npu_mm_all_reduce_base(mine[0], mine[1], group), plain.to(dtype))
    got = torch_npu.npu_mm_all_reduce_base(mine[0], mine[1], group, bias=mine[2], reduce_op="sum")
    equal("bias", got, (plain + sum(bias)).to(dtype))
    turned = mine[1].t().contiguous().t()
    for mode in (None, "ai_cpu", "aiv"):
        got = torch_npu.npu_mm_all_reduce_base(*mine[:1], turned, group, bias=mine[2], x3=mine[3], comm_mode=mode)
        equal(f"bias and x3, {mode}", got, (plain + sum(bias) + sum(x3)).to(dtype))
    got = torch_npu.npu_mm_all_reduce_base(mine[0].view(2, 3, 12), mine[1], group)
    equal("three dimensions", got, plain.view(2, 3, 5).to(dtype))


def past_a_barrier(rank: int, size: int) -> tuple[float, float]:
    """When the rank came to the second of two barriers, and when it was past it."""
    group, x = name_of(), to(torch.full((3,), 1.0 + rank), torch.float32)
    limit = torch.tensor([30_000_000], dtype=torch.int32, device=DEVICE)
    present = torch.zeros(4 + 2 * size, dtype=torch.int32, device=DEVICE)
    equal("x_ref", torch_npu._npu_distribute_barrier(x, group, size), torch.full((3,), 1.0 + rank))
    torch.npu.synchronize()
    if rank == size - 1:
        time.sleep(0.2)
    came = time.monotonic()
    out = torch_npu._npu_distribute_barrier(x.t(), group, size, time_out=limit, elastic_info=present)
    torch.npu.synchronize()
    left = time.monotonic()
    equal("x_ref", out, torch.full((3,), 1.0 + rank))
    try:
        torch_npu._npu_distribute_barrier(x, group, size + 1)
        raise AssertionError("a world size that is not the group's")
    except RuntimeError as error:
        assert f"worldSize is {size + 1}, and the group has {size} ranks" in str(error), error
    still_works(rank, size)
    return came, left


def barrier_alone(rank: int, size: int, said: list[int] | None = None) -> tuple[str, float]:
    """Of rank 0, which waits 0.3 s for others that do not come, or has the elastic_info of ranks that left."""
    group = name_of()
    if rank:
        return "", 0.0
    given = {"time_out": torch.tensor([300_000], dtype=torch.int32, device=DEVICE)}
    if said:
        given = {"elastic_info": torch.tensor(said, dtype=torch.int32, device=DEVICE)}
    begin = time.monotonic()
    try:
        torch_npu._npu_distribute_barrier(torch.ones(1, device=DEVICE), group, size, **given)
        torch.npu.synchronize()
    except RuntimeError as error:
        return str(error), time.monotonic() - begin
    return "no error", 0.0


def a_barrier_beside_a_sum(rank: int, size: int) -> None:
    """Whose time limit is not that of the sum, which waits on another stream for the last rank."""
    group, x = name_of(), torch.full((5,), float(rank), device=DEVICE)
    limit = torch.tensor([2_000_000], dtype=torch.int32, device=DEVICE)
    still_works(rank, size)
    if rank == size - 1:
        time.sleep(3)
    work = dist.all_reduce(x, async_op=True)
    torch_npu._npu_distribute_barrier(limit, group, size, time_out=limit)
    torch.npu.synchronize()
    work.wait()
    equal("the sum", x, torch.full((5,), size * (size - 1) / 2))


def large(rank: int, size: int) -> None:
    """Beyond what collectives send inline; random numbers, so that rounding is that of one product and one sum."""
    a = [torch.randn(192, 64, generator=torch.Generator().manual_seed(r)) for r in range(size)]
    w = torch.randn(64, 160, generator=torch.Generator().manual_seed(99))
    parts = [(x.bfloat16().float() @ w.bfloat16().float()) for x in a]
    x, b, group = a[rank].to(DEVICE).bfloat16(), w.to(DEVICE).bfloat16(), name_of()
    close = {"rtol": 2e-2, "atol": 0.3}
    torch.testing.assert_close(torch_npu.npu_mm_all_reduce_base(x, b, group).cpu().float(), sum(parts), **close)
    got = torch_npu.npu_mm_reduce_scatter_base(x, b, group, size).cpu().float()
    torch.testing.assert_close(got, sum(parts).chunk(size)[rank], **close)
    got, gathered = torch_npu.npu_all_gather_base_mm(x, b, group, size)
    assert torch.equal(gathered.cpu(), torch.cat(a).bfloat16())
    torch.testing.assert_close(got.cpu().float(), torch.cat(parts), **close)


def all_gather(rank: int, size: int, dtype: torch.dtype) -> None:
    group = name_of()
    a = [integers(r, 3, 12) for r in range(size)]
    b, bias = integers(rank, 12, 5, seed=1), integers(rank, 5, seed=2)
    want = torch.cat(a) @ b
    x, w = to(a[rank], dtype), to(b, dtype)
    out, gathered = torch_npu.npu_all_gather_base_mm(x, w, group, size)
    equal("product", out, want.to(dtype))
    equal("gathered", gathered, torch.cat(a).to(dtype))
    turned = to(b.t().contiguous(), dtype).t()
    out, gathered = torch_npu.npu_all_gather_base_mm(x, turned, group, size, bias=to(bias, dtype), gather_output=False)
    equal("bias", out, (want + bias).to(dtype))
    assert gathered.shape == (0,) and gathered.dtype == dtype
    out, gathered = torch_npu.npu_all_gather_base_mm(x, w, group, size, comm_mode="aiv")
    equal("aiv", out, want.to(dtype))
    equal("aiv, gathered", gathered, torch.cat(a).to(dtype))


def reduce_scatter(rank: int, size: int, dtype: torch.dtype) -> None:
    group = name_of()
    a, b, bias = (
        [integers(r, *sizes, seed=i) for r in range(size)] for i, sizes in enumerate([(3 * size, 12), (12, 5), (5,)])
    )
    want = sum(x @ w for x, w in zip(a, b, strict=True))
    x, w = to(a[rank], dtype), to(b[rank], dtype)
    part = slice(3 * rank, 3 * rank + 3)
    equal("plain", torch_npu.npu_mm_reduce_scatter_base(x, w, group, size), want[part].to(dtype))
    turned = w.t().contiguous().t()
    for mode in (None, "aiv"):
        got = torch_npu.npu_mm_reduce_scatter_base(x, turned, group, size, bias=to(bias[rank], dtype), comm_mode=mode)
        equal(f"bias, {mode}", got, (want + sum(bias))[part].to(dtype))


def eight_bits(rank: int, size: int) -> None:
    """int8 factors with scales, int8 weights, and sums of codes."""
    group = name_of()
    a, b = (
        [integers(r, *s, seed=i, low=-9, high=10) for r in range(size)] for i, s in enumerate([(4 * size, 8), (8, 6)])
    )
    bias = [integers(r, 6, seed=2) for r in range(size)]
    column, row = torch.tensor([0.5, 1, 2, 0.25, 1, 0.5]), (torch.arange(4 * size) % 3 + 1) / 4
    x, w = to(a[rank], torch.int8), to(b[rank], torch.int8)
    int_bias = to(bias[rank], torch.int32)
    sums = [p @ q + c for p, q, c in zip(a, b, bias, strict=True)]
    parts = [s * column * row[:, None] for s in sums]

    def reduce(*operands, **options):
        return torch_npu.npu_mm_all_reduce_base(*operands, group, **options)

    got = reduce(x, w, bias=int_bias, dequant_scale=column.bfloat16().npu(), pertoken_scale=row.npu())
    torch.testing.assert_close(got.cpu().float(), sum(parts), rtol=1e-2, atol=0.5)
    assert got.dtype == torch.bfloat16
    code = torch_npu.npu_trans_quant_param(column.npu())
    got = reduce(x, w, bias=int_bias, dequant_scale=code)
    torch.testing.assert_close(got.cpu().float(), sum(s * column for s in sums), rtol=1e-2, atol=0.5)
    assert got.dtype == torch.float16
    first, second = torch.full((6,), 2.0), torch.full((6,), 4.0)
    coded = sum((p / first).round().clamp(-128, 127) for p in parts)
    want = (coded * (first / second)).round().clamp(-128, 127) * second
    for mode in (None, "aiv"):
        got = reduce(
            x, w, bias=int_bias, dequant_scale=column.npu(), pertoken_scale=row.npu(), comm_mode=mode,
            comm_quant_scale_1=first.half().npu(), comm_quant_scale_2=second.half().npu(),
        )  # fmt: skip
        equal(f"codes, {mode}", got, want.half())
    scale, offset = column.half().npu(), torch.ones(6).half().npu()
    wide = sum(p @ ((q + 1) * column) for p, q in zip(a, b, strict=True))
    for mode in (None, "aiv"):
        got = reduce(to(a[rank], torch.float16), w, antiquant_scale=scale, antiquant_offset=offset, comm_mode=mode)
        torch.testing.assert_close(got.cpu().float(), wide, rtol=2e-3, atol=0.5)

    part = slice(4 * rank, 4 * rank + 4)
    plain = [p @ q * column * row[:, None] for p, q in zip(a, b, strict=True)]
    scales = {"x1_scale": row[:, None].npu(), "x2_scale": column[None].npu(), "comm_mode": "aiv"}
    got = torch_npu.npu_mm_reduce_scatter_base(x, w, group, size, output_dtype=torch.float16, **scales)
    torch.testing.assert_close(got.cpu().float(), sum(plain)[part], rtol=1e-2, atol=0.5)
    got, amax = torch_npu.npu_quant_mm_reduce_scatter(x, w, group, size, y_dtype=5, **scales)
    torch.testing.assert_close(got.cpu().float(), sum(plain)[part], rtol=1e-2, atol=0.5)
    assert amax is None and got.dtype == torch.float16

    mine = row + rank
    gathered = torch.cat([p * (row + r)[:, None] for r, p in enumerate(a)])
    want = gathered @ b[rank] * column
    scales["x1_scale"] = mine[:, None].npu()
    got, all_x = torch_npu.npu_all_gather_base_mm(x, w, group, size, **scales)
    torch.testing.assert_close(got.cpu().float(), want, rtol=1e-2, atol=0.5)
    equal("gathered", all_x, torch.cat(a).to(torch.int8))
    assert got.dtype == torch.bfloat16
    got, all_x, amax = torch_npu.npu_all_gather_quant_mm(x, w, group, size, y_dtype=283, **scales)
    torch.testing.assert_close(got.cpu().float(), want, rtol=1e-2, atol=0.5)
    assert amax is None


def all_to_all(rank: int, size: int, dtype: torch.dtype) -> None:
    group = name_of()
    a = [integers(r, 2 * size, 3) for r in range(size)]
    b, bias = integers(rank, 3 * size, 5, seed=1), integers(rank, 5, seed=2)
    joined = torch.cat([x[2 * rank : 2 * rank + 2] for x in a], 1)
    x, w = to(a[rank], dtype), to(b, dtype)
    for mode in (None, "aiv"):
        out, exchanged = torch_npu.npu_all_to_all_matmul(x, w, group, size, bias=to(bias, dtype), comm_mode=mode)
        equal("product", out, (joined @ b + bias).to(dtype))
        equal("exchanged", exchanged, joined.to(dtype))
    out, exchanged = torch_npu.npu_all_to_all_matmul(x, w, group, size, all2all_axes=[-2, -1], all2all_out_flag=False)
    equal("product alone", out, (joined @ b).to(dtype))
    assert exchanged is None

    a, b = ([integers(r, *s, seed=i) for r in range(size)] for i, s in enumerate([(3, 4), (4, 2 * size)]))
    columns = slice(2 * rank, 2 * rank + 2)
    bias = integers(0, 2 * size, seed=3)
    want = torch.cat([(p @ q + bias)[:, columns] for p, q in zip(a, b, strict=True)])
    for mode in (None, "aiv"):
        out = torch_npu.npu_matmul_all_to_all(
            to(a[rank], dtype), to(b[rank], dtype), group, size, bias=to(bias, dtype), all2all_axes=[-1, -2],
            comm_mode=mode,
        )  # fmt: skip
        equal("columns", out, want.to(dtype))


def counts_of(size: int, experts: int) -> list[list[int]]:
    """sent[rank][rank' * experts + expert]: some nothing, and the last rank gets nothing of rank 0."""
    sent = [[(3 * r + 2 * i) % 4 for i in range(size * experts)] for r in range(size)]
    sent[0][-experts:] = [0] * experts
    return sent


def grouped(rank: int, size: int, dtype: torch.dtype, empty: bool = False) -> None:
    """npu_alltoallv_gmm and back by npu_gmm_alltoallv."""
    group, experts = name_of(), 2
    sent = counts_of(size, experts)
    if empty:  # rank 0 gets no token, and still takes part
        for row in sent:
            row[:experts] = [0] * experts
    received = [sent[r][rank * experts + e] for r in range(size) for e in range(experts)]
    tokens = [integers(r, sum(sent[r]), 6) for r in range(size)]
    weight, shared_x, shared_w = (
        integers(rank, experts, 6, 4, seed=1),
        integers(rank, 3, 6, seed=2),
        integers(rank, 6, 5, seed=3),
    )
    rows = []
    for e in range(experts):
        for r in range(size):
            begin = sum(sent[r][: rank * experts + e])
            rows.append(tokens[r][begin : begin + sent[r][rank * experts + e]])
    permuted = torch.cat(rows)
    sizes = [sum(received[e::experts]) for e in range(experts)]
    want = torch.cat([p @ w for p, w in zip(permuted.split(sizes), weight, strict=True)])
    x = to(tokens[rank], dtype)
    for mode in (None, "aiv"):
        out, shared, got = torch_npu.npu_alltoallv_gmm(
            x, to(weight, dtype), group, size, sent[rank], received, mm_x=to(shared_x, dtype),
            mm_weight=to(shared_w, dtype), permute_out_flag=True, comm_mode=mode,
        )  # fmt: skip
        equal("permuted", got, permuted.to(dtype))
        equal("experts", out, want.to(dtype))
        equal("shared", shared, (shared_x @ shared_w).to(dtype))
    out, shared, got = torch_npu.npu_alltoallv_gmm(
        x, to(weight.mT.contiguous(), dtype), group, size, sent[rank], received, trans_gmm_weight=True
    )
    equal("transposed", out, want.to(dtype))
    assert shared is None and got is None

    # The experts add their number to each row: what comes back tells where it was.
    ones = torch.stack([torch.eye(6) for _ in range(experts)])
    for mode in (None, "aiv"):
        back, shared = torch_npu.npu_gmm_alltoallv(
            to(permuted, dtype), to(ones, dtype), group, size, received, sent[rank], mm_x=to(shared_x, dtype),
            mm_weight=to(shared_w.t().contiguous(), dtype), trans_mm_weight=True, comm_mode=mode,
        )  # fmt: skip
        equal("back", back, tokens[rank].to(dtype))
        equal("shared", shared, (shared_x @ shared_w).to(dtype))


def part_of_the_ranks(rank: int, size: int) -> None:
    """A group that not every rank is in, in another order of use."""
    ranks = list(range(1, size))
    group = dist.new_group(ranks)
    pair = dist.new_group([0, size - 1])
    if rank in ranks:
        want = sum(integers(r, 4, 3) @ integers(r, 3, 2, seed=1) for r in ranks)
        got = torch_npu.npu_mm_all_reduce_base(
            integers(rank, 4, 3).npu(), integers(rank, 3, 2, seed=1).npu(), name_of(group)
        )
        equal("part", got, want)
    if rank in (0, size - 1):
        x, w = integers(rank, 4, 3).npu(), integers(0, 3, 2, seed=1).npu()
        out, _ = torch_npu.npu_all_gather_base_mm(x, w, name_of(pair), 2)
        equal("pair", out, torch.cat([integers(r, 4, 3) for r in (0, size - 1)]) @ integers(0, 3, 2, seed=1))
    still_works(rank, size)


def on_streams(rank: int, size: int) -> None:
    """In the order of the stream, behind what is queued there; several at once, with ordinary collectives between."""
    group, x = name_of(), integers(rank, 8, 8)
    want = sum(integers(r, 8, 8) for r in range(size))
    other = torch.npu.Stream()
    with torch.npu.stream(other):
        y = x.npu()
        for _ in range(3):
            y = torch_npu.npu_mm_all_reduce_base(y, torch.eye(8).npu(), group)
            dist.all_reduce(y)
            y /= size * size
    other.synchronize()
    equal("stream", y, want / size)


def captured(rank: int, size: int) -> None:
    """Each replay is a collective anew, of what the operands hold then."""
    group = name_of()
    x, w = torch.zeros(6, 4).npu(), integers(rank, 4, 3, seed=1).npu()
    part = torch.zeros(2 * size, 4).npu()
    torch_npu.npu_mm_reduce_scatter_base(part, w, group, size)
    torch.npu.synchronize()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        z = torch_npu.npu_mm_all_reduce_base(x, w, group) + 1
        s = torch_npu.npu_mm_reduce_scatter_base(part, w, group, size) * 2
    for turn in range(3):
        x.copy_(integers(rank, 6, 4, seed=turn + 5))
        part.copy_(integers(rank, 2 * size, 4, seed=turn + 9))
        graph.replay()
        want = sum(integers(r, 6, 4, seed=turn + 5) @ integers(r, 4, 3, seed=1) for r in range(size))
        equal(f"replay {turn}", z, want + 1)
        want = sum(integers(r, 2 * size, 4, seed=turn + 9) @ integers(r, 4, 3, seed=1) for r in range(size))
        equal(f"part of replay {turn}", s, want[2 * rank : 2 * rank + 2] * 2)


def refused(rank: int, size: int) -> list[str]:
    """What each says at the call; the group works afterwards."""
    group, x, w = name_of(), torch.ones(4, 3).npu(), torch.ones(3, 2).npu()
    calls = [
        lambda: torch_npu.npu_mm_all_reduce_base(x, w, "nobody"),
        lambda: torch_npu.npu_mm_all_reduce_base(x, w, ""),
        lambda: torch_npu.npu_mm_all_reduce_base(x, w, group, reduce_op="max"),
        lambda: torch_npu.npu_mm_all_reduce_base(x, w.t(), group),
        lambda: torch_npu.npu_mm_all_reduce_base(x.half(), w, group),
        lambda: torch_npu.npu_mm_all_reduce_base(x.char(), w.char(), group),
        lambda: torch_npu.npu_all_gather_base_mm(x, w, group, size + 1),
        lambda: torch_npu.npu_all_gather_base_mm(torch.ones(3, 4).npu().t(), w, group, size),
        lambda: torch_npu.npu_mm_reduce_scatter_base(x[:3], w, group, size),
        lambda: torch_npu.npu_mm_all_reduce_base(x, w, group, comm_turn=2),
        lambda: torch_npu.npu_alltoallv_gmm(x, torch.ones(2, 3, 2).npu(), group, size, [1] * 2 * size, [1] * size),
        lambda: torch_npu.npu_moe_distribute_dispatch_v2(
            x.half(), torch.zeros(4, 1).int().npu(), group, size, size - 1 - rank, size
        ),
    ]
    said = []
    for call in calls:
        try:
            call()
            said.append("nothing")
        except (RuntimeError, ValueError) as error:
            said.append(str(error).split("\n")[0])
    still_works(rank, size)
    return said


def other_sizes(rank: int, size: int) -> str:
    """Ranks that disagree: an error of the collective."""
    try:
        torch_npu.npu_mm_all_reduce_base(torch.ones(4 + rank, 3).npu(), torch.ones(3, 2).npu(), name_of())
        torch.npu.synchronize()
    except RuntimeError as error:
        return str(error)
    return "nothing"

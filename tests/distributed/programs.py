"""What ranks with torch run: f(rank, size, *args) by name from Job.run. A check that fails here raises, and the test
with it.
"""

from __future__ import annotations

import datetime
import time

import torch
import torch.distributed as dist
from torch import nn

DEVICE = "npu"


def init(rank: int, size: int, backend: str, timeout: float, bound: bool = False, chosen: bool = True) -> str:
    if chosen:
        torch.npu.set_device(rank)
    dist.init_process_group(
        backend,
        rank=rank,
        world_size=size,
        timeout=datetime.timedelta(seconds=timeout),
        init_method="env://",
        device_id=torch.device(DEVICE, rank) if bound else None,
    )
    return dist.get_backend()


def mine(rank: int, shape=(5, 3), dtype=torch.float32) -> torch.Tensor:
    """Rank r's values, on the CPU: small integers, exact in every type."""
    n = torch.Size(shape).numel()
    return ((torch.arange(n) * (rank + 2)) % 5 + rank % 2).reshape(shape).to(dtype)


def equal(label: str, got: torch.Tensor, want: torch.Tensor) -> None:
    assert got.device.type == "npu", f"{label}: on {got.device}"
    assert got.dtype == want.dtype and torch.equal(got.cpu(), want), f"{label}: {got.cpu()} is not {want}"


REDUCTIONS = {
    "SUM": lambda all: all.sum(0),
    "MAX": lambda all: all.amax(0),
    "MIN": lambda all: all.amin(0),
    "PRODUCT": lambda all: all.prod(0),
}


def all_reduce(rank: int, size: int, name: str, dtype: torch.dtype, async_op: bool) -> None:
    every = torch.stack([mine(r, dtype=dtype) for r in range(size)])
    want = REDUCTIONS[name](every.long() if dtype == torch.bool else every).to(dtype)
    t = mine(rank, dtype=dtype).to(DEVICE)
    work = dist.all_reduce(t, getattr(dist.ReduceOp, name), async_op=async_op)
    if async_op:
        work.wait()
    equal(f"all_reduce {name} {dtype}", t, want)


def average(rank: int, size: int) -> None:
    t = torch.full((7,), float(rank), device=DEVICE)
    dist.all_reduce(t, dist.ReduceOp.AVG)
    equal("average", t, torch.full((7,), (size - 1) / 2))
    i = torch.full((3,), rank * 10, device=DEVICE)
    dist.all_reduce(i, dist.ReduceOp.AVG)
    equal("average of integers", i, torch.full((3,), 5 * (size - 1)))
    p = torch.ones(4, device=DEVICE)
    dist.all_reduce(p, dist._make_nccl_premul_sum(0.5))
    equal("premultiplied sum", p, torch.full((4,), size / 2))


def average_of_large_halves(rank: int, size: int) -> None:
    """The average is a half, the sum of all ranks is not."""
    every = torch.full((size, 3), 40000.0, dtype=torch.half)
    t = every.to(DEVICE)
    dist.all_reduce(t, dist.ReduceOp.AVG)
    equal("all_reduce", t, every)
    dist.reduce(t, 0, dist.ReduceOp.AVG)
    if rank == 0:
        equal("reduce", t, every)
    t, out = every.to(DEVICE), torch.empty(1, 3, dtype=torch.half, device=DEVICE)
    dist.reduce_scatter_tensor(out, t, dist.ReduceOp.AVG)
    equal("reduce_scatter_tensor", out, every[:1])
    dist.reduce_scatter(out.zero_(), list(t.chunk(size)), dist.ReduceOp.AVG)
    equal("reduce_scatter", out, every[:1])


def not_contiguous(rank: int, size: int) -> None:
    base = torch.zeros(4, 6, device=DEVICE)
    view = base[:, ::2]
    view.fill_(rank + 1)
    dist.all_reduce(view)
    want = torch.zeros(4, 6)
    want[:, ::2] = size * (size + 1) / 2
    equal("strided", base, want)
    t = torch.full((4, 3), float(rank), device=DEVICE).t()
    dist.broadcast(t, 1)
    equal("transposed", t, torch.full((3, 4), 1.0))


def complex_numbers(rank: int, size: int) -> None:
    t = torch.full((3,), complex(rank, 1)).to(DEVICE)
    dist.all_reduce(t)
    assert torch.equal(
        torch.view_as_real(t.cpu()), torch.view_as_real(torch.full((3,), complex(size * (size - 1) / 2, size)))
    )


def moves(rank: int, size: int, dtype: torch.dtype) -> None:
    t = mine(rank, dtype=dtype).to(DEVICE)
    dist.broadcast(t, size - 1)
    equal("broadcast", t, mine(size - 1, dtype=dtype))
    t = mine(rank, dtype=dtype).to(DEVICE)
    outs = [torch.empty_like(t) for _ in range(size)]
    dist.all_gather(outs, t)
    for r, o in enumerate(outs):
        equal("all_gather", o, mine(r, dtype=dtype))
    whole = torch.empty(size * 5, 3, dtype=dtype, device=DEVICE)
    dist.all_gather_into_tensor(whole, t)
    equal("all_gather_into_tensor", whole, torch.cat([mine(r, dtype=dtype) for r in range(size)]))
    parts = [torch.empty_like(t) for _ in range(size)] if rank == 0 else None
    dist.gather(t, parts, 0)
    for r, p in enumerate(parts or []):
        equal("gather", p, mine(r, dtype=dtype))
    out = torch.empty_like(t)
    dist.scatter(out, [mine(r + 9, dtype=dtype).to(DEVICE) for r in range(size)] if rank == 1 else None, 1)
    equal("scatter", out, mine(rank + 9, dtype=dtype))
    ins = [mine(rank * size + r, dtype=dtype).to(DEVICE) for r in range(size)]
    outs = [torch.empty_like(t) for _ in range(size)]
    dist.all_to_all(outs, ins)
    for r, o in enumerate(outs):
        equal("all_to_all", o, mine(r * size + rank, dtype=dtype))


def reduce_and_scatter(rank: int, size: int) -> None:
    every = torch.stack([mine(r, (size * 2, 3)) for r in range(size)])
    t = mine(rank, (size * 2, 3)).to(DEVICE)
    dist.reduce(t, 0)
    if rank == 0:
        equal("reduce", t, every.sum(0))
    t = mine(rank, (size * 2, 3)).to(DEVICE)
    out = torch.empty(2, 3, device=DEVICE)
    dist.reduce_scatter_tensor(out, t)
    equal("reduce_scatter_tensor", out, every.sum(0)[rank * 2 : rank * 2 + 2])
    dist.reduce_scatter(out, list(t.chunk(size)), dist.ReduceOp.MAX)
    equal("reduce_scatter", out, every.amax(0)[rank * 2 : rank * 2 + 2])
    dist.reduce_scatter_tensor(out, t, dist.ReduceOp.AVG)
    equal("reduce_scatter_tensor AVG", out, every.sum(0)[rank * 2 : rank * 2 + 2] / size)


def uneven(rank: int, size: int) -> None:
    ins = [r + 1 + rank for r in range(size)]
    outs = [rank + 1 + r for r in range(size)]
    send = torch.cat([torch.full((n, 2), float(rank * 10 + r)) for r, n in enumerate(ins)]).to(DEVICE)
    recv = torch.empty(sum(outs), 2, device=DEVICE)
    dist.all_to_all_single(recv, send, outs, ins)
    equal("all_to_all_single", recv, torch.cat([torch.full((n, 2), float(r * 10 + rank)) for r, n in enumerate(outs)]))
    pieces = [torch.empty(r + 1, device=DEVICE) for r in range(size)]
    dist.all_gather(pieces, torch.full((rank + 1,), float(rank), device=DEVICE))
    for r, p in enumerate(pieces):
        equal("uneven all_gather", p, torch.full((r + 1,), float(r)))
    out = torch.empty(rank + 1, device=DEVICE)
    dist.reduce_scatter(out, [torch.full((r + 1,), float(rank + r), device=DEVICE) for r in range(size)])
    equal("uneven reduce_scatter", out, torch.full((rank + 1,), float(sum(r + rank for r in range(size)))))


def messages(rank: int, size: int, n: int) -> None:
    following, previous = (rank + 1) % size, (rank - 1) % size
    t, out = torch.full((n,), float(rank), device=DEVICE), torch.empty(n, device=DEVICE)
    ops = [dist.P2POp(dist.isend, t, following), dist.P2POp(dist.irecv, out, previous)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    equal("batch", out, torch.full((n,), float(previous)))
    sending, receiving = dist.isend(t, following), dist.irecv(out.zero_(), previous)
    sending.wait(), receiving.wait()
    equal("isend, irecv", out, torch.full((n,), float(previous)))
    if rank == 0:
        dist.send(t, 1)
    elif rank == 1:
        dist.recv(out, 0)
        equal("send, recv", out, torch.zeros(n))


def coalesced(rank: int, size: int) -> None:
    tensors = [torch.full((i + 1,), float(rank + i), device=DEVICE) for i in range(4)]
    with dist._coalescing_manager(async_ops=True) as cm:
        for t in tensors:
            dist.all_reduce(t)
    cm.wait()
    for i, t in enumerate(tensors):
        equal("coalesced", t, torch.full((i + 1,), float(sum(r + i for r in range(size)))))


def objects(rank: int, size: int) -> list:
    out = [None] * size
    dist.all_gather_object(out, {"rank": rank, "text": "x" * rank})
    box = [f"from {rank}"]
    dist.broadcast_object_list(box, src=1)
    return [out == [{"rank": r, "text": "x" * r} for r in range(size)], box[0] == "from 1"]


def futures(rank: int, size: int) -> None:
    t = torch.full((100_000,), float(rank + 1), device=DEVICE)
    work = dist.all_reduce(t, async_op=True)
    doubled = work.get_future().then(lambda f: f.value()[0] * 2).wait()
    equal("future", doubled, torch.full((100_000,), float(size * (size + 1))))


def barrier(rank: int, size: int) -> tuple[float, float]:
    """When the rank came, and when it was past it."""
    if rank == 1:
        time.sleep(0.5)
    came = time.monotonic()
    dist.barrier()
    return came, time.monotonic()


def groups(rank: int, size: int) -> None:
    halves = [dist.new_group([r for r in range(size) if r % 2 == k]) for k in range(2)]
    t = torch.full((10,), float(rank), device=DEVICE)
    dist.all_reduce(t, group=halves[rank % 2])
    equal("half", t, torch.full((10,), float(sum(r for r in range(size) if r % 2 == rank % 2))))
    dist.destroy_process_group(halves[rank % 2])


def both_backends(rank: int, size: int) -> str:
    a, b = torch.ones(3), torch.ones(3, device=DEVICE)
    dist.all_reduce(a), dist.all_reduce(b)
    assert torch.equal(a, torch.full((3,), float(size)))
    equal("npu", b, a)
    return str(dist.get_backend_config())


def model() -> nn.Module:
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def train(net: nn.Module, x: torch.Tensor, y: torch.Tensor, steps: int) -> None:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.mse_loss(net(x), y).backward()
        optimizer.step()


def ddp(rank: int, size: int, options: dict) -> float:
    """The largest difference from one rank with the joined batch."""
    torch.manual_seed(3)
    x, y = torch.randn(size * 6, 8), torch.randn(size * 6, 4)
    alone = model()
    train(alone, x, y, 5)
    net = nn.parallel.DistributedDataParallel(model().to(DEVICE), device_ids=[rank], output_device=rank, **options)
    here = slice(rank * 6, rank * 6 + 6)
    train(net, x[here].to(DEVICE), y[here].to(DEVICE), 5)
    return max(
        float((a.detach() - b.detach().cpu()).abs().max())
        for a, b in zip(alone.parameters(), net.module.parameters(), strict=True)
    )


def ddp_times(rank: int, size: int) -> dict[str, int]:
    """What DDP's logging data says of an iteration's phases, in nanoseconds."""
    net = nn.parallel.DistributedDataParallel(model().to(DEVICE), device_ids=[rank])
    train(net, torch.randn(6, 8, device=DEVICE), torch.randn(6, 4, device=DEVICE), 5)
    data = net._get_ddp_logging_data()
    names = ["avg_forward_compute_time", "avg_backward_compute_time", "avg_backward_comm_time"]
    return {name: data[name] for name in names}


def wrong_device(rank: int, size: int) -> str:
    try:
        dist.all_reduce(torch.ones(2), group=dist.group.WORLD)
    except RuntimeError as error:
        return str(error)
    return ""


def bitwise(rank: int, size: int) -> str:
    try:
        dist.all_reduce(torch.ones(2, dtype=torch.int32, device=DEVICE), dist.ReduceOp.BAND)
    except ValueError as error:
        return str(error)
    return ""


def missing_rank(rank: int, size: int) -> tuple[str, str]:
    """All but the last call; the group's timeout must name it."""
    if rank == size - 1:
        time.sleep(4)
        return "", ""
    try:
        dist.all_reduce(torch.ones(4, device=DEVICE))
        torch.npu.synchronize()
    except Exception as error:
        return type(error).__name__, str(error)
    return "", ""


def watch_failure(rank: int, size: int, seconds: float) -> str:
    """Goes on until the group says that it failed."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            work = dist.all_reduce(torch.ones(4, device=DEVICE), async_op=True)
            work.wait(datetime.timedelta(seconds=20))
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return ""


def finish(rank: int, size: int) -> None:
    dist.destroy_process_group()

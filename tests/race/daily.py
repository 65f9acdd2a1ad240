"""What runs every day and has no race. Each function trains a little and returns its last loss;
the program prints how much was found. Who uses it: test_silent.py, and tests/memcheck.

    python -m tests.race.daily loader                                   one process
    python -m torch.distributed.run --nproc-per-node 2 -m tests.race.daily ddp
"""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist
from torch import nn

import torch_npu  # noqa: F401

STEPS = 8


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.1), nn.LayerNorm(256), nn.Linear(256, 8))


def steps(net: nn.Module, optimizer: torch.optim.Optimizer, batches) -> float:
    for x, target in batches:
        optimizer.zero_grad()
        with torch.autocast("npu", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(net(x), target)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    return loss.item()


def on_device():
    generator = torch.Generator().manual_seed(dist.get_rank() if dist.is_initialized() else 0)
    for _ in range(STEPS):
        x = torch.randn(32, 64, generator=generator)
        yield x.npu(), torch.randint(0, 8, (32,), generator=generator).npu()


def ddp() -> float:
    net = nn.parallel.DistributedDataParallel(model().npu(), bucket_cap_mb=0.05)
    return steps(net, torch.optim.AdamW(net.parameters(), 1e-3), on_device())


def fsdp2() -> float:
    from torch.distributed.fsdp import fully_shard

    net = model().npu()
    for layer in net:
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    fully_shard(net)
    return steps(net, torch.optim.AdamW(net.parameters(), 1e-3), on_device())


def loader() -> float:
    data = torch.utils.data.TensorDataset(torch.randn(32 * STEPS, 64), torch.randint(0, 8, (32 * STEPS,)))
    batches = torch.utils.data.DataLoader(data, 32, pin_memory=True, num_workers=2)
    net = model().npu()

    def moved():
        for x, target in batches:
            yield x.npu(non_blocking=True), target.npu(non_blocking=True)

    return steps(net, torch.optim.SGD(net.parameters(), 0.1, momentum=0.9), moved())


def prefetch() -> float:
    """The prefetcher of many training scripts: the next batch on a stream of its own."""
    net, side = model().npu(), torch.npu.Stream()

    def moved():
        ahead = None
        for x, target in [*((a.cpu().pin_memory(), b.cpu().pin_memory()) for a, b in on_device()), (None, None)]:
            if ahead:
                torch.npu.current_stream().wait_stream(side)
                for t in ahead:
                    t.record_stream(torch.npu.current_stream())
            if x is not None:
                with torch.npu.stream(side):
                    ahead, ready = (x.npu(non_blocking=True), target.npu(non_blocking=True)), ahead
            else:
                ready = ahead
            if ready:
                yield ready

    return steps(net, torch.optim.SGD(net.parameters(), 0.1), moved())


def graph() -> float:
    net, optimizer = model().npu(), None
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    x, target = torch.randn(32, 64).npu(), torch.randint(0, 8, (32,)).npu()

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(net(x), target)
        loss.backward()
        optimizer.step()
        return loss

    side = torch.npu.Stream()
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        for _ in range(3):
            step()
    torch.npu.current_stream().wait_stream(side)
    captured = torch.npu.NPUGraph()
    with torch.npu.graph(captured):
        loss = step()
    for a, b in on_device():
        x.copy_(a, non_blocking=True)
        target.copy_(b, non_blocking=True)
        captured.replay()
    return loss.item()


def streams() -> float:
    """Two streams share the work of each step, ordered by events and record_stream."""
    a, b = torch.npu.Stream(), torch.npu.Stream()
    total = torch.zeros(1000, device="npu")
    for step in range(50):
        x = torch.full((1000,), float(step), device="npu")
        ready = torch.npu.current_stream().record_event()
        with torch.npu.stream(a):
            a.wait_event(ready)
            y = x * 2
        with torch.npu.stream(b):
            b.wait_event(ready)
            z = x + 1
        for s, t in ((a, y), (b, z)):
            x.record_stream(s)
            torch.npu.current_stream().wait_stream(s)
            t.record_stream(torch.npu.current_stream())
        total += y + z
    norm = torch.nn.BatchNorm1d(10).npu().eval()  # reads the statistics that training writes
    torch.npu.synchronize()
    with torch.npu.stream(a):
        norm(torch.ones(5, 10, device="npu"))
    norm(torch.ones(5, 10, device="npu"))
    h = torch.empty(1000, pin_memory=True)
    h.copy_(total, non_blocking=True)
    torch.npu.synchronize()
    return h.mean().item()


def main() -> None:
    what = globals()[sys.argv[1]]
    if "RANK" in os.environ:
        torch.npu.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("hccl")
    loss = what()
    torch.npu.synchronize()
    assert loss == loss and loss < 1e4, loss
    checks = {"race": torch.npu.race_reports, "memory": torch.npu.memory_reports}
    found = sum(len(checks[name]()) for name in os.environ["ANYCEND_CHECK"].split(","))
    print(f"found {found}", flush=True)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()

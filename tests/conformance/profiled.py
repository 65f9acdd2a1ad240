"""Two steps of a small network with residuals under torch_npu.profiler, then one under torch.profiler:

    python -m tests.conformance.profiled FOLDER LEVEL TYPES [resnet18]

With RANK, WORLD_SIZE and MASTER_* set: data-parallel. TYPES: Text, Db or both with a comma. Prints RESULT and, as JSON,
the names of the step's kernels as torch.profiler has them; all of the device's tasks are in FOLDER/torch_<rank>.json.
Public names only: it runs with either torch_npu.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

import torch_npu

profiler = torch_npu.profiler
STEPS = 2
TASKS = ("kernel", "gpu_memcpy", "gpu_memset", "collective_comm")  # the last is the wheel's kind for collectives


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = F.relu(self.norms[0](self.first(x)))
        return F.relu(self.norms[1](self.second(inner)) + x)


def network() -> nn.Module:
    pool = nn.AdaptiveAvgPool2d(1)
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), Block(8), Block(8), pool, nn.Flatten(), nn.Linear(8, 4)).npu()


class Stage(nn.Module):
    """ResNet18's block: two 3x3 convolutions, and a way around them that may shrink."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(out) for _ in range(2))
        around = [nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out)]
        self.around = nn.Sequential(*around) if stride != 1 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = F.relu(self.norms[0](self.first(x)), inplace=True)
        return F.relu(self.norms[1](self.second(inner)) + self.around(x), inplace=True)


def resnet18() -> nn.Module:
    widths = [64, 64, 128, 256, 512]
    stages = [
        Stage(i if first else o, o, 2 if first and i != o else 1)
        for i, o in zip(widths, widths[1:], strict=False)
        for first in (True, False)
    ]
    stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    return nn.Sequential(*stem, *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 4)).npu()


def main() -> None:
    folder, level, types = sys.argv[1], sys.argv[2], sys.argv[3].split(",")
    torch.manual_seed(0)
    rank = int(os.environ.get("RANK", "-1"))
    if rank >= 0:
        torch.npu.set_device(rank)
        dist.init_process_group("hccl")
    large = sys.argv[4:] == ["resnet18"]
    model = resnet18() if large else network()
    if rank >= 0:
        model = nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(4, 3, *([64, 64] if large else [8, 8])).npu(), torch.randint(4, (4,)).npu()

    def step() -> None:
        with torch.autograd.profiler.record_function("forward"):
            # Cross entropy as the wheel computes it: in ours F.cross_entropy is one function of CANN (docs/adr/0011).
            loss = F.nll_loss(F.log_softmax(model(x), 1), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch.npu.synchronize()

    for _ in range(3):  # what only first steps do is done
        step()
    config = profiler._ExperimentalConfig(
        profiler_level=getattr(profiler.ProfilerLevel, level),
        export_type=[getattr(profiler.ExportType, kind) for kind in types],
        data_simplification=False,
    )
    with profiler.profile(
        activities=[profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.NPU],
        schedule=profiler.schedule(wait=0, active=STEPS, repeat=1),
        on_trace_ready=profiler.tensorboard_trace_handler(folder),
        record_shapes=True, profile_memory=True, with_stack=True, experimental_config=config,
    ) as prof:  # fmt: skip
        for _ in range(STEPS):
            step()
            prof.step()
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.PrivateUse1]
    with torch.profiler.profile(activities=activities) as seen:
        step()
    events = sorted(seen.profiler.kineto_results.events(), key=lambda e: e.start_ns())
    tasks = [(e.activity_type(), e.name()) for e in events if e.activity_type() in TASKS]
    Path(folder, f"torch_{rank}.json").write_text(json.dumps(tasks), encoding="utf-8")
    print("RESULT", json.dumps([name for kind, name in tasks if kind == "kernel"]), flush=True)
    if rank >= 0:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()

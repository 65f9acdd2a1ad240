"""PyTorch's PowerSGD hook of DistributedDataParallel, as it is, and with a wait behind it; docs/race.md says what is
found. Who uses it: test_hooks.py, with ANYCEND_CHECK=race.

    python -m torch.distributed.run --nproc-per-node 2 -m tests.race.hooks     prints JSON: ranks' hook -> [reports]
"""

import json
import os
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powersgd

import torch_npu  # noqa: F401


# DistributedDataParallel reads the annotations, and wants no text: no `annotations` of __future__ here.
def as_it_is(state: powersgd.PowerSGDState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    return powersgd.powerSGD_hook(state, bucket)


def waited_for(state: powersgd.PowerSGDState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The current stream waits for the hook's before anything else is put on it."""
    done = powersgd.powerSGD_hook(state, bucket)
    done.wait()
    return done


def train(hook: Callable) -> list[str]:
    """What is found meanwhile."""
    before = len(torch.npu.race_reports())
    torch.manual_seed(0)
    layers = [layer for _ in range(6) for layer in (nn.Linear(256, 256), nn.ReLU())]
    net = nn.parallel.DistributedDataParallel(nn.Sequential(*layers).npu(), bucket_cap_mb=0.5)  # several buckets
    net.register_comm_hook(powersgd.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2), hook)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    for _ in range(5):
        optimizer.zero_grad()
        net(torch.ones(32, 256, device="npu")).square().mean().backward()
        optimizer.step()
    torch.npu.synchronize()
    return torch.npu.race_reports()[before:]


def main() -> None:
    torch.npu.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("hccl")
    found = {hook.__name__: train(hook) for hook in (waited_for, as_it_is)}
    ranks: list = [None] * dist.get_world_size()
    dist.all_gather_object(ranks, found)
    if dist.get_rank() == 0:  # long lines of two ranks on one pipe would run into each other
        print("REPORTS " + json.dumps(ranks), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""A digit classifier trained on several NPUs with DistributedDataParallel, mixed precision included.

    python examples/quickstart/make_digits.py && bash examples/distributed/run.sh torchrun 8

One process an NPU. Whoever starts the processes gives each RANK, LOCAL_RANK and WORLD_SIZE, and where rank 0 is by
MASTER_ADDR and MASTER_PORT; run.sh shows five ways. With any number of NPUs the result is the same: the batch is
divided, not multiplied.
"""

import argparse
import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torchvision
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

import torch_npu  # isort: split
from torch_npu.npu import amp


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))

    def forward(self, images):
        return self.net(images)


def command_line() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Train a digit classifier on several NPUs.")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=64, help="of all NPUs together")
    parser.add_argument("--init-method", default="env://", help="or parallel://host:port, the store for large clusters")
    parser.add_argument("--local-rank", "--local_rank", type=int, default=None, help="older launchers pass it")
    return parser


def digits(train: bool) -> torchvision.datasets.MNIST:
    return torchvision.datasets.MNIST("mnist", train=train, transform=torchvision.transforms.ToTensor())


def accuracy(model: nn.Module, device: torch.device) -> float:
    images, labels = next(iter(DataLoader(digits(train=False), batch_size=10_000)))
    with torch.no_grad():
        return (model(images.to(device)).argmax(1) == labels.to(device)).float().mean().item()


def train(rank: int, local_rank: int, world_size: int, args: argparse.Namespace) -> None:
    if args.epochs < 1:
        raise SystemExit(f"--epochs {args.epochs}: at least 1")
    torch_npu.npu.set_device(local_rank)
    device = torch.device("npu", local_rank)
    dist.init_process_group("hccl", init_method=args.init_method, rank=rank, world_size=world_size)

    torch.manual_seed(0)
    model = DDP(Classifier().to(device), device_ids=[local_rank], output_device=local_rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = amp.GradScaler()
    data = digits(train=True)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=args.batch_size // world_size, sampler=sampler, drop_last=True)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            with amp.autocast():
                loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        mean = loss.detach().clone()
        dist.all_reduce(mean, dist.ReduceOp.AVG)
        if rank == 0:
            print(f"epoch {epoch + 1}: loss {mean.item():.4f}\n", end="", flush=True)
    total = sum(p.detach().double().sum() for p in model.parameters()).item()
    print(f"rank {rank} of {world_size} on {device}: sum of parameters {total:.12f}\n", end="", flush=True)
    if rank == 0:
        print(f"test accuracy {100 * accuracy(model.module, device):.1f} %\n", end="", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    environ = os.environ
    args = command_line().parse_args()
    if "WORLD_SIZE" not in environ:
        raise SystemExit("train.py is one of several processes: start it by run.sh, torchrun or torch_npu_run")
    local_rank = int(environ.get("LOCAL_RANK", args.local_rank if args.local_rank is not None else 0))
    train(int(environ.get("RANK", local_rank)), local_rank, int(environ["WORLD_SIZE"]), args)

"""MobileNetV3 on a folder of pictures, laid out as the ModelZoo's samples are: main.py, and test/ with what starts it.

One process an NPU, told by RANK, LOCAL_RANK and WORLD_SIZE; test/train_full_1p.sh and test/train_full_8p.sh set them.
Mixed precision is Apex's interface (O1 or O2), from torch_npu.contrib.
"""

import argparse
import os
import time
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn as nn
import torchvision
import torchvision.transforms as transforms
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

import torch_npu  # isort: split
from torch_npu.contrib.apex import amp


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train MobileNetV3 on one or several NPUs.")
    parser.add_argument("--data_path", type=Path, required=True, help="with folders train and val, one folder a class")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=64, help="of all NPUs together")
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--opt-level", default="O1", help="of Apex's amp")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def loader(args: argparse.Namespace, part: str, world_size: int) -> DataLoader:
    change = [transforms.RandomHorizontalFlip()] if part == "train" else []
    data = torchvision.datasets.ImageFolder(
        str(args.data_path / part), transforms.Compose([*change, transforms.ToTensor()])
    )
    sampler = DistributedSampler(data, shuffle=part == "train", seed=args.seed) if world_size > 1 else None
    return DataLoader(
        data, args.batch_size // world_size, shuffle=sampler is None and part == "train", sampler=sampler,
        num_workers=args.workers, pin_memory=True, drop_last=part == "train",
    )  # fmt: skip


@torch.no_grad()
def right_and_all(model: nn.Module, pictures: DataLoader, device: torch.device) -> torch.Tensor:
    model.eval()
    counts = torch.zeros(2, device=device)
    for images, labels in pictures:
        predicted = model(images.to(device, non_blocking=True)).argmax(1)
        counts += torch.stack([(predicted == labels.to(device)).sum(), torch.tensor(len(labels), device=device)])
    return counts


def main() -> None:
    args = arguments()
    rank, world_size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    device = torch.device("npu", int(os.environ.get("LOCAL_RANK", 0)))
    torch_npu.npu.set_device(device)
    torch.manual_seed(args.seed)
    if world_size > 1:
        dist.init_process_group("hccl", rank=rank, world_size=world_size)
    training, validation = loader(args, "train", world_size), loader(args, "val", world_size)
    # An epoch here is a few steps; the model's own momentum of 0.01 would take hundreds to know the pictures' mean.
    norm = partial(nn.BatchNorm2d, eps=0.001, momentum=0.3)
    model = torchvision.models.mobilenet_v3_small(num_classes=len(training.dataset.classes), norm_layer=norm)
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    criterion = nn.CrossEntropyLoss().to(device)
    model, optimizer = amp.initialize(model, optimizer, opt_level=args.opt_level, loss_scale=128.0)
    if world_size > 1:
        model = DDP(model, device_ids=[device.index], broadcast_buffers=False)
    began = time.time()
    for epoch in range(1, args.epochs + 1):
        model.train()
        if world_size > 1:
            training.sampler.set_epoch(epoch)
        since = time.time()
        for images, labels in training:
            loss = criterion(model(images.to(device, non_blocking=True)), labels.to(device, non_blocking=True))
            optimizer.zero_grad()
            with amp.scale_loss(loss, optimizer) as scaled:
                scaled.backward()
            optimizer.step()
        last = loss.item()  # waits for the device: what is timed is done
        pictures_a_second = len(training) * args.batch_size / (time.time() - since)
        counts = right_and_all(model, validation, device)
        if world_size > 1:
            dist.all_reduce(counts)
        if rank == 0:
            accuracy = 100 * (counts[0] / counts[1]).item()
            print(f"epoch {epoch}: loss {last:.4f}, FPS {pictures_a_second:.1f}, Acc@1 {accuracy:.1f}", flush=True)
    if rank == 0:
        torch.save({"state_dict": model.state_dict(), "optimizer": optimizer.state_dict()}, "checkpoint.pth.tar")
        print(f"training took {time.time() - began:.0f} s", flush=True)
    if world_size > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()

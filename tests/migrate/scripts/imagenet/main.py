"""An ImageNet trainer of the usual shape, for GPUs: --arch, --gpu, and one process a GPU with --multiprocessing-distributed.

The images are made up (`--dummy`'s data alone), the models small: what counts is how the script speaks of devices.
"""

import argparse
import os
import random
import time
import warnings

import torch
import torch.backends.cudnn as cudnn
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.parallel
import torch.optim
import torch.utils.data
from models import ARCHITECTURES

parser = argparse.ArgumentParser(description="ImageNet training")
parser.add_argument("-a", "--arch", default="plain8", choices=sorted(ARCHITECTURES))
parser.add_argument("-j", "--workers", default=0, type=int)
parser.add_argument("--epochs", default=2, type=int)
parser.add_argument("-b", "--batch-size", default=16, type=int, help="of all GPUs of the node together")
parser.add_argument("--lr", default=0.05, type=float)
parser.add_argument("--momentum", default=0.9, type=float)
parser.add_argument("--wd", "--weight-decay", default=1e-4, type=float, dest="weight_decay")
parser.add_argument("--resume", default="", type=str)
parser.add_argument("--world-size", default=-1, type=int)
parser.add_argument("--rank", default=-1, type=int)
parser.add_argument("--dist-url", default="tcp://127.0.0.1:23456", type=str)
parser.add_argument("--dist-backend", default="nccl", type=str, help="nccl for cuda, gloo for the cpu")
parser.add_argument("--seed", default=None, type=int)
parser.add_argument("--gpu", default=None, type=int, help="GPU id to use.")
parser.add_argument("--multiprocessing-distributed", action="store_true")
parser.add_argument("--checkpoint", default="checkpoint.pth.tar")


def main():
    args = parser.parse_args()
    if args.seed is not None:
        random.seed(args.seed)
        torch.manual_seed(args.seed)
        cudnn.deterministic = True
    if args.gpu is not None:
        warnings.warn("You have chosen a specific GPU. This will completely disable data parallelism.")
    if args.dist_url == "env://" and args.world_size == -1:
        args.world_size = int(os.environ["WORLD_SIZE"])
    args.distributed = args.world_size > 1 or args.multiprocessing_distributed
    ngpus_per_node = args.world_size if args.multiprocessing_distributed else 1
    if args.multiprocessing_distributed:
        mp.spawn(main_worker, nprocs=ngpus_per_node, args=(ngpus_per_node, args))
    else:
        main_worker(args.gpu, ngpus_per_node, args)


def main_worker(gpu, ngpus_per_node, args):
    args.gpu = gpu
    if args.gpu is not None:
        print(f"Use GPU: {args.gpu} for training")
    if args.distributed:
        if args.multiprocessing_distributed:
            args.rank = gpu
        dist.init_process_group(
            backend=args.dist_backend, init_method=args.dist_url, world_size=args.world_size, rank=args.rank
        )
    if args.seed is not None:
        torch.manual_seed(args.seed)
    model = ARCHITECTURES[args.arch]()

    if not torch.cuda.is_available():
        print("using CPU, this will be slow")
    elif args.distributed:
        torch.cuda.set_device(args.gpu)
        model.cuda(args.gpu)
        args.batch_size = int(args.batch_size / ngpus_per_node)
        model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[args.gpu])
    elif args.gpu is not None:
        torch.cuda.set_device(args.gpu)
        model = model.cuda(args.gpu)
    else:
        model = torch.nn.DataParallel(model).cuda()

    if torch.cuda.is_available():
        device = torch.device(f"cuda:{args.gpu}") if args.gpu is not None else torch.device("cuda")
    else:
        device = torch.device("cpu")
    criterion = nn.CrossEntropyLoss().to(device)
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=args.momentum, weight_decay=args.weight_decay)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    start_epoch = 0
    if args.resume:
        loc = f"cuda:{args.gpu}" if torch.cuda.is_available() else "cpu"
        checkpoint = torch.load(args.resume, map_location=loc)
        start_epoch = checkpoint["epoch"]
        model.load_state_dict(checkpoint["state_dict"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        scheduler.load_state_dict(checkpoint["scheduler"])

    generator = torch.Generator().manual_seed(1)
    images, labels = torch.randn(64, 3, 16, 16, generator=generator), torch.randint(0, 10, (64,), generator=generator)
    train_dataset = torch.utils.data.TensorDataset(images, labels)
    train_sampler = torch.utils.data.distributed.DistributedSampler(train_dataset) if args.distributed else None
    train_loader = torch.utils.data.DataLoader(
        train_dataset, batch_size=args.batch_size, shuffle=train_sampler is None, num_workers=args.workers,
        pin_memory=True, sampler=train_sampler,
    )  # fmt: skip
    for epoch in range(start_epoch, args.epochs):
        if args.distributed:
            train_sampler.set_epoch(epoch)
        train(train_loader, model, criterion, optimizer, epoch, device)
        accuracy = validate(images, labels, model, device)
        scheduler.step()
        if not args.multiprocessing_distributed or args.rank % ngpus_per_node == 0:
            print(f"epoch {epoch} accuracy {accuracy:.4f}")
            state = {
                "epoch": epoch + 1, "arch": args.arch, "state_dict": model.state_dict(),
                "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(),
            }  # fmt: skip
            torch.save(state, args.checkpoint)
    if args.distributed:
        dist.destroy_process_group()


def train(train_loader, model, criterion, optimizer, epoch, device):
    model.train()
    end = time.time()
    for i, (images, target) in enumerate(train_loader):
        images = images.to(device, non_blocking=True)
        target = target.to(device, non_blocking=True)
        loss = criterion(model(images), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        if dist.is_initialized():
            dist.all_reduce(total)
            total /= dist.get_world_size()
        if not dist.is_initialized() or dist.get_rank() == 0:
            print(f"loss {epoch}.{i} {total.item():.7g} time-{time.time() - end > 0}")


def validate(images, labels, model, device):
    model.eval()
    with torch.no_grad():
        output = model(images.cuda(device, non_blocking=True) if torch.cuda.is_available() else images)
        total = torch.tensor([output.argmax(1).eq(labels.to(device)).sum(), labels.numel()], device=device)
    return (total[0] / total[1]).item()


if __name__ == "__main__":
    main()

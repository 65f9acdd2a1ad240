"""What `distributed` makes of gpt/train.py, written by hand for several GPUs: the reference for its losses."""

import os

import torch
from data import Blocks
from model import GPT
from torch.distributed import destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

batch_size = int(os.environ.get("GPT_BATCH", "8"))


def main():
    init_process_group(backend="nccl")
    rank, local_rank = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    device = f"cuda:{local_rank}"
    torch.cuda.set_device(device)
    torch.manual_seed(1337)
    train_set = Blocks()
    sampler = DistributedSampler(train_set)
    train_loader = DataLoader(train_set, batch_size=batch_size, sampler=sampler, pin_memory=True)
    model = DDP(GPT().to(device), device_ids=[local_rank])
    optimizer = model.module.configure_optimizers(1e-1, 1e-2, "cuda")
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for step, (x, y) in enumerate(train_loader):
            x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
            logits, loss = model(x, y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            print(f"rank{rank} loss {epoch}.{step} {loss.item():.7g}", flush=True)
    if rank == 0:
        torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}, "ckpt.pt")
    destroy_process_group()


if __name__ == "__main__":
    main()

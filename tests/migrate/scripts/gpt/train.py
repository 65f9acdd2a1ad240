"""GPT training on one GPU, in the manner of small research scripts: settings as globals, autocast, a scaler, fused AdamW."""

import os
from contextlib import nullcontext

import torch
from data import Blocks
from model import GPT
from torch.utils.data import DataLoader

device = "cuda" if torch.cuda.is_available() else "cpu"
dtype = os.environ.get("GPT_DTYPE", "float32")
batch_size = int(os.environ.get("GPT_BATCH", "8"))
max_epochs = 2
grad_clip = 1.0

torch.manual_seed(1337)
torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.allow_tf32 = True
device_type = "cuda" if "cuda" in device else "cpu"
ptdtype = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[dtype]


def context():
    if device_type == "cpu" or dtype == "float32":
        return nullcontext()
    return torch.amp.autocast(device_type=device_type, dtype=ptdtype)


def main():
    train_set = Blocks()
    train_loader = DataLoader(train_set, batch_size=batch_size, shuffle=True, pin_memory=device_type == "cuda")
    model = GPT()
    model.to(device)
    scaler = torch.cuda.amp.GradScaler(enabled=(dtype == "float16" and device_type == "cuda"))
    optimizer = model.configure_optimizers(1e-1, 1e-2, device_type)
    for epoch in range(max_epochs):
        for step, (x, y) in enumerate(train_loader):
            if device_type == "cuda":
                x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            with context():
                logits, loss = model(x, y)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
            print(f"loss {epoch}.{step} {loss.item():.7g}")
    checkpoint = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(checkpoint, "ckpt.pt")


if __name__ == "__main__":
    main()

"""A GAN trainer in the manner of StyleGAN: mapping network, modulated convolutions, R1 penalty, an averaged generator,
gradients summed by hand over --gpus processes, timings by CUDA events."""

import argparse
import copy
import os
import tempfile

import torch
import torch.nn.functional as F
from networks import Discriminator, Generator


def training_loop(rank, num_gpus, batch_size, steps, seed, out):
    device = torch.device("cuda", rank) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        start_event, end_event = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start_event.record(torch.cuda.current_stream(device))
    torch.manual_seed(seed)
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = False
    G = Generator().train().requires_grad_(False).to(device)
    D = Discriminator().train().requires_grad_(False).to(device)
    G_ema = copy.deepcopy(G).eval()
    for module in [G, D]:
        if num_gpus > 1:
            for param in list(module.parameters()) + list(module.buffers()):
                torch.distributed.broadcast(param, src=0)
    G_opt = torch.optim.Adam(G.parameters(), lr=2e-3, betas=(0.0, 0.99))
    D_opt = torch.optim.Adam(D.parameters(), lr=2e-3, betas=(0.0, 0.99))
    host = torch.Generator().manual_seed(seed + rank)
    local_batch = batch_size // num_gpus
    for step in range(steps):
        real = torch.randn(local_batch, 3, 8, 8, generator=host)
        real = (real.pin_memory() if device.type == "cuda" else real).to(device)
        z = torch.randn(2, local_batch, 16, generator=host).to(device, non_blocking=True)

        D.requires_grad_(True)
        with torch.autograd.profiler.record_function("Dmain"):
            real.requires_grad_(True)
            logits = D(real)
            (grads,) = torch.autograd.grad(outputs=[logits.sum()], inputs=[real], create_graph=True)
            penalty = grads.square().sum([1, 2, 3])
            d_loss = (F.softplus(D(G(z[0]))) + F.softplus(-logits) + 0.5 * penalty).mean()
            d_loss.backward()
        apply(D, D_opt, num_gpus)

        G.requires_grad_(True)
        with torch.autograd.profiler.record_function("Gmain"):
            g_loss = F.softplus(-D(G(z[1]))).mean()
            g_loss.backward()
        apply(G, G_opt, num_gpus)

        with torch.no_grad():
            for p_ema, p in zip(G_ema.parameters(), G.parameters()):
                p_ema.copy_(p.lerp(p_ema, 0.9))
        stats = torch.stack([d_loss.detach(), g_loss.detach()])
        if num_gpus > 1:
            torch.distributed.all_reduce(stats)
        if rank == 0:
            print(f"loss {step} {stats[0].item() / num_gpus:.7g} {stats[1].item() / num_gpus:.7g}", flush=True)
    if device.type == "cuda":
        end_event.record(torch.cuda.current_stream(device))
        end_event.synchronize()
        assert start_event.elapsed_time(end_event) > 0
        assert torch.cuda.max_memory_allocated(device) > 0
        torch.cuda.empty_cache()
    if rank == 0:
        torch.save({"G_ema": G_ema, "step": steps}, os.path.join(out, "network-cuda:0.pt"))


def apply(module, optimizer, num_gpus):
    params = [param for param in module.parameters() if param.grad is not None]
    flat = torch.cat([param.grad.flatten() for param in params])
    if num_gpus > 1:
        torch.distributed.all_reduce(flat)
        flat /= num_gpus
    torch.nan_to_num(flat, nan=0, posinf=1e5, neginf=-1e5, out=flat)
    for param, grad in zip(params, flat.split([param.numel() for param in params])):
        param.grad = grad.reshape(param.shape)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    module.requires_grad_(False)


def subprocess_fn(rank, args, temp_dir):
    if args.gpus > 1:
        init_file = os.path.abspath(os.path.join(temp_dir, ".torch_distributed_init"))
        torch.cuda.set_device(rank)
        torch.distributed.init_process_group(
            backend="nccl", init_method=f"file://{init_file}", rank=rank, world_size=args.gpus
        )
    training_loop(rank, args.gpus, args.batch, args.steps, args.seed, args.outdir)
    if args.gpus > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--outdir", default=".")
    args = parser.parse_args()
    torch.multiprocessing.set_start_method("spawn")
    with tempfile.TemporaryDirectory() as temp_dir:
        if args.gpus == 1:
            subprocess_fn(rank=0, args=args, temp_dir=temp_dir)
        else:
            torch.multiprocessing.spawn(fn=subprocess_fn, args=(args, temp_dir), nprocs=args.gpus)

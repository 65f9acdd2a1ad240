"""One of two ranks: collectives inside of graphs that torchair compiles, against the same numbers computed here."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol


def main() -> None:
    import torch_npu  # noqa: F401  makes torchair known

    # isort: split
    import torchair

    dist.init_process_group("hccl")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.npu.set_device(rank)
    group = dist.group.WORLD

    def step(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        summed = funcol.all_reduce(x * 2, "sum", group)
        gathered = funcol.all_gather_tensor(x + 1, 0, group)
        part = funcol.reduce_scatter_tensor(x, "sum", 0, group)
        return summed - 1, gathered * 1, part + 0.5

    every = [torch.arange(12.0).reshape(4, 3) + 10 * r for r in range(size)]
    total = sum(every)
    want = (2 * total - 1, torch.cat(every) + 1, total.chunk(size)[rank] + 0.5)
    fast = torch.compile(step, backend=torchair.get_npu_backend(), dynamic=False, fullgraph=True)
    worst = 0.0
    for _ in range(2):
        got = fast(every[rank].npu())
        worst = max(worst, *((a.cpu() - b).abs().max().item() for a, b in zip(got, want, strict=True)))
    print("RESULT", worst, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

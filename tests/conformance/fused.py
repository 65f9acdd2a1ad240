"""One rank of the vendor's operators that hold a collective: python -m tests.conformance.fused.

RANK, WORLD_SIZE and MASTER_* are set.

Operands are small integers: sums are exact, and each rank knows from all ranks' operands what must come.
"""

from __future__ import annotations

import os

import torch
import torch.distributed as dist


def integers(rank: int, *sizes: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(-2, 3, sizes, generator=torch.Generator().manual_seed(100 * seed + rank)).float()


def equal(label: str, got: torch.Tensor, want: torch.Tensor) -> None:
    assert torch.equal(got.cpu().float(), want), f"{label}: {got.cpu()} is not {want}"


def products(rank: int, size: int, group: str) -> None:
    import torch_npu

    a, b, x3 = (
        [integers(r, *s, seed=i) for r in range(size)] for i, s in enumerate([(4 * size, 8), (8, 6), (4 * size, 6)])
    )
    x, w = a[rank].half().npu(), b[rank].half().npu()
    parts = [p @ q for p, q in zip(a, b, strict=True)]
    equal("all reduce", torch_npu.npu_mm_all_reduce_base(x, w, group), sum(parts))
    got = torch_npu.npu_mm_all_reduce_base(x, w, group, x3=x3[rank].half().npu())
    equal("all reduce with x3", got, sum(parts) + sum(x3))
    got = torch_npu.npu_mm_reduce_scatter_base(x, w.t().contiguous().t(), group, size)
    equal("reduce scatter", got, sum(parts)[4 * rank : 4 * rank + 4])
    for wanted in (True, False):
        got, gathered = torch_npu.npu_all_gather_base_mm(x, w, group, size, gather_output=wanted)
        equal("all gather", got, torch.cat(a) @ b[rank])
        if wanted:
            equal("gathered", gathered, torch.cat(a))
    column = torch.full((6,), 0.5)
    code = torch_npu.npu_trans_quant_param(column.npu())
    got = torch_npu.npu_mm_all_reduce_base(x.char(), w.char(), group, dequant_scale=code)
    equal("int8", got, sum(parts) * 0.5)

    joined = torch.cat([p[4 * rank : 4 * rank + 4] for p in a], 1)
    right = integers(rank, 8 * size, 6, seed=5)
    got, exchanged = torch_npu.npu_all_to_all_matmul(x, right.half().npu(), group, size)
    equal("all to all", got, joined @ right)
    equal("exchanged", exchanged, joined)
    columns = slice(3 * rank, 3 * rank + 3)
    got = torch_npu.npu_matmul_all_to_all(x, w, group, size)
    equal("columns", got, torch.cat([p[:, columns] for p in parts]))

    counts = [2] * (2 * size)
    weight = integers(rank, 2, 8, 6, seed=6)
    got, _, permuted = torch_npu.npu_alltoallv_gmm(
        x, weight.half().npu(), group, size, counts, counts, permute_out_flag=True
    )
    mine = torch.cat([p.view(size, 2, 2, 8)[rank, e] for e in range(2) for p in a])
    equal("tokens of experts", permuted, mine)
    equal("experts", got, torch.cat([h @ q for h, q in zip(mine.chunk(2), weight, strict=True)]))
    same = torch.stack([torch.eye(8), torch.eye(8)]).half().npu()
    got, _ = torch_npu.npu_gmm_alltoallv(permuted, same, group, size, counts, counts)
    equal("back", got, a[rank])


def experts(rank: int, size: int, group: str) -> None:
    import torch_npu

    tokens, count = 4, 2 * size
    x, factors = integers(rank, tokens, 8), torch.tensor([[1.0, 2.0]] * tokens)
    generator = torch.Generator().manual_seed(rank)
    ids = torch.stack([torch.randperm(count, generator=generator)[:2] for _ in range(tokens)]).int()
    place = (group, size, rank, count)
    for version in ("", "_v2"):
        dispatch = getattr(torch_npu, f"npu_moe_distribute_dispatch{version}")
        combine = getattr(torch_npu, f"npu_moe_distribute_combine{version}")
        rows, _, places, counts, ends, tp, _ = dispatch(x.half().npu(), ids.npu(), *place)
        factor = torch.cat([torch.full((n, 1), 2.0 * rank + e + 1) for e, n in enumerate(counts.tolist())])
        results = rows.clone()
        results[: len(factor)] *= factor.half().npu()
        more = {} if version else {"expand_scales": torch.zeros(rows.shape[0]).npu()}
        got = combine(results, ids.npu(), places, ends, factors.npu(), *place, tp_send_counts=tp, **more)
        equal(f"there and back{version}", got, x * (factors * (ids + 1)).sum(1, keepdim=True))


def main() -> None:
    import torch_npu  # noqa: F401

    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.npu.set_device(rank)
    dist.init_process_group("hccl")
    default = dist.distributed_c10d._get_default_group()
    group = default._get_backend(torch.device("npu")).get_hccl_comm_name(rank)
    products(rank, size, group)
    experts(rank, size, group)
    print("RESULT fine", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

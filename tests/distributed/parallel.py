"""Ways to train on several NPUs, each against one rank with the joined batch. Programs of ranks: f(rank, size, *args),
run by name through worker.py; each returns the largest difference from the reference.
"""

from __future__ import annotations

import copy
import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

from tests.distributed.programs import DEVICE

STEPS, BATCH = 5, 6


class Network(nn.Module):
    """Two blocks, so that wrapping by block means something."""

    def __init__(self, norm: bool = False):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16) if norm else nn.Identity(), nn.Tanh())
        self.second = nn.Sequential(nn.Linear(16, 16), nn.Tanh())
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        return self.head(self.second(self.first(x)))


def network(norm: bool = False) -> Network:
    torch.manual_seed(7)
    return Network(norm)


def batch(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(3)
    return torch.randn(size * BATCH, 8), torch.randn(size * BATCH, 4)


def share(rank: int, size: int) -> list[torch.Tensor]:
    """This rank's part of the joined batch, on its NPU."""
    return [t[rank * BATCH : (rank + 1) * BATCH].to(DEVICE) for t in batch(size)]


def train(model: nn.Module, x: torch.Tensor, y: torch.Tensor, optimizer=None, steps: int = STEPS) -> list[float]:
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=0.01)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def alone(size: int) -> Network:
    """One rank on the CPU, with the joined batch."""
    model = network()
    train(model, *batch(size))
    return model


def difference(reference: nn.Module, state: dict[str, torch.Tensor]) -> float:
    want = reference.state_dict()
    assert sorted(want) == sorted(state), (sorted(want), sorted(state))
    return max(float((want[k].double() - state[k].detach().cpu().double()).abs().max()) for k in want)


# --- sharded training ---
def fsdp1(rank: int, size: int, strategy: str) -> float:
    from torch.distributed.fsdp import FullStateDictConfig, FullyShardedDataParallel, ShardingStrategy, StateDictType
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    model = FullyShardedDataParallel(
        network().to(DEVICE),
        device_id=torch.device(DEVICE, rank),
        auto_wrap_policy=ModuleWrapPolicy({nn.Sequential}),
        sharding_strategy=ShardingStrategy[strategy],
        use_orig_params=True,
    )
    train(model, *share(rank, size))
    with FullyShardedDataParallel.state_dict_type(model, StateDictType.FULL_STATE_DICT, FullStateDictConfig()):
        return difference(alone(size), model.state_dict())


def fsdp2(rank: int, size: int, reshard: bool) -> float:
    from torch.distributed.fsdp import fully_shard

    model = network().to(DEVICE)
    mesh = init_device_mesh(DEVICE, (size,))
    for part in (model.first, model.second, model):
        fully_shard(part, mesh=mesh, reshard_after_forward=reshard)
    train(model, *share(rank, size))
    return difference(alone(size), {k: v.full_tensor() for k, v in model.state_dict().items()})


def fsdp2_mixed(rank: int, size: int) -> float:
    """bf16 computation with fp32 weights and reductions; the reference computes in bf16 too."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    model = network().to(DEVICE)
    policy = dict(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for part in (model.first, model.second):
        fully_shard(part, mp_policy=MixedPrecisionPolicy(**policy))
    fully_shard(model, mp_policy=MixedPrecisionPolicy(**policy, output_dtype=torch.float32))
    train(model, *share(rank, size), torch.optim.SGD(model.parameters(), lr=0.1))
    reference = network()
    with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
        train(reference, *batch(size), torch.optim.SGD(reference.parameters(), lr=0.1))
    return difference(reference, {k: v.full_tensor() for k, v in model.state_dict().items()})


def zero(rank: int, size: int) -> float:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = nn.parallel.DistributedDataParallel(network().to(DEVICE), device_ids=[rank])
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=0.01)
    train(model, *share(rank, size), optimizer)
    optimizer.consolidate_state_dict(to=0)
    if rank == 0:
        assert len(optimizer.state_dict()["state"]) == len(list(model.parameters()))
    return difference(alone(size), model.module.state_dict())


# --- compiled ---
def wrapped(model: nn.Module, rank: int, way: str, compiler) -> nn.Module:
    """`model` for several ranks, with `compiler` (torch.compile, or nothing) around that or inside of it."""
    from torch.distributed.fsdp import fully_shard

    if way == "fsdp2":
        for part in (model.first, model.second, model):
            fully_shard(part)
        return compiler(model)
    if way == "ddp":
        return compiler(nn.parallel.DistributedDataParallel(model, device_ids=[rank]))
    return nn.parallel.DistributedDataParallel(compiler(model), device_ids=[rank])


def compiled(rank: int, size: int, way: str, backend: str, cache: str) -> float:
    """Compiled on several ranks: each step's loss is that of the same ranks in eager, the weights those of one rank.
    DDP before or after torch.compile, or FSDP2."""
    from torch._dynamo.utils import counters
    from torch._inductor import config

    from tests.dynamo.counting import counted

    os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
    plain = network().to(DEVICE)
    wanted = train(wrapped(plain, rank, way, lambda model: model), *share(rank, size))
    model = network().to(DEVICE)
    mode = {"mode": "reduce-overhead"} if backend == "reduce-overhead" else {"backend": backend}
    with config.patch(compile_threads=1), counted() as counts:
        step = wrapped(model, rank, way, lambda model: torch.compile(model, **mode))
        losses = train(step, *share(rank, size), torch.optim.AdamW(model.parameters(), lr=0.01))
    assert counters["stats"]["unique_graphs"] > 0
    if backend != "inductor":
        assert counts.replays >= STEPS - 1, counts.replays
    torch.testing.assert_close(torch.tensor(losses), torch.tensor(wanted), rtol=1e-5, atol=1e-6)
    state = {k: v.full_tensor() if way == "fsdp2" else v for k, v in model.state_dict().items()}
    torch._dynamo.reset()
    return difference(alone(size), state)


# --- tensors and layers over ranks ---
def dtensor(rank: int, size: int) -> None:
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

    mesh = init_device_mesh(DEVICE, (size,))
    torch.manual_seed(1)
    a, b = torch.randn(size * 4, 6), torch.randn(6, size * 2)
    x, w = distribute_tensor(a.to(DEVICE), mesh, [Shard(0)]), distribute_tensor(b.to(DEVICE), mesh, [Replicate()])
    assert x.to_local().shape == (4, 6)
    torch.testing.assert_close((x @ w).full_tensor().cpu(), a @ b)
    columns = x.redistribute(mesh, [Shard(1)])  # six columns over four ranks are uneven
    assert columns.full_tensor().cpu().equal(a)
    ones = DTensor.from_local(torch.full((size, 3), rank + 1.0, device=DEVICE), mesh, [Partial()])
    total = size * (size + 1) / 2
    assert ones.redistribute(mesh, [Shard(0)]).to_local().cpu().equal(torch.full((1, 3), total))
    torch.testing.assert_close(x.sum().full_tensor().cpu(), a.sum())
    assert float(x.max().full_tensor()) == float(a.max())


def own_operators(rank: int, size: int) -> None:
    """npu_rms_norm, npu_swiglu and npu_rotary_mul of DTensors, and gradients, are those of the whole tensors."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    import torch_npu

    mesh = init_device_mesh(DEVICE, (size,))
    torch.manual_seed(1)
    x, gamma = torch.randn(2 * size, 3, 2 * size + 1, 8).to(DEVICE), torch.randn(8).to(DEVICE)
    angle = torch.randn(1, 1, 2 * size + 1, 8).to(DEVICE)
    a, g = Shard, Replicate()
    for call, tensors, ways in (
        (lambda x, g: torch_npu.npu_rms_norm(x, g, 1e-5)[0], (x, gamma), [(a(0), g), (a(2), g), (g, g), (a(3), a(0))]),
        (torch_npu.npu_swiglu, (x,), [(a(0),), (a(2),), (g,), (a(3),)]),
        (lambda x: torch_npu.npu_swiglu(x, dim=0), (x,), [(a(0),), (a(-1),)]),
        (torch_npu.npu_rotary_mul, (x, angle.cos(), angle.sin()), [(a(0), g, g), (a(2), a(2), a(2)), (a(2), g, g)]),
    ):
        whole = [t.clone().requires_grad_() for t in tensors]
        wanted = call(*whole)
        weights = torch.rand_like(wanted)
        (wanted * weights).sum().backward()
        for way in ways:
            parts = [
                distribute_tensor(t, mesh, [to]).detach().requires_grad_() for t, to in zip(tensors, way, strict=True)
            ]
            y = call(*parts)
            torch.testing.assert_close(y.full_tensor(), wanted)
            if way[0] == a(2) or (way[0] == a(0) and y.shape[0] == 2 * size):
                assert y.placements == (way[0],)  # where x was, not gathered
            (y * distribute_tensor(weights, mesh, y.placements)).sum().backward()
            for part, one in zip(parts, whole, strict=True):
                torch.testing.assert_close(part.grad.full_tensor(), one.grad)


def tensor_plan() -> dict:
    """All parameters become DTensors: optimizers of several tensors at once take no mixture."""
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

    head = ColwiseParallel(output_layouts=Replicate())
    return {"first.0": ColwiseParallel(), "second.0": RowwiseParallel(), "head": head}


def tensor_parallel(rank: int, size: int) -> float:
    from torch.distributed.tensor.parallel import parallelize_module

    model = network().to(DEVICE)
    mesh = init_device_mesh(DEVICE, (size,))
    parallelize_module(model, mesh, tensor_plan())
    train(model, *(t.to(DEVICE) for t in batch(size)))
    state = {k: v.full_tensor() if hasattr(v, "full_tensor") else v for k, v in model.state_dict().items()}
    return difference(alone(size), state)


def two_dimensions(rank: int, size: int) -> float:
    """FSDP2 over one dimension of the mesh, tensor parallel over the other."""
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import parallelize_module

    mesh = init_device_mesh(DEVICE, (size // 2, 2), mesh_dim_names=("data", "tensor"))
    model = network().to(DEVICE)
    parallelize_module(model, mesh["tensor"], tensor_plan())
    fully_shard(model, mesh=mesh["data"])
    x, y = batch(size)
    part = x.shape[0] // (size // 2)
    here = slice(mesh["data"].get_local_rank() * part, (mesh["data"].get_local_rank() + 1) * part)
    train(model, x[here].to(DEVICE), y[here].to(DEVICE))
    return difference(alone(size), {k: v.full_tensor() for k, v in model.state_dict().items()})


def pipeline(rank: int, size: int, name: str) -> float:
    """A stack of linear layers, one stage a rank; the losses and the gradients are those of the whole stack."""
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining.schedules import get_schedule_class

    torch.manual_seed(5)
    layers = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(2 * size))
    whole = copy.deepcopy(layers)
    x, y = torch.randn(8, 8), torch.randn(8, 8)
    out = x
    for layer in whole:
        out = layer(out)
    nn.functional.mse_loss(out, y).backward()

    several = issubclass(get_schedule_class(name), torch.distributed.pipelining.schedules.PipelineScheduleMulti)
    numbers = [rank, rank + size] if several else [rank]
    per = len(layers) // (len(numbers) * size)
    mine = [nn.Sequential(*layers[n * per : (n + 1) * per]).to(DEVICE) for n in numbers]
    stages = [
        PipelineStage(module, n, len(numbers) * size, torch.device(DEVICE, rank))
        for module, n in zip(mine, numbers, strict=True)
    ]
    schedule = get_schedule_class(name)(stages if several else stages[0], 4, loss_fn=nn.functional.mse_loss)
    schedule.step(*([x.to(DEVICE)] if rank == 0 else []), **({"target": y.to(DEVICE)} if rank == size - 1 else {}))
    worst = 0.0
    for module, n in zip(mine, numbers, strict=True):
        want = nn.Sequential(*whole[n * per : (n + 1) * per])
        for a, b in zip(module.parameters(), want.parameters(), strict=True):
            worst = max(worst, float((a.grad.cpu() - b.grad).abs().max()))
    return worst


# --- around training ---
def checkpoint(rank: int, size: int, folder: str) -> float:
    """Saved sharded, loaded into another sharding, and read without torch_npu's tensors."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
    from torch.distributed.fsdp import fully_shard

    model = network().to(DEVICE)
    fully_shard(model)
    train(model, *share(rank, size))
    dcp.save({"model": get_model_state_dict(model)}, checkpoint_id=folder)
    other = network().to(DEVICE)
    for part in (other.first, other.second, other):
        fully_shard(part)
    state = {"model": get_model_state_dict(other)}
    dcp.load(state, checkpoint_id=folder)
    set_model_state_dict(other, state["model"])
    full = {k: v.full_tensor() for k, v in other.state_dict().items()}
    whole = {"model": network().state_dict()}
    dcp.load(whole, checkpoint_id=folder)
    assert all(torch.equal(whole["model"][k], full[k].cpu()) for k in full)
    return difference(alone(size), full)


def functional(rank: int, size: int) -> None:
    import torch.distributed._functional_collectives as fc

    group = dist.group.WORLD
    x = torch.full((2, 3), rank + 1.0, device=DEVICE)
    total = size * (size + 1) / 2
    assert fc.all_reduce(x, "sum", group).cpu().equal(torch.full((2, 3), total))
    assert fc.all_reduce(x, "avg", group).cpu().equal(torch.full((2, 3), total / size))
    joined = fc.all_gather_tensor(x, 0, group).cpu()
    assert joined.equal(torch.arange(1.0, size + 1).repeat_interleave(2)[:, None].expand(-1, 3))
    assert (
        fc.reduce_scatter_tensor(joined.to(DEVICE), "sum", 0, group)
        .cpu()
        .equal(torch.full((2, 3), size * (rank + 1.0)))
    )
    assert fc.broadcast(x, 1, group).cpu().equal(torch.full((2, 3), 2.0))
    mixed = fc.all_to_all_single(torch.arange(size, dtype=torch.float32, device=DEVICE) + 10 * rank, None, None, group)
    assert mixed.cpu().equal(torch.arange(size) * 10.0 + rank)
    some = fc.all_reduce_coalesced([x, x[0]], "max", group)
    assert [t.cpu().max().item() for t in some] == [size, size]


def sync_batch_norm(rank: int, size: int) -> float:
    """With SGD: the bias before a batch norm has a gradient of noise, which AdamW would make a step of."""
    model = nn.SyncBatchNorm.convert_sync_batchnorm(network(norm=True)).to(DEVICE)
    model = nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    before = dict(torch.npu.fallback_counts())
    train(model, *share(rank, size), torch.optim.SGD(model.parameters(), lr=0.1))
    assert dict(torch.npu.fallback_counts()) == before
    reference = network(norm=True)
    train(reference, *batch(size), torch.optim.SGD(reference.parameters(), lr=0.1))
    return difference(reference, model.module.state_dict())


def amp(rank: int, size: int) -> tuple[float, float]:
    """DDP in fp16 with a GradScaler, and an overflow on one rank that all must skip."""
    from torch_npu.npu.amp import GradScaler, autocast

    def run(model, x, y, scaler, cast, bad: bool) -> None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(STEPS):
            optimizer.zero_grad()
            with cast:
                loss = nn.functional.mse_loss(model(x * (1e6 if bad and step == 2 else 1)), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()

    model = nn.parallel.DistributedDataParallel(network().to(DEVICE), device_ids=[rank])
    scaler = GradScaler(init_scale=1024.0)
    run(model, *share(rank, size), scaler, autocast(), bad=rank == 1)
    reference, plain = network(), torch.amp.GradScaler("cpu", init_scale=1024.0)
    x, y = batch(size)
    x_bad = x.clone()
    x_bad[BATCH : 2 * BATCH] *= 1e6
    optimizer = torch.optim.SGD(reference.parameters(), lr=0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            loss = nn.functional.mse_loss(reference(x_bad if step == 2 else x), y)
        plain.scale(loss).backward()
        plain.step(optimizer)
        plain.update()
    return difference(reference, model.module.state_dict()), scaler.get_scale() / plain.get_scale()


def folder(rank: int, size: int) -> str:
    """One temporary folder for all ranks."""
    name = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(name, 0)
    return name[0]

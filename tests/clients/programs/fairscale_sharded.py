"""fairscale on a small transformer: sharded optimizer and gradients, fully sharded parameters, recomputed layers.

fairscale writes "cuda" everywhere: on the npu that is transfer_to_npu. On the CPU the same is written in plain PyTorch:
every rank computes the batches of all and gives its own part's loss.
"""

from __future__ import annotations

import torch
from torch import nn

from tests.clients import harness

VOCABULARY, LENGTH, WIDTH, LAYERS = 32, 16, 32, 2
BATCH = 4  # a rank
STEPS = 10
ADAM = {"lr": 5e-3, "weight_decay": 0.01}


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.mixed = nn.LayerNorm(WIDTH), nn.Linear(LENGTH, LENGTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.mixed(self.norm(x).transpose(1, 2)).transpose(1, 2)
        return x + self.down(nn.functional.gelu(self.up(y)))


class Network(nn.Module):
    """Guesses each token's successor. `wrap` is put around every layer."""

    def __init__(self, wrap=lambda layer: layer) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.Sequential(*(wrap(Layer()) for _ in range(LAYERS)))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.embedding(tokens)))


def network(**named) -> Network:
    torch.manual_seed(0)
    return Network(**named)


def data(world: int) -> torch.Tensor:
    """Of all ranks."""
    rows = torch.arange(BATCH * world)[:, None]
    return (torch.arange(LENGTH + 1) * (1 + rows % 3) + rows) % VOCABULARY


def loss_of(answers: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(answers.float().flatten(0, 1), tokens[:, 1:].flatten())


def plain(what: harness.Run) -> list[float]:
    model, losses, tokens = network(), [], data(what.world)
    optimizer = torch.optim.AdamW(model.parameters(), **ADAM)
    for _ in range(STEPS):
        with what.autocast():
            answers = model(tokens[:, :-1])
        loss_of(answers, tokens).backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss_of(*(part.chunk(what.world)[what.rank] for part in (answers, tokens))).item())
    return losses


def steps(what: harness.Run, model: nn.Module, optimizer: torch.optim.Optimizer, scaler=None) -> list[float]:
    tokens, losses = data(what.world).chunk(what.world)[what.rank].cuda(), []
    for _ in range(STEPS):
        with torch.cuda.amp.autocast(enabled=what.precision != "fp32", dtype=what.dtype):
            loss = loss_of(model(tokens[:, :-1]), tokens)
        if scaler is None:
            loss.backward()
            optimizer.step()
        else:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        # ShardedDataParallel keeps gradients in buckets, which PyTorch's default would take from them.
        optimizer.zero_grad(set_to_none=False)
        losses.append(loss.item())
    return losses


def scaler_of(what: harness.Run):
    from fairscale.optim.grad_scaler import ShardedGradScaler

    if what.precision != "fp16":
        return None
    scaler = ShardedGradScaler(init_scale=2.0**8)
    assert scaler.is_enabled()
    return scaler


def sharded(what: harness.Run) -> list[float]:
    """OSS keeps each rank's part of the states, ShardedDDP reduces each gradient to the rank that has its states."""
    from fairscale.nn.data_parallel import ShardedDataParallel
    from fairscale.optim.oss import OSS

    model = network().cuda()
    optimizer = OSS(model.parameters(), optim=torch.optim.AdamW, **ADAM)
    model = ShardedDataParallel(model, optimizer)
    losses = steps(what, model, optimizer, scaler_of(what))
    optimizer.consolidate_state_dict()
    if what.rank == 0:
        count = len(optimizer.state_dict()["state"])
        assert count == len(list(model.parameters())), f"states of {count} parameters"
    return losses


def fully_sharded(what: harness.Run) -> list[float]:
    from fairscale.nn.data_parallel import FullyShardedDataParallel

    half = {"mixed_precision": True, "compute_dtype": what.dtype} if what.precision != "fp32" else {}
    model = network(wrap=lambda layer: FullyShardedDataParallel(layer.cuda(), **half)).cuda()
    model = FullyShardedDataParallel(model, **half)
    own = sum(parameter.numel() for parameter in model.parameters())
    whole = sum(parameter.numel() for parameter in network().parameters())
    # Each part is filled up to a multiple of the number of ranks.
    assert whole <= own * what.world < whole + what.world * (LAYERS + 1), f"{own} of {whole} parameters"
    losses = steps(what, model, torch.optim.AdamW(model.parameters(), **ADAM), scaler_of(what))
    state = {name: value.shape for name, value in model.state_dict().items()}
    assert state == {name: value.shape for name, value in network().state_dict().items()}
    return losses


def recomputed(what: harness.Run) -> list[float]:
    """checkpoint_wrapper: the layers' forward is computed again for the gradients."""
    from fairscale.nn.checkpoint import checkpoint_wrapper

    model = network(wrap=checkpoint_wrapper).cuda()
    calls = []
    model.layers[0].up.register_forward_hook(lambda *_: calls.append(1))
    model = nn.parallel.DistributedDataParallel(model, static_graph=True) if what.world > 1 else model
    scaler = torch.cuda.amp.GradScaler(init_scale=2.0**8) if what.precision == "fp16" else None
    losses = steps(what, model, torch.optim.AdamW(model.parameters(), **ADAM), scaler)
    assert len(calls) == 2 * STEPS, f"{len(calls)} calls of a layer"
    return losses


def train(what: harness.Run, function) -> list[float]:
    if what.device == "cpu":
        return plain(what)
    from torch_npu.contrib import transfer_to_npu  # noqa: F401

    torch.cuda.set_device(what.place)
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("nccl")
    return function(what)


def register(function) -> None:
    harness.named(function.__name__)(lambda what: train(what, function))


for of in (sharded, fully_sharded, recomputed):
    register(of)


if __name__ == "__main__":
    harness.describe_ranks()
    harness.main()

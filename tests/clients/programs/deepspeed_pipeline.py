"""DeepSpeed's pipeline: one layer after the other over the ranks, four micro batches a step."""

from __future__ import annotations

import logging

import torch
from torch import nn

from tests.clients import harness

MICRO, BATCHES = 8, 4


@harness.run
def pipeline(what: harness.Run) -> list[float]:
    import deepspeed
    from deepspeed.pipe import LayerSpec, PipelineModule

    deepspeed.logger.setLevel(logging.ERROR)
    if not torch.distributed.is_initialized():
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # see deepspeed_zero.py
        deepspeed.init_distributed(verbose=False)
    torch.manual_seed(0)
    layers = [
        LayerSpec(nn.Linear, 32, 64), LayerSpec(nn.GELU), LayerSpec(nn.Linear, 64, 64), LayerSpec(nn.GELU),
        LayerSpec(nn.LayerNorm, 64), LayerSpec(nn.Linear, 64, 4),
    ]  # fmt: skip
    network = PipelineModule(
        layers=layers, num_stages=what.world, partition_method="uniform", seed_layers=True, base_seed=1,
        loss_fn=lambda scores, labels: nn.functional.cross_entropy(scores.float(), labels),
    )  # fmt: skip
    settings: dict = {
        "train_micro_batch_size_per_gpu": MICRO,
        "gradient_accumulation_steps": BATCHES,
        "optimizer": {"type": "AdamW", "params": {"lr": 5e-3, "weight_decay": 0.01, "torch_adam": True}},
        "steps_per_print": 1000,
    }
    if what.precision != "fp32":
        settings[what.precision] = {"enabled": True}
    made, *_ = deepspeed.initialize(
        model=network, model_parameters=[p for p in network.parameters() if p.requires_grad], config=settings
    )
    assert (made.device.type, made.num_stages) == (what.device, what.world)
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(BATCHES, MICRO, 32, generator=generator)
    data = [(batch.to(what.dtype), batch[:, :4].argmax(1)) for batch in inputs]
    return [made.train_batch(iter(data)).item() for _ in range(20)]


if __name__ == "__main__":
    harness.describe_ranks()
    harness.main()

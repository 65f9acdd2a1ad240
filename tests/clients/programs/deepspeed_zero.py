"""DeepSpeed's ZeRO stages on a small network: twenty steps, a checkpoint saved and loaded, one step after it."""

from __future__ import annotations

import logging

import torch
from torch import nn

from tests.clients import harness

ADAM = {"lr": 5e-3, "weight_decay": 0.01}  # the decay's default is not the same in DeepSpeed and in PyTorch


def engine(what: harness.Run, stage: int, optimizer: dict, offloaded: bool = False):
    import deepspeed

    deepspeed.logger.setLevel(logging.ERROR)
    if not torch.distributed.is_initialized():
        # On the CPU it would compile collectives over shared memory; gloo's are what it takes without a compiler.
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
        deepspeed.init_distributed(verbose=False)
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(32, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 4))
    settings: dict = {
        "train_micro_batch_size_per_gpu": 16,
        "gradient_clipping": 1.0,
        # Its default buckets of 5e8 numbers are 2 GB each.
        "zero_optimization": {"stage": stage, "reduce_bucket_size": 100000, "allgather_bucket_size": 100000},
        "zero_allow_untested_optimizer": True,
        "optimizer": optimizer,
    }
    if offloaded:
        place = {"device": "cpu", "pin_memory": what.device == "npu"}
        settings["zero_optimization"]["offload_optimizer"] = place
        if stage == 3:
            settings["zero_optimization"]["offload_param"] = place
    if what.precision != "fp32":
        settings[what.precision] = {"enabled": True}
    if what.precision == "fp16":
        settings["fp16"]["initial_scale_power"] = 8
        if what.device == "cpu":
            # It takes fp16 only where oneDNN computes in it, which few processors do; PyTorch does on all.
            deepspeed.accelerator.get_accelerator().is_fp16_supported = lambda: True
    made, *_ = deepspeed.initialize(model=network, model_parameters=network.parameters(), config=settings)
    assert made.device.type == what.device, made.device
    if offloaded:
        states = made.optimizer.optimizer
        assert type(states).__name__ == "DeepSpeedCPUAdam", states
    return made


def step(made, inputs: torch.Tensor, targets: torch.Tensor) -> float:
    loss = nn.functional.cross_entropy(made(inputs).float(), targets)
    made.backward(loss)
    made.step()
    return loss.item()


def train(what: harness.Run, stage: int, optimizer: dict, offloaded: bool = False) -> list[float]:
    made = engine(what, stage, optimizer, offloaded)
    generator = torch.Generator().manual_seed(what.rank)
    inputs = torch.randn(16, 32, generator=generator)
    targets = inputs[:, :4].argmax(1).to(made.device)
    inputs = inputs.to(made.device, what.dtype)
    losses = [step(made, inputs, targets) for _ in range(20)]
    made.save_checkpoint(str(what.folder), tag="last")
    ahead = step(made, inputs, targets), step(made, inputs, targets)
    made.load_checkpoint(str(what.folder), tag="last")
    again = step(made, inputs, targets), step(made, inputs, targets)
    torch.testing.assert_close(torch.tensor(again), torch.tensor(ahead), rtol=1e-3, atol=1e-5)
    made.destroy()
    return [*losses, *again]


def register(name: str, stage: int, optimizer: dict) -> None:
    harness.named(name)(lambda what: train(what, stage, optimizer))


for number in range(4):
    register(f"zero{number}", number, {"type": "AdamW", "params": {**ADAM, "torch_adam": True}})


@harness.run
def fused_adam(what: harness.Run) -> list[float]:
    """DeepSpeed's own, which on an NPU is npu_apply_adam_w; on the CPU it would be compiled, and PyTorch's is taken."""
    return train(what, 1, {"type": "AdamW", "params": {**ADAM, "torch_adam": what.device == "cpu"}})


@harness.run
def offload2(what: harness.Run) -> list[float]:
    """The optimizer's states and step on the host: DeepSpeed's CPU Adam, on both devices; compiled the first time."""
    return train(what, 2, {"type": "AdamW", "params": ADAM}, offloaded=True)


@harness.run
def offload3(what: harness.Run) -> list[float]:
    """The parameters on the host, too."""
    return train(what, 3, {"type": "AdamW", "params": ADAM}, offloaded=True)


if __name__ == "__main__":
    harness.describe_ranks()
    harness.main()

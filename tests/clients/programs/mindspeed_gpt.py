"""Megatron-LM's script for GPT with MindSpeed, unmodified, on four ranks: a tiny model of tensor and pipeline halves.

On the npu `import mindspeed.megatron_adaptor` comes first, which is the line that MindSpeed asks for; with the options
of its fused operators and without. On the CPU the same script runs without MindSpeed, under a mode of this file that
lets "cuda" mean the CPU.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import zlib
from functools import partial
from pathlib import Path
from unittest import mock

import torch
import torch._dynamo.config

from tests.clients import harness
from tests.clients.programs.megatron_gpt import CudaIsTheCpu

STEPS = 6
MODEL = """
    --use-mcore-models --transformer-impl local --num-layers 2 --hidden-size 64 --ffn-hidden-size 128
    --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 --disable-bias-linear
    --untie-embeddings-and-output-weights --position-embedding-type rope --normalization RMSNorm --swiglu
    --attention-dropout 0 --hidden-dropout 0 --use-cpu-initialization
    --micro-batch-size 2 --global-batch-size 4 --lr 5e-3 --lr-decay-style constant --clip-grad 1.0 --weight-decay 0.01
    --mock-data --tokenizer-type NullTokenizer --vocab-size 4159 --make-vocab-size-divisible-by 8 --num-workers 0
    --eval-iters 0 --eval-interval 1000 --log-interval 1 --no-gradient-accumulation-fusion
    --no-masked-softmax-fusion --no-persist-layer-norm --no-bias-swiglu-fusion --no-bias-dropout-fusion
    --no-rope-fusion --no-check-for-nan-in-loss-and-grad
"""
PARALLEL = "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2"
FUSED = "--use-flash-attn --use-fused-rmsnorm --use-fused-swiglu"
OPERATORS = ("npu_fusion_attention", "npu_rms_norm", "npu_swiglu")  # what they are
ROTARY = "--use-fused-rotary-pos-emb"  # C++ of MindSpeed's own


class MegatronOnTheCpu(CudaIsTheCpu):
    """What Megatron's training loop asks of torch.cuda, beyond its core."""

    def __enter__(self):
        torch.cuda.is_available = lambda: True
        torch.cuda.device_count = lambda: 1
        torch.cuda.set_device = torch.cuda.empty_cache = lambda *_: None
        torch.cuda.get_device_capability = lambda *_: (8, 0)
        torch.cuda.get_device_properties = mock.MagicMock()
        torch.cuda.default_stream = torch.cuda.set_stream = mock.MagicMock()
        for name in ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"):
            setattr(torch.cuda, name, lambda *_: 0)
        torch._dynamo.config.disable = True  # as MindSpeed does
        from megatron.legacy import fused_kernels

        fused_kernels.load = lambda *_: None  # CUDA's compiler
        return super().__enter__()


def losses_of(training) -> list[float]:
    """Fills itself with the loss of every step, on the ranks that log one."""
    losses, log = [], training.training_log

    def seen(loss_dict, *arguments, **named):
        losses.extend(float(loss) for name, loss in loss_dict.items() if name == "lm loss")
        return log(loss_dict, *arguments, **named)

    training.training_log = seen
    return losses


def fix_weights(training) -> None:
    """Weights by name and rank: MindSpeed's layers draw in another order than Megatron's."""
    make = training.get_model

    def made(*arguments, **named):
        from megatron.core import parallel_state

        model = make(*arguments, **named)
        ranks = (parallel_state.get_tensor_model_parallel_rank(), parallel_state.get_pipeline_model_parallel_rank())
        for name, parameter in model[0].named_parameters():
            if parameter.dim() > 1:  # of the rest, the norms', every rank of a stage has the same
                numbers = torch.Generator().manual_seed(zlib.crc32(f"{name.replace('module.', '')} {ranks}".encode()))
                drawn = 0.05 * torch.randn(parameter.shape, generator=numbers)
                parameter.data.copy_(drawn.to(parameter.dtype))
        return model

    training.get_model = made


def pretrain(what: harness.Run) -> list[float]:
    import megatron.training.training as training

    losses = losses_of(training)
    fix_weights(training)
    script = Path(training.__file__).parents[2] / "pretrain_gpt.py"
    runpy.run_path(str(script), run_name="__main__")
    # The last stage alone has a loss.
    if losses and what.rank == what.world - 1:
        (what.folder / "losses.json").write_text(json.dumps(losses))
    if torch.distributed.is_initialized():
        torch.distributed.barrier()
    return json.loads((what.folder / "losses.json").read_text())


def counted(*names: str) -> dict[str, int]:
    """Fills itself with the calls of these operators of torch_npu."""
    import torch_npu

    calls = dict.fromkeys(names, 0)

    def count(name, operator):
        def called(*arguments, **named):
            calls[name] += 1
            return operator(*arguments, **named)

        return called

    for name in names:
        setattr(torch_npu, name, count(name, getattr(torch_npu, name)))
    return calls


def train(what: harness.Run, options: str, fused: str) -> list[float]:
    half = ["--bf16"] if what.precision == "bf16" else []
    backend = "nccl" if what.device == "npu" else "gloo"
    sys.argv[1:] = [*options.split(), *half, "--train-iters", str(STEPS), "--distributed-backend", backend]
    os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"  # Megatron's own demand
    if what.device == "npu":
        if fused:
            sys.argv.remove("--no-bias-swiglu-fusion")  # without Megatron's fusion there is no place for MindSpeed's
        sys.argv[1:] += fused.split()
        import mindspeed.megatron_adaptor  # noqa: F401

        if ROTARY in fused:
            from mindspeed.op_builder import RotaryPositionEmbeddingOpBuilder

            # Its own C++, compiled the first time: before the ranks wait for each other.
            RotaryPositionEmbeddingOpBuilder().load(verbose=False)
        calls = counted(*OPERATORS) if fused else {}
        losses = pretrain(what)
        assert all(calls.values()), f"not called: {calls}"
        return losses
    with MegatronOnTheCpu():
        return pretrain(what)


for name, options, fused in (
    ("plain", f"{MODEL} {PARALLEL}", ""),
    ("fused", f"{MODEL} {PARALLEL}", FUSED),
    ("fused_rotary", f"{MODEL} {PARALLEL}", f"{FUSED} {ROTARY}"),
):
    harness.named(name)(partial(train, options=options, fused=fused))


if __name__ == "__main__":
    harness.main()

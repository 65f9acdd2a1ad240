"""Megatron-core's GPT on four ranks: tensor, pipeline, sequence and expert parallel, distributed optimizer.

Megatron-core writes "cuda" everywhere: on the npu that is transfer_to_npu, on the CPU a mode of this file, which is no
part of what is judged.
"""

from __future__ import annotations

import contextlib
from functools import partial
from unittest import mock

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from tests.clients import harness

VOCABULARY, LENGTH, MICRO, BATCHES, STEPS = 64, 32, 4, 4, 10
NO_STREAM = mock.MagicMock()  # one for all runs: Megatron-core keeps the first


def as_cuda(function, args, result):
    """What Tensor.type() says, as Megatron-core compares it with "torch.cuda.FloatTensor" (MindSpeed does the same)."""
    if function is torch.Tensor.type and len(args) == 1:
        return "torch.cuda." + result.rpartition(".")[2]
    return result


class TypesAreCudas(TorchFunctionMode):
    """The one thing that transfer_to_npu leaves: a tensor on the npu says torch.npu.FloatTensor."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        return as_cuda(function, args, function(*args, **(kwargs or {})))


class CudaIsTheCpu(TorchFunctionMode):
    """Lets Megatron-core's "cuda" mean the CPU."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if "cuda" in str(kwargs.get("device")):
            kwargs["device"] = "cpu"
        if function is torch.Tensor.cuda:
            return args[0]
        if function == torch.Tensor.is_cuda.__get__:
            return True
        return as_cuda(function, args, function(*args, **kwargs))

    def __enter__(self):
        torch.cuda.current_device = lambda: torch.device("cpu")
        torch.cuda.get_rng_state = torch.cuda.random.get_rng_state = lambda *_, **__: torch.get_rng_state()
        torch.cuda.synchronize = lambda *_: None
        # Of the experts' exchange; on the CPU there is nothing to wait for.
        torch.cuda.Stream = torch.cuda.current_stream = torch.cuda.Event = NO_STREAM
        torch.cuda.stream = lambda *_: contextlib.nullcontext()
        nn.Module.cuda = lambda self, *_: self
        return super().__enter__()


class Norm(nn.LayerNorm):
    """PyTorch's, told what Megatron-core asks of one under sequence parallelism: its own needs Apex on CUDA."""

    def __init__(self, config, hidden_size: int, eps: float = 1e-5, **_) -> None:
        super().__init__(hidden_size, eps=eps)
        for parameter in self.parameters():
            parameter.sequence_parallel = config.sequence_parallel


def model_of(what: harness.Run, layout: dict, experts: int):
    """This rank's part of the model and its optimizer, as Megatron-core makes them."""
    from megatron.core import parallel_state, tensor_parallel
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
    from megatron.core.transformer.module import Float16Module
    from megatron.core.transformer.transformer_block import TransformerBlockSubmodules
    from megatron.core.transformer.transformer_config import TransformerConfig

    if experts:
        # Without Transformer Engine 0.16.1 asks for a name that it has not defined (router_gating_linear).
        from megatron.core.transformer.moe import moe_utils

        moe_utils.te_general_gemm = None
    tensors, stages = layout.get("tensor", 1), layout.get("pipeline", 1)
    parallel_state.initialize_model_parallel(tensors, stages, expert_model_parallel_size=layout.get("expert", 1))
    tensor_parallel.model_parallel_cuda_manual_seed(1)
    half = what.precision == "bf16"
    config = TransformerConfig(
        num_layers=4, hidden_size=32, num_attention_heads=4, ffn_hidden_size=64, hidden_dropout=0.0,
        attention_dropout=0.0, use_cpu_initialization=True, pipeline_dtype=what.dtype, params_dtype=what.dtype,
        bf16=half, tensor_model_parallel_size=tensors, pipeline_model_parallel_size=stages,
        sequence_parallel=tensors > 1, expert_model_parallel_size=layout.get("expert", 1),
        num_moe_experts=experts or None, moe_router_topk=2, moe_token_dispatcher_type="alltoall",
        moe_aux_loss_coeff=0.01 if experts else 0.0, add_bias_linear=not experts,
        bias_dropout_fusion=False, gradient_accumulation_fusion=False, masked_softmax_fusion=False,
        persist_layer_norm=False, batch_p2p_comm=False,
    )  # fmt: skip
    layer = get_gpt_layer_local_spec(num_experts=experts or None)
    layer.submodules.input_layernorm = layer.submodules.pre_mlp_layernorm = Norm
    network = GPTModel(
        config, TransformerBlockSubmodules([layer] * (4 // stages), layer_norm=Norm), VOCABULARY, LENGTH,
        pre_process=parallel_state.is_pipeline_first_stage(), post_process=parallel_state.is_pipeline_last_stage(),
        share_embeddings_and_output_weights=False,
    )  # fmt: skip
    network = network.to(what.place)
    shards = bool(layout.get("shards"))
    made = DistributedDataParallel(
        config, DistributedDataParallelConfig(use_distributed_optimizer=shards, grad_reduce_in_fp32=half),
        Float16Module(config, network) if half else network,
    )  # fmt: skip
    config.finalize_model_grads_func = finalize_model_grads
    settings = OptimizerConfig(
        optimizer="adam", lr=5e-3, weight_decay=0.01, clip_grad=1.0, bf16=half, params_dtype=what.dtype,
        use_distributed_optimizer=shards,
    )  # fmt: skip
    return made, get_megatron_optimizer(settings, [made])


def token_loss(loss: torch.Tensor):
    mean = loss.float().mean()
    return mean, {"loss": mean.detach()}


def forward(batches, made):
    tokens = next(batches)
    places = torch.arange(LENGTH, device=tokens.device).expand(MICRO, -1)
    mask = torch.ones(LENGTH, LENGTH, dtype=torch.bool, device=tokens.device).triu(1)[None, None]
    return made(tokens[:, :-1], places, mask, labels=tokens[:, 1:]), token_loss


def steps(what: harness.Run, layout: dict, experts: int) -> list[float]:
    from megatron.core import parallel_state
    from megatron.core.pipeline_parallel import get_forward_backward_func

    if not torch.distributed.is_initialized():
        if what.device == "npu":
            torch.npu.set_device(what.place)
        torch.distributed.init_process_group("hccl" if what.device == "npu" else "gloo")
    made, optimizer = model_of(what, layout, experts)
    counts = torch.arange(LENGTH + 1)
    rows = torch.arange(MICRO)[:, None] + MICRO * parallel_state.get_data_parallel_rank()
    data = [((counts * (1 + rows % 3) + rows + batch) % VOCABULARY).to(what.place) for batch in range(BATCHES)]
    run_schedule, losses = get_forward_backward_func(), []
    for _ in range(STEPS):
        made.zero_grad_buffer()
        optimizer.zero_grad()
        found = run_schedule(
            forward_step_func=forward, data_iterator=iter(data), model=[made], num_microbatches=BATCHES,
            seq_length=LENGTH, micro_batch_size=MICRO, forward_only=False,
        )  # fmt: skip
        updated, *_ = optimizer.step()
        assert updated
        # The stages but the last have no loss: the mean over those that have one.
        total = torch.tensor([sum(float(one["loss"]) for one in found), float(len(found))], device=what.place)
        torch.distributed.all_reduce(total)
        losses.append(float(total[0] / total[1]))
    parallel_state.destroy_model_parallel()
    return losses


def train(what: harness.Run, layout: dict, experts: int = 0) -> list[float]:
    if what.device == "npu":
        from torch_npu.contrib import transfer_to_npu  # noqa: F401

        with TypesAreCudas():
            return steps(what, layout, experts)
    with CudaIsTheCpu():
        return steps(what, layout, experts)


for name, layout, experts in (
    ("tensor_pipeline", {"tensor": 2, "pipeline": 2}, 0),
    ("distributed_optimizer", {"tensor": 2, "shards": True}, 0),
    ("experts", {"pipeline": 2, "expert": 2, "shards": True}, 4),
):
    harness.named(name)(partial(train, layout=layout, experts=experts))


if __name__ == "__main__":
    harness.main()

"""`import torch_npu.contrib.colossalai`: Adam's kernels for ColossalAI without CUDA, a scaler that scales on an NPU.

ColossalAI loads a CPU kernel whenever HybridAdam or CPUAdam is made, also where all parameters stay on the NPU, and
where torch.cuda is available one for CUDA as well; FusedAdam loads that one. Its own for x86 and for CUDA are built
with CUDA. The kernels here are PyTorch's fused Adam, registered by ColossalAI's own hook
(KernelLoader.register_extension) with the least priority: a kernel of ColossalAI's that can be used is preferred.

ColossalAI takes torch.cuda.is_available() for CUDA's presence. While transfer_to_npu is on torch.cuda is the NPU, so
that its extensions for CUDA are not available then.

mixed_precision="fp16" of its TorchDDPPlugin makes CUDA's GradScaler, which switches itself off without CUDA: small
gradients would be lost. Where ColossalAI's accelerator is the NPU, the scaler made after this import is the NPU's.

Raises ImportError where ColossalAI is not installed.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NoReturn

import torch
from colossalai.accelerator import get_accelerator
from colossalai.booster.mixed_precision import fp16_torch
from colossalai.kernel.extensions.base_extension import _Extension
from colossalai.kernel.extensions.cuda_extension import _CudaExtension
from colossalai.kernel.kernel_loader import CPUAdamLoader, FusedOptimizerLoader

from torch_npu.contrib import _cuda

Tensors = list[torch.Tensor]


@torch.no_grad()
def update(
    params: Tensors, grads: Tensors, averages: Tensors, squares: Tensors, step: int, lr: float, beta1: float,
    beta2: float, eps: float, weight_decay: float, decoupled: bool, bias_correction: bool, loss_scale: float,
) -> None:  # fmt: skip
    """Adam's step in place; a positive loss_scale divides the gradients.

    Computes in single precision, whatever the tensors' types are, as ColossalAI's kernels do. Raises: ValueError for a
    step below 1, and where the tensors of a parameter differ in shape.
    """
    if step < 1:
        raise ValueError(f"Adam counts its steps from 1, this one is {step}")
    if not params:  # a group of which none has a gradient
        return
    for own in zip(params, grads, averages, squares, strict=True):
        if len({tensor.shape for tensor in own}) > 1:
            raise ValueError(f"parameter, gradient and averages differ in shape: {[tuple(t.shape) for t in own]}")
    # Without the correction the average is that of a step so late that the correction is 1.
    count = float(step) if bias_correction else 1e9
    gradients = [grad.float().contiguous() for grad in grads]
    if loss_scale > 0:
        gradients = [grad / loss_scale for grad in gradients]
    # Itself where it is. On the CPU PyTorch's kernel reads the tensors of a parameter in the order of their memory.
    single = [[tensor.float().contiguous() for tensor in tensors] for tensors in (params, averages, squares)]
    fused = torch._fused_adamw_ if decoupled else torch._fused_adam_
    fused(
        single[0], gradients, single[1], single[2], [], [torch.tensor(count, device=p.device) for p in params], lr=lr,
        beta1=beta1, beta2=beta2, weight_decay=weight_decay, eps=eps, amsgrad=False, maximize=False,
    )  # fmt: skip
    for tensors, updated in zip((params, averages, squares), single, strict=True):
        for tensor, result in zip(tensors, updated, strict=True):
            if tensor is not result:
                tensor.copy_(result)


class CPUAdamOptimizer:
    """The kernel as ColossalAI's optimizers call it; the constructor's numbers are given again to each step."""

    def __init__(
        self, lr: float, beta1: float, beta2: float, eps: float, weight_decay: float, adamw_mode: bool
    ) -> None:
        self._decoupled = adamw_mode

    def step(
        self, step: int, lr: float, beta1: float, beta2: float, eps: float, weight_decay: float, bias_correction: bool,
        param: torch.Tensor, grad: torch.Tensor, exp_avg: torch.Tensor, exp_avg_sq: torch.Tensor, loss_scale: float,
    ) -> None:  # fmt: skip
        """Of one tensor."""
        update(
            [param], [grad], [exp_avg], [exp_avg_sq], step, lr, beta1, beta2, eps, weight_decay, self._decoupled,
            bias_correction, loss_scale,
        )  # fmt: skip


class FusedOptimizer:
    """The module of kernels that ColossalAI builds for CUDA: Adam's alone."""

    @staticmethod
    def multi_tensor_adam(
        chunk_size: int, noop_flag: torch.Tensor, tensors: list[Tensors], lr: float, beta1: float, beta2: float,
        eps: float, step: int, mode: int, bias_correction: int, weight_decay: float, div_scale: float,
    ) -> None:  # fmt: skip
        """Of lists: gradients, parameters and the two averages. As ColossalAI's, it ignores noop_flag."""
        grads, params, averages, squares = tensors
        update(
            params, grads, averages, squares, step, lr, beta1, beta2, eps, weight_decay, mode == 1,
            bias_correction == 1, div_scale,
        )  # fmt: skip

    def __getattr__(self, name: str) -> NoReturn:
        raise NotImplementedError(
            f"torch_npu.contrib.colossalai has no kernel {name}. Use ColossalAI's HybridAdam or FusedAdam, or an "
            "optimizer of torch.optim"
        )


class _AnyHost(_Extension):
    """A kernel that needs no build."""

    def __init__(self, name: str, kernel: Any) -> None:
        super().__init__(name=name, support_aot=False, support_jit=False, priority=-1)
        self._kernel = kernel

    def is_available(self) -> bool:
        return True

    def assert_compatible(self) -> None:
        """Any host's."""

    def build_aot(self) -> None:
        raise NotImplementedError("PyTorch's fused Adam needs no build")

    build_jit = build_aot

    def load(self) -> Any:
        return self._kernel


class CpuAdamExtension(_AnyHost):
    def __init__(self) -> None:
        super().__init__("cpu_adam_torch", SimpleNamespace(CPUAdamOptimizer=CPUAdamOptimizer))


class FusedOptimizerExtension(_AnyHost):
    def __init__(self) -> None:
        super().__init__("fused_optim_torch", FusedOptimizer())


cuda_is_available = _CudaExtension.is_available


def is_available(self: _CudaExtension) -> bool:
    """ColossalAI's, where torch.cuda means CUDA."""
    return not _cuda.is_enabled() and cuda_is_available(self)


class TorchAMPOptimizer(fp16_torch.TorchAMPOptimizer):
    """ColossalAI's, with the accelerator's own scaler. Takes GradScaler's settings by name."""

    def __init__(self, optim: torch.optim.Optimizer, **settings: float) -> None:
        super().__init__(optim, **settings)
        if get_accelerator().name == "npu":
            self.scaler = torch.amp.GradScaler("npu", **settings)


_CudaExtension.is_available = is_available
CPUAdamLoader.register_extension(CpuAdamExtension)
FusedOptimizerLoader.register_extension(FusedOptimizerExtension)
fp16_torch.TorchAMPOptimizer = TorchAMPOptimizer  # where FP16TorchMixedPrecision looks it up

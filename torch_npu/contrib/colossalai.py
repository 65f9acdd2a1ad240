"""`import torch_npu.contrib.colossalai`: a CPU Adam for ColossalAI on any host, and a scaler that scales on an NPU.

ColossalAI loads that kernel whenever HybridAdam or CPUAdam is made, also where all parameters stay on the NPU, and its
own for x86 is built with CUDA. The kernel here is PyTorch's fused Adam for the CPU, registered by ColossalAI's own hook
(KernelLoader.register_extension) with the least priority: a kernel of ColossalAI's that can be used is preferred.

mixed_precision="fp16" of its TorchDDPPlugin makes CUDA's GradScaler, which switches itself off without CUDA: small
gradients would be lost. Where ColossalAI's accelerator is the NPU, the scaler made after this import is the NPU's.

Raises ImportError where ColossalAI is not installed.
"""

from __future__ import annotations

from types import SimpleNamespace

import torch
from colossalai.accelerator import get_accelerator
from colossalai.booster.mixed_precision import fp16_torch
from colossalai.kernel.extensions.base_extension import _Extension
from colossalai.kernel.kernel_loader import CPUAdamLoader


class CPUAdamOptimizer:
    """The kernel as ColossalAI's optimizers call it; the constructor's numbers are given again to each step."""

    def __init__(
        self, lr: float, beta1: float, beta2: float, eps: float, weight_decay: float, adamw_mode: bool
    ) -> None:
        self._update = torch._fused_adamw_ if adamw_mode else torch._fused_adam_

    @torch.no_grad()
    def step(
        self, step: int, lr: float, beta1: float, beta2: float, eps: float, weight_decay: float, bias_correction: bool,
        param: torch.Tensor, grad: torch.Tensor, exp_avg: torch.Tensor, exp_avg_sq: torch.Tensor, loss_scale: float,
    ) -> None:  # fmt: skip
        """Updates `param`, `exp_avg` and `exp_avg_sq` of one shape in place; a positive loss_scale divides `grad`.

        Computes in single precision, whatever the tensors' types are, as ColossalAI's kernel does.
        """
        # Without the correction the average is that of a step so late that the correction is 1.
        count = torch.tensor(float(step) if bias_correction else 1e9)
        tensors = (param, exp_avg, exp_avg_sq)
        single = [tensor if tensor.dtype == torch.float32 else tensor.float() for tensor in tensors]
        gradient = grad.float() / loss_scale if loss_scale > 0 else grad.float()
        self._update(
            [single[0]], [gradient], [single[1]], [single[2]], [], [count], lr=lr, beta1=beta1, beta2=beta2,
            weight_decay=weight_decay, eps=eps, amsgrad=False, maximize=False,
        )  # fmt: skip
        for tensor, updated in zip(tensors, single, strict=True):
            if tensor is not updated:
                tensor.copy_(updated)


class CpuAdamExtension(_Extension):
    def __init__(self) -> None:
        super().__init__(name="cpu_adam_torch", support_aot=False, support_jit=False, priority=-1)

    def is_available(self) -> bool:
        return True

    def assert_compatible(self) -> None:
        """Any host's."""

    def build_aot(self) -> None:
        raise NotImplementedError("PyTorch's fused Adam needs no build")

    build_jit = build_aot

    def load(self) -> SimpleNamespace:
        return SimpleNamespace(CPUAdamOptimizer=CPUAdamOptimizer)


class TorchAMPOptimizer(fp16_torch.TorchAMPOptimizer):
    """ColossalAI's, with the accelerator's own scaler. Takes GradScaler's settings by name."""

    def __init__(self, optim: torch.optim.Optimizer, **settings: float) -> None:
        super().__init__(optim, **settings)
        if get_accelerator().name == "npu":
            self.scaler = torch.amp.GradScaler("npu", **settings)


CPUAdamLoader.register_extension(CpuAdamExtension)
fp16_torch.TorchAMPOptimizer = TorchAMPOptimizer  # where FP16TorchMixedPrecision looks it up

"""apex.optimizers: FusedAdam, FusedSGD and FusedLAMB by Apex's signatures; torch_npu.optim's NpuFused optimizers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.optim.optimizer import required

from torch_npu.optim import (
    NpuFusedAdadelta,
    NpuFusedAdam,
    NpuFusedAdamP,
    NpuFusedAdamW,
    NpuFusedBertAdam,
    NpuFusedLamb,
    NpuFusedRMSprop,
    NpuFusedRMSpropTF,
    NpuFusedSGD,
)

__all__ = [
    "FusedAdam",
    "FusedLAMB",
    "FusedSGD",
    "NpuFusedAdadelta",
    "NpuFusedAdam",
    "NpuFusedAdamP",
    "NpuFusedAdamW",
    "NpuFusedBertAdam",
    "NpuFusedLamb",
    "NpuFusedRMSprop",
    "NpuFusedRMSpropTF",
    "NpuFusedSGD",
]


class _Fused(torch.optim.Optimizer):
    """What the three share: lists of one dtype for the foreach operators, and set_grad_none."""

    set_grad_none = True
    _own: tuple[str, ...] = ()  # options that are not of a group, but of the instance
    _counts_on_host = False  # whether the update depends on the step's number: no graph may hold it

    def __getstate__(self) -> dict[str, Any]:
        """What a copy or a pickle has: torch.optim's, and the instance's options."""
        return super().__getstate__() | {name: getattr(self, name) for name in ("set_grad_none", *self._own)}

    def zero_grad(self, set_to_none: bool | None = None) -> None:
        """Removes the gradients, or fills them with zeros; the constructor's set_grad_none says which by default."""
        super().zero_grad(set_to_none=self.set_grad_none if set_to_none is None else set_to_none)

    def _lists(self, group: dict[str, Any]) -> Iterator[list[torch.nn.Parameter]]:
        """The group's parameters with a gradient, by dtype."""
        present = [p for p in group["params"] if p.grad is not None]
        if any(p.grad.layout != torch.strided for p in present):
            raise RuntimeError(f"{type(self).__name__} does not support sparse gradients")
        for dtype in sorted({p.dtype for p in present}, key=str):
            yield [p for p in present if p.dtype == dtype]

    def _states(self, params: list[torch.nn.Parameter], name: str) -> list[torch.Tensor]:
        """float32 states of that name, zeros at first."""
        for p in params:
            if name not in self.state[p]:
                self.state[p][name] = torch.zeros_like(p, dtype=torch.float32)
        return [self.state[p][name] for p in params]

    @torch._disable_dynamo
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As torch.optim's, but for states, which stay float32 where the parameters are not."""
        seen: list[dict[str, Any]] = []  # what the user's hooks, which run first, have made of it
        hook = self.register_load_state_dict_pre_hook(lambda optimizer, state: seen.append(state))
        try:
            super().load_state_dict(state_dict)
        finally:
            hook.remove()
        saved = [index for group in seen[0]["param_groups"] for index in group["params"]]
        present = [p for group in self.param_groups for p in group["params"]]
        for index, p in zip(saved, present, strict=True):
            for name, value in seen[0]["state"].get(index, {}).items():
                if isinstance(value, torch.Tensor) and value.is_floating_point():
                    self.state[p][name] = value.detach().clone().to(p.device, torch.float32)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates the parameters that have a gradient; returns what the closure returns."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._begin()
        for group in self.param_groups:
            group["step"] = group.get("step", 0) + 1
            for params in self._lists(group):
                values = [p.float() for p in params]  # the parameters themselves, in float32
                self._update(group, params, values, [p.grad.float() for p in params])
                for p, value in zip(params, values, strict=True):
                    if p.dtype != torch.float32:
                        p.copy_(value)
        return loss

    def _begin(self) -> None:
        """Called before the groups of a step."""

    def _update(self, group: dict[str, Any], params: list, values: list, grads: list) -> None:
        raise NotImplementedError


class FusedAdam(_Fused):
    """Adam (adam_w_mode=False) or AdamW, computed in float32 whatever the parameters' dtype.

    Args:
        params: parameters or groups of parameters.
        lr, betas, eps, weight_decay: as torch.optim.AdamW's.
        bias_correction: corrects the averages of the first steps.
        adam_w_mode: decoupled weight decay instead of the L2 penalty.
        amsgrad: refused with RuntimeError, as by Apex.
        set_grad_none: zero_grad removes the gradients.

    The step's number is counted by group. Raises: NotImplementedError for capturable and master_weights.
    """

    _own = ("adam_w_mode",)
    _counts_on_host = True

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, adam_w_mode: bool = True,
        weight_decay: float = 0.0, amsgrad: bool = False, set_grad_none: bool = True, capturable: bool = False,
        master_weights: bool = False,
    ) -> None:  # fmt: skip
        if amsgrad:
            raise RuntimeError("FusedAdam does not support the AMSGrad variant.")
        if capturable or master_weights:
            raise NotImplementedError("FusedAdam's capturable and master_weights are not implemented: use amp's O2")
        options = dict(bias_correction=bias_correction, betas=betas, eps=eps, weight_decay=weight_decay)
        super().__init__(params, dict(lr=lr) | options)
        self.adam_w_mode, self.set_grad_none = bool(adam_w_mode), set_grad_none

    def _update(self, group: dict[str, Any], params: list, values: list, grads: list) -> None:
        (first, second), step, rate, decay = group["betas"], group["step"], group["lr"], group["weight_decay"]
        averages, squares = self._states(params, "exp_avg"), self._states(params, "exp_avg_sq")
        if decay and self.adam_w_mode:
            torch._foreach_mul_(values, 1 - rate * decay)
        elif decay:
            grads = torch._foreach_add(grads, values, alpha=decay)
        torch._foreach_lerp_(averages, grads, 1 - first)
        torch._foreach_mul_(squares, second)
        torch._foreach_addcmul_(squares, grads, grads, 1 - second)
        corrected = group["bias_correction"]
        divisors = torch._foreach_sqrt(squares)
        torch._foreach_div_(divisors, math.sqrt(1 - second**step) if corrected else 1.0)
        torch._foreach_add_(divisors, group["eps"])
        torch._foreach_addcdiv_(values, averages, divisors, -rate / (1 - first**step if corrected else 1.0))


class FusedSGD(_Fused):
    """SGD with momentum, computed in float32 whatever the parameters' dtype.

    Args:
        params: parameters or groups of parameters.
        lr, momentum, dampening, weight_decay, nesterov: as torch.optim.SGD's.
        wd_after_momentum: adds the decay to the step instead of the gradient.
        materialize_master_grads: False is not implemented.
        set_grad_none: zero_grad removes the gradients.

    Raises: ValueError for negative options, and for nesterov without momentum or with dampening.
    """

    _own = ("wd_after_momentum",)

    def __init__(
        self, params: Iterable[Any], lr: float = required, momentum: float = 0.0, dampening: float = 0.0,
        weight_decay: float = 0.0, nesterov: bool = False, wd_after_momentum: bool = False,
        materialize_master_grads: bool = True, set_grad_none: bool = False,
    ) -> None:  # fmt: skip
        for name, value in {
            "learning rate": lr,
            "momentum value": momentum,
            "weight_decay value": weight_decay,
        }.items():
            if value is not required and value < 0.0:
                raise ValueError(f"Invalid {name}: {value}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        if not materialize_master_grads:
            raise NotImplementedError("FusedSGD(materialize_master_grads=False) is not implemented")
        options = dict(momentum=momentum, dampening=dampening, weight_decay=weight_decay, nesterov=nesterov)
        super().__init__(params, dict(lr=lr) | options)
        self.wd_after_momentum, self.set_grad_none = wd_after_momentum, set_grad_none

    def _update(self, group: dict[str, Any], params: list, values: list, grads: list) -> None:
        momentum, decay = group["momentum"], group["weight_decay"]
        if decay and not self.wd_after_momentum:
            grads = torch._foreach_add(grads, values, alpha=decay)
        if momentum:
            new = ["momentum_buffer" not in self.state[p] for p in params]
            buffers = self._states(params, "momentum_buffer")
            torch._foreach_mul_(buffers, momentum)
            for first in (True, False):  # the first step takes the gradient as it is
                chosen = [index for index, is_new in enumerate(new) if is_new == first]
                if chosen:
                    targets, sources = [buffers[i] for i in chosen], [grads[i] for i in chosen]
                    torch._foreach_add_(targets, sources, alpha=1.0 if first else 1 - group["dampening"])
            grads = torch._foreach_add(grads, buffers, alpha=momentum) if group["nesterov"] else buffers
        if decay and self.wd_after_momentum:
            grads = torch._foreach_add(grads, values, alpha=decay)
        torch._foreach_add_(values, grads, alpha=-group["lr"])


class FusedLAMB(_Fused):
    """LAMB, computed in float32 whatever the parameters' dtype.

    Args:
        params: parameters or groups of parameters.
        lr, betas, eps, bias_correction: as FusedAdam's.
        weight_decay: added to the update (adam_w_mode) or to the gradient.
        amsgrad: refused with RuntimeError, as by Apex.
        grad_averaging: averages with 1 - betas[0]; else gradients are added whole.
        max_grad_norm: gradients are divided by norm / max_grad_norm where the norm of all is larger; 0 for no clipping.
        use_nvlamb: takes the ratio of norms without weight decay, too.
        set_grad_none: zero_grad removes the gradients.
    """

    _own = ("adam_w_mode", "use_nvlamb")
    _counts_on_host = True

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-6, weight_decay: float = 0.01,
        amsgrad: bool = False, adam_w_mode: bool = True, grad_averaging: bool = True, set_grad_none: bool = True,
        max_grad_norm: float = 1.0, use_nvlamb: bool = False,
    ) -> None:  # fmt: skip
        if amsgrad:
            raise RuntimeError("FusedLAMB does not support the AMSGrad variant.")
        options = dict(bias_correction=bias_correction, betas=betas, eps=eps, weight_decay=weight_decay)
        super().__init__(params, dict(lr=lr, grad_averaging=grad_averaging, max_grad_norm=max_grad_norm) | options)
        self.adam_w_mode, self.set_grad_none, self.use_nvlamb = bool(adam_w_mode), set_grad_none, use_nvlamb

    def _begin(self) -> None:
        grads = [p.grad for group in self.param_groups for p in group["params"] if p.grad is not None]
        norms = [torch.linalg.vector_norm(grad, dtype=torch.float32) for grad in grads]
        self._norm = torch.linalg.vector_norm(torch.stack(norms)) if norms else None

    def _update(self, group: dict[str, Any], params: list, values: list, grads: list) -> None:
        (first, second), step, decay = group["betas"], group["step"], group["weight_decay"]
        averages, squares = self._states(params, "exp_avg"), self._states(params, "exp_avg_sq")
        if group["max_grad_norm"] > 0:
            grads = torch._foreach_div(grads, (self._norm / group["max_grad_norm"]).clamp(min=1.0))
        if decay and not self.adam_w_mode:
            grads = torch._foreach_add(grads, values, alpha=decay)
        torch._foreach_mul_(averages, first)
        torch._foreach_add_(averages, grads, alpha=1 - first if group["grad_averaging"] else 1.0)
        torch._foreach_mul_(squares, second)
        torch._foreach_addcmul_(squares, grads, grads, 1 - second)
        corrected = group["bias_correction"]
        divisors = torch._foreach_sqrt(squares)
        torch._foreach_div_(divisors, math.sqrt(1 - second**step) if corrected else 1.0)
        torch._foreach_add_(divisors, group["eps"])
        updates = torch._foreach_div(averages, divisors)
        torch._foreach_div_(updates, 1 - first**step if corrected else 1.0)
        if decay and self.adam_w_mode:
            torch._foreach_add_(updates, values, alpha=decay)
        if self.use_nvlamb or decay:
            weights, lengths = torch.stack(torch._foreach_norm(values)), torch.stack(torch._foreach_norm(updates))
            ratios = torch.where((weights == 0) | (lengths == 0), 1.0, weights / lengths)
            torch._foreach_mul_(updates, list(ratios.unbind()))
        torch._foreach_add_(values, updates, alpha=-group["lr"])

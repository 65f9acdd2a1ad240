"""What the fused optimizers share: combined memory, step, zero_grad, clipping. A formula is its subclass's `_update`.

Parameters join when they first have a gradient. What a program does to a gradient between steps (None, another tensor)
is followed as torch.optim follows it: at the price of a copy, or of an update in several runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.optim import Optimizer
from torch.optim.optimizer import required

from torch_npu.optim import _checks
from torch_npu.optim._combined import Chunk, Run

TYPES = (torch.float32, torch.float16, torch.bfloat16)


def clip(grads: list[torch.Tensor], max_norm: float, norm_type: float) -> torch.Tensor:
    """Scales combined gradients to at most max_norm, the norm of all together; the norm before, in float32."""
    if not grads:
        return torch.tensor(0.0)
    norms = [torch.linalg.vector_norm(grad, norm_type, dtype=torch.float32) for grad in grads]
    total = norms[0] if len(norms) == 1 else torch.linalg.vector_norm(torch.stack(norms), norm_type)
    factor = (max_norm / (total + 1e-6)).clamp(max=1.0)
    for grad in grads:
        grad.mul_(factor)
    return total


class NpuFusedOptimizerBase(Optimizer):
    """The base class of the fused optimizers.

    At the first step the parameters of one dtype move into one tensor, of which they are views from then on, and so do
    their gradients and states; an update is a few kernels for each group and dtype instead of a few for each parameter.

    Args:
        params: parameters or groups of parameters, float32, float16 or bfloat16, on one npu.
        default: the options of groups that do not say them.

    A step raises TypeError for another dtype, RuntimeError for parameters not on one npu and for sparse gradients.
    """

    _decoupled = False  # whether the weight decay is not part of the averaged gradient
    _counts_on_host = False  # whether the update depends on the step's number: no graph may hold it

    def __init__(self, params: Iterable[Any], default: dict[str, Any]) -> None:
        super().__init__(params, default)
        self._forget()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for name, value in self.defaults.items():
            if isinstance(value, type(required)):
                self.defaults[name] = required  # a copy of the mark would be taken for a value
        for own in self.state.values():
            if isinstance(own, dict) and isinstance(own.get("step"), torch.Tensor):
                own["step"] = int(own["step"])  # torch.optim's tensor; the parameters of a run would share it
        self._forget()  # loaded states lie in memory of their own

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """As torch.optim's. Raises ValueError for an option of torch.optim that is set and not in the formula."""
        if isinstance(param_group, dict):
            _checks.known(type(self).__name__, param_group, self.defaults, self._decoupled)
        super().add_param_group(param_group)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As torch.optim's. Raises ValueError for an option of torch.optim that is set and not in the formula."""
        for group in state_dict["param_groups"]:
            _checks.known(type(self).__name__, group, self.defaults, self._decoupled)
        super().load_state_dict(state_dict)

    def _forget(self) -> None:
        self._chunks: list[list[Chunk]] = []  # of each group
        self._params: dict[torch.dtype, torch.Tensor] = {}
        self._grads: dict[torch.dtype, torch.Tensor] = {}

    def _checked(self) -> list[list[torch.nn.Parameter]]:
        """The members of each group: what has a gradient, or had one."""
        members, devices, known = [], set(), self._known()
        for number, group in enumerate(self.param_groups):
            wanted = [p for p in group["params"] if p.grad is not None or p in self.state or id(p) in known]
            members.append(wanted)
            for parameter in wanted:
                if parameter.dtype not in TYPES:
                    raise TypeError(
                        "Fused optimizer's parameters must be float32, float16 or bfloat16, "
                        f"but received {parameter.dtype} in group {number}"
                    )
                if parameter.device.type != "npu":
                    raise RuntimeError(
                        f"{type(self).__name__} combines parameters on the npu, but group {number} has one "
                        f"on {parameter.device}: move the model first"
                    )
                if parameter.grad is not None and parameter.grad.layout != torch.strided:
                    raise RuntimeError(f"{type(self).__name__} does not support sparse gradients")
                devices.add(parameter.device)
        if len(devices) > 1:
            names = " and ".join(sorted(map(str, devices)))
            raise RuntimeError(f"{type(self).__name__} combines parameters of one npu, but they are on {names}")
        return members

    def _known(self) -> set[int]:
        return {id(p) for chunks in self._chunks for chunk in chunks for p in chunk.params}

    def _combine(self) -> None:
        """Moves everything into combined memory, anew if it was there."""
        members = self._checked()
        self._forget()
        self._chunks = [[] for _ in members]
        for dtype in TYPES:
            lists = [[p for p in group if p.dtype == dtype] for group in members]
            numbers = [sum(p.numel() for p in group) for group in lists]
            if not any(lists):
                continue
            example = next(p for group in lists for p in group)
            param = self._params[dtype] = torch.empty(sum(numbers), dtype=dtype, device=example.device)
            grad = self._grads[dtype] = torch.zeros_like(param)
            begin = 0
            for chunks, group, number in zip(self._chunks, lists, numbers, strict=True):
                if group:
                    chunks.append(Chunk(group, self.state, param.narrow(0, begin, number)))
                    chunks[-1].bind(grad.narrow(0, begin, number))
                    begin += number

    def _gather(self) -> None:
        """Before gradients are used: all that have one are combined, and nothing has left."""
        known = self._known()
        new = any(p.grad is not None and id(p) not in known for group in self.param_groups for p in group["params"])
        if new or not all(chunk.gather() for chunks in self._chunks for chunk in chunks):
            self._combine()

    def _age(self, state: dict[str, Any]) -> Any:
        """What parameters of one update share."""
        return state.get("step", 0)

    def _begin(self) -> None:
        """Called before the groups of a step."""

    def _update(self, group: dict[str, Any], run: Run) -> None:
        raise NotImplementedError(f"{type(self).__name__} has no update")

    def _count(self, run: Run) -> int:
        """Counts a step of the run's parameters, from 1 on."""
        step = self.state[run.params[0]].get("step", 0) + 1
        for parameter in run.params:
            self.state[parameter]["step"] = step
        return step

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates the parameters that have a gradient.

        Args:
            closure: computes the loss anew, with gradients, before the update.

        Returns: what the closure returns, else None.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._gather()
        self._begin()
        for group, chunks in zip(self.param_groups, self._chunks, strict=False):
            for chunk in chunks:
                for run in chunk.runs(self._age):
                    self._update(group, run)
        return loss

    @torch.no_grad()
    def zero_grad(self, set_to_none: bool = False) -> None:
        """Fills the gradients with zeros, where they are: their memory stays combined.

        Raises: ValueError for set_to_none=True, which would give up the combined memory.
        """
        if set_to_none:
            raise ValueError("set_to_none is not supported in fused optimizers")
        for grad in self._grads.values():
            grad.zero_()
        combined = {grad.untyped_storage().data_ptr() for grad in self._grads.values()}
        for grad in (parameter.grad for group in self.param_groups for parameter in group["params"]):
            if grad is not None:
                if grad.grad_fn is not None:
                    grad.detach_()
                grad.requires_grad_(False)
                if grad.layout != torch.strided or grad.untyped_storage().data_ptr() not in combined:
                    grad.zero_()

    def _listed(self, combined: dict[torch.dtype, torch.Tensor]) -> list[torch.Tensor | None]:
        last = [combined[torch.bfloat16]] if torch.bfloat16 in combined else []
        return [combined.get(torch.float32), combined.get(torch.float16), *last]

    def get_combined_params(self) -> list[torch.Tensor | None]:
        """The combined parameters of all groups: [float32, float16], None where there are none; bfloat16 comes third.

        Nothing is combined before the first step or clip_grad_norm_fused_. Parameters that never had a gradient are
        not in it. Each is one-dimensional, groups and parameters in their order.
        """
        return self._listed(self._params)

    def get_combined_grads(self) -> list[torch.Tensor | None]:
        """The combined gradients, in the order of get_combined_params; absent gradients are zero."""
        return self._listed(self._grads)

    @torch.no_grad()
    def clip_grad_norm_fused_(self, max_norm: float, norm_type: float = 2) -> torch.Tensor:
        """Scales all gradients in place so that the norm of all together is at most max_norm.

        Args:
            max_norm: the largest norm.
            norm_type: the norm's order; inf is the largest absolute value.

        Returns: the norm before, a float32 tensor without dimensions, on the device.
        """
        max_norm, norm_type = float(max_norm), float(norm_type)
        self._gather()
        return clip(list(self._grads.values()), max_norm, norm_type)

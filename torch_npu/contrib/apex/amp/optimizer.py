"""What a level does to an optimizer: float32 master copies, gradients brought from the scaled ones, steps skipped.

Gradients that were there before a backward pass are kept and added to, as in Apex. With combine_grad the gradients of a
dtype lie in one tensor. What somebody else writes to the model, a checkpoint or another rank's weights, goes to the
master copies too. Called by frontend.py (prepare) and handle.py (before and after a backward pass).
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

import torch
import torch.distributed as dist

from torch_npu.contrib.apex.amp._amp_state import maybe_print
from torch_npu.contrib.apex.amp.model import HALVES
from torch_npu.contrib.apex.amp.properties import Properties
from torch_npu.contrib.apex.amp.scaler import LossScaler
from torch_npu.utils import is_combined_tensor_valid, npu_combine_tensors

Gradients = list[tuple[int, int] | None]  # one a parameter: which tensor, and how often it was written


class Stash:
    """What amp keeps beside an optimizer: `optimizer._amp_stash`."""

    def __init__(self, optimizer: torch.optim.Optimizer, properties: Properties) -> None:
        self.properties, self.optimizer = properties, optimizer
        self.halves: list[torch.nn.Parameter] = []  # the model's, which have a master copy each
        self.masters: list[torch.nn.Parameter] = []
        self.skip: str | None = None  # why the next step is skipped
        self.scaled = False  # gradients of an earlier pass wait to be unscaled
        self._versions: list[int] = []  # of the halves, when they last were what their masters are
        self._before: dict[torch.nn.Parameter, torch.Tensor] | None = None  # in a pass: gradients of earlier ones
        self._aside: list[torch.Tensor | None] = []  # in a pass: what the combined tensors held, None if masters do
        self._combined: list[torch.Tensor] = []
        if properties.master_weights:
            for group in optimizer.param_groups:
                self.make_masters(group)
            if self.masters and optimizer.state:
                optimizer.load_state_dict(optimizer.state_dict())  # its states become float32, too

    def make_masters(self, group: dict[str, Any]) -> None:
        """Gives the half-precision parameters of a group their copies, which the optimizer updates in their place."""
        state = self.optimizer.state
        for index, parameter in enumerate(group["params"]):
            if parameter.dtype in HALVES:
                master = torch.nn.Parameter(parameter.detach().float(), parameter.requires_grad)
                self.halves.append(parameter)
                self.masters.append(master)
                self._versions.append(-1)  # whatever is written before the first backward pass, by .data too
                group["params"][index] = master
                if parameter in state:
                    state[master] = state.pop(parameter)

    @torch.no_grad()
    def take_written(self) -> None:
        """What was written to the model since the last step becomes the masters'; what is as it was keeps its bits."""
        for index, (half, master) in enumerate(zip(self.halves, self.masters, strict=True)):
            if half._version != self._versions[index]:
                master.copy_(torch.where(master.to(half.dtype) == half, master, half.float()))
                self._versions[index] = half._version

    def direct(self) -> list[torch.nn.Parameter]:
        """What the optimizer updates without a copy."""
        masters = set(map(id, self.masters))
        return [p for group in self.optimizer.param_groups for p in group["params"] if id(p) not in masters]

    def model_params(self) -> list[torch.nn.Parameter]:
        """What backward passes write gradients of."""
        return self.halves + self.direct()

    def before_backward(self) -> None:
        """Sets gradients of earlier passes aside: what a pass writes is scaled, what was there is not.

        Raises: RuntimeError inside another pass, whose gradients would be taken for earlier ones.
        """
        if self._before is not None:
            raise RuntimeError("amp.scale_loss within another one of the same optimizer: end that block first")
        self.take_written()
        if self.scaled:
            return
        before = {p: p.grad for p in self.model_params() if p.grad is not None}
        if self._combined and self._stayed():
            self._aside = [None if self._copied(flat) else flat.clone() for flat in self._combined]
            torch._foreach_zero_(self._combined)
        else:
            self._combined = []
            for parameter in before:
                parameter.grad = None
        self._before = before

    def abandon_backward(self) -> None:
        """A pass ended with an exception: gradients are what they were before it."""
        if self._before is None:
            return
        for flat, old in zip(self._combined, self._aside, strict=False):
            flat.zero_() if old is None else flat.copy_(old)
        for parameter in self.model_params():
            parameter.grad = self._before.get(parameter)
        self._before, self._aside = None, []

    def gradients(self) -> Gradients:
        """Equal at two times if nothing was written in between."""
        return [None if p.grad is None else (id(p.grad), p.grad._version) for p in self.model_params()]

    def _copied(self, grad: torch.Tensor) -> bool:
        """Is it a gradient that goes on to a master's? Then that has all earlier ones."""
        return bool(self.masters) and grad.dtype in HALVES

    def _by_dtype(self) -> list[list[torch.Tensor]]:
        present = [p for p in self.model_params() if p.grad is not None]
        return [[p.grad for p in present if p.dtype == t] for t in sorted({p.dtype for p in present}, key=str)]

    def _stayed(self) -> bool:
        """Do the gradients fill the combined tensors, no more and no less? Not looked at if check_combined_tensors
        forbids it."""
        grads = self._by_dtype()
        if len(self._combined) != len(grads):
            return False
        return self.properties.check_combined_tensors is False or all(
            is_combined_tensor_valid(flat, parts) and flat.numel() == sum(part.numel() for part in parts)
            for flat, parts in zip(self._combined, grads, strict=True)
        )

    def _combine(self, before: dict[torch.nn.Parameter, torch.Tensor], scale: float) -> list[torch.Tensor]:
        """The gradients of each dtype in one tensor, earlier ones added, combined anew if one has left it."""
        if self._aside and self._stayed():
            for flat, old in zip(self._combined, self._aside, strict=True):
                if old is not None:
                    flat.add_(old, alpha=scale)
            return self._combined
        olds = {flat.untyped_storage().data_ptr(): old for flat, old in zip(self._combined, self._aside, strict=False)}
        for parameter, grad in before.items():
            old = olds.get(grad.untyped_storage().data_ptr())
            if old is not None:
                grad = old.as_strided(grad.shape, grad.stride(), grad.storage_offset())
            if parameter.grad is None:
                parameter.grad = grad * scale
            else:
                parameter.grad.add_(grad, alpha=scale)
        if not (self._combined and self._stayed()):
            self._combined = [npu_combine_tensors(g) for g in self._by_dtype()]
        return self._combined

    def after_backward(self, scaler: LossScaler) -> None:
        """Brings the gradients to the parameters that are updated, divided by the scale, and looks for overflows."""
        before, self._before = self._before or {}, None
        if self.masters:
            halves = set(self.halves)
            before = {p: grad for p, grad in before.items() if p not in halves}
        if self.properties.combine_grad:
            new = self._combine(before, scaler.loss_scale())
            before = {}
        else:
            new = [p.grad for p in self.model_params() if p.grad is not None]
        self._aside = []
        if self.properties.combine_ddp:
            self._average(new)
        self._to_masters(scaler)
        self._unscale([g for g in new if not self._copied(g)], scaler)
        for parameter, grad in before.items():
            if parameter.grad is None:
                parameter.grad = grad
            else:
                parameter.grad = grad.add_(parameter.grad)  # the memory it had stays
        self.scaled = False

    def _average(self, grads: list[torch.Tensor]) -> None:
        """combine_ddp: the mean over ranks, in ddp_replica_count pieces that are sent side by side."""
        works, pieces = [], self.properties.ddp_replica_count
        for grad in grads:
            for piece in grad.chunk(pieces):
                works.append((dist.all_reduce(piece.div_(dist.get_world_size()), async_op=True), piece))
        for work, _ in works:
            work.wait()

    def _to_masters(self, scaler: LossScaler) -> None:
        pairs = [(m, p.grad) for m, p in zip(self.masters, self.halves, strict=True) if p.grad is not None]
        if not pairs:
            return
        grads = [torch.empty_like(m) for m, _ in pairs]
        torch._foreach_copy_(grads, [grad for _, grad in pairs])
        self._unscale(grads, scaler)
        for (master, _), grad in zip(pairs, grads, strict=True):
            master.grad = grad if master.grad is None else master.grad.add_(grad)

    def _unscale(self, grads: list[torch.Tensor], scaler: LossScaler) -> None:
        scale = scaler.loss_scale()
        if not grads or (scale == 1.0 and not scaler.dynamic):
            return
        if scaler.dynamic:
            found = scaler.found_inf(grads[0].device)
            inverse = torch.full((1,), 1.0 / scale, device=grads[0].device)
            for dtype in {grad.dtype for grad in grads}:
                same = [grad for grad in grads if grad.dtype == dtype]
                torch._amp_foreach_non_finite_check_and_unscale_(same, found, inverse)
        else:
            torch._foreach_mul_(grads, 1.0 / scale)

    def after_step(self) -> None:
        """The updated masters go back to the model, and their gradients are dropped: model.zero_grad() knows none."""
        if self.masters:
            with torch.no_grad():
                torch._foreach_copy_(self.halves, self.masters)
            self._versions = [half._version for half in self.halves]
            self.clear()

    def clear(self) -> None:
        """Gradients of the masters are dropped: after each step, skipped or not, and by zero_grad."""
        for master in self.masters:
            master.grad = None


def prepare(optimizer: torch.optim.Optimizer, properties: Properties) -> None:
    """Gives the optimizer its stash, a step that can be skipped, a zero_grad that knows the model's gradients, and
    an add_param_group that makes master copies."""
    if hasattr(optimizer, "_amp_stash"):
        raise RuntimeError("A given optimizer should only be passed through amp.initialize once.")
    stash = optimizer._amp_stash = Stash(optimizer, properties)
    step, zero_grad, add_param_group = optimizer.step, optimizer.zero_grad, optimizer.add_param_group

    def amp_step(self: Any, closure: Callable[[], Any] | None = None, **others: Any) -> Any:
        if closure is not None and stash.masters:
            raise RuntimeError("Currently, Amp does not support closure use with optimizers.")
        if stash.skip is not None:
            maybe_print(stash.skip)
            stash.skip = None
            stash.clear()
            return None
        stash.take_written()
        result = step(**others) if closure is None else step(closure, **others)
        stash.after_step()
        return result

    def amp_zero_grad(self: Any, *args: Any, **kwargs: Any) -> None:
        grads = [p.grad for p in stash.model_params() if p.grad is not None] if stash._combined else []
        if grads:
            torch._foreach_zero_(grads)
        else:
            zero_grad(*args, **kwargs)
            for parameter in stash.halves:
                parameter.grad = None
        stash.clear()
        stash.scaled = False

    def amp_add_param_group(self: Any, param_group: dict[str, Any]) -> None:
        known = set(map(id, stash.halves))
        add_param_group(param_group)
        group = self.param_groups[-1]
        if not known.isdisjoint(map(id, group["params"])):
            self.param_groups.pop()
            raise ValueError("some parameters appear in more than one parameter group")
        if properties.master_weights:
            stash.make_masters(group)

    # Methods, as schedulers expect of a step that they wrap.
    optimizer.step, optimizer.zero_grad = MethodType(amp_step, optimizer), MethodType(amp_zero_grad, optimizer)
    optimizer.add_param_group = MethodType(amp_add_param_group, optimizer)

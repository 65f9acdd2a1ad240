"""Judge one OptimizerInfo: parameters and state after a few steps, for each configuration the database lists and each
implementation (single tensor, foreach, fused) that PyTorch offers on the device."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.testing._internal.common_device_type import tol, toleranceOverride
from torch.utils._foreach_utils import _get_foreach_kernels_supported_devices, _get_fused_kernels_supported_devices

from tests.upstream.compare import SLACK, Mismatch, compare, plain
from tests.upstream.verdict import Verdict, on_cpu

STEPS = 4
SHAPES = ((4, 6), (6,), (3, 2, 5), ())
MATRICES = ((4, 6), (6, 6), (8, 4))  # Muon takes nothing else
# Four steps amplify a last-place difference through square roots and divisions.
TOLERANCE = (toleranceOverride({torch.float32: tol(atol=1e-5, rtol=1e-4)}),)


def configurations(info: object, device: str) -> Iterator[tuple[str, dict[str, object]]]:
    kind = torch.device(device).type
    available = [
        flag
        for flag, devices in (
            ("foreach", _get_foreach_kernels_supported_devices()),
            ("fused", _get_fused_kernels_supported_devices()),
        )
        if flag in info.supported_impls and kind in devices
    ]
    for configuration in info.optim_inputs_func(device="cpu"):
        off = dict.fromkeys((f for f in ("foreach", "fused") if f in info.supported_impls), False)
        description = configuration.desc or "default"
        yield description, {**configuration.kwargs, **off}
        for flag in available:
            yield f"{description}, {flag}", {**configuration.kwargs, **off, flag: True}


def train(info: object, kwargs: dict[str, object], dtype: torch.dtype, device: str, nudge: float = 0) -> object:
    """A quadratic bowl, always from the same point (or `nudge` of itself beside it); returns parameters and state."""
    generator = torch.Generator().manual_seed(0)
    shapes = MATRICES if info.name == "Muon" else SHAPES

    def random(shape: tuple[int, ...]) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(dtype).to(device)

    parameters = [torch.nn.Parameter(random(shape) * (1 + nudge)) for shape in shapes]
    targets = [random(shape) for shape in shapes]
    moved = {k: v.to(device) if isinstance(v, torch.Tensor) and v.dim() else v for k, v in kwargs.items()}
    optimizer = info.optim_cls(parameters, **moved)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = sum(((p - t) ** 2).sum() for p, t in zip(parameters, targets, strict=True))
        loss.backward()
        if info.only_supports_sparse_grads:
            for p in parameters:
                p.grad = p.grad.to_sparse()
        return loss

    for _ in range(STEPS):
        optimizer.step(closure)
    state = [{k: v for k, v in optimizer.state[p].items() if k != "step"} for p in parameters]
    return [p.detach() for p in parameters], state, [optimizer.state[p].get("step", 0) for p in parameters]


def unstable(info: object, kwargs: dict[str, object], dtype: torch.dtype, actual: object, expected: object) -> bool:
    """Does the CPU not agree with itself when its start moves by a last place, and does the device differ no more?

    L-BFGS in 16 bits is so: after sixty iterations its direction and its history hang on single roundings. The state
    then says nothing; the parameters must not be farther off than twice what the CPU's move.
    """
    moved = on_cpu(lambda: train(info, kwargs, dtype, "cpu", nudge=2 * torch.finfo(dtype).eps))
    try:
        compare(moved[1], expected[1], decorators=(*info.decorators, *TOLERANCE))
    except Mismatch:
        distance = lambda x, y: (plain(x) - plain(y)).abs().max()  # noqa: E731
        parameters = zip(actual[0], expected[0], moved[0], strict=True)
        return all(bool(distance(x, y) <= SLACK * distance(z, y)) for x, y, z in parameters)
    return False


def judge_configuration(info: object, kwargs: dict[str, object], dtype: torch.dtype, device: str) -> None:
    on_the_cpu = {k: False if k in ("foreach", "fused", "capturable") else v for k, v in kwargs.items()}
    expected = on_cpu(lambda: train(info, on_the_cpu, dtype, "cpu"))
    actual = train(info, kwargs, dtype, device)
    try:
        for index, where in ((0, torch.device(device).type), (1, None)):  # parameters, state
            exact = lambda index=index: on_cpu(lambda: train(info, on_the_cpu, torch.float64, "cpu")[index])  # noqa: E731
            compare(
                actual[index], expected[index], device=where, exact=exact, decorators=(*info.decorators, *TOLERANCE)
            )
    except Mismatch:
        if dtype not in (torch.float16, torch.bfloat16) or not unstable(info, on_the_cpu, dtype, actual, expected):
            raise
    # The counter may live on the host or, with capturable and fused, on the device; its value is what counts.
    compare([float(step) for step in actual[2]], [float(step) for step in expected[2]])


def judge(info: object, dtype: torch.dtype, device: str, count: int) -> Verdict:
    verdict = Verdict()
    for description, kwargs in configurations(info, device):
        verdict.judge(description, lambda k=kwargs: judge_configuration(info, k, dtype, device))
    return verdict

"""Mixed precision by CUDA's names: what fails silently if it fails."""

from __future__ import annotations

import threading

import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.cuda.amp.*:FutureWarning")


def product_dtype() -> torch.dtype:
    x = torch.ones(2, 2, device="cuda")
    return (x @ x).dtype


@pytest.mark.parametrize(
    "context, dtype",
    [
        (lambda: torch.autocast("cuda"), torch.float16),
        (lambda: torch.autocast("cuda", dtype=torch.bfloat16), torch.bfloat16),
        (lambda: torch.amp.autocast(device_type="cuda", enabled=True), torch.float16),
        (lambda: torch.autocast("cuda", enabled=False), torch.float32),
        (lambda: torch.cuda.amp.autocast(), torch.float16),
        (lambda: torch.cuda.amp.autocast(dtype=torch.bfloat16), torch.bfloat16),
        (lambda: torch.cuda.amp.autocast(False), torch.float32),
    ],
)
def test_autocast_computes_in_the_lower_precision(context, dtype: torch.dtype) -> None:
    with context():
        assert product_dtype() is dtype
        assert torch.is_autocast_enabled() == torch.is_autocast_enabled("cuda") == torch.is_autocast_enabled("npu")
        assert torch.is_autocast_enabled() is (dtype is not torch.float32)
        if dtype is not torch.float32:
            assert torch.get_autocast_dtype("cuda") is torch.get_autocast_gpu_dtype() is dtype
    assert not torch.is_autocast_enabled()
    assert product_dtype() is torch.float32


def test_tensors_made_before_the_import_take_part() -> None:
    from torch_npu.contrib import transfer_to_npu

    with transfer_to_npu.disabled():
        x = torch.ones(2, 2, device="npu")
    with torch.autocast("cuda"):
        assert (x @ x).dtype is torch.float16


def test_threads_started_later_take_part() -> None:
    seen = []

    def work() -> None:
        with torch.autocast("cuda"):
            seen.append(product_dtype())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [torch.float16]


def test_the_old_switch() -> None:
    torch.set_autocast_enabled(True)
    try:
        assert product_dtype() is torch.float16
    finally:
        torch.set_autocast_enabled(False)
    assert product_dtype() is torch.float32
    torch.set_autocast_gpu_dtype(torch.bfloat16)
    try:
        assert torch.get_autocast_dtype("npu") is torch.bfloat16
    finally:
        torch.set_autocast_gpu_dtype(torch.float16)


def test_autocast_of_the_cpu_is_its_own() -> None:
    with torch.autocast("cpu"):
        assert not torch.is_autocast_enabled()
        assert product_dtype() is torch.float32
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.bfloat16


@pytest.mark.parametrize("make", [lambda: torch.amp.GradScaler("cuda"), lambda: torch.cuda.amp.GradScaler()])
def test_grad_scaler_is_enabled_and_works(make) -> None:
    scaler = make()
    assert scaler.is_enabled() and scaler.get_scale() == 65536.0
    parameter = torch.nn.Parameter(torch.ones(2, device="cuda"))
    optimizer = torch.optim.SGD([parameter], lr=0.5)
    scaler.scale(parameter.sum()).backward()
    assert parameter.grad.tolist() == [65536.0] * 2
    scaler.step(optimizer)
    scaler.update()
    assert parameter.tolist() == [0.5, 0.5]
    scaler.scale((parameter * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert parameter.tolist() == [0.5, 0.5]
    assert scaler.get_scale() == 32768.0
    scaler.update(torch.full((), 8.0, device="cuda"))
    assert scaler.get_scale() == 8.0


@pytest.mark.parametrize("old_names", [False, True])
def test_custom_fwd_and_bwd(old_names: bool) -> None:
    if old_names:
        forward_decorator, backward_decorator = torch.cuda.amp.custom_fwd, torch.cuda.amp.custom_bwd
        forward_decorator = forward_decorator(cast_inputs=torch.float32)
    else:
        forward_decorator = torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
        backward_decorator = torch.amp.custom_bwd(device_type="cuda")
    states = []

    class Square(torch.autograd.Function):
        @staticmethod
        @forward_decorator
        def forward(ctx, x):
            states.append((x.dtype, torch.is_autocast_enabled("cuda")))
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @backward_decorator
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            states.append((grad.dtype, torch.is_autocast_enabled("cuda")))
            return 2 * x * grad

    x = torch.full((2,), 3.0, device="cuda", dtype=torch.float16, requires_grad=True)
    with torch.autocast("cuda"):
        y = Square.apply(x)
    y.sum().backward()
    assert states == [(torch.float32, False), (torch.float32, False)]
    assert x.grad.tolist() == [6.0, 6.0]


def test_training_by_cudas_names_equals_the_cpu() -> None:
    def train(device: str, enabled: bool) -> list[float]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).to(device)
        x, y = torch.randn(32, 8), torch.randint(0, 4, (32,))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        scaler = torch.amp.GradScaler(device, enabled=enabled)
        losses = []
        for _ in range(20):
            optimizer.zero_grad()
            with torch.autocast(device, enabled=enabled, dtype=torch.float16):
                loss = torch.nn.functional.cross_entropy(model(x.to(device)), y.to(device))
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.item())
        return losses

    assert train("cuda", True) == pytest.approx(train("cpu", False), abs=5e-3)

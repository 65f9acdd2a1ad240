"""Operators over lists, optimizers that use them, loss scaling."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from tests.ops.compare import check


def lists(n: int = 3) -> list[torch.Tensor]:
    return [torch.rand(i + 1, 4) + 0.5 for i in range(n)]


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum", "minimum", "clamp_min", "clamp_max", "pow"])
def test_binary(name: str) -> None:
    function, in_place = getattr(torch, f"_foreach_{name}"), getattr(torch, f"_foreach_{name}_")
    check(function, lists(), lists())
    check(function, lists(), 2.0)
    check(function, lists(), [1.0, 2.0, 3.0])
    check(in_place, lists(), lists())
    check(in_place, lists(), 2.0)


@pytest.mark.parametrize(
    "name",
    "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor log log10 log1p log2 neg reciprocal round sigmoid sign "
    "sin sinh sqrt tan tanh trunc frac".split(),
)
def test_unary(name: str) -> None:
    values = [x / 2 for x in lists()]
    check(getattr(torch, f"_foreach_{name}"), values)
    check(getattr(torch, f"_foreach_{name}_"), [x / 2 for x in lists()])


def test_ternary_norm_copy_zero() -> None:
    check(torch._foreach_addcmul, lists(), lists(), lists(), 0.5)
    check(torch._foreach_addcdiv, lists(), lists(), lists(), [1.0, 2.0, 3.0])
    check(torch._foreach_addcdiv_, lists(), lists(), lists(), 2.0)
    check(torch._foreach_lerp, lists(), lists(), 0.25)
    check(torch._foreach_lerp_, lists(), lists(), lists())
    check(torch._foreach_norm, lists())
    check(torch._foreach_norm, lists(), 1)
    check(torch._foreach_norm, lists(), float("inf"))
    check(torch._foreach_copy_, lists(), lists())
    check(torch._foreach_zero_, lists())


def test_unlike_tensors_take_the_loop() -> None:
    mixed = [torch.rand(2), torch.rand(3).half(), torch.arange(4)]
    check(torch._foreach_add, mixed, mixed)
    check(torch._foreach_mul, mixed, 2)


OPTIMIZERS = {
    "sgd": lambda p, **k: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.01, nesterov=True, **k),
    "adam": lambda p, **k: torch.optim.Adam(p, 0.05, weight_decay=0.01, **k),
    "adamw": lambda p, **k: torch.optim.AdamW(p, 0.05, amsgrad=True, **k),
    "rmsprop": lambda p, **k: torch.optim.RMSprop(p, 0.01, **k),
    "adagrad": lambda p, **k: torch.optim.Adagrad(p, 0.1, **k),
}


def train(model: nn.Module, make: object, device: str, **kwargs: bool) -> list[torch.Tensor]:
    model = copy.deepcopy(model).to(device)
    optimizer = make(model.parameters(), **kwargs)
    torch.manual_seed(3)
    x, y = torch.randn(16, 5).to(device), torch.randn(16, 2).to(device)
    for _ in range(5):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    return [p.detach().cpu() for p in model.parameters()]


@pytest.mark.parametrize("way", ["foreach", "fused", "single"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer(name: str, way: str) -> None:
    if way == "fused" and name == "rmsprop":
        pytest.skip("CANN has no fused form of this optimizer")
    model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2))
    kwargs = {"foreach": way == "foreach"} if way != "fused" else {"fused": True}
    expected = train(model, OPTIMIZERS[name], "cpu", foreach=False)
    torch.testing.assert_close(train(model, OPTIMIZERS[name], "npu", **kwargs), expected, rtol=1e-4, atol=1e-5)


LAYOUTS = {
    "alike": lambda t: t,
    "transposed": lambda t: t.transpose(0, -1).contiguous().transpose(0, -1),
    "channels last": lambda t: t.contiguous(memory_format=torch.channels_last),
    "with gaps": lambda t: torch.cat([t, t], -1)[..., : t.shape[-1]],
}


def placed(t: torch.Tensor, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The memory of a tensor on the device, and the tensor in it."""
    whole = torch.zeros(t.untyped_storage().nbytes() // t.element_size(), device=device)
    return whole, whole.as_strided(t.shape, t.stride()).copy_(t)


def steps(make: object, device: str, of_parameter: str, of_gradient: str, **kwargs: bool) -> list[torch.Tensor]:
    torch.manual_seed(5)
    whole, view = placed(LAYOUTS[of_parameter](torch.randn(2, 3, 4, 4)), device)
    parameter = nn.Parameter(view)
    other = nn.Parameter(torch.ones(3, device=device))
    optimizer = make([parameter, other], **kwargs)
    for _ in range(2):
        parameter.grad = placed(LAYOUTS[of_gradient](torch.randn(2, 3, 4, 4)), device)[1]
        other.grad = torch.ones(3, device=device)
        optimizer.step()
    return [whole.cpu(), other.detach().cpu()]


@pytest.mark.parametrize("of_gradient", LAYOUTS)
@pytest.mark.parametrize("of_parameter", LAYOUTS)
@pytest.mark.parametrize("name", ["sgd", "adam", "adamw", "adagrad"])
def test_fused_optimizer_of_unlike_layouts(name: str, of_parameter: str, of_gradient: str) -> None:
    expected = steps(OPTIMIZERS[name], "cpu", of_parameter, of_gradient, foreach=False)
    got = steps(OPTIMIZERS[name], "npu", of_parameter, of_gradient, fused=True)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw", "adagrad"])
def test_fused_optimizer_of_an_expanded_gradient(name: str) -> None:
    def moved(device: str, **kwargs: bool) -> list[torch.Tensor]:
        p = nn.Parameter(torch.ones(4, 3, device=device))
        row = torch.tensor([[8.0, -4.0, 2.0]], device=device)
        optimizer = OPTIMIZERS[name]([p], **kwargs)
        if "fused" in kwargs:
            optimizer.grad_scale, optimizer.found_inf = torch.full((), 4.0).npu(), torch.zeros(()).npu()
        else:
            row /= 4
        p.grad = row.expand(4, 3)
        optimizer.step()
        return [p.detach().cpu(), row.cpu()]

    torch.testing.assert_close(moved("npu", fused=True), moved("cpu", foreach=False), rtol=1e-4, atol=1e-5)


def test_fused_optimizer_refuses_an_expanded_parameter() -> None:
    p = nn.Parameter(torch.ones(1, 3, device="npu").expand(4, 3))
    p.grad = torch.ones(4, 3, device="npu")
    for make in OPTIMIZERS["sgd"], OPTIMIZERS["adam"], OPTIMIZERS["adamw"]:
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
            make([p], fused=True).step()
    torch.npu.synchronize()


def test_unscaling_an_expanded_gradient_is_refused() -> None:
    grads, found, inverse = (torch.ones(n, device="npu") for n in (3, 1, 1))
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        torch._amp_foreach_non_finite_check_and_unscale_([grads.expand(4, 3)], found, inverse)
    torch.npu.synchronize()


def test_grad_scaler_finds_infinities_and_grows() -> None:
    p = nn.Parameter(torch.ones(3, device="npu"))
    optimizer = torch.optim.SGD([p], 1.0)
    scaler = torch.amp.GradScaler("npu", init_scale=4.0, growth_interval=1)
    scaler.scale(p.sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(p.detach().cpu(), torch.zeros(3)) and scaler.get_scale() == 8.0
    optimizer.zero_grad()
    scaler.scale((p * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(p.detach().cpu(), torch.zeros(3)) and scaler.get_scale() == 4.0


def test_clip_grad_norm() -> None:
    def clip(*tensors: torch.Tensor) -> list[torch.Tensor]:
        parameters = [nn.Parameter(torch.zeros_like(t)) for t in tensors]
        for parameter, gradient in zip(parameters, tensors, strict=True):
            parameter.grad = gradient.clone()
        norm = nn.utils.clip_grad_norm_(parameters, 1.0)
        return [norm, *(p.grad for p in parameters)]

    check(clip, *lists())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["sgd", "adam", "adamw", "adagrad"])
def test_fused_optimizers_compute_16_bit_numbers_in_float32(name: str, dtype: torch.dtype) -> None:
    """Squares of small gradients, and eps beside them, are zero in 16 bits."""

    def moved(device: str, dtype: torch.dtype, **kwargs: bool) -> torch.Tensor:
        p = nn.Parameter(torch.zeros(3, dtype=dtype, device=device))
        p.grad = torch.tensor([0, 1e-5, -0.5], dtype=torch.float16, device=device).to(dtype)
        OPTIMIZERS[name]([p], **kwargs).step()
        return p.detach().cpu()

    expected = moved("cpu", torch.float32, foreach=False).to(dtype)
    torch.testing.assert_close(moved("npu", dtype, fused=True), expected, rtol=1e-2, atol=0)


def test_fused_adagrad_refuses_to_write_an_expanded_parameter() -> None:
    p, one = torch.ones(1, device="npu").expand(3), torch.ones(3, device="npu")
    with pytest.raises(RuntimeError, match="single memory location"):
        torch._fused_adagrad_([p], [one], [one], [torch.ones((), device="npu")], lr=1.0, lr_decay=0.0, weight_decay=0.0,
                              eps=0.0, maximize=False)  # fmt: skip

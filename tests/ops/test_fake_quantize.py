"""Quantization-aware training: values, masks, ranges and gradients are the CPU's; nothing falls back."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.ao.quantization import FakeQuantize, FusedMovingAvgObsFakeQuantize, MovingAverageMinMaxObserver
from torch.ao.quantization import MovingAveragePerChannelMinMaxObserver as ByChannel

from tests.ops.compare import check

X = torch.randn(4, 3, 5) * 4
SCALE, ZERO = torch.tensor([0.1, 0.25, 0.03]), torch.tensor([0, 10, -3], dtype=torch.int32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "form", [lambda x: x, lambda x: x.transpose(0, 2).contiguous().transpose(0, 2), lambda x: x[:0]]
)
def test_values_and_masks(form, dtype):
    x = form(X.to(dtype))
    aten = torch.ops.aten
    check(lambda x: aten.fake_quantize_per_tensor_affine_cachemask(x, 0.05, 3, -128, 127), x)
    check(lambda x, z: aten.fake_quantize_per_channel_affine_cachemask(x, SCALE.to(x.device), z, 1, -128, 127), x, ZERO)
    zeros = ZERO.float() + 0.25
    check(lambda x, z: aten.fake_quantize_per_channel_affine_cachemask(x, SCALE.to(x.device), z, 1, 0, 15), x, zeros)
    if x.numel():
        x[0, 0, 0] = float("nan")
    check(lambda x, z: aten.fake_quantize_per_channel_affine_cachemask(x, SCALE.to(x.device), z, 1, 0, 15), x, zeros)


def test_what_is_out_of_range_has_no_gradient():
    def gradient(x):
        x = x.clone().requires_grad_()
        torch.fake_quantize_per_tensor_affine(x, 0.05, 0, -64, 63).square().sum().backward()
        return x.grad

    check(gradient, X)


@pytest.mark.parametrize("channels", [False, True])
def test_levels_are_learned(channels):
    x = torch.cat([X, X.new_full((1, 3, 5), float("nan"))])
    scale, zero = SCALE.repeat(2), torch.tensor([0.0, 10.4, -200, -2.4, -3.5, 2.5])
    x = torch.cat([x, x], 1)
    if not channels:
        scale, zero = scale[1:2], torch.tensor([3.6])

    def learn(x, scale, zero):
        leaves = [tensor.clone().requires_grad_() for tensor in (x, scale, zero)]
        if channels:
            y = torch._fake_quantize_learnable_per_channel_affine(*leaves, 1, -64, 63, 0.5)
        else:
            y = torch._fake_quantize_learnable_per_tensor_affine(*leaves, -64, 63, 0.5)
        y.square().sum().backward()
        return y.detach(), *(leaf.grad for leaf in leaves)

    check(learn, x, scale, zero, rtol=1e-5)
    check(learn, x[:4], scale, zero, rtol=1e-5)


OBSERVERS = {
    "fused": lambda: FusedMovingAvgObsFakeQuantize(quant_min=0, quant_max=255, averaging_constant=0.3),
    "fused, symmetric": lambda: FusedMovingAvgObsFakeQuantize(
        quant_min=-128, quant_max=127, dtype=torch.qint8, qscheme=torch.per_tensor_symmetric
    ),
    "fused, by channel": lambda: FusedMovingAvgObsFakeQuantize(
        ByChannel, quant_min=-128, quant_max=127, dtype=torch.qint8, qscheme=torch.per_channel_symmetric, ch_axis=0
    ),
    "moving average": lambda: FakeQuantize(MovingAverageMinMaxObserver, quant_min=0, quant_max=255),
    "by channel": lambda: FakeQuantize(
        ByChannel, quant_min=-128, quant_max=127, dtype=torch.qint8, qscheme=torch.per_channel_symmetric, ch_axis=1
    ),
}


@pytest.mark.parametrize("name", OBSERVERS)
def test_observers_follow_what_they_see(name):
    observers = {device: OBSERVERS[name]().to(device) for device in ("cpu", "npu")}
    for step in range(6):
        if step == 3:
            for observer in observers.values():
                observer.disable_observer()
        if step == 4:
            for observer in observers.values():
                observer.disable_fake_quant()
        x = torch.randn(4, 3, 5) * (step + 1)
        y = {device: observer(x.to(device)).cpu() for device, observer in observers.items()}
        torch.testing.assert_close(y["npu"], y["cpu"])
        state = {device: observer.state_dict() for device, observer in observers.items()}
        for key, value in state["cpu"].items():
            torch.testing.assert_close(state["npu"][key].cpu(), value, msg=f"step {step}: {key}")
    assert torch.npu.fallback_counts() == {}


def test_ranges_of_one_size_on_both_sides_and_of_nan():
    for x in (torch.tensor([-1.0, 0.3, 1]), torch.tensor([-2.5, 2.5]), torch.tensor([1.0, float("nan")])):

        def observe(x):
            observer = FusedMovingAvgObsFakeQuantize(quant_min=0, quant_max=255).to(x.device)
            return observer(x), observer.scale, observer.zero_point

        check(observe, x)


def test_an_observer_of_other_channels_is_refused_before_it_changes():
    observer = OBSERVERS["fused, by channel"]().npu()
    observer.ch_axis = 1
    with pytest.raises(RuntimeError, match="only supported on axis == 0"):
        observer(X.npu())
    assert observer.activation_post_process.min_val.numel() == 0


def test_a_network_is_trained_for_int8():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 5)).train()
    model.qconfig = torch.ao.quantization.get_default_qat_qconfig("x86")
    torch.ao.quantization.prepare_qat(model, inplace=True)
    models = {"cpu": model, "npu": copy.deepcopy(model).npu()}
    losses = {}
    for device, one in models.items():
        optimizer = torch.optim.SGD(one.parameters(), 0.05)
        generator = torch.Generator().manual_seed(1)
        for _ in range(5):
            x, t = torch.randn(8, 3, 8, 8, generator=generator), torch.randint(5, (8,), generator=generator)
            loss = nn.functional.cross_entropy(one(x.to(device)), t.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.setdefault(device, []).append(loss.item())
    assert losses["npu"] == pytest.approx(losses["cpu"], rel=2e-3)
    assert torch.npu.fallback_counts() == {}


REFUSED = {
    "`quant_min` should be less than or equal to `quant_max`": (0.1, 0, 5, 4),
    "`zero_point` must be between `quant_min` and `quant_max`": (0.1, 9, 0, 8),
}


@pytest.mark.parametrize("words", REFUSED)
def test_a_range_that_is_none_is_refused(words):
    with pytest.raises(RuntimeError, match=words):
        torch.fake_quantize_per_tensor_affine(X.npu(), *REFUSED[words])


def test_channels_must_fit():
    for scale, zero, axis, words in (
        (SCALE[:2], ZERO[:2], 1, "not consistent with input tensor"),
        (SCALE, ZERO[:2], 1, "need to have the same dimensions"),
        (SCALE, ZERO, 3, "`axis` must be between 0 and number of dimensions of input"),
        (SCALE, ZERO * 100, 1, "`zero_point` must be between"),
        (SCALE.double(), ZERO, 1, "Scale must be Float, found"),
    ):
        with pytest.raises(RuntimeError, match=words):
            torch.fake_quantize_per_channel_affine(X.npu(), scale.npu(), zero.npu(), axis, -128, 127)

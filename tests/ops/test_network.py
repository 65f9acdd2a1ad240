"""Layers: convolution, pooling, padding, resampling, normalization, losses, attention, recurrent cells. Values and
gradients.
"""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.ops.compare import assert_same, check, check_grad, to_npu

X3 = torch.randn(3, 2, 4, generator=torch.Generator().manual_seed(3))


def leaf(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, requires_grad=True)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("transposed", [False, True])
def test_convolution(dim: int, groups: int, transposed: bool) -> None:
    x = leaf(2, 4, *(7,) * dim)
    weight = leaf(4, 6 // groups, *(3,) * dim) if transposed else leaf(6, 4 // groups, *(3,) * dim)
    function = getattr(F, f"conv{'_transpose' if transposed else ''}{dim}d")
    check_grad(function, x, weight, leaf(6), stride=2, padding=1, groups=groups, rtol=1e-4, atol=1e-4)
    check_grad(function, x, weight, None, dilation=2, groups=groups, rtol=1e-4, atol=1e-4)


def test_convolution_of_one_image_and_of_channels_last() -> None:
    check(F.conv2d, torch.randn(3, 8, 8), torch.randn(4, 3, 3, 3), rtol=1e-4, atol=1e-4)
    x = torch.randn(2, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    y = check(F.conv2d, x, torch.randn(4, 3, 3, 3), rtol=1e-4, atol=1e-4)
    assert y.is_contiguous()  # as PyTorch's meta function says of a device with a convolution of its own


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_convolution_in_lower_precision(dtype: torch.dtype) -> None:
    x, w = torch.randn(2, 3, 8, 8).to(dtype), torch.randn(4, 3, 3, 3).to(dtype)
    actual = F.conv2d(x.npu(), w.npu()).cpu().float()
    torch.testing.assert_close(actual, F.conv2d(x.float(), w.float()), rtol=2e-2, atol=6e-2)


def test_a_large_convolution_in_half_precision_again_and_again() -> None:
    # More than 16 million results. Where calls with the same shapes put them is learnt from the first.
    images = torch.arange(16.0 * 1056 * 1056).remainder_(1000).view(1, 16, 1056, 1056).half()
    weight = torch.zeros(16, 16, 3, 3)
    weight[range(16), range(16), 1, 1] = 2.0
    x, w = images.npu(), weight.half().npu()
    for _ in range(3):
        assert torch.equal(F.conv2d(x, w, padding=1).cpu(), 2 * images)


POOLS = {
    "max_pool1d": ((2, 3, 8), dict(kernel_size=2)),
    "max_pool2d": ((2, 3, 8, 8), dict(kernel_size=3, stride=2, padding=1)),
    "max_pool3d": ((2, 3, 6, 6, 6), dict(kernel_size=2)),
    "avg_pool1d": ((2, 3, 8), dict(kernel_size=2)),
    "avg_pool2d": ((2, 3, 8, 8), dict(kernel_size=3, stride=2, padding=1, count_include_pad=False)),
    "avg_pool3d": ((2, 3, 6, 6, 6), dict(kernel_size=2)),
    "adaptive_avg_pool2d": ((2, 3, 8, 8), dict(output_size=(3, 2))),
    "adaptive_avg_pool1d": ((2, 3, 8), dict(output_size=3)),
    "adaptive_max_pool2d": ((2, 3, 8, 8), dict(output_size=(3, 2))),
    "adaptive_avg_pool3d": ((2, 3, 6, 6, 6), dict(output_size=2)),
}


@pytest.mark.parametrize("name", POOLS)
def test_pooling(name: str) -> None:
    shape, arguments = POOLS[name]
    check_grad(getattr(F, name), leaf(*shape), **arguments)


def test_max_pool_indices_and_unpool() -> None:
    y, indices = check(F.max_pool2d, torch.randn(2, 3, 8, 8), 2, return_indices=True)
    check(F.max_unpool2d, y.cpu(), indices.cpu(), 2)


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_padding(mode: str) -> None:
    check_grad(F.pad, leaf(2, 3, 5, 6), (1, 2, 2, 1), mode=mode)
    check_grad(F.pad, leaf(2, 3, 5), (1, 2), mode=mode)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic", "area", "nearest-exact"])
def test_interpolation(mode: str) -> None:
    check_grad(F.interpolate, leaf(2, 3, 5, 6), scale_factor=2.0, mode=mode, rtol=1e-4, atol=1e-4)
    check_grad(F.interpolate, leaf(2, 3, 5, 6), size=(7, 4), mode=mode, rtol=1e-4, atol=1e-4)


def test_interpolation_in_one_and_three_dimensions() -> None:
    check_grad(F.interpolate, leaf(2, 3, 5), scale_factor=2.0, mode="linear")
    check_grad(F.interpolate, leaf(1, 2, 3, 4, 5), scale_factor=2.0, mode="trilinear")
    check_grad(F.interpolate, leaf(2, 3, 5), scale_factor=1.7, mode="nearest")


def test_grid_sample_and_fold() -> None:
    check_grad(
        F.grid_sample,
        leaf(2, 3, 5, 6),
        (torch.rand(2, 4, 4, 2) * 2 - 1).requires_grad_(),
        align_corners=False,
        rtol=1e-4,
        atol=1e-4,
    )
    check_grad(F.unfold, leaf(2, 3, 5, 6), 2)
    check_grad(F.fold, leaf(2, 12, 12), (4, 5), 2)
    check(F.pixel_shuffle, torch.randn(1, 8, 3, 3), 2)


def run_module(module: nn.Module, *inputs: torch.Tensor, rtol: float = 1e-4, atol: float = 1e-5) -> None:
    """Results, gradients of inputs and parameters, and buffers."""
    twin = to_npu(dict(module.state_dict()))
    expected = module(*inputs)
    loss = sum(
        x.float().square().sum()
        for x in (expected if isinstance(expected, tuple) else (expected,))
        if isinstance(x, torch.Tensor)
    )
    loss.backward()
    other = copy.deepcopy(module)
    other.zero_grad()
    other.load_state_dict(module.state_dict() | {k: v.cpu() for k, v in twin.items()})
    other = other.npu()
    npu_inputs = to_npu([x.detach().requires_grad_(x.requires_grad) for x in inputs])
    actual = other(*npu_inputs)
    npu_loss = sum(
        x.float().square().sum()
        for x in (actual if isinstance(actual, tuple) else (actual,))
        if isinstance(x, torch.Tensor)
    )
    npu_loss.backward()
    assert_same(actual, expected, rtol, atol)
    assert_same(
        [x.grad for x in npu_inputs if x.requires_grad], [x.grad for x in inputs if x.requires_grad], rtol, atol * 10
    )
    for (name, a), (_, e) in zip(other.named_parameters(), module.named_parameters(), strict=True):
        torch.testing.assert_close(a.grad.cpu(), e.grad, rtol=rtol, atol=atol * 100, msg=lambda m, n=name: f"{n}: {m}")
    assert_same(dict(other.named_buffers()), dict(module.named_buffers()), rtol, atol)


def test_batch_norm_trains_and_updates_its_statistics() -> None:
    run_module(nn.BatchNorm2d(3), leaf(4, 3, 5, 5))
    run_module(nn.BatchNorm1d(3, affine=False), leaf(4, 3))
    run_module(nn.BatchNorm2d(3, track_running_stats=False), leaf(4, 3, 5, 5))
    run_module(nn.BatchNorm2d(3).eval(), leaf(4, 3, 5, 5))


def test_running_statistics_are_written_on_the_device() -> None:
    layer = nn.BatchNorm1d(2).npu()
    layer(torch.tensor([[1.0, 2.0], [3.0, 6.0]]).npu())
    torch.testing.assert_close(layer.running_mean.cpu(), torch.tensor([0.2, 0.4]))
    torch.testing.assert_close(layer.running_var.cpu(), torch.tensor([1.1, 1.7]))


def test_layer_group_instance_norm() -> None:
    run_module(nn.LayerNorm(6), leaf(3, 4, 6))
    run_module(nn.LayerNorm((4, 6), elementwise_affine=False), leaf(3, 4, 6))
    run_module(nn.GroupNorm(2, 4), leaf(3, 4, 5, 5))
    run_module(nn.GroupNorm(2, 4, affine=False), leaf(3, 4, 5))
    run_module(nn.InstanceNorm2d(3, affine=True), leaf(2, 3, 5, 5))
    run_module(nn.RMSNorm(6), leaf(3, 6))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_layer_norm_in_lower_precision(dtype: torch.dtype) -> None:
    x, w, b = torch.randn(4, 8).to(dtype), torch.rand(8).to(dtype), torch.rand(8).to(dtype)
    check(F.layer_norm, x, (8,), w, b)


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers(layer: type[nn.Module]) -> None:
    run_module(layer(4, 5), leaf(3, 2, 4), rtol=1e-4)
    run_module(layer(4, 5, num_layers=2, bidirectional=True, batch_first=True), leaf(3, 2, 4), rtol=1e-4)
    run_module(layer(4, 5, bias=False), leaf(3, 2, 4), rtol=1e-4)


@pytest.mark.parametrize(
    "options",
    [{}, {"bias": False}, {"num_layers": 3, "batch_first": True}, {"bidirectional": True}, {"proj_size": 3}],
    ids=str,
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_lstm_states_and_gradients(options: dict, dtype: torch.dtype) -> None:
    layer = nn.LSTM(4, 5, **options).to(dtype)

    def outcome(device: str) -> list[torch.Tensor]:
        copied, x = copy.deepcopy(layer).to(device), X3.clone().to(device, dtype).requires_grad_()
        output, (h, c) = copied(x)
        (output.square().sum() + 2 * h.sum() + c.square().sum()).backward()
        return [output, h, c, x.grad, *(p.grad for p in copied.parameters())]

    rtol = 0.05 if dtype == torch.bfloat16 else 1e-4
    for actual, expected in zip(outcome("npu"), outcome("cpu"), strict=True):
        torch.testing.assert_close(actual.detach().cpu(), expected.detach(), rtol=rtol, atol=rtol)


def test_an_lstms_unused_results_need_no_gradient() -> None:
    run_module(nn.LSTM(4, 5, 2), leaf(3, 2, 4), rtol=1e-4)
    layer, x = nn.LSTM(4, 5), X3
    expected = torch.autograd.grad(layer(x)[1][1].sum(), list(layer.parameters()))
    layer.npu()
    actual = torch.autograd.grad(layer(x.npu())[1][1].sum(), list(layer.parameters()))
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a.cpu(), e, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("two_ways", [False, True])
def test_the_gradient_of_an_lstms_gradient(two_ways: bool) -> None:
    layer = nn.LSTM(4, 5, 2, bidirectional=two_ways).double()

    def penalty(device: str) -> list[torch.Tensor]:
        copied, x = copy.deepcopy(layer).to(device), X3.clone().to(device, torch.double).requires_grad_()
        with torch.backends.mkldnn.flags(enabled=False):
            (gradient,) = torch.autograd.grad(copied(x)[0].square().sum(), x, create_graph=True)
            gradient.square().sum().backward()
        return [x.grad, *(p.grad for p in copied.parameters())]

    for actual, expected in zip(penalty("npu"), penalty("cpu"), strict=True):
        torch.testing.assert_close(actual.cpu(), expected)


def test_an_lstm_under_autocast_and_with_wrong_weights() -> None:
    layer = nn.LSTM(4, 5).npu()
    with torch.autocast("npu", torch.float16):
        assert layer(X3.npu())[0].dtype == torch.float16
    layer.weight_hh_l0 = nn.Parameter(torch.ones(20, 6, device="npu"))
    with pytest.raises(RuntimeError, match="weights of layer 0"):
        layer(X3.npu())


def test_embedding() -> None:
    run_embedding = nn.Embedding(10, 4, padding_idx=2)
    index = torch.tensor([[1, 2, 9], [1, 0, 3]])
    run_module(run_embedding, index)
    check(F.embedding, index.int(), torch.randn(10, 4))


LOSSES = {
    "mse_loss": "same",
    "l1_loss": "same",
    "smooth_l1_loss": "same",
    "huber_loss": "same",
    "binary_cross_entropy_with_logits": "unit",
    "binary_cross_entropy": "both",
    "cross_entropy": "class",
    "nll_loss": "class",
    "kl_div": "same",
    "soft_margin_loss": "same",
}


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", [n for n in LOSSES if n != "huber_loss"])
def test_loss(name: str, reduction: str) -> None:
    x = leaf(4, 5)
    if LOSSES[name] == "class":
        target = torch.tensor([0, 4, 2, 1])
    else:
        target = torch.rand(4, 5)
    if LOSSES[name] == "both":
        x = torch.rand(4, 5, requires_grad=True)
    check_grad(getattr(F, name), x, target, reduction=reduction)


@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("types", [(torch.float16, torch.float32), (torch.float64, torch.float32)], ids=str)
def test_the_loss_has_the_targets_type(types: tuple[torch.dtype, torch.dtype], reduction: str) -> None:
    x = torch.randn(4, 5).to(types[0]).requires_grad_()
    check_grad(F.binary_cross_entropy_with_logits, x, torch.rand(4, 5).to(types[1]), reduction=reduction)


def test_cross_entropy_variants() -> None:
    x, target = leaf(4, 5), torch.tensor([0, 4, -100, 1])
    check_grad(F.cross_entropy, x, target)
    check_grad(F.cross_entropy, x, torch.tensor([0, 4, 3, 1]), weight=torch.rand(5), label_smoothing=0.1)
    check_grad(F.cross_entropy, leaf(2, 5, 3, 3), torch.randint(0, 5, (2, 3, 3)))
    check_grad(F.cross_entropy, x, torch.softmax(torch.randn(4, 5), 1))


def test_int32_targets_train() -> None:
    x = torch.randn(4, 5)
    target = torch.tensor([0, 4, 2, 1])
    a = x.npu().requires_grad_()
    loss = F.cross_entropy(a, target.int().npu())
    loss.backward()
    b = x.requires_grad_()
    expected = F.cross_entropy(b, target)
    expected.backward()
    torch.testing.assert_close(loss.cpu(), expected)
    torch.testing.assert_close(a.grad.cpu(), b.grad)
    check_grad(
        lambda y, t: F.cross_entropy(y, t if y.device.type == "cpu" else t.int()),
        leaf(2, 5, 3, 3),
        torch.randint(0, 5, (2, 3, 3)),
    )


def test_softmax() -> None:
    for dim in (0, 1, -1):
        check_grad(F.softmax, leaf(3, 4, 5), dim=dim)
        check_grad(F.log_softmax, leaf(3, 4, 5), dim=dim)
    check(F.softmax, torch.randn(3, 4).half(), dim=1, dtype=torch.float32)


@pytest.mark.parametrize("causal", [False, True])
def test_scaled_dot_product_attention(causal: bool) -> None:
    q, k, v = leaf(2, 3, 5, 8), leaf(2, 3, 5, 8), leaf(2, 3, 5, 8)
    check_grad(F.scaled_dot_product_attention, q, k, v, is_causal=causal, rtol=1e-4, atol=1e-5)


def test_attention_with_a_mask() -> None:
    q, mask = torch.randn(2, 3, 5, 8), torch.ones(5, 5).tril().bool()
    check(lambda x, m: F.scaled_dot_product_attention(x, x, x, attn_mask=m), q, mask, rtol=1e-4, atol=1e-5)


FUTURE = torch.ones(5, 5, dtype=torch.bool).triu(1)
FUTURE_FLOAT = torch.zeros(5, 5).masked_fill(FUTURE, float("-inf"))
PADDING = torch.arange(5) >= torch.tensor([3, 4, 1])[:, None]
ENCODER_MASKS = {
    "none": {},
    "bool": {"mask": FUTURE},
    "float": {"mask": FUTURE_FLOAT},
    "is_causal": {"mask": FUTURE_FLOAT, "is_causal": True},
    "one a head": {"mask": torch.stack([FUTURE, FUTURE.fliplr().roll(1, 1)] * 3)},
    "padding": {"src_key_padding_mask": PADDING},
    "float padding": {"src_key_padding_mask": torch.zeros(3, 5).masked_fill(PADDING, float("-inf"))},
    "both": {"mask": FUTURE, "src_key_padding_mask": PADDING},
}


@pytest.mark.parametrize("stacked", [False, True], ids=["layer", "encoder"])
@pytest.mark.parametrize("mask", ENCODER_MASKS)
def test_transformer_encoder_at_inference(mask: str, stacked: bool) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval() if stacked else layer
    named = {"src_mask" if name == "mask" and not stacked else name: m for name, m in ENCODER_MASKS[mask].items()}
    x = torch.randn(3, 5, 8)
    with torch.inference_mode():
        expected = model(x, **named)
        actual = model.npu()(x.npu(), **to_npu(named))
    assert not expected.isnan().any()
    assert_same(actual, expected, rtol=1e-4, atol=1e-5)


def test_dropout() -> None:
    x = torch.ones(10000).npu().requires_grad_()
    torch.manual_seed(1)
    y = F.dropout(x, 0.3)
    kept = (y != 0).float().mean().item()
    assert abs(kept - 0.7) < 0.03
    torch.testing.assert_close(y[y != 0].cpu(), torch.full((int((y != 0).sum()),), 1 / 0.7))
    y.sum().backward()
    torch.testing.assert_close(x.grad.cpu(), y.detach().cpu())
    torch.manual_seed(1)
    assert torch.equal(F.dropout(x, 0.3).cpu(), y.detach().cpu())
    assert torch.equal(F.dropout(x, 0.3, training=False).cpu(), x.detach().cpu())
    assert F.dropout(x, 1.0).sum().item() == 0


def test_ctc_loss() -> None:
    torch.manual_seed(0)
    logits, targets = torch.randn(9, 2, 5).log_softmax(2), torch.randint(1, 5, (2, 4))
    results = []
    for device in ("cpu", "npu"):
        x = logits.clone().to(device).requires_grad_()
        loss = torch.nn.functional.ctc_loss(x, targets.to(device), (9, 7), (4, 3))
        loss.backward()
        results.append((loss.detach().cpu(), x.grad.cpu()))
    torch.testing.assert_close(results[1], results[0])
    with pytest.raises(RuntimeError, match="input_lengths to have value at most 9, but got value 10"):
        torch.nn.functional.ctc_loss(logits.npu(), targets.npu(), (10, 7), (4, 3))

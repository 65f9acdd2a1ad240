"""torch_npu/contrib/module: each module against its formula, with gradients."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from torch_npu.contrib import module


def test_channel_shuffle():
    first, second = torch.randn(2, 4, 3, 3, device="npu"), torch.randn(2, 4, 3, 3, device="npu")
    whole = torch.stack([first, second], 2).flatten(1, 2)
    assert torch.equal(module.ChannelShuffle(8, split_shuffle=False)(first, second), whole)
    halves = module.ChannelShuffle(8)(first, second)
    assert torch.equal(halves[0], whole[:, :4]) and torch.equal(halves[1], whole[:, 4:])
    by_four = module.ChannelShuffle(8, 4, False)(first, second)
    assert torch.equal(by_four, torch.cat([first, second], 1).view(2, 4, 2, 3, 3).transpose(1, 2).reshape(2, 8, 3, 3))
    with pytest.raises(RuntimeError, match="expects tensors on the npu, got one on cpu"):
        module.ChannelShuffle(8)(first.cpu(), second.cpu())
    with pytest.raises(ValueError, match="not a multiple"):
        module.ChannelShuffle(9)


@pytest.mark.parametrize("smooth", [0.0, 0.1])
def test_label_smoothing_shares_among_the_others(smooth):
    pred = torch.randn(6, 5, device="npu", requires_grad=True)
    target = torch.tensor([0, 1, 2, 3, 4, 0], device="npu")
    loss = module.LabelSmoothingCrossEntropy(5, smooth)(pred, target)
    loss.backward()
    exact = pred.detach().cpu().double().requires_grad_()
    weights = torch.full((6, 5), smooth / 4).double().scatter(1, target.cpu()[:, None], 1 - smooth)
    wanted = -(exact.log_softmax(1) * weights).sum(1).mean()
    wanted.backward()
    assert loss.item() == pytest.approx(wanted.item(), rel=1e-5)
    assert torch.allclose(pred.grad.cpu().double(), exact.grad, atol=1e-6)


OFFSETS = [{}, {"stride": 2, "padding": 1}, {"groups": 2, "deformable_groups": 2, "padding": (1, 0)},
           {"dilation": 2, "padding": 2, "bias": False}]  # fmt: skip


@pytest.mark.parametrize("options", OFFSETS, ids=range(len(OFFSETS)))
@pytest.mark.parametrize("pack", [True, False])
def test_modulated_deformable_convolution(options, pack):
    torch.manual_seed(3)
    layer = module.ModulatedDeformConv(4, 6, 3, pack=pack, **options)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(0, 0.3)
    x = torch.randn(2, 4, 7, 8)
    groups = layer.deformable_groups
    shape = F.conv2d(x, torch.ones(1, 4, 3, 3), None, layer.stride, layer.padding, layer.dilation).shape
    offset, mask = torch.randn(2, 18 * groups, *shape[2:]), torch.rand(2, 9 * groups, *shape[2:])
    cpu = {name: p.detach().double().requires_grad_() for name, p in layer.named_parameters()}
    exact = x.double().requires_grad_()
    if pack:
        made = F.conv2d(
            exact, cpu["conv_offset.weight"], cpu["conv_offset.bias"], layer.stride, layer.padding, layer.dilation
        )
        one, two, third = made.chunk(3, 1)
        moved, weights = torch.cat([one, two], 1), third.sigmoid()
    else:
        moved, weights = offset.double(), mask.double()
    expected = reference_deformed(
        exact, moved, cpu["weight"], cpu.get("bias"), layer.stride, layer.padding, layer.dilation, weights
    )
    layer = layer.npu()
    inputs = x.npu().requires_grad_()
    got = layer(inputs if pack else (inputs, offset.npu(), mask.npu()))
    assert (got.detach().cpu().double() - expected.detach()).abs().max() < 1e-4
    got.square().sum().backward()
    expected.square().sum().backward()
    assert (inputs.grad.cpu().double() - exact.grad).abs().max() < 2e-3
    for name, parameter in layer.named_parameters():
        assert torch.allclose(parameter.grad.cpu().double(), cpu[name].grad, atol=5e-3, rtol=1e-3), name


def reference_deformed(x, offset, weight, bias, stride, padding, dilation, mask):
    """deform_conv2d by grid_sample: pairs (y, x) of offsets for each group and kernel position."""
    (height, width), kernel = offset.shape[2:], weight.shape[2:]
    taps, groups = kernel[0] * kernel[1], offset.shape[1] // (2 * kernel[0] * kernel[1])
    columns = []
    for group, part in enumerate(x.chunk(groups, 1)):
        for tap in range(taps):
            index = group * taps + tap
            row = torch.arange(height)[:, None] * stride[0] - padding[0] + (tap // kernel[1]) * dilation[0]
            column = torch.arange(width)[None] * stride[1] - padding[1] + (tap % kernel[1]) * dilation[1]
            y, z = row + offset[:, 2 * index], column + offset[:, 2 * index + 1]
            grid = torch.stack([2 * z / (x.shape[3] - 1) - 1, 2 * y / (x.shape[2] - 1) - 1], -1)
            columns.append(F.grid_sample(part, grid, align_corners=True) * mask[:, index : index + 1])
    samples = torch.stack(columns, 2)  # (N, C / groups, groups * taps, H', W')
    samples = samples.view(x.shape[0], -1, groups, taps, height, width).transpose(1, 2).flatten(1, 2)
    parts = zip(
        samples.chunk(x.shape[1] // weight.shape[1], 1), weight.chunk(x.shape[1] // weight.shape[1], 0), strict=True
    )
    result = torch.cat([torch.einsum("nckhw,ock->nohw", s, w.flatten(2)) for s, w in parts], 1)
    return result if bias is None else result + bias[None, :, None, None]


def test_deformable_parameters_are_mmcvs():
    layer = module.ModulatedDeformConv(4, 6, 3, deformable_groups=2)
    shapes = {name: tuple(p.shape) for name, p in layer.state_dict().items()}
    assert shapes == {
        "weight": (6, 4, 3, 3),
        "bias": (6,),
        "conv_offset.weight": (54, 4, 3, 3),
        "conv_offset.bias": (54,),
    }
    assert not layer.conv_offset.weight.any() and not layer.bias.any() and layer.weight.abs().max() <= 1 / 6


def aligned(x, rois, size, scale, ratio, half):
    """ROIAlign, a sample at a time."""
    result = torch.zeros(len(rois), x.shape[1], *size, dtype=x.dtype)
    for k, roi in enumerate(rois):
        left, top, right, bottom = (roi[1:] * scale - (0.5 if half else 0.0)).tolist()
        width, height = (right - left, bottom - top) if half else (max(right - left, 1.0), max(bottom - top, 1.0))
        counts = [ratio or max(1, -int(-side // bins)) for side, bins in ((height, size[0]), (width, size[1]))]
        for i in range(size[0]):
            for j in range(size[1]):
                total = 0
                for a in range(counts[0]):
                    for b in range(counts[1]):
                        y = top + height / size[0] * (i + (a + 0.5) / counts[0])
                        z = left + width / size[1] * (j + (b + 0.5) / counts[1])
                        if not (-1 <= y <= x.shape[2] and -1 <= z <= x.shape[3]):
                            continue
                        y, z = min(max(y, 0), x.shape[2] - 1), min(max(z, 0), x.shape[3] - 1)
                        y0, z0 = int(y), int(z)
                        y1, z1 = min(y0 + 1, x.shape[2] - 1), min(z0 + 1, x.shape[3] - 1)
                        image = x[int(roi[0])]
                        upper = image[:, y0, z0] * (1 - (z - z0)) + image[:, y0, z1] * (z - z0)
                        lower = image[:, y1, z0] * (1 - (z - z0)) + image[:, y1, z1] * (z - z0)
                        total = total + upper * (1 - (y - y0)) + lower * (y - y0)
                result[k, :, i, j] = total / (counts[0] * counts[1])
    return result


@pytest.mark.parametrize("ratio", [2, 0])
@pytest.mark.parametrize("half", [True, False])
def test_roi_align(ratio, half):
    x = torch.randn(2, 3, 9, 8, dtype=torch.float64, requires_grad=True)
    rois = torch.tensor([[0.0, 1, 2, 9, 13], [1, 0, 0, 4, 3], [1, -5, 3, 30, 12], [0, 4, 4, 4, 4.5]])
    expected = aligned(x, rois, (2, 3), 0.5, ratio, half)
    inputs = x.detach().float().npu().requires_grad_()
    got = module.ROIAlign((2, 3), 0.5, ratio, half)(inputs, rois.npu())
    assert (got.detach().cpu() - expected.detach()).abs().max() < 1e-5
    got.square().sum().backward()
    expected.square().sum().backward()
    assert (inputs.grad.cpu() - x.grad).abs().max() < 1e-4
    assert module.ROIAlign((2, 3), 0.5, ratio, half)(inputs, rois[:0].npu()).shape == (0, 3, 2, 3)
    with pytest.raises(ValueError, match="Expected features"):
        module.ROIAlign((2, 3), 0.5, ratio)(inputs, rois[:, :4].npu())


@pytest.mark.parametrize("make", [module.NpuCachedDropout, module.NpuFairseqDropout, module.DropoutWithByteMask])
def test_dropouts(make):
    layer, x = make(0.25), torch.full((4000,), 3.0, device="npu", requires_grad=True)
    y = layer(x)
    assert set(y.tolist()) == {0.0, 4.0} and 0.7 < (y != 0).float().mean() < 0.8
    y.sum().backward()
    assert torch.equal(x.grad, y.detach() / 3)
    assert torch.equal(layer.eval()(x), x)


def test_drop_path_drops_samples():
    layer, x = module.NpuDropPath(0.5), torch.full((400, 2, 3), 2.0, device="npu")
    kinds = {tuple(row) for row in layer(x).flatten(1).tolist()}
    assert kinds == {(0.0,) * 6, (4.0,) * 6}
    assert layer.eval()(x) is x and module.NpuDropPath()(x) is x and module.NpuDropPath(0)(x) is x


@pytest.mark.parametrize(
    ("make", "enable"),
    [(module.NpuCachedDropout, "enable_dropout_ensemble"), (module.NpuDropPath, "enable_droppath_ensemble")],
)
def test_masks_are_made_ahead_and_each_is_used_once(make, enable):
    make.task_dict.clear()
    model = nn.Sequential(make(0.5), make(0.5))
    getattr(make, enable)(model)
    x, seen = torch.ones(64, 1, device="npu"), []
    for step in range(4):
        out = model(x)
        seen.append(tuple(out.flatten().tolist()))
        assert set(seen[-1]) == {0.0, 4.0}, step
        (masks,) = make.task_dict.values()
        assert masks.taken == 2 and not masks.stock
    assert len(set(seen)) == 4
    make.task_dict.clear()


def test_focus():
    layer = module.Focus(3, 4, k=3).npu().eval()
    x = torch.randn(1, 3, 6, 8, device="npu")
    parts = [x[..., i::2, j::2] for j in (0, 1) for i in (0, 1)]
    wanted = F.leaky_relu(layer.conv.bn(F.conv2d(torch.cat(parts, 1), layer.conv.conv.weight, padding=1)), 0.1)
    assert torch.allclose(layer(x), wanted, atol=1e-6) and layer(x).shape == (1, 4, 3, 4)
    assert sorted(layer.state_dict())[-1] == "conv.conv.weight"
    assert isinstance(module.Focus(3, 4, act=False).conv.act, nn.Identity)


def test_prefetcher_gives_every_batch_on_the_device():
    batches = [(torch.full((2,), float(i)), torch.tensor([i])) for i in range(3)]
    prefetcher, seen = module.Prefetcher(batches), []
    while (batch := prefetcher.next())[0] is not None:
        assert batch[0].device.type == "npu"
        seen.append((batch[0].tolist(), batch[1].tolist()))
    assert seen == [([float(i)] * 2, [i]) for i in range(3)] and prefetcher.next() == (None, None)


@pytest.mark.parametrize("make", [module.LinearQuant, module.LinearA8W8Quant])
def test_quantized_linear(make):
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(-5, 5, (3, 64), dtype=torch.int8, generator=generator)
    weight = torch.randint(-5, 5, (128, 64), dtype=torch.int8, generator=generator)
    exact = x.double() @ weight.double().t()
    layer = make(64, 128, bias=False, pertoken_scale=True, output_dtype=torch.float16).npu()
    layer.weight.data, layer.scale.data = weight.npu(), torch.full((128,), 0.5).npu()
    layer.pertoken_scale.data = torch.tensor([1.0, 2.0, 0.5]).npu()
    wanted = exact * 0.5 * torch.tensor([[1.0], [2.0], [0.5]])
    assert (layer(x.npu()).double().cpu() - wanted).abs().max() < 0.5
    layer = make(64, 128).npu()
    layer.weight.data, layer.scale.data = weight.npu(), torch.full((128,), 0.25).npu()
    layer.bias.data = torch.arange(128, dtype=torch.int32).npu()
    wanted = ((exact + torch.arange(128)) * 0.25).clamp(-128, 127)
    got = layer(x.npu())
    assert got.dtype == torch.int8 and (got.double().cpu() - wanted).abs().max() <= 0.5
    shapes = {name: (tuple(p.shape), p.dtype) for name, p in make(64, 128, offset=True).named_parameters()}
    assert shapes == {
        "weight": ((128, 64), torch.float32), "scale": ((128,), torch.float32), "offset": ((128,), torch.float32),
        "bias": ((128,), torch.int32),
    }  # fmt: skip


@pytest.mark.parametrize("groups", [False, True])
def test_linear_with_a_quantized_weight(groups):
    x = torch.randn(3, 64).half()
    weight = torch.randint(-5, 5, (128, 64), dtype=torch.int8)
    layer = module.LinearWeightQuant(
        64, 128, False, antiquant_offset=True, antiquant_group_size=32 if groups else 0
    ).npu()
    scale = torch.rand(128, 2).half() if groups else torch.rand(128).half()
    layer.weight.data, layer.antiquant_scale.data = weight.npu(), scale.npu()
    layer.antiquant_offset.data = torch.ones_like(scale).npu()
    spread = scale.double().repeat_interleave(32, 1) if groups else scale.double()[:, None]
    wanted = x.double() @ ((weight.double() + 1) * spread).t()
    assert (layer(x.npu()).double().cpu() - wanted).abs().max() < 0.1


@pytest.mark.parametrize("masked", [None, "padding", "added", "causal"])
def test_multihead_attention_of_flat_batches(masked):
    torch.manual_seed(0)
    layer = module.MultiheadAttention(16, 4, self_attention=True).npu()
    x = torch.randn(2 * 5, 16, device="npu", requires_grad=True)
    padding = torch.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 0, 1]], dtype=torch.bool)
    added = torch.randn(2, 4, 5, 5)
    causal = torch.ones(5, 5, dtype=torch.bool).triu(1)
    given = {"padding": {"key_padding_mask": padding.npu()}, "added": {"key_padding_mask": added.npu()},
             "causal": {"attn_mask": causal.npu()}, None: {}}[masked]  # fmt: skip
    out, weights = layer(x, None, None, 2, 5, 5, **given)
    assert weights is None
    exact = x.detach().cpu().double().requires_grad_()
    cpu = {name: p.detach().cpu().double() for name, p in layer.named_parameters()}

    def projected(name: str) -> torch.Tensor:
        flat = F.linear(exact, cpu[f"{name}_proj.weight"], cpu[f"{name}_proj.bias"])
        return flat.view(2, 5, 4, 4).transpose(1, 2)

    scores = projected("q") @ projected("k").transpose(-1, -2) / 2
    scores = scores + (added.double() if masked == "added" else 0)
    if masked == "padding":
        scores = scores.masked_fill(padding[:, None, None], -torch.inf)
    if masked == "causal":
        scores = scores.masked_fill(causal, -torch.inf)
    mixed = (scores.softmax(-1) @ projected("v")).transpose(1, 2).reshape(10, 16)
    wanted = F.linear(mixed, cpu["out_proj.weight"], cpu["out_proj.bias"])
    assert (out.detach().cpu().double() - wanted.detach()).abs().max() < 1e-5
    out.square().sum().backward()
    wanted.square().sum().backward()
    assert (x.grad.cpu().double() - exact.grad).abs().max() < 1e-4


def test_multihead_attention_of_an_encoder_and_refusals():
    layer = module.MultiheadAttention(16, 4, kdim=8, vdim=8, encoder_decoder_attention=True).npu()
    query, key = torch.randn(6, 16, device="npu"), torch.randn(8, 8, device="npu")
    assert layer(query, key, None, 2, 3, 4)[0].shape == (6, 16)
    with pytest.raises(ValueError, match="Expected a query of shape"):
        layer(query, key, None, 2, 4, 4)
    with pytest.raises(NotImplementedError, match="incremental_state"):
        layer(query, key, None, 2, 3, 4, incremental_state={})
    with pytest.raises(NotImplementedError, match="add_bias_kv"):
        module.MultiheadAttention(16, 4, add_bias_kv=True)
    with pytest.raises(ValueError, match="not a multiple of num_heads"):
        module.MultiheadAttention(16, 3)
    old = {"a.in_proj_weight": torch.arange(6.0).view(6, 1), "a.in_proj_bias": torch.arange(3.0)}
    layer.upgrade_state_dict_named(old, "a")
    assert old["a.k_proj.weight"].tolist() == [[2], [3]] and old["a.v_proj.bias"].tolist() == [2] and len(old) == 6


def test_each_cell_of_a_region_is_the_mean_of_its_own_channels():
    features = torch.arange(2 * 8 * 4 * 4, dtype=torch.float32).view(2, 8, 4, 4).npu().requires_grad_()
    rois = torch.tensor([[[0.0], [0], [0], [3], [3]], [[1], [0], [0], [1], [3]]]).npu()
    pooled = module.PSROIPool(2, 2, spatial_scale=1.0, group_size=2, output_dim=2)(features, rois)
    host = features.detach().cpu()
    expected = torch.empty(2, 2, 2, 2)
    for c in range(2):
        for i in range(2):
            for j in range(2):
                rows, channel = slice(2 * i, 2 * i + 2), (c * 2 + i) * 2 + j
                expected[0, c, i, j] = host[0, channel, rows, 2 * j : 2 * j + 2].mean()
                expected[1, c, i, j] = host[1, channel, rows, j].mean()
    torch.testing.assert_close(pooled.detach().cpu(), expected)
    pooled.sum().backward()
    assert features.grad.sum().item() == pytest.approx(16)
    with pytest.raises(ValueError, match="pooled_height 7 and pooled_width 7 must be group_size 3"):
        module.PSROIPool(group_size=3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("bias", [False, True])
def test_quant_conv2d(dtype, bias):
    draw = lambda *sizes: torch.randint(-9, 9, sizes, generator=torch.Generator().manual_seed(sum(sizes)))
    layer = module.QuantConv2d(4, 6, (3, 2), dtype, stride=2, padding=(1, 0), groups=2, bias=bias).npu()
    weight, scale, shift = draw(6, 2, 3, 2).to(torch.int8), torch.rand(6), draw(6).int()
    layer.weight.data, layer.scale.data = weight.npu(), scale.npu()
    if bias:
        layer.bias.data = shift.npu()
    x = draw(2, 4, 7, 6).to(torch.int8)
    value = torch.nn.functional.conv2d(x.double(), weight.double(), stride=2, padding=(1, 0), groups=2)
    expected = value * scale.double()[:, None, None] + (shift.double()[:, None, None] if bias else 0)
    got = layer(x.npu())
    assert got.dtype == dtype and set(dict(layer.named_parameters())) == {"weight", "scale"} | (
        {"bias"} if bias else set()
    )
    limit = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}[dtype]
    torch.testing.assert_close(got.cpu().double(), expected, rtol=limit, atol=limit * float(expected.abs().max()))
    with pytest.raises(NotImplementedError, match="offset, input_dtype and weight_dtype are not implemented"):
        module.QuantConv2d(1, 1, 3, dtype, offset=True)

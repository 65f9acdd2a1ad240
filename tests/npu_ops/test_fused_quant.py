"""Quantization behind normalization and gates, in blocks and groups; products of groups and of quantized operands."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import torch_npu
from tests.npu_ops.compare import check

HALVES = (torch.float32, torch.float16, torch.bfloat16)


def byte(t):
    return torch.round(t).clamp(-128, 127)


def near(got, expected, most=1):
    """Integers that may differ by one where a value lies between two of them."""
    assert got.dtype == torch.int8
    assert (got.cpu().double() - expected.double()).abs().max() <= most


def norm(x, gamma, beta=None, eps=1e-6):
    y = x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * gamma
    return y if beta is None else y + beta


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("divide", [True, False])
def test_sum_norm_and_static_quantization(dtype, divide):
    torch.manual_seed(1)
    a, b, gamma, beta = (torch.randn(s).to(dtype) for s in ((3, 16), (3, 16), (16,), (16,)))
    scale, zero = torch.rand(16) * 0.1 + 0.05, torch.randint(-9, 9, (16,), dtype=torch.int32)
    given = [t.npu() for t in (a, b, gamma, scale if divide else 1 / scale, zero)]
    y1, y2, x = torch_npu.npu_add_rms_norm_quant(*given, beta.npu(), div_mode=divide)
    expected = norm(a.double() + b.double(), gamma.double(), beta.double())
    near(y1, byte(expected / scale + zero))
    torch.testing.assert_close(x.cpu(), a + b)
    assert not y2.any()
    _, y2, _ = torch_npu.npu_add_rms_norm_quant(*given, beta.npu(), given[3] * 2, div_mode=divide)
    near(y2, byte(expected / scale / 2 if divide else expected / scale * 2))
    if divide:
        near(torch_npu.npu_rms_norm_quant(given[0], given[2], beta.npu(), given[3], given[4].char()),
             byte(norm(a.double(), gamma.double(), beta.double()) / scale + zero))  # fmt: skip
    y, rstd = torch_npu.npu_rms_norm_quant_v2(given[0], given[2], given[3], offset=given[4].char(), div_mode=divide)
    near(y, byte(norm(a.double(), gamma.double()) / scale + zero))
    torch.testing.assert_close(
        rstd.cpu(), (a.float().square().mean(-1, keepdim=True) + 1e-6).rsqrt(), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("mask", [None, [True, False], [False, True], [True, True]])
@pytest.mark.parametrize("smooth", [0, 2])
def test_sum_norm_and_dynamic_quantization(mask, smooth):
    torch.manual_seed(2)
    a, b, gamma = torch.randn(3, 16), torch.randn(3, 16), torch.randn(16)
    scales = [torch.rand(16) + 0.5 if smooth else None for _ in range(2)]
    options = {f"smooth_scale{i + 1}": None if s is None else s.npu() for i, s in enumerate(scales)}
    out = torch_npu.npu_add_rms_norm_dynamic_quant(a.npu(), b.npu(), gamma.npu(), **options, output_mask=mask)
    wanted = mask or [True, bool(smooth)]
    for i in range(2):
        if not wanted[i]:
            assert not out[i].numel() and not out[3 + i].numel()
            continue
        y = norm(a + b, gamma) * (scales[i] if smooth else 1)
        step = y.abs().amax(-1) / 127
        torch.testing.assert_close(out[3 + i].cpu(), step, rtol=1e-4, atol=1e-6)
        near(out[i], byte(y / step[:, None]))
    torch.testing.assert_close(out[2].cpu(), a + b)


def test_gradient_of_a_norm_quantized():
    torch.manual_seed(3)
    x, gamma, dy = torch.randn(3, 8).requires_grad_(), torch.randn(8).requires_grad_(), torch.randn(3, 8)
    norm(x, gamma).backward(dy)
    rstd = (x.detach().square().mean(-1, keepdim=True) + 1e-6).rsqrt()
    scale, offset = torch.tensor([0.01]), torch.tensor([3], dtype=torch.int32)
    dx, dgamma = torch.ops.npu._npu_rms_norm_backward_quant(
        *(t.detach().npu() for t in (dy, x, rstd, gamma, scale)), offset_x=offset.npu()
    )
    near(dx, byte(x.grad / 0.01 + 3))
    torch.testing.assert_close(dgamma.cpu(), gamma.grad, rtol=1e-4, atol=1e-4)


def test_groups_of_rows():
    torch.manual_seed(4)
    x, scale, ends = torch.randn(6, 8), torch.rand(3, 8) * 30, torch.tensor([2, 2, 6])
    got = torch_npu.npu_group_quant(x.npu(), scale.npu(), ends.npu(), offset=torch.tensor([1.5]).npu())
    owner = torch.tensor([0, 0, 2, 2, 2, 2])
    near(got, byte(x * scale[owner] + 1.5))


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("kind", [None, 0, 1])
def test_gate_and_quantization(left, mode, kind):
    torch.manual_seed(5)
    x, smooth, offsets = torch.randn(5, 16), torch.rand(2, 8) * 20, torch.randn(2, 8)
    groups = None if kind is None else torch.tensor([2, 5] if kind == 0 else [2, 3], dtype=torch.int32)
    owner = torch.tensor([0, 0, 1, 1, 1])
    rows = [t[:1] if kind is None else t[owner] for t in (smooth, offsets)]
    given = [t[:1] if kind is None else t for t in (smooth, offsets)]
    a, b = x.chunk(2, -1)
    value = (F.silu(a) * b if left else a * F.silu(b)) * rows[0]
    y, scale = torch_npu.npu_swiglu_quant(
        x.npu(), smooth_scales=given[0].npu(), offsets=given[1].npu(), activate_left=left, quant_mode=mode,
        group_index=None if groups is None else groups.npu(), group_list_type=kind or 0,
    )  # fmt: skip
    if mode == 0:
        near(y, byte(value + rows[1]))
    else:
        factor = 127 / value.abs().amax(-1)
        torch.testing.assert_close(scale.cpu(), factor, rtol=1e-4, atol=1e-4)
        near(y, byte(value * factor[:, None]))


@pytest.mark.parametrize("gate", [0, 1])
@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("integer_bias", [False, True])
def test_dequantization_gate_and_quantization(gate, mode, integer_bias):
    torch.manual_seed(6)
    x, owner, counts = (
        torch.randint(-500, 500, (5, 16), dtype=torch.int32),
        torch.tensor([0, 0, 1, 1, 1]),
        torch.tensor([2, 3]),
    )
    weight, row, quant = torch.rand(2, 16) * 0.02, torch.rand(5), torch.rand(2, 8) + 0.5
    bias = torch.randint(-50, 50, (2, 16), dtype=torch.int32) if integer_bias else torch.randn(2, 16)
    value = (x + bias[owner] if integer_bias else x) * weight[owner] * row[:, None]
    value = value if integer_bias else value + bias[owner]
    if gate:
        g, u = value[:, ::2].clamp(max=7), value[:, 1::2].clamp(-7, 7)
        value = g * torch.sigmoid(1.702 * g) * (u + 1)
    else:
        value = value[:, :8] * F.silu(value[:, 8:])
    y, scale = torch_npu.npu_dequant_swiglu_quant(
        x.npu(), weight_scale=weight.npu(), activation_scale=row.npu(), bias=bias.npu(), quant_scale=quant.npu(),
        group_index=counts.npu(), quant_mode=mode, swiglu_mode=gate,
    )  # fmt: skip
    if mode == 0:
        near(y, byte(value / quant[owner]))
        return
    value = value * quant[owner]
    step = value.abs().amax(-1) / 127
    torch.testing.assert_close(scale.cpu(), step, rtol=1e-4, atol=1e-6)
    near(y, byte(value / step[:, None]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_dequantization_with_a_bias(dtype):
    x, weight, row = torch.randint(-999, 999, (3, 4), dtype=torch.int32), torch.rand(4), torch.rand(3)
    for bias in (None, torch.randint(-9, 9, (4,), dtype=torch.int32), torch.randn(4)):
        first = bias is not None and bias.dtype == torch.int32
        expected = (x + bias if first else x).double() * weight.double() * row.double()[:, None]
        expected = expected if bias is None or first else expected + bias.double()
        got = torch_npu.npu_dequant_bias(
            x.npu(), weight.npu(), row.npu(), None if bias is None else bias.npu(), output_dtype=dtype
        )
        assert torch.equal(got.cpu(), expected.to(dtype))


@pytest.mark.parametrize("kind, high", [(1, 127), (291, 57344), (24, 448)])
def test_blocks(kind, high):
    torch.manual_seed(7)
    x = torch.randn(2, 5, 200)
    y, scale = torch_npu.npu_dynamic_block_quant(x.npu(), dst_type=kind, row_block_size=2, col_block_size=64)
    assert scale.shape == (2, 3, 4)
    for i in range(3):
        for j in range(4):
            block = x[:, 2 * i : 2 * i + 2, 64 * j : 64 * j + 64]
            step = block.abs().amax((1, 2)) / high
            torch.testing.assert_close(scale.cpu()[:, i, j], step)
            got = y.cpu()[:, 2 * i : 2 * i + 2, 64 * j : 64 * j + 64].float() * step[:, None, None]
            torch.testing.assert_close(got, block, rtol=0.13, atol=step.max().item())
    _, least = torch_npu.npu_dynamic_block_quant(x.npu(), min_scale=1e4)
    assert least.max().item() <= 1e-4


def test_largest_magnitudes():
    x, scale, ends = torch.randn(4, 8), torch.tensor([0.5, 2.0]), torch.tensor([1, 4])
    y, most = torch_npu.npu_quant_max(x.npu(), scale.npu(), dst_dtype=292, group_list=ends.npu())
    expected = x * torch.tensor([0.5, 2, 2, 2])[:, None]
    assert torch.equal(y.cpu().float(), expected.to(torch.float8_e4m3fn).float())
    torch.testing.assert_close(most.cpu(), torch.stack([x[:1].abs().max(), x[1:].abs().max()]))
    y, most = torch_npu.npu_quant_max(x.npu(), scale[:1].npu())
    assert y.dtype == torch.float8_e5m2 and most.cpu().item() == x.abs().max().item()


@pytest.mark.parametrize("kind", [0, 1])
def test_products_of_groups_added(kind):
    x, w, y = torch.randn(7, 3).half(), torch.randn(7, 4).half(), torch.randn(2, 3, 4)
    groups = torch.tensor([2, 7] if kind == 0 else [2, 5])
    expected = y + torch.stack([x[:2].float().t() @ w[:2].float(), x[2:].float().t() @ w[2:].float()])
    args = [x.npu(), w.npu(), groups.npu()]
    got = torch_npu.npu_grouped_matmul_add(y.npu(), *args, group_list_type=kind)
    torch.testing.assert_close(got.cpu(), expected, rtol=1e-4, atol=1e-4)
    ours = y.npu()
    torch_npu.npu_grouped_matmul_add_(ours, *args, group_list_type=kind)
    torch.testing.assert_close(ours.cpu(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("with_a", [True, False])
def test_low_rank_additions(with_a):
    torch.manual_seed(8)
    y, x = torch.randn(4, 10), torch.randn(4, 6)
    a, b = torch.randn(2, 3, 5, 6), torch.randn(2, 3, 7, 5 if with_a else 6)
    indices = torch.tensor([1, 0, 2, 1], dtype=torch.int32)
    expected = y.clone()
    for i, n in enumerate(indices.tolist()):
        if n < 2:
            z = a[n, 1] @ x[i] if with_a else x[i]
            expected[i, 2:9] += 0.5 * (b[n, 1] @ z)
    args = [t.npu() for t in (x, b, indices)]
    options = {"layer_idx": 1, "scale": 0.5, "y_offset": 2, "y_slice_size": 7}
    got = torch_npu.npu_batch_gather_matmul(y.npu(), *args, a.npu() if with_a else None, **options)
    torch.testing.assert_close(got.cpu(), expected, rtol=1e-4, atol=1e-4)
    ours = y.npu()
    torch_npu.npu_batch_gather_matmul_(ours, *args, a.npu() if with_a else None, **options)
    torch.testing.assert_close(ours.cpu(), expected, rtol=1e-4, atol=1e-4)


def test_without_weights_nothing_is_added():
    y, x = torch.rand(3, 8).npu(), torch.rand(3, 4).npu()
    before, indices = y.clone(), torch.zeros(3, dtype=torch.int32, device="npu")
    torch_npu.npu_batch_gather_matmul_(y, x, torch.rand(0, 1, 8, 4, device="npu"), indices)
    assert torch.equal(y, before)


@pytest.mark.parametrize("name", ["relu", "gelu", "fastgelu", "silu", "swiglu", "geglu", "reglu"])
def test_two_products_and_an_activation(name):
    torch.manual_seed(9)
    gated = name.endswith("glu")
    x, w2 = torch.randn(6, 4), torch.randn(2, 8, 5)
    w1, b1, b2 = torch.randn(2, 4, 16 if gated else 8), torch.randn(2, 16 if gated else 8), torch.randn(2, 5)

    def act(h):
        if gated:
            a, b = h.chunk(2, -1)
            return {"swiglu": F.silu, "geglu": F.gelu, "reglu": F.relu}[name](a) * b
        return {"relu": F.relu, "gelu": F.gelu, "silu": F.silu, "fastgelu": lambda t: t * torch.sigmoid(1.702 * t)}[
            name
        ](h)

    def reference(x, w1, w2, name, bias1, bias2, **tokens):
        parts = (x[:2], x[2:])
        return torch.cat([act(p @ w1[e] + bias1[e]) @ w2[e] + bias2[e] for e, p in enumerate(parts)])

    for tokens in ({"expert_tokens": [2, 4]}, {"expert_tokens_index": [2, 6]}):
        check(torch_npu.npu_ffn, reference, [x, w1, w2, name], {"bias1": b1, "bias2": b2, **tokens}, gradient=False,
              dtypes=(torch.float32, torch.bfloat16))  # fmt: skip


def test_products_with_rows_first():
    x, w = torch.randn(5, 3, 4).half(), torch.randn(3, 4, 6).half()
    plain = torch.einsum("mbk,bkn->mbn", x.double(), w.double())
    args = [x.npu(), w.npu()]
    got = torch_npu.npu_transpose_batchmatmul(*args, perm_x1=[1, 0, 2], perm_x2=[0, 1, 2], perm_y=[1, 0, 2])
    torch.testing.assert_close(got.cpu().double(), plain, rtol=3e-3, atol=3e-3)
    got = torch_npu.npu_transpose_batchmatmul(*args, perm_x1=[1, 0, 2], perm_y=[1, 0, 2], batch_split_factor=3)
    torch.testing.assert_close(got.cpu().double(), plain.reshape(5, 3, 6).transpose(0, 1), rtol=3e-3, atol=3e-3)
    scale = torch.rand(18)
    packed = torch.frombuffer(bytearray(scale.numpy().tobytes()), dtype=torch.int32).long()
    got = torch_npu.npu_transpose_batchmatmul(*args, scale=packed.npu(), perm_x1=[1, 0, 2], perm_y=[1, 0, 2])
    near(got, byte(plain.reshape(5, 1, 18) * scale))


@pytest.mark.parametrize("mode", ["pertoken", "pertensor"])
def test_quantized_on_the_way_into_a_product(mode):
    torch.manual_seed(10)
    x, smooth, scale = torch.randn(5, 8), torch.rand(8) + 0.5, torch.rand(2, 6) * 0.01
    w = torch.randint(-128, 128, (2, 6, 8), dtype=torch.int8)
    value = x * smooth
    step = value.abs().amax(-1, keepdim=True) / 127 if mode == "pertoken" else value.abs().max() / 127
    q = byte(value / step).double()
    one = lambda i: (q @ w[i].double().t()) * scale[i].double() * step
    options = {"smooth_scale": smooth.npu(), "quant_mode": mode}
    got = torch_npu.npu_quant_matmul_dequant(x.npu(), w[0].npu(), scale[0].npu(), **options)
    torch.testing.assert_close(got.cpu().double(), one(0), rtol=2e-2, atol=2e-2)
    got = torch_npu.npu_quant_grouped_matmul_dequant(
        x.npu(), w.npu(), scale.npu(), torch.tensor([2, 5]).npu(), **options
    )
    torch.testing.assert_close(got.cpu().double(), torch.cat([one(0)[:2], one(1)[2:]]), rtol=2e-2, atol=2e-2)


def integers(*size):
    return torch.randint(-128, 128, size, dtype=torch.int8)


def test_quantized_products_with_gelu_and_sum():
    a, b, rows, columns = integers(5, 8), integers(8, 6), torch.rand(5) * 0.01, torch.rand(6) * 0.01
    value = (a.double() @ b.double()) * columns.double() * rows.double()[:, None]
    for how, kind in (("gelu_erf", "none"), ("gelu_tanh", "tanh")):
        got = torch_npu.npu_quant_matmul_gelu(*(t.npu() for t in (a, b, rows, columns)), approximate=how)
        torch.testing.assert_close(got.cpu(), F.gelu(value, approximate=kind).half(), rtol=2e-3, atol=2e-3)
    a, b, rows, columns = (
        integers(3, 5, 8),
        integers(3, 8, 6),
        torch.rand(3, 5) * 0.01,
        (torch.rand(6) * 0.01).bfloat16(),
    )
    got = torch_npu.npu_quant_matmul_reduce_sum(a.npu(), b.npu(), x1_scale=rows.npu(), x2_scale=columns.npu())
    value = ((a.double() @ b.double()) * columns.double() * rows.double().unsqueeze(-1)).sum(0)
    torch.testing.assert_close(got.cpu(), value.bfloat16(), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("name", ["", "16cast32", "add", "mul", "gelu_erf", "gelu_tanh", "relu"])
def test_products_fused_with_what_follows(name):
    a, b, other = torch.randn(3, 4).half(), torch.randn(4, 5).half(), torch.randn(3, 5).half()
    value = a.double() @ b.double()
    expected = {
        "add": value + other, "mul": value * other, "gelu_erf": F.gelu(value),
        "gelu_tanh": F.gelu(value, approximate="tanh"),
        "relu": F.relu(value),
    }.get(name, value)  # fmt: skip
    x3 = other.npu() if name in ("add", "mul") else None
    got = torch_npu.npu_fused_matmul(a.npu(), b.npu(), x3=x3, fused_op_type=name)
    assert got.dtype == (torch.float32 if name == "16cast32" else torch.float16)
    torch.testing.assert_close(got.cpu().double(), expected, rtol=3e-3, atol=3e-3)


def test_groups_with_a_gate_and_quantization():
    torch.manual_seed(11)
    x, w, scale, rows = integers(6, 8), integers(2, 8, 12), torch.rand(2, 12) * 0.01, torch.rand(6) * 0.1
    ends = torch.tensor([2, 5])
    c = torch.cat([(x[a:b].double() @ w[g].double()) * scale[g].double() * rows[a:b, None].double()
                   for g, (a, b) in enumerate([(0, 2), (2, 5)])])  # fmt: skip
    value = F.silu(c[:, :6]) * c[:, 6:]
    step = value.abs().amax(-1) / 127
    given = [t.npu() for t in (x, w, scale, rows)]
    y, found, _ = torch_npu.npu_grouped_matmul_swiglu_quant(given[0], given[1], ends.npu(), given[2], given[3])
    two = torch_npu.npu_grouped_matmul_swiglu_quant_v2(given[0], [given[1]], [given[2]], given[3], ends.npu())
    counted = torch_npu.npu_grouped_matmul_swiglu_quant_v2(
        given[0], [given[1]], [given[2]], given[3], torch.tensor([2, 3]).npu(), group_list_type=1
    )
    for got, s in ((y, found), two, counted):
        torch.testing.assert_close(s.cpu()[:5].double(), step, rtol=1e-3, atol=1e-5)
        near(got[:5], byte(value / step[:, None]))
        assert not got[5:].any() and not s[5:].any()


def test_groups_added_to_their_tokens():
    torch.manual_seed(12)
    x, w, scale, rows = integers(6, 8), integers(2, 8, 4), torch.rand(2, 4) * 0.01, torch.rand(6) * 0.1
    shared, logit, index = torch.randn(2, 4).bfloat16(), torch.rand(6), torch.tensor([0, 2, 1, 0, 2, 1])
    y = torch.cat([(x[a:b].double() @ w[g].double()) * scale[g].double() for g, (a, b) in enumerate([(0, 2), (2, 6)])])
    y = y * rows[:, None].double() * logit[:, None].double()
    expected = torch.zeros(3, 4, dtype=torch.float64).index_add(0, index, y)
    expected[1:] += 0.5 * shared.double()
    got = torch_npu.npu_grouped_matmul_finalize_routing(
        x.npu(), w.npu(), torch.tensor([2, 4]).npu(), scale=scale.npu(), pertoken_scale=rows.npu(),
        shared_input=shared.npu(),
        logit=logit.npu(), row_index=index.npu(), shared_input_weight=0.5, shared_input_offset=1, output_bs=3,
    )  # fmt: skip
    torch.testing.assert_close(got.cpu().double(), expected, rtol=1e-3, atol=1e-4)


def test_refusals():
    x = torch.randn(2, 8).npu()
    with pytest.raises(NotImplementedError, match="the type 290 is not implemented"):
        torch_npu.npu_dynamic_block_quant(x, dst_type=290)
    with pytest.raises(RuntimeError, match="scale does not go with weights of the type of x; leave it out"):
        torch_npu.npu_ffn(x, x.t(), x, "relu", scale=x)
    with pytest.raises(ValueError, match='fused_op_type is one of .*not "tanh"'):
        torch_npu.npu_fused_matmul(x, x.t(), fused_op_type="tanh")


def test_a_scale_of_zero_and_what_is_not_a_number():
    """Infinities are the ends of the range, what is not a number is zero: the same on every machine."""
    x = torch.tensor([[1.0, -1.0, 0.0, torch.nan]])
    data, index = torch.full((1, 2, 4), 5, dtype=torch.int8).npu(), torch.zeros(1, dtype=torch.int32).npu()
    got = torch_npu.npu_quant_scatter(data, index, x.reshape(1, 1, 4).npu(), torch.zeros(1, 1, 4).npu())
    assert got.cpu()[0, 0].tolist() == [127, -128, 0, 0]
    got = torch_npu.npu_group_quant(x.npu(), torch.full((1, 4), torch.inf).npu(), torch.tensor([1]).npu())
    assert got.cpu().tolist() == [[127, -128, 0, 0]]

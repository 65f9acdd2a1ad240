"""Operators that are compositions of PyTorch's: their formulas, on the device and on the CPU."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import torch_npu
from tests.npu_ops.compare import check

X = torch.randn(4, 6)
IMAGE, KERNEL, BIAS = torch.randn(2, 4, 7, 7), torch.randn(6, 2, 3, 3), torch.randn(6)
CASES = {
    "npu_linear": (F.linear, [X, torch.randn(3, 6), torch.randn(3)]),
    "npu_bmmV2": (lambda a, b, s: (a @ b).reshape(s or (2, 3, 4)), [torch.randn(2, 3, 5), torch.randn(2, 5, 4), []]),
    "npu_transpose": (lambda x, p: x.permute(p), [torch.randn(2, 3, 4), [2, 0, 1]]),
    "npu_broadcast": (lambda x, s: x.expand(s), [torch.randn(1, 3), [4, 3]]),
    "npu_reshape": (lambda x, s: x.reshape(s), [X, [3, 8]]),
    "npu_slice": (lambda x, o, s: x[1:3, 2:], [X, [1, 2], [2, -1]]),
    "npu_stride_copy": (lambda x, s, t, o: x.as_strided(s, t, o), [X, [2, 3], [6, 2], 1]),
    "npu_pad": (lambda x, p: F.pad(x, (2, 0, 1, 3)), [X, [1, 3, 2, 0]]),
    "npu_sort_v2": (lambda x, d, r: torch.sort(x, d, r)[0], [X, 0, True]),
    "npu_max": (lambda x, d: tuple(torch.max(x, d)), [X, 1]),
    "npu_min": (lambda x, d: tuple(torch.min(x, d)), [X, 0]),
    "npu_layer_norm_eval": (F.layer_norm, [X, [6], torch.rand(6), torch.randn(6)]),
    "npu_conv2d": (F.conv2d, [IMAGE, KERNEL, BIAS, [2, 1], [1, 0], [1, 1], 2]),
    "npu_convolution": (F.conv1d, [torch.randn(2, 4, 7), torch.randn(6, 4, 3), None, [1], [1], [2], 1]),
    "npu_conv3d": (
        F.conv3d,
        [torch.randn(1, 2, 4, 4, 4), torch.randn(3, 2, 2, 2, 2), None, [1] * 3, [0] * 3, [1] * 3, 1],
    ),
    "npu_softmax_cross_entropy_with_logits": (lambda x, t: -(t * x.log_softmax(-1)).sum(-1), [X, torch.rand(4, 6)]),
    "npu_gather_sparse_index": (lambda x, i: x[i], [X, torch.tensor([[1, 3], [1, 0]])]),
    "npu_dtype_cast": (lambda x, d: x, [X, torch.float32]),
}


@pytest.mark.parametrize("name", CASES)
def test_composition(name):
    reference, args = CASES[name]
    only_fp32 = ("conv", "cast", "layer_norm")
    dtypes = [torch.float32] if any(word in name for word in only_fp32) else [torch.float32, torch.bfloat16]
    memory = {"layouts": (lambda t: t,)} if name == "npu_stride_copy" else {}
    check(getattr(torch_npu, name), reference, args, dtypes=dtypes, **memory)
    on_cpu = getattr(torch_npu, name)(*args)
    expected = reference(*args)
    for g, e in zip(*(r if isinstance(r, tuple) else (r,) for r in (on_cpu, expected)), strict=True):
        torch.testing.assert_close(g, e)


@pytest.mark.parametrize("transpose_first", [True, False])
def test_confusion_transpose(transpose_first):
    def reference(x, perm, shape, first):
        return x.permute(perm).reshape(shape) if first else x.reshape(shape).permute(perm)

    perm, shape = ([1, 0, 2], [6, 4]) if transpose_first else ([2, 0, 1], [2, 4, 3])
    args = [torch.randn(2, 3, 4), perm, shape, transpose_first]
    check(torch_npu.npu_confusion_transpose, reference, args)
    x = torch.randn(2, 3, 4, requires_grad=True)
    y = reference(x, *args[1:])
    g = torch.randn_like(y)
    got = torch_npu.npu_confusion_transpose_backward(g.npu(), perm, x.shape, transpose_first)
    torch.testing.assert_close(got.cpu(), torch.autograd.grad(y, x, g)[0])


def test_backward_operators_of_convolution():
    x, w, b = (t.clone().requires_grad_() for t in (IMAGE, KERNEL, BIAS))
    y = F.conv2d(x, w, b, [2, 1], [1, 0], [1, 1], 2)
    g = torch.randn_like(y)
    expected = torch.autograd.grad(y, (x, w, b), g)
    got = torch_npu.npu_conv2d_backward(IMAGE.npu(), g.npu(), KERNEL.npu(), [2, 1], [1, 0], [1, 1], 2, [True] * 3)
    for a, e in zip(got, expected, strict=True):
        torch.testing.assert_close(a.cpu(), e, rtol=1e-4, atol=1e-4)


def test_out_forms_are_resized():
    out = torch.empty(0).npu()
    torch_npu.npu_broadcast(torch.ones(1, 3).npu(), [2, 3], out=out)
    assert torch.equal(out.cpu(), torch.ones(2, 3))


def test_one_hot_has_a_class_a_place():
    out = torch_npu.npu_one_hot(torch.tensor([3, 0]).npu(), depth=4, on_value=2, off_value=-1)
    assert out.cpu().tolist() == [[-1, -1, -1, 2], [2, -1, -1, -1]]


def test_overlap_of_boxes():
    boxes = torch.tensor([[0.0, 0.0, 10.0, 10.0], [5.0, 5.0, 15.0, 15.0]]).npu()
    other = torch.tensor([[0.0, 0.0, 10.0, 20.0]]).npu()
    torch.testing.assert_close(
        torch_npu.npu_iou(boxes, other).cpu(), torch.tensor([[0.5, 50 / 250]]), rtol=1e-4, atol=1e-4
    )
    torch.testing.assert_close(
        torch_npu.npu_iou(boxes, other, 1).cpu(), torch.tensor([[0.5, 50 / 200]]), rtol=1e-4, atol=1e-4
    )


def test_formats_are_reported_and_values_stay():
    w = torch.randn(4, 4).npu()
    assert torch_npu.get_npu_format(w) == 2
    nz = torch_npu.npu_format_cast(w, 29)
    assert torch_npu.get_npu_format(nz) == 29 and torch.equal(nz, w)
    assert torch_npu.get_npu_format(torch_npu.npu_format_cast(w, nz)) == 29
    assert torch_npu.get_npu_format(torch_npu.npu_format_cast_(w, 3)) == 3
    assert torch_npu.get_storage_size(w) == 16
    for name in ("HWCN", "NC", "NCL", *(f"FRACTAL_NZ_C0_{n}" for n in (2, 4, 8, 16, 32))):
        as_named = torch_npu.npu_format_cast(w, torch_npu.Format[name])
        assert torch_npu.get_npu_format(as_named) == torch_npu.Format[name] and torch.equal(as_named, w)
    with pytest.raises(ValueError, match="there is no format 77"):
        torch_npu.npu_format_cast(w, 77)
    with pytest.raises(NotImplementedError, match="input_dtype"):
        torch_npu.npu_format_cast(w, 29, input_dtype=7)
    x = torch.randn(3).npu().requires_grad_()
    torch_npu.npu_format_cast(x, 29).sum().backward()
    assert torch.equal(x.grad.cpu(), torch.ones(3))


def test_overflow_check():
    assert torch_npu._amp_foreach_non_finite_check([torch.ones(3).npu(), torch.tensor([1, float("inf")]).npu()])
    assert not torch_npu._amp_foreach_non_finite_check([torch.ones(3).npu()])

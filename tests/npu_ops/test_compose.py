"""Operators that are compositions of PyTorch's: their formulas, on the device and on the CPU."""

from __future__ import annotations

import copy
import io

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
    assert torch_npu.get_storage_size(w) == 64  # a group of 16 channels
    for name in ("HWCN", "NC", "NCL", *(f"FRACTAL_NZ_C0_{n}" for n in (2, 4, 8, 16, 32))):
        as_named = torch_npu.npu_format_cast(w, torch_npu.Format[name])
        assert torch_npu.get_npu_format(as_named) == torch_npu.Format[name] and torch.equal(as_named, w)
    with pytest.raises(ValueError, match="there is no acl_format 77"):
        torch_npu.npu_format_cast(w, 77)
    with pytest.raises(NotImplementedError, match="input_dtype"):
        torch_npu.npu_format_cast(w, 29, input_dtype=7)
    x = torch.randn(3).npu().requires_grad_()
    torch_npu.npu_format_cast(x, 29).sum().backward()
    assert torch.equal(x.grad.cpu(), torch.ones(3))


# What the vendor's plugin reports.
@pytest.mark.parametrize(
    ("name", "sizes", "dtype", "elements"),
    [
        ("ND", (5, 7), torch.float16, 35),
        ("NHWC", (2, 3, 5, 7), torch.float16, 210),
        ("FRACTAL_NZ", (5, 7), torch.float16, 256),
        ("FRACTAL_NZ", (5, 7), torch.float32, 256),
        ("FRACTAL_NZ", (5, 7), torch.int8, 512),
        ("FRACTAL_NZ", (16, 32), torch.int8, 512),
        ("FRACTAL_NZ", (2, 3, 4, 5, 7), torch.bfloat16, 6144),
        ("NC1HWC0", (7,), torch.float32, 16),
        ("NC1HWC0", (5, 7), torch.float32, 112),
        ("NC1HWC0", (3, 5, 7), torch.int8, 560),
        ("NC1HWC0", (2, 3, 5, 7), torch.float16, 1120),
        ("FRACTAL_Z", (7,), torch.int8, 256),
        ("FRACTAL_Z", (16, 32), torch.float16, 8192),
        ("FRACTAL_Z", (2, 3, 5, 7), torch.float16, 8960),
        ("FRACTAL_Z", (2, 3, 4, 5, 7), torch.float16, 5120),
        ("NDC1HWC0", (2, 3, 4, 5, 7), torch.float16, 4480),
        ("FRACTAL_Z_3D", (2, 3, 4, 5, 7), torch.float16, 35840),
    ],
)
def test_sizes_are_padded_as_the_format_says(name, sizes, dtype, elements):
    made = torch_npu.empty_with_format(sizes, dtype=dtype, device="npu", acl_format=torch_npu.Format[name])
    assert (made.shape, made.dtype, made.device.type) == (torch.Size(sizes), dtype, "npu")
    assert (torch_npu.get_npu_format(made), torch_npu.get_storage_size(made)) == (torch_npu.Format[name], elements)
    assert made.untyped_storage().nbytes() == made.nbytes
    cast = torch_npu.npu_format_cast(torch.zeros(sizes, dtype=dtype, device="npu"), torch_npu.Format[name])
    assert torch_npu.get_storage_size(cast) == elements


def test_a_format_is_that_of_the_storage():
    w = torch_npu.npu_format_cast(torch.zeros(32, 48, dtype=torch.float16, device="npu"), 29)
    views = {"view": w.view(-1), "t": w.t(), "part": w[:16], "detach": w.detach(), "bytes": w.view(torch.int8)}
    assert {name: torch_npu.get_npu_format(view) for name, view in views.items()} == dict.fromkeys(views, 29)
    assert torch_npu.get_storage_size(views["part"]) == 1536 and torch_npu.get_storage_size(views["bytes"]) == 3072
    assert torch_npu.get_npu_format(w.float()) == torch_npu.get_npu_format(w.t().contiguous()) == 2
    again = torch.empty(0, dtype=torch.float16, device="npu").set_(w.untyped_storage())
    assert torch_npu.get_npu_format(again) == 29


@pytest.mark.parametrize("made", ["loaded", "copied"])
def test_the_size_of_what_was_loaded_and_cast_counts_its_elements(made):
    """A storage that PyTorch makes by itself is described in bytes."""
    x = torch.zeros(32, 48, dtype=torch.float16, device="npu")
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    w = torch.load(file) if made == "loaded" else copy.deepcopy(x)
    torch_npu.npu_format_cast_(w, 29)
    assert (torch_npu.get_npu_format(w), torch_npu.get_storage_size(w)) == (29, 1536)


def test_a_resized_storage_is_described_anew():
    x = torch.empty(4, 6, device="npu")
    assert torch_npu.get_storage_size(x) == 24
    assert torch_npu.get_storage_size(x.resize_(8, 8)) == 64
    assert torch_npu.get_storage_size(x.resize_(2, 2)) == 64  # memory stays
    x = torch_npu.npu_format_cast(torch.zeros(4, 6, device="npu"), 29)
    x.untyped_storage().resize_(400)
    assert (torch_npu.get_npu_format(x), torch_npu.get_storage_size(x)) == (2, 100)


def test_what_has_no_format_says_so():
    assert torch_npu.get_npu_format(torch_npu.npu_format_cast(torch.zeros(7, device="npu"), 29)) == 2  # as the vendor's
    with pytest.raises(ValueError, match=r"sizes \[5, 7\] has no format 33, which is for five dimensions"):
        torch_npu.npu_format_cast(torch.zeros(5, 7, device="npu"), 33)
    with pytest.raises(ValueError, match="has no format 3, which is for four dimensions at most"):
        torch_npu.empty_with_format((1, 1, 1, 1, 1), acl_format=3)
    with pytest.raises(ValueError, match="a tensor of cpu has no format; make it on npu"):
        torch_npu.empty_with_format((2, 2), device="cpu", acl_format=29)
    with pytest.raises(ValueError, match="empty_with_format: device must be an npu, it is cpu"):
        torch_npu.empty_with_format((2, 2), device="cpu")
    with pytest.raises(NotImplementedError, match="base_addr_aligned_kb is not implemented"):
        torch_npu.empty_with_format((2, 2), base_addr_aligned_kb=4)


def test_a_tensor_with_a_format_is_on_the_current_npu():
    with torch.npu.device(1):
        made = torch_npu.unsafe_empty_with_format((2, 3), dtype=torch.int8, acl_format=29, keep_format=True)
    assert made.device == torch.device("npu:1") and torch_npu.get_npu_format(made) == 29
    assert torch_npu.empty_with_format((2,)).dtype == torch.get_default_dtype()


def test_overflow_check():
    assert torch_npu._amp_foreach_non_finite_check([torch.ones(3).npu(), torch.tensor([1, float("inf")]).npu()])
    assert not torch_npu._amp_foreach_non_finite_check([torch.ones(3).npu()])

"""Results have the strides that PyTorch's meta functions say, which torch.compile and export rely on (FakeTensor)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from tests.older import OLDER
from tests.upstream import transfer, views

LAYOUTS = ("plain", "channels_last", "permuted", "offset")

IMAGE = torch.rand(2, 4, 6, 6)
VOLUME = torch.rand(2, 4, 4, 4, 4)
MATRIX = torch.rand(4, 6)

CALLS: dict[str, tuple[Callable[..., object], tuple[torch.Tensor, ...]]] = {
    "flip": (lambda x: x.flip(0), (VOLUME,)),
    "solve_triangular": (lambda a, b: torch.linalg.solve_triangular(a, b, upper=True), (MATRIX[:, :4], MATRIX)),
    "solve_triangular from the right": (
        lambda a, b: torch.linalg.solve_triangular(a, b, upper=True, left=False),
        (MATRIX[:, :4], MATRIX.mT),
    ),
    "roll": (lambda x: x.roll(1, 0), (VOLUME,)),
    "rot90": (torch.rot90, (IMAGE,)),
    "bce none": (lambda x, y: F.binary_cross_entropy(x, y, reduction="none"), (MATRIX, MATRIX)),
    "bce with logits none": (
        lambda x, y: F.binary_cross_entropy_with_logits(x, y, reduction="none"),
        (MATRIX, MATRIX),
    ),
    "soft_margin none": (lambda x, y: F.soft_margin_loss(x, y.detach(), reduction="none"), (MATRIX, MATRIX)),
    "batch_norm": (lambda x, w: F.batch_norm(x, None, None, w, w, True), (IMAGE, torch.ones(4))),
    "batch_norm of a sequence": (lambda x, w: F.batch_norm(x, None, None, w, w, True), (IMAGE[0], torch.ones(6))),
    "group_norm": (lambda x, w: F.group_norm(x, 2, w, w), (IMAGE, torch.ones(4))),
    "conv2d": (F.conv2d, (IMAGE, torch.rand(3, 4, 3, 3))),
    "conv3d": (F.conv3d, (VOLUME, torch.rand(3, 4, 3, 3, 3))),
    "conv_transpose2d": (F.conv_transpose2d, (IMAGE, torch.rand(4, 3, 3, 3))),
    "depthwise": (lambda x, w: F.conv2d(x, w, groups=4), (IMAGE, torch.rand(4, 1, 3, 3))),
    "conv1d": (F.conv1d, (IMAGE[0], torch.rand(3, 6, 3))),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2, return_indices=True), (IMAGE,)),
    "max_pool3d": (lambda x: F.max_pool3d(x, 2, return_indices=True), (VOLUME,)),
    "max_pool3d of one volume": (lambda x: F.max_pool3d(x, 2, return_indices=True), (IMAGE,)),
    "avg_pool3d of one volume": (lambda x: F.avg_pool3d(x, 2), (IMAGE,)),
    "adaptive_max_pool3d of one volume": (lambda x: F.adaptive_max_pool3d(x, 2, return_indices=True), (IMAGE,)),
    "conv3d of one volume": (F.conv3d, (IMAGE, torch.rand(3, 2, 2, 3, 3))),
    "nll_loss": (lambda x: F.nll_loss(x, torch.zeros(2, 6, 6, dtype=torch.long, device=x.device)), (IMAGE,)),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2), (IMAGE,)),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 2), (IMAGE,)),
    "adaptive_avg_pool3d": (lambda x: F.adaptive_avg_pool3d(x, 2), (VOLUME,)),
    "interpolate": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (IMAGE,)),
    "pad": (lambda x: F.pad(x, (1, 1, 1, 1)), (IMAGE,)),
    "pad by less": (lambda x: F.pad(x, (-1, 0, 0, -2)), (IMAGE,)),
    "pad by nothing": (lambda x: F.pad(x, (0, 0)), (IMAGE,)),
    "reflect": (lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"), (IMAGE,)),
    "replicate": (lambda x: F.pad(x, (1, -1, 2, 0), mode="replicate"), (IMAGE,)),
    "replicate a volume": (lambda x: F.pad(x, (1, -1, 2, 0, 1, 1), mode="replicate"), (VOLUME,)),
    "channel_shuffle": (lambda x: F.channel_shuffle(x, 2), (IMAGE,)),
    "max_unpool3d": (lambda x: F.max_unpool3d(*F.max_pool3d(x, 2, return_indices=True), 2), (VOLUME,)),
    "angle": (torch.angle, (MATRIX,)),
    "rsub": (lambda x, y: torch.rsub(x, y.t().contiguous().t()), (MATRIX, torch.rand(4, 6))),
    "addr": (torch.addr, (MATRIX, torch.rand(4), torch.rand(6))),
    "normal": (lambda m, s: torch.normal(m, s), (MATRIX, MATRIX)),
    "softmax": (lambda x: x.softmax(1), (IMAGE,)),
    "glu": (lambda x: F.glu(x, 1), (IMAGE,)),
    "where": (lambda x, y: torch.where(x > y, x, y), (MATRIX, MATRIX)),
    "clamp": (lambda x: x.clamp(0.1, 0.5), (IMAGE,)),
    "sort": (lambda x: x.sort(1), (IMAGE,)),
    "cumsum": (lambda x: x.cumsum(1), (IMAGE,)),
    "sum": (lambda x: x.sum(1), (IMAGE,)),
    "cat": (lambda x, y: torch.cat([x, y], 1), (IMAGE, IMAGE)),
}


def strides(result: object) -> list[tuple[int, ...]]:
    """Of dimensions with more than one element: the others' mean nothing."""
    tensors = [x for x in pytree.tree_leaves(result) if isinstance(x, torch.Tensor)]
    return [tuple(s for n, s in zip(x.shape, x.stride(), strict=True) if n > 1) for x in tensors]


def results(call: Callable[..., object], arguments: list[torch.Tensor]) -> tuple[object, object]:
    """The result, and the gradients of its first tensor."""
    inputs = [x.requires_grad_(x.is_floating_point()) for x in arguments]
    result = call(*inputs)
    first = pytree.tree_leaves(result)[0]
    return result, torch.autograd.grad(first, inputs, torch.ones_like(first), allow_unused=True)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", CALLS)
def test_results_and_gradients_have_the_strides_of_their_fakes(name: str, layout: str) -> None:
    if OLDER and layout == "channels_last" and name in ("reflect", "replicate"):
        pytest.skip("the fake gradients of 2.10 are contiguous, as the CPU's are not")
    call, arguments = CALLS[name]
    view = views.VIEWS.get(layout, lambda x: x)
    real = [transfer.on_device(x if (shown := view(x)) is None else shown, "npu") for x in arguments]
    with FakeTensorMode() as mode:
        fake = [mode.from_tensor(x) for x in real]
        expected = results(call, fake)
    actual = results(call, [x.detach() for x in real])
    assert strides(actual[0]) == strides(expected[0])
    assert strides(actual[1]) == strides(expected[1])


@pytest.mark.parametrize("backend", ["aot_eager"])
def test_a_channels_last_network_compiles(backend: str) -> None:
    model = torch.nn.Sequential(
        torch.nn.Conv2d(4, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(128, 3)
    )
    model = model.npu().to(memory_format=torch.channels_last)
    x = IMAGE.npu().to(memory_format=torch.channels_last)
    expected = model(x)
    compiled = torch.compile(model, backend=backend)(x)
    torch.testing.assert_close(compiled, expected)
    compiled.sum().backward()
    exported = torch.export.export(model.eval(), (x,)).module()
    torch.testing.assert_close(exported(x), model(x))


@pytest.mark.parametrize("size", [0, 1, 5])
@pytest.mark.parametrize("shape", [(), (4,), (3, 3), (0, 3)])
def test_nonzero_static_has_the_strides_of_the_meta_function(shape: tuple[int, ...], size: int) -> None:
    x = torch.ones(shape)
    got = torch.nonzero_static(x.npu(), size=size)
    assert got.stride() == torch.nonzero_static(x.to("meta"), size=size).stride()
    assert torch.equal(got.cpu(), torch.nonzero_static(x, size=size))


def test_nonzero_static_behind_aot_eager() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.nonzero_static(x, size=5).t().reshape(-1)

    x = torch.tensor([[0, 1, 2], [0, 0, 3]])
    assert torch.compile(f, backend="aot_eager", fullgraph=True)(x.npu()).tolist() == f(x).tolist()

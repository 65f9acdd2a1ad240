"""Mistakes in shapes and numbers that the host can see are errors at the call, of the CPU's type, not of a stream."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as nn

ones = torch.ones

CALLS = {
    "dilation of a convolution": lambda d: nn.conv2d(ones(1, 2, 4, 4).to(d), ones(1, 2, 3, 3).to(d), dilation=0),
    "kernel of a convolution": lambda d: nn.conv2d(ones(1, 2, 4, 4).to(d), ones(1, 2, 0, 3).to(d)),
    "output padding": lambda d: nn.conv_transpose2d(ones(1, 2, 4, 4).to(d), ones(2, 1, 3, 3).to(d), output_padding=1),
    "three dimensions": lambda d: nn.conv3d(ones(1, 2, 4, 4, 4).to(d), ones(1, 2, 3, 3, 3).to(d), dilation=0),
    "pooling nothing": lambda d: nn.adaptive_avg_pool2d(ones(1, 2, 0, 4).to(d), 2),
    "pooling nothing in 3-D": lambda d: nn.adaptive_avg_pool3d(ones(1, 2, 0, 4, 4).to(d), 2),
    "dilation of a pool": lambda d: nn.max_pool3d(ones(1, 2, 4, 4, 4).to(d), 2, dilation=0),
    "distance": lambda d: torch.cdist(ones(3, 4).to(d), ones(3, 4).to(d), p=-1),
    "blocks": lambda d: nn.fold(ones(1, 4, 5).to(d), (3, 3), 2),
    "sampling nothing": lambda d: nn.grid_sample(ones(1, 2, 0, 4).to(d), ones(1, 2, 2, 2).to(d), align_corners=False),
    "blocks larger than the image": lambda d: nn.unfold(ones(2, 4, 4, 6).to(d), (3, 1), 2, 0, 2),
    "bicubic volume": lambda d: nn.grid_sample(
        ones(1, 2, 3, 3, 3).to(d), ones(1, 2, 2, 2, 3).to(d), mode="bicubic", align_corners=False
    ),
    "gradient of pooling to nothing": lambda d: (
        nn.adaptive_avg_pool2d(ones(1, 2, 3, 4).to(d).requires_grad_(), (2, 0)).sum().backward()
    ),
    "gradient of pooling a volume to nothing": lambda d: (
        nn.adaptive_avg_pool3d(ones(1, 2, 3, 4, 4).to(d).requires_grad_(), (2, 0, 1)).sum().backward()
    ),
    "huber loss of integers": lambda d: nn.huber_loss(
        ones(3, dtype=torch.int64).to(d), ones(3, dtype=torch.int64).to(d)
    ),
    "gradient of a huber loss of integers": lambda d: torch.ops.aten.huber_loss_backward(
        *[ones(3, dtype=torch.int64).to(d)] * 3, 1, 1.0
    ),
    "a fraction of integers and no product": lambda d: torch.addmm(
        ones(2, 3, dtype=torch.int64).to(d), *(ones(*s, dtype=torch.int64).to(d) for s in ((2, 0), (0, 3))), beta=0.5
    ),
    "a fraction of integers and no products": lambda d: torch.baddbmm(
        ones(1, 2, 3, dtype=torch.int64).to(d),
        *(ones(*s, dtype=torch.int64).to(d) for s in ((1, 2, 0), (1, 0, 3))),
        beta=0.5,
    ),
    "a fraction of integers and no sum of products": lambda d: torch.addbmm(
        ones(2, 3, dtype=torch.int64).to(d),
        *(ones(*s, dtype=torch.int64).to(d) for s in ((1, 2, 0), (1, 0, 3))),
        beta=0.5,
    ),
    "padding past wide unsigned numbers": lambda d: nn.pad(ones(3).to(d, torch.uint16), (1, 1), value=70000),
    "padding that the type has not": lambda d: nn.pad(ones(3).to(d, torch.float8_e8m0fnu), (1, 1)),
    "groups of channels": lambda d: nn.channel_shuffle(ones(1, 4, 2, 2).to(d), 3),
    "std into integers": lambda d: torch.std(ones(3, 4).to(d), 1, out=torch.empty(3, dtype=torch.int64, device=d)),
    "var into complex": lambda d: torch.var(ones(3, 4).to(d), 1, out=torch.empty(3, dtype=torch.cfloat, device=d)),
    "mean of bool": lambda d: torch.zeros(4, 6, dtype=torch.bool, device=d).scatter_reduce(
        1, torch.zeros(2, 3, dtype=torch.int64, device=d), torch.zeros(2, 3, dtype=torch.bool, device=d), "mean"
    ),
    "largest complex number": lambda d: torch.zeros(4, 6, dtype=torch.complex64, device=d).scatter_reduce(
        1, torch.zeros(2, 3, dtype=torch.int64, device=d), torch.zeros(2, 3, dtype=torch.complex64, device=d), "amax"
    ),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_the_call_is_refused_as_the_cpu_refuses_it(call):
    with pytest.raises(Exception) as wanted:
        call("cpu")
    with pytest.raises(Exception) as error:
        call("npu")
    torch.npu.synchronize()
    assert type(error.value) is type(wanted.value), error.value


def test_a_value_that_no_element_gets_may_be_any():
    assert nn.pad(ones(3).to("npu", torch.uint8), (0, -1), value=300).tolist() == [1, 1]


@pytest.mark.parametrize("value", [11.0, -0.5, float("nan")])
def test_probabilities_are_between_0_and_1(value):
    """They are on the device: its stream fails, as CUDA's does."""
    with pytest.raises(torch.AcceleratorError, match="probabilities"):
        torch.bernoulli(torch.full((3,), value, device="npu")).tolist()
    torch.npu.synchronize()


@pytest.mark.parametrize("dtype", [torch.float8_e5m2, torch.float8_e4m3fn, torch.float8_e8m0fnu], ids=str)
@pytest.mark.parametrize(
    "call", [lambda x: x**2, lambda x: x.square(), lambda x: x**0.5, lambda x: x.pow_(3), lambda x: x.square_()]
)
def test_powers_of_8_bit_floats_are_refused_in_the_cpus_words(call, dtype):
    x = ones(3).to(dtype)
    with pytest.raises(NotImplementedError) as wanted:
        call(x)
    with pytest.raises(NotImplementedError) as error:
        call(x.npu())
    torch.npu.synchronize()
    assert str(error.value) == str(wanted.value)


def test_an_empty_result_takes_any_beta() -> None:
    for name, shapes in {
        "addmm": ((2, 0), (2, 0), (0, 0)),
        "baddbmm": ((1, 2, 0), (1, 2, 0), (1, 0, 0)),
        "baddbmm of no batch": ((0, 2, 3), (0, 2, 3), (0, 3, 3)),
    }.items():
        call = getattr(torch, name.split()[0])
        for beta in (0.5, 2.0):
            expected, found = (
                call(*(ones(*s, dtype=torch.int64).to(d) for s in shapes), beta=beta) for d in ("cpu", "npu")
            )
            assert (found.shape, found.dtype) == (expected.shape, expected.dtype), name

"""A user's mistake is an error of the call itself, as on the CPU; the device goes on.

An error that only the kernel finds comes later, at the next synchronization, and every call after it fails too.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.older import OLDER

X = torch.arange(6, dtype=torch.int32)


def ones(device: str, *sizes: tuple[int, ...]) -> list[torch.Tensor]:
    return [torch.ones(size, device=device) for size in sizes]


MISTAKES = {
    "empty_max": lambda d: torch.max(torch.empty(0, device=d)),
    "empty_amin": lambda d: torch.amin(torch.empty(0, device=d)),
    "fill": lambda d: X.to(d).fill_(1e20),
    "fill_half": lambda d: torch.zeros(2, dtype=torch.half, device=d).fill_(1e20),
    "full": lambda d: torch.full((3,), 2**40, dtype=torch.int32, device=d),
    "masked_fill": lambda d: X.to(d).masked_fill(X.to(d) > 0, 2**40),
    "index_fill": lambda d: X.to(d).index_fill(0, torch.tensor([0], device=d), 2**40),
    "clamp": lambda d: X.to(d).clamp(2**40),
    "clamp_max": lambda d: X.to(d).clamp_max(2**40),
    "where": lambda d: torch.where(X.to(d) > 0, X.to(d), 2**40),
    "kthvalue": lambda d: torch.kthvalue(X.to(d), 7),
    "complex_out": lambda d: torch.complex(
        *torch.ones(2, 3, device=d), out=torch.ones(3, device=d, dtype=torch.cdouble)
    ),
    "roll": lambda d: torch.roll(X.to(d), (1, 2)),
    "fold_of_more_than_integers_count": lambda d: F.fold(torch.ones(1, 4, 9, device=d), (4, 4), 2**40),
    "matmul": lambda d: torch.ones(2, 3, device=d) @ torch.ones(2, 3, device=d),
    "linear_bias": lambda d: F.linear(torch.ones(2, 3, device=d), torch.ones(4, 3, device=d), torch.ones(5, device=d)),
    "linear_3d_bias": lambda d: F.linear(
        torch.ones(2, 2, 3, device=d), torch.ones(4, 3, device=d), torch.ones(5, device=d)
    ),
    "addmm": lambda d: torch.addmm(torch.ones(3, 2, device=d), *ones(d, (2, 4), (4, 2))),
    "addmm_four_dims": lambda d: torch.addmm(torch.ones(1, 1, 2, 2, device=d), *ones(d, (2, 4), (4, 2))),
    "addmm_nothing_of_it": lambda d: torch.addmm(torch.ones(3, device=d), *ones(d, (2, 4), (4, 2)), beta=0),
    "addmm_out": lambda d: torch.addmm(
        torch.ones(3, device=d), *ones(d, (2, 4), (4, 2)), out=torch.ones(2, 2, device=d)
    ),
    "addmm_activation": lambda d: torch._addmm_activation(torch.ones(3, device=d), *ones(d, (2, 4), (4, 2))),
    "cat": lambda d: torch.cat([torch.ones(2, 3, device=d), torch.ones(2, 2, device=d)]),
    "mm_types": lambda d: torch.ones(2, 2, device=d) @ torch.ones(2, 2, device=d, dtype=torch.double),
    "linear_types": lambda d: F.linear(torch.ones(2, 2, device=d), torch.ones(2, 2, device=d).half()),
    "layer_norm_types": lambda d: F.layer_norm(torch.ones(2, 2, device=d), (2,), torch.ones(2, device=d).double()),
    "batch_norm_types": lambda d: F.batch_norm(torch.ones(2, 2, device=d), *torch.ones(2, 2, device=d).double()),
    "bce_types": lambda d: F.binary_cross_entropy(torch.ones(2, device=d), torch.ones(2, device=d).double()),
    "arange": lambda d: torch.arange(0, 3, 0.5, dtype=torch.int64, device=d),
    "arange_no_step": lambda d: torch.arange(0, 3, 0, device=d),
    "trace": lambda d: torch.ones(2, 2, 2, device=d).trace(),
    "bucketize": lambda d: torch.bucketize(torch.ones(2, device=d), torch.ones(2, 2, device=d)),
    "roll_number": lambda d: torch.roll(torch.ones((), device=d), 1, 0),
    "gelu": lambda d: F.gelu(torch.ones(2, device=d), approximate="asdf"),
    "max_unpool2d": lambda d: F.max_unpool2d(
        torch.ones(1, 1, 4, 4, device=d), torch.zeros(1, 1, 4, 1, dtype=torch.long, device=d), (2, 2)
    ),
    "max_pool3d": lambda d: F.max_pool3d(torch.ones(0, 1, 4, 0, 4, device=d), 2),
    "masked_fill_nothing": lambda d: torch.ones(0, 1, device=d).masked_fill_(
        torch.ones(0, 3, dtype=torch.bool, device=d), 2
    ),
    "masked_fill_tensor": lambda d: X.to(d).masked_fill(X.to(d) > 0, torch.tensor(torch.inf, device=d)),
    "multinomial": lambda d: torch.multinomial(torch.ones(2**24 + 1, device=d), 1),
    "unique_consecutive": lambda d: torch.unique_consecutive(torch.zeros(2, 0, device=d), return_inverse=True, dim=0),
    "flip_twice": lambda d: torch.flip(torch.tensor(1.0, device=d), (0, -1)),
    "flip_no_dim": lambda d: torch.flip(torch.tensor(1.0, device=d), (1,)),
    "histc_nan": lambda d: torch.histc(torch.tensor([torch.nan], device=d)),
    "histc_infinite": lambda d: torch.histc(torch.ones(3, device=d), 3, 0, torch.inf),
    "histc_no_bins": lambda d: torch.histc(torch.ones(3, device=d), 0),
    "histc_order": lambda d: torch.histc(torch.ones(3, device=d), 4, 3, 1),
    "random_negative": lambda d: torch.zeros(2, dtype=torch.uint8, device=d).random_(-5, -2),
    "randint_negative": lambda d: torch.randint(-5, -2, (2,), dtype=torch.uint8, device=d),
    "random_below": lambda d: torch.zeros(2, dtype=torch.int8, device=d).random_(-500, -300),
    "random_empty": lambda d: torch.zeros(0, dtype=torch.int8, device=d).random_(0, 1000),
    "random_half": lambda d: torch.zeros(2, dtype=torch.half, device=d).random_(0, 100000),
    "uniform_half": lambda d: torch.zeros(2, dtype=torch.half, device=d).uniform_(0, 1e6),
    "uniform_range": lambda d: torch.zeros(2, dtype=torch.half, device=d).uniform_(-60000, 60000),
    "normal_std": lambda d: torch.normal(torch.zeros(2, device=d), torch.tensor([1.0, -1.0], device=d)),
    "normal_float_std": lambda d: torch.normal(0.0, torch.tensor([-1.0], device=d)),
    "index_put_nothing": lambda d: torch.zeros(0, 4, device=d).index_put_(
        (torch.tensor([0], device=d),), torch.ones(1, 4, device=d)
    ),
    "index_select_nothing": lambda d: torch.index_select(torch.zeros(3, 0, device=d), 0, torch.tensor([7], device=d)),
    "index_select_of_none": lambda d: torch.index_select(torch.zeros(0, 3, device=d), 0, torch.tensor([0], device=d)),
    "gather_of_none": lambda d: torch.gather(torch.zeros(0, device=d), 0, torch.tensor([7], device=d)),
    "scatter_nothing": lambda d: torch.zeros(0, device=d).scatter(0, torch.tensor([7], device=d), 1.0),
    "scatter_add_nothing": lambda d: torch.zeros(0, device=d).scatter_add(
        0, torch.tensor([7], device=d), torch.ones(1, device=d)
    ),
    "pad_nothing": lambda d: F.pad(torch.zeros(3, 0, device=d), (1, -1)),
    "pad_more_than_there_is": lambda d: F.pad(torch.zeros(3, 2, device=d), (-3, 4)),
    "bool_subtracted": lambda d: torch.ones(2, device=d) - True,
    "complex_compared": lambda d: torch.ones(2, device=d) < 1j,
    "complex_alpha": lambda d: torch.ones(2, device=d).add(torch.ones(2, device=d), alpha=1j),
    "half_and_complex": lambda d: torch.logical_and(torch.ones(3, device=d).half(), torch.tensor(1j, device=d)),
    "two_devices": lambda d: torch.ones(2, device=d) + torch.ones(2, device="meta" if d == "cpu" else "npu:1"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_an_error_of_the_call(name: str) -> None:
    with pytest.raises((RuntimeError, IndexError, ValueError)) as on_cpu:
        if OLDER and name == "arange":  # 2.10 divides by 0, which ends the process
            raise ValueError
        MISTAKES[name]("cpu")
    with pytest.raises(on_cpu.type) as raised:
        MISTAKES[name]("npu")
    assert not isinstance(raised.value, torch.AcceleratorError)
    torch.npu.synchronize()
    assert (torch.ones(2, device="npu") + 1).tolist() == [2, 2]


def test_put_of_other_counts_is_an_error_of_indices():
    for device in ("cpu", "npu"):
        x = torch.zeros(3, device=device)
        with pytest.raises(IndexError, match="same number of elements"):
            x.put_(torch.tensor([1], device=device), torch.zeros(2, device=device))

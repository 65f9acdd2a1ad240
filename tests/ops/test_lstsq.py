"""Right sides of linalg.lstsq with a dimension less, and matrices that are repeated: values, ranks and refusals are the
CPU's."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import torch_npu  # noqa: F401
from tests.ops.compare import assert_same

MATCH = r"should match other|at non-singleton dimension"
# Sizes of the matrices and of the right sides; whether the CPU computes it.
SIZES = [
    ((3, 4, 2), (3, 4), True),
    ((4, 4, 2), (4, 4), True),
    ((1, 4, 2), (3, 4), False),  # a vector is not repeated, nor is what it belongs to
    ((3, 4, 2), (1, 4), False),
    ((3, 3, 2), (3, 5), True),  # a matrix for all
    ((1, 4, 2), (4, 5), True),
    ((3, 4, 2), (4, 5), False),
    ((2, 3, 4, 2), (2, 1, 4), False),
    ((3, 4, 2), (1, 4, 1), True),
    ((1, 4, 2), (5, 4, 3), True),  # one rank
    ((3, 2, 4), (3, 2), True),
]


def solved(device: str, a: tuple[int, ...], b: tuple[int, ...], driver: str | None) -> Any:
    one, other = (torch.randn(s, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) for s in (a, b))
    return tuple(torch.linalg.lstsq(one.to(device), other.to(device), driver=driver))


@pytest.mark.parametrize("driver", [None, "gels", "gelsd"])
@pytest.mark.parametrize(("a", "b", "computed"), SIZES)
def test_it_is_the_cpus(a: tuple[int, ...], b: tuple[int, ...], computed: bool, driver: str | None) -> None:
    if computed:
        assert_same(solved("npu", a, b, driver), solved("cpu", a, b, driver), None, None)
        return
    said = []
    for device in ("cpu", "npu"):
        with pytest.raises(RuntimeError, match=MATCH) as error:
            solved(device, a, b, driver)
        said.append(str(error.value))
    assert said[0] == said[1]

"""`types:` of composed rows in ops/aten.yaml: the npu takes what the CPU's kernel takes, and refuses the rest."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools" / "codegen"))
import aten  # noqa: E402

TYPES = (
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128, torch.complex32),
    *(torch.bool, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16),
)
WRAPPERS = {w.row.func: w for w in aten.wrappers() if w.row.compose}
POINTWISE = [name for name, w in WRAPPERS.items() if w.is_pointwise]
FACTORS = {
    "linalg_lu_factor_ex": lambda a: torch.ops.aten.linalg_lu_factor_ex(a),
    "linalg_lu_solve": lambda a: torch.ops.aten.linalg_lu_solve(a, pivots(a), a),
    "lu_unpack": lambda a: torch.ops.aten.lu_unpack(a, pivots(a)),
    "linalg_lu": lambda a: torch.ops.aten.linalg_lu(a),
    "_linalg_det": lambda a: torch.ops.aten._linalg_det(a),
    "_linalg_slogdet": lambda a: torch.ops.aten._linalg_slogdet(a),
    "_linalg_solve_ex": lambda a: torch.ops.aten._linalg_solve_ex(a, a),
    "linalg_inv_ex": lambda a: torch.ops.aten.linalg_inv_ex(a),
    "linalg_cholesky_ex": lambda a: torch.ops.aten.linalg_cholesky_ex(a),
    "linalg_ldl_factor_ex": lambda a: torch.ops.aten.linalg_ldl_factor_ex(a),
}


def pivots(a: torch.Tensor) -> torch.Tensor:
    return torch.arange(1, len(a) + 1, dtype=torch.int32).to(a.device)


def same_refusal(call: object, x: torch.Tensor) -> None:
    try:
        call(x)
        wanted = None
    except Exception as error:
        wanted = type(error)
    try:
        call(x.npu())
        got = None
    except Exception as error:
        got = type(error)
    torch.npu.synchronize()
    assert got is wanted, x.dtype


def test_every_pointwise_row_names_its_types() -> None:
    assert len(POINTWISE) > 40
    assert [name for name in POINTWISE if not WRAPPERS[name].row.types] == []


@pytest.mark.parametrize("size", [3, 0])
@pytest.mark.parametrize("name", POINTWISE)
def test_pointwise(name: str, size: int) -> None:
    packet, _, overload = name.partition(".")
    op = getattr(getattr(torch.ops.aten, packet), overload or "default")
    numbers = [b.name for b in WRAPPERS[name].inputs if b.name not in WRAPPERS[name].tensors()]

    def call(x: torch.Tensor) -> None:
        op(*(1 if b.name in numbers else x for b in WRAPPERS[name].inputs))

    for dtype in TYPES:
        same_refusal(call, torch.ones(size).to(dtype))


@pytest.mark.parametrize("size", [2, 0])
@pytest.mark.parametrize("name", FACTORS)
def test_matrices(name: str, size: int) -> None:
    for dtype in TYPES:
        if size or dtype != torch.complex32:  # the product of no factors of complex32 is refused
            same_refusal(FACTORS[name], torch.eye(size).to(dtype))


def test_in_place_and_of_two_types() -> None:
    for dtype in (torch.float32, torch.bool, torch.complex64):
        same_refusal(lambda x: x.lcm_(x), torch.ones(3).to(dtype))
    same_refusal(lambda x: x.i0_(), torch.ones(3, dtype=torch.complex64))
    same_refusal(lambda x: torch.hypot(x, x.float()), torch.ones(3, dtype=torch.int64))
    same_refusal(lambda x: torch.hypot(x, x.bool()), torch.ones(3, dtype=torch.int64))
    same_refusal(lambda x: torch.copysign(x, x.to(torch.complex64)), torch.ones(3))


def test_the_refusal_names_the_operator_its_operands_and_the_types() -> None:
    x = torch.ones(3, dtype=torch.int64, device="npu")
    text = "hypot: the data type of self and other, torch.int64, is not .*: torch.float32, torch.float16"
    with pytest.raises(NotImplementedError, match=text):
        torch.hypot(x, x)
    with pytest.raises(
        NotImplementedError,
        match="_linalg_det: the data type of A, torch.float16, .*: torch.float32, torch.float64",
    ):
        torch.linalg.det(torch.eye(2, dtype=torch.float16, device="npu"))
    assert (x + 1).tolist() == [2, 2, 2]


def test_powers_and_products_of_complex32() -> None:
    x = torch.ones(3).to(torch.complex32)
    for call in (torch.square, torch.prod, lambda x: torch.prod(x, 0), lambda x: x**0.5, lambda x: x**3):
        for device in ("cpu", "npu"):
            with pytest.raises(RuntimeError):
                call(x.to(device))
            torch.npu.synchronize()
    for exponent in (0, 1):
        assert (x.npu() ** exponent).cpu().tolist() == (x**exponent).tolist()


def test_transposed_and_dilated_convolutions_of_integers() -> None:
    x = torch.ones(1, 1, 3, dtype=torch.int32)
    for call in (F.conv_transpose1d, lambda x, w: F.conv1d(x, w[..., :2], dilation=2)):
        with pytest.raises(RuntimeError, match="input: transposed or dilated, integers are int64"):
            call(x.npu(), x.npu())
        torch.npu.synchronize()
        assert torch.equal(call(x.long().npu(), x.long().npu()).cpu(), call(x.long(), x.long()))
    assert F.conv1d(x.npu(), x.npu()).item() == 3

"""Operators that CANN has no function for, composed on the device: values against the CPU's, nothing falls back."""

from __future__ import annotations

import math

import pytest
import torch

import torch_npu
from tests.ops.compare import check

NAN, INF = math.nan, math.inf
ENDS = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, 7.9, 8.1, 30.0, -30.0, INF, -INF, NAN], dtype=torch.float64)

SPECIAL = (
    "airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 "
    "modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0 i0 i0e i1 i1e erfcx "
    "log_ndtr entr"
).split()


@pytest.fixture(autouse=True, params=[False, True], ids=["processor", "composed"])
def way(request: pytest.FixtureRequest) -> object:
    """Each test twice: by kernels of the processor where there are some, and by the compositions that CANN runs."""
    torch_npu._C._prefer_compositions(request.param)
    yield
    torch_npu._C._prefer_compositions(False)


def close(function: object, *arguments: object, tolerance: float = 1e-12) -> None:
    want = function(*arguments)
    got = function(*(x.npu() if isinstance(x, torch.Tensor) else x for x in arguments))
    torch.testing.assert_close(got.cpu(), want, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize("name", SPECIAL)
def test_special_functions_of_one_number(name: str) -> None:
    function = getattr(torch.special, name)
    close(function, torch.linspace(-20, 20, 401, dtype=torch.float64))
    if name not in ("airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1"):  # the CPU has no limit there
        close(function, ENDS)


def test_the_inverse_of_the_normal_distribution() -> None:
    close(torch.special.ndtri, torch.tensor([0, 1e-300, 1e-20, 1e-3, 0.2, 0.5, 0.9, 1, 1.1, NAN], dtype=torch.float64))


@pytest.mark.parametrize("n", range(5))
def test_polygamma(n: int) -> None:
    # The CPU's trigamma is right to nine digits: its asymptotic series is short.
    close(lambda x: torch.polygamma(n, x), torch.linspace(0.1, 20, 50, dtype=torch.float64), tolerance=1e-8)
    close(lambda x: torch.polygamma(n, x), torch.tensor([-0.3, -1.7, -5.25], dtype=torch.float64), tolerance=1e-10)


def test_functions_of_two_numbers() -> None:
    a, x = torch.rand(2, 60, dtype=torch.float64) * 20 + 0.01
    for function in (torch.igamma, torch.igammac, torch.special.xlog1py, torch.hypot):
        close(function, a, x, tolerance=1e-10)
    close(torch.special.zeta, a + 1.05, x)
    special = torch.tensor([0.0, -0.0, 1.0, -2.0, INF, -INF, NAN], dtype=torch.float64)
    for function in (torch.fmax, torch.fmin, torch.copysign, torch.hypot, torch.nextafter):
        last_bit = 2**-52 if function is torch.hypot else 0  # processors differ in it
        close(function, special.repeat(7), special.repeat_interleave(7), tolerance=last_bit)
    close(torch.special.xlog1py, special.repeat(7), special.repeat_interleave(7))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_the_next_number(dtype: torch.dtype) -> None:
    x = torch.tensor([0.0, -0.0, 1.0, -1.0, 2.0, INF], dtype=dtype)
    if dtype == torch.float16:
        got = torch.nextafter(x.npu(), torch.zeros_like(x).npu() + 3).cpu()
        least = torch.finfo(dtype).smallest_normal * 2**-10
        assert got.tolist() == [least, least, 1 + 2**-10, -1 + 2**-11, 2 + 2**-9, torch.finfo(dtype).max]
        return
    close(torch.nextafter, x, torch.full_like(x, 3), tolerance=0)


def test_lcm() -> None:
    a = torch.tensor([0, 4, 6, -6, 21, 0])
    close(torch.lcm, a, torch.tensor([0, 6, 0, 4, 6, 5]))
    # PyTorch's kernel of the CPU traps here, and ends the process.
    for dtype in (torch.int32, torch.int64):
        least, greatest = torch.tensor([torch.iinfo(dtype).min]), torch.tensor([torch.iinfo(dtype).max])
        ends = least.to(dtype).npu(), greatest.to(dtype).npu()
        assert torch.lcm(*ends).item() == torch.lcm(*reversed(ends)).item() == least.item()
        assert torch.gcd(ends[0], torch.full_like(ends[1], -1)).item() == 1


@pytest.mark.parametrize("narrow", [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32])
def test_lcm_of_a_narrow_and_a_wide_type_is_wide(narrow: torch.dtype) -> None:
    a, b = torch.tensor([1, 1, 0], dtype=narrow), torch.tensor([2**40 + 1, -(2**33), 2**40])
    for x, y in ((a, b), (b, a)):
        assert torch.lcm(x.npu(), y.npu()).tolist() == torch.lcm(x, y).tolist() == [2**40 + 1, 2**33, 0]


@pytest.mark.parametrize("n", [1, 2, 7, 60, 64, 67, 96, 128, 521, 600, 1031])
def test_fft_of_every_kind_of_length(n: int) -> None:
    x = torch.randn(3, n, dtype=torch.float64)
    close(torch.fft.fft, x)
    close(torch.fft.ifft, torch.complex(x, x.flip(1)))
    close(torch.fft.rfft, x)
    close(lambda v: torch.fft.irfft(v, n=n), torch.fft.rfft(x))


def test_fft_of_several_dimensions_and_norms() -> None:
    x = torch.randn(4, 6, 5)
    for norm in ("backward", "ortho", "forward"):
        check(lambda v, m=norm: torch.fft.fftn(v, norm=m), x)
        check(lambda v, m=norm: torch.fft.irfftn(torch.fft.rfftn(v, norm=m), s=v.shape, norm=m), x)
    view = x.permute(2, 0, 1)
    assert torch.fft.fft(view.npu(), dim=0).stride() == torch.fft.fft(view, dim=0).stride()


def matrices(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(*shape, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_linear_algebra(dtype: torch.dtype) -> None:
    a = matrices(2, 5, 5, dtype=dtype)
    b = matrices(2, 5, 3, dtype=dtype)
    definite = a @ a.mH + torch.eye(5)
    for function in (torch.linalg.det, torch.linalg.inv, torch.linalg.svdvals, torch.linalg.matrix_exp):
        close(function, a)
    close(lambda x: torch.linalg.slogdet(x)[1], a)
    close(torch.linalg.solve, a, b)
    close(lambda x, y: torch.linalg.solve(x, y, left=False), a, b.mT)
    close(torch.linalg.cholesky, definite)
    close(lambda x: torch.linalg.cholesky(x, upper=True), definite)
    close(lambda x: torch.cholesky_inverse(torch.linalg.cholesky(x)), definite)
    close(torch.linalg.eigvalsh, definite)
    for adjoint in (False, True):
        close(lambda x, y, t=adjoint: torch.linalg.lu_solve(*torch.linalg.lu_factor(x), y, adjoint=t), a, b)


@pytest.mark.parametrize("shape", [(4, 6), (6, 4), (3, 5, 5), (40, 25), (25, 40), (2, 33, 33)], ids=str)
def test_factors_multiply_to_their_matrix(shape: tuple[int, ...]) -> None:
    a = matrices(*shape, dtype=torch.float64)
    p, lower, upper = torch.linalg.lu(a.npu())
    torch.testing.assert_close((p @ lower @ upper).cpu(), a)
    torch.testing.assert_close(torch.linalg.lu_factor(a.npu())[1].cpu(), torch.linalg.lu_factor(a)[1])
    square = a @ a.mT + torch.eye(shape[-2])
    torch.testing.assert_close(torch.linalg.cholesky(square.npu()).cpu(), torch.linalg.cholesky(square))
    square[..., 20:21, 20:21] = -1.0
    assert torch.equal(torch.linalg.cholesky_ex(square.npu())[1].cpu(), torch.linalg.cholesky_ex(square)[1])
    factor, tau = torch.geqrf(a.npu())
    want, want_tau = torch.geqrf(a)
    torch.testing.assert_close(factor.cpu(), want)
    torch.testing.assert_close(tau.cpu(), want_tau)
    if shape[-2] >= shape[-1]:
        q = torch.linalg.householder_product(factor, tau)
        torch.testing.assert_close(q @ factor[..., : shape[-1], :].triu(), a.npu())
        turned = torch.ormqr(factor, tau, a.npu(), transpose=True)
        torch.testing.assert_close(turned.cpu(), torch.ormqr(want, want_tau, a, transpose=True))


def test_eigenvectors() -> None:
    a = matrices(4, 6, 6, dtype=torch.complex128)
    a = a + a.mH
    values, vectors = torch.linalg.eigh(a.npu())
    torch.testing.assert_close(values.cpu(), torch.linalg.eigvalsh(a))
    torch.testing.assert_close((vectors * values.unsqueeze(-2) @ vectors.mH).cpu(), a)


def test_singular_matrices_are_named() -> None:
    singular = torch.stack([torch.eye(3), torch.ones(3, 3), torch.zeros(3, 3)]).npu()
    assert torch.linalg.inv_ex(singular)[1].tolist() == torch.linalg.inv_ex(singular.cpu())[1].tolist() == [0, 2, 1]
    with pytest.raises(torch.linalg.LinAlgError, match="Batch element 1"):
        torch.linalg.inv(singular)
    with pytest.raises(torch.linalg.LinAlgError, match="not positive-definite"):
        torch.linalg.cholesky(-torch.eye(2).npu())


def test_along_a_dimension() -> None:
    x = torch.tensor([[3.0, 1.0, 1.0, NAN], [2.0, 2.0, 3.0, 3.0]])
    got, want = torch.mode(x.npu(), 1), torch.mode(x, 1)
    assert got.values.tolist() == want.values.tolist() == [1.0, 2.0]
    assert got.indices.tolist() == want.indices.tolist() == [2, 1]
    check(lambda v: torch.logcumsumexp(v, 1), torch.tensor([[-1000.0, 1000.0, -INF, 3.0], [-INF, -INF, INF, 1.0]]))
    for size in (0, 2, 9):
        check(lambda v, n=size: torch.nonzero_static(v, size=n, fill_value=-7), torch.tensor([[0, 1], [2, 0], [3, 4]]))


def test_ldexp_takes_a_number_on_the_cpu() -> None:
    x, n = torch.tensor([1.5, -3.0]), torch.tensor(4)
    assert torch.ldexp(x.npu(), n).tolist() == torch.ldexp(x.npu(), n.npu()).tolist() == [24.0, -48.0]
    assert x.npu().ldexp_(n).tolist() == [24.0, -48.0]
    with pytest.raises(RuntimeError, match="device"):
        torch.ldexp(x.npu(), torch.tensor([4, 4]))


def test_the_mode_of_truth_values() -> None:
    for x in ([[True, False]], [[False, False]], [[False, True, False, True]], [[True, True, False]]):
        x = torch.tensor(x)
        got, want = torch.mode(x.npu(), 1), torch.mode(x, 1)
        assert got.values.tolist() == want.values.tolist()
        assert x[0, got.indices.item()] == want.values


def test_the_index_of_a_mode_is_where_its_value_is() -> None:
    x = torch.randint(0, 9, (3, 1000)).double().npu().requires_grad_()
    values, indices = torch.mode(x, 1)
    assert values.tolist() == torch.mode(x.cpu(), 1).values.tolist()
    assert torch.equal(x.gather(1, indices[:, None])[:, 0], values)
    values.sum().backward()
    assert torch.equal(x.grad, torch.zeros_like(x).scatter(1, indices[:, None], 1.0))


@pytest.mark.parametrize("p", [0.0, 0.7, 1.0, 2.0, 3.0, INF])
def test_gradients_of_the_distances_of_pairs(p: float) -> None:
    torch.manual_seed(3)
    for dtype in (torch.float32, torch.float64):
        x = torch.randn(40, 7, dtype=dtype)
        x[5] = x[9]
        on, host = x.npu().requires_grad_(), x.clone().requires_grad_()
        cotangent = torch.randn(780, dtype=dtype)
        torch.pdist(on, p).backward(cotangent.npu())
        torch.pdist(host, p).backward(cotangent)
        torch.testing.assert_close(on.grad.cpu(), host.grad, msg=lambda text, t=dtype: f"{t}: {text}")


@pytest.mark.parametrize("reduce", ["prod", "mean", "amax", "amin"])
def test_index_reduce(reduce: str) -> None:
    x, source = torch.rand(4, 3), torch.rand(5, 3)
    index = torch.tensor([0, 2, 0, 0, 3])
    for include in (True, False):
        check(lambda a, i, s, f=include: a.index_reduce(0, i, s, reduce, include_self=f), x, index, source)


def test_an_inverse_that_is_written_over_its_matrix() -> None:
    for x in (torch.eye(3) * 2, torch.randn(2, 9, 9, dtype=torch.complex64)):
        on = x.npu()
        assert torch.linalg.inv(on, out=on) is on
        torch.testing.assert_close(on.cpu(), torch.linalg.inv(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["svd", "svdvals", "eigh", "eigvalsh"])
def test_a_matrix_that_is_not_finite_is_linear_algebras_error(name: str) -> None:
    batch = torch.stack([torch.eye(3), torch.full((3, 3), NAN)]).npu()
    with pytest.raises(torch.linalg.LinAlgError, match="Batch element 1"):
        getattr(torch.linalg, name)(batch)
    assert (torch.ones(2, device="npu") + 1).tolist() == [2, 2]  # nothing is broken


def test_eigenvalues_of_extreme_matrices() -> None:
    for size in (1e200, 1e-200, 0.0):
        close(torch.linalg.eigvalsh, torch.eye(2, dtype=torch.float64) * size)
    other_triangle = torch.tensor([[1.0, NAN], [0.0, 2.0]])
    assert torch.linalg.eigvalsh(other_triangle.npu()).tolist() == [1, 2]


def test_gamma_functions_at_infinity() -> None:
    q = torch.tensor([0.5, 1.0, 1e-30, -0.5, -1.5], dtype=torch.float64)
    close(torch.special.zeta, torch.full_like(q, INF), q)
    close(lambda x: torch.polygamma(1, x), torch.tensor([INF, 3.0], dtype=torch.float64), tolerance=1e-9)


def test_a_common_multiple_of_small_integers() -> None:
    for dtype, ends in ((torch.int8, (127, 2)), (torch.int16, (32767, 2))):
        a, b = (torch.tensor([x], dtype=dtype) for x in ends)
        assert torch.lcm(a.npu(), b.npu()).tolist() == torch.lcm(a, b).tolist()


def test_half_of_a_gamma_distribution_is_below_its_mean() -> None:
    a = torch.tensor([10.0, 1e3, 1e5, 1e6, 1e7, 1e12, 1e20], dtype=torch.float64)
    for factor in (0.75, 0.999, 1.0, 1.001, 1.25):
        # The CPU's expansion has a pi of single precision.
        close(torch.special.gammainc, a, a * factor, tolerance=1e-9)
        close(torch.special.gammaincc, a, a * factor, tolerance=1e-9)


INFERENCE = {
    "rfft": lambda x: torch.fft.rfft(x),
    "fft2": lambda x: torch.fft.ifft2(torch.fft.fft2(x)),
    "stft": lambda x: torch.stft(
        x, 8, window=torch.hann_window(8, device=x.device, dtype=x.dtype), return_complex=True
    ),
    "cholesky": lambda x: torch.linalg.cholesky(x @ x.mT + torch.eye(5, device=x.device)),
    "inverse": lambda x: torch.linalg.inv(x[:, :5]),
    "determinant": lambda x: torch.linalg.slogdet(x[:, :5])[1],
    "matrix_exp": lambda x: torch.matrix_exp(x[:, :5]),
}


@pytest.mark.parametrize("name", INFERENCE)
def test_inference_mode(name: str) -> None:
    """Its tensors are written by the thread of the stream, which is in no mode of the caller's."""
    x = torch.randn(5, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        close(INFERENCE[name], x, tolerance=1e-9)

"""ANYCEND_STRICT=1 at PyTorch's operators: a composition in float32 makes no float64 tensor on the way, and what the
guide says of pooling (docs/guide/analysis.md).
"""

from __future__ import annotations

import pytest

from tests import strict as judge

# A call → what refused it, or nothing.
CALLS = """
def r(*sizes):
    return torch.rand(sizes, device="npu", requires_grad=True)
for p in (1, 2):
    for weight in (None, torch.rand(5, device="npu")):
        for how in ("none", "mean"):
            words = {"p": p, "weight": weight, "reduction": how}
            target = torch.tensor([1, 0, 4], device="npu")
            name = f"margin {p} {weight is None} {how}"
            t(name, lambda: F.multi_margin_loss(r(3, 5), target, **words).sum().backward())
for n in (1, 2, 3):
    sizes, pool = (2, 3, *[8] * n), getattr(F, f"max_pool{n}d")
    t(f"max_pool{n}d", lambda: pool(r(*sizes), 2).sum().backward())
    t(f"adaptive_max_pool{n}d", lambda: getattr(F, f"adaptive_max_pool{n}d")(r(*sizes), 3).sum().backward())
    unpool = lambda: getattr(F, f"max_unpool{n}d")(*pool(r(*sizes), 2, return_indices=True), 2).sum().backward()
    t(f"max_unpool{n}d, gathers", unpool)
    if n > 1:
        drawn = getattr(F, f"fractional_max_pool{n}d")
        t(f"fractional_max_pool{n}d, gathers", lambda: drawn(r(*sizes), 2, output_size=3).sum().backward())
for dtype in (torch.float16, torch.bfloat16):
    t(f"max_pool2d of {dtype}", lambda: F.max_pool2d(r(1, 2, 4, 4).to(dtype), 2).sum().backward())
    indexed = lambda: F.max_pool2d(r(1, 2, 4, 4).to(dtype), 2, return_indices=True)[0].sum().backward()
    t(f"max_pool2d of {dtype} with indices", indexed)
    doubled = lambda: F.interpolate(r(1, 2, 4, 4).to(dtype), scale_factor=2, mode="bilinear").sum().backward()
    t(f"bilinear of {dtype}", doubled)
t("min of a dimension", lambda: r(3, 4).min(1).values.sum().backward())
whole = torch.arange(-2, 3)
for name in ("ceil", "trunc", "ceil_", "trunc_"):
    rounded = getattr(whole.npu(), name)
    t(f"{name} of integers", lambda: torch.testing.assert_close(rounded().cpu(), whole))
"""


# Compositions in double precision: what the chip's functions do not take of it is composed, too. By value.
COMPOSED = """
torch.manual_seed(1)
square, tall = torch.randn(9, 9), torch.randn(2, 9, 4)
whole, positive = square + 1j * square.T, square @ square.T + torch.eye(9)
bytes_ = torch.full((3, 1100), -128, dtype=torch.int8), torch.full((1100, 2), -128, dtype=torch.int8)
CALLED = {
    "lstsq": lambda f: torch.linalg.lstsq(f(tall), f(tall[..., :2])).solution,
    "gelsd": lambda f: torch.linalg.lstsq(f(tall), f(tall[..., :2] + 1), driver="gelsd")[:3],
    "lu_solve": lambda f: torch.linalg.solve(f(square), f(square[:, :2])),
    "complex solve": lambda f: torch.linalg.solve(f(whole), f(whole[:, :2])),
    "cholesky": lambda f: torch.linalg.cholesky(f(positive)),
    "householder_product": lambda f: torch.linalg.householder_product(*torch.geqrf(f(tall))),
    "ormqr": lambda f: torch.ormqr(*torch.geqrf(f(square)), f(square)),
    "matrix_exp": lambda f: torch.linalg.matrix_exp(f(square)),
    "_int_mm": lambda f: torch._int_mm(*map(f, bytes_)),
    "logcumsumexp": lambda f: torch.logcumsumexp(f(torch.cat([square, torch.full((1, 9), -torch.inf)])), 0),
    "complex logcumsumexp": lambda f: torch.logcumsumexp(f(whole), 0),
    "fft": lambda f: torch.fft.fft(f(tall), dim=1),
    "a prime length": lambda f: torch.fft.fft(f(torch.arange(1031.0))),
    "hfft": lambda f: torch.fft.hfft(f(whole)),
    "irfft2": lambda f: torch.fft.irfft2(f(whole)),
    "polynomial": lambda f: torch.special.chebyshev_polynomial_t(f(square), 3),
    "zeta": lambda f: torch.special.zeta(f(square.abs() + 2), 2.0),
    "igamma": lambda f: torch.special.gammainc(f(square.abs()), f(square.T.abs())),
    "polygamma": lambda f: torch.polygamma(1, f(square)),
    "hypot": lambda f: torch.hypot(f(square), f(square.T)),
    "xlog1py": lambda f: torch.special.xlog1py(f(square.abs()), f(square.T.abs())),
    "bessel_y0": lambda f: torch.special.bessel_y0(f(square.abs())),
    "ldexp": lambda f: torch.ldexp(f(square), f(torch.arange(-4, 5))),
    "nonzero_static": lambda f: torch.nonzero_static(f(square > 1), size=5),
    "masked_fill": lambda f: f(square.double()).masked_fill(f(square) > 0, 0.1),
    "masked_fill_ of columns": lambda f: f(square.double())[:, :4].masked_fill_(f(square[:, :4]) > 0, 0.1),
    "complex masked_fill": lambda f: f(whole).masked_fill(f(square) > 0, 1 - 2j),
    "masked_fill of a tensor": lambda f: f(square.double()).masked_fill(f(square) > 0, f(torch.tensor(0.1))),
    "poisson": lambda f: torch.poisson(f(torch.full((4000,), 30.0))).mean().gt(28),
    "binomial": lambda f: torch.binomial(f(torch.full((4000,), 40.0)), f(torch.tensor(0.5))).mean().gt(18),
    "gamma": lambda f: torch._standard_gamma(f(torch.full((4000,), 0.5))).mean().gt(0.4),
}
close = {"check_device": False, "rtol": 1e-4, "atol": 1e-4}
for composed in (True, False):
    torch_npu._C._prefer_compositions(composed)
    for name, call in CALLED.items():
        compare = lambda: torch.testing.assert_close(call(lambda x: x.npu()), call(lambda x: x), **close)
        t(f"{name}, composed: {composed}", compare)
"""


def test_compositions_in_double_precision_are_what_the_chip_takes() -> None:
    answers = judge.results(COMPOSED, "Ascend910B3")
    assert len(answers) == 62 and set(answers.values()) == {""}, {name: said for name, said in answers.items() if said}


@pytest.mark.parametrize("chip", ["Ascend910B1", "Ascend950"])
def test_what_the_chips_list_lacks_is_converted(chip: str) -> None:
    """Numbers of elements are int32 where the documentation names nothing else, and a pool's gradient float32.
    aclnnGather is not for Ascend950 by its page: targets' scores and the gradients of some pools are gathered.
    """
    answers = judge.results(CALLS, chip)
    assert len(answers) == 30
    gathers = {name for name in answers if name.startswith("margin") or name.endswith("gathers")}
    found = {n: said for n, said in answers.items() if said and not (chip == "Ascend950" and n in gathers)}
    assert not found

"""Operators that CANN has no function for and that are not pointwise: what PyTorch's samples do not ask. The CPU is the
judge. In csrc/ops/composed: segment, pooling, histogram, bits, products, linalg_lstsq, linalg_lapack. Long because
it is a table: a row is a call."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import torch_npu
from tests.older import OLDER
from tests.ops.compare import assert_same
from tests.ops.test_sparse import coo

pytestmark = pytest.mark.filterwarnings("ignore:Sparse")
NAN, INF = float("nan"), float("inf")
Call = Callable[[str], Any]


def tensor(device: str, *values: Any, dtype: torch.dtype | None = None) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype).to(device)


def numbers(device: str, *shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed)).to(device)


def matrix(device: str, rows: int, columns: int, rank: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return numbers(device, rows, rank, dtype=dtype) @ numbers(device, rank, columns, dtype=dtype, seed=1)


def graded(call: Callable[..., Any], *inputs: torch.Tensor) -> list[torch.Tensor]:
    """The result and the inputs' gradients."""
    leaves = [x.detach().requires_grad_() for x in inputs]
    result = call(*leaves)
    weights = torch.linspace(-1, 2, result.numel(), dtype=torch.float64).reshape(result.shape)
    grads = torch.autograd.grad(result, leaves, weights.to(result))
    return [result.detach(), *(g.to_dense() if g.layout != torch.strided else g for g in grads)]


def segments(device: str, reduce: str, **how: Any) -> list[torch.Tensor]:
    data = numbers(device, 7, 3, dtype=torch.float64)
    data[1, 1] = data[2, 0] = data[2, 1] = 0  # of a product: one zero, and two
    data[5, 2] = data[6, 2]
    how = {name: x.to(device) if isinstance(x, torch.Tensor) else x for name, x in how.items()}
    return graded(lambda x: torch.segment_reduce(x, reduce, axis=0, **how), data)


def pooled(device: str, dims: int, dtype: torch.dtype) -> list[torch.Tensor]:
    x = numbers(device, 2, 3, 9, 8, 7)[:, :, :, : 8 if dims == 3 else None].to(dtype)
    x = (x if dims == 3 else x[..., 0]).transpose(-1, -2)
    x[0, 0, ..., 2, 3] = NAN
    samples = torch.rand(2, 3, dims, dtype=dtype, generator=torch.Generator().manual_seed(2)).to(device)
    call = getattr(F, f"fractional_max_pool{dims}d")
    result, places = call(x, 2, output_size=3, _random_samples=samples, return_indices=True)
    return [
        result.nan_to_num(99),
        places,
        graded(lambda v: call(v, 2, output_size=3, _random_samples=samples), x.nan_to_num(5))[1],
    ]


def least(device: str, driver: str | None, m: int, n: int, rank: int, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    a = torch.stack([matrix(device, m, n, rank, dtype), matrix(device, m, n, rank, dtype) * 2])
    return tuple(torch.linalg.lstsq(a, numbers(device, 2, m, 3, dtype=dtype), driver=driver))


def eigen(device: str, dtype: torch.dtype) -> list[torch.Tensor]:
    a = numbers(device, 2, 4, 4, dtype=dtype).mT
    values, vectors = torch.linalg.eig(a)
    rebuilt = vectors @ torch.diag_embed(values) @ torch.linalg.inv(vectors)
    return [values, rebuilt, torch.linalg.eigvals(a), torch.linalg.eigvals(a[:0])]


def eigen_of_numbers(device: str) -> list[Any]:
    """A matrix of one number has values whatever it is; linalg.eig looks first."""
    made: list[Any] = []
    for values in ([NAN, INF, -INF, 2.0], [complex(NAN, 0), complex(1, INF), complex(1, NAN), 2j]):
        a = tensor(device, *values).reshape(4, 1, 1)
        made += [*torch.linalg.eigh(a, UPLO="U"), torch.linalg.eigvalsh(a), torch.linalg.eigvals(a)]
        with pytest.raises(RuntimeError, match="should not contain infs or NaNs"):
            torch.linalg.eig(a)
    return made


def weighed(device: str) -> list[torch.Tensor]:
    x = numbers(device, 40, 2, dtype=torch.float64)
    x[3, 1], x[4, 0] = NAN, INF
    edges = [tensor(device, -1.0, 0.0, 0.5, 2.0, dtype=torch.float64), tensor(device, -2.0, 2.0, dtype=torch.float64)]
    weight = numbers(device, 40, dtype=torch.float64).abs()
    out = torch.empty(0, dtype=torch.float64, device=device), torch.empty(0, dtype=torch.float64, device=device)
    torch.histogram(x[:, 0].contiguous(), edges[0], weight=weight, density=True, out=out)
    hist, bins = torch.histogramdd(x, edges, weight=weight, density=True)
    return [*out, hist, *bins, *torch.histogram(x.t()[:1, :], 5, range=(-1.0, 1.0), weight=weight)]


def scaled(device: str, **how: Any) -> torch.Tensor:
    a = numbers(device, 16, 32).to(torch.float8_e4m3fn)
    b = numbers(device, 32, 16, seed=1).t().contiguous().t().to(torch.float8_e4m3fn)
    how = {name: x.to(device) if isinstance(x, torch.Tensor) else x for name, x in how.items()}
    result = torch._scaled_mm(a, b, **how)
    return result.float() if result.dtype == torch.float8_e4m3fn else result


def margins(device: str, reduction: str, dims: int) -> list[torch.Tensor]:
    x = numbers(device, 4, 6, dtype=torch.float64)
    y = tensor(device, [0, 3, -1, 5, 2, 1], [5, 4, 3, 2, 1, 0], [-1, 0, 0, 0, 0, 0], [2, 2, 1, -1, 0, 0])
    return graded(
        lambda v: F.multilabel_margin_loss(v, y[0] if dims == 1 else y, reduction=reduction), x[0] if dims == 1 else x
    )


def at_places(device: str, dtype: torch.dtype, batch: bool) -> torch.Tensor:
    a = coo(device).coalesce().to_dense().to(dtype)
    a = (torch.stack([a, a * 2]) if batch else a).to_sparse_csr()
    lead = (2,) if batch else ()
    x, y = numbers(device, *lead, 4, 5, dtype=dtype).mT, numbers(device, *lead, 4, 6, dtype=dtype, seed=1).conj()
    return torch.sparse.sampled_addmm(a, x, y, beta=0.5, alpha=2).to_dense()


def reduced_product(device: str, reduce: str, dtype: torch.dtype) -> list[torch.Tensor]:
    a = coo(device, n=14).coalesce().to_dense().to(dtype)
    a[2] = 0
    return graded(lambda s, d: torch.sparse.mm(s, d, reduce), a.to_sparse_csr(), numbers(device, 6, 3, dtype=dtype))


def written(device: str, out_type: torch.dtype) -> torch.Tensor:
    out = torch.zeros(16, 16, device=device).to(out_type)
    scaled(device, scale_a=torch.tensor(0.5), scale_b=torch.tensor(2.0), out=out)
    return out.float()


def sampled_into(device: str, n: int, index: torch.dtype) -> list[torch.Tensor]:
    """What others see of the memory, and the result."""
    at, x = torch.eye(3).to_sparse_csr().to(device), numbers(device, 3, 4)
    whole = (torch.eye(3) if n == 3 else torch.ones(n, n)).to_sparse_csr()
    places = whole.crow_indices().to(index), whole.col_indices().to(index)
    out = torch.sparse_csr_tensor(*places, whole.values() * 9, (n, n)).to(device)
    values = out.values()
    torch.sparse.sampled_addmm(at, x, x.t(), beta=0.5, out=out)
    return [values, out.values(), out.crow_indices(), out.col_indices()]


def rows_without(device: str, reduce: str, number: float) -> list[torch.Tensor]:
    """A row without entries takes no part, though what lies at the last entry is no number."""
    m, d = tensor(device, [1.0, 2, 0], [0, 0, 0], [0, 3, 4]), tensor(device, [1.0, 2], [3, 4], [number, 1])
    return graded(lambda s, d: torch.sparse.mm(s, d, reduce), m.to_sparse_csr(), d)


def ranks(device: str, driver: str, rcond: float) -> list[torch.Tensor]:
    """Of a matrix of rank one, and of sizes that fall."""
    one = tensor(device, [1.0, 2], [2, 4], [3, 6], dtype=torch.float64)
    falling = torch.diag(tensor(device, 1.0, 1e-3, 1e-9, 1e-18, dtype=torch.float64))
    found = [torch.linalg.lstsq(a, a[:, :1] + 1, rcond=rcond, driver=driver) for a in (one, falling)]
    return [x for f in found for x in (f.rank, f.solution, f.residuals, f.singular_values)]


LENGTHS, OFFSETS = torch.tensor([2, 0, 5]), torch.tensor([1, 3, 3, 6])
ROWS = torch.tensor([0.5, 2.0]).repeat(8)[:, None]
CALLS: dict[str, Call] = {
    **{
        f"segment_reduce {r} {k}": lambda d, r=r, k=k, v=v: segments(d, r, **{k: v})
        for r in ("sum", "mean", "max", "min", "prod")
        for k, v in (("lengths", LENGTHS), ("offsets", OFFSETS))
    },
    "segment_reduce with a start": lambda d: (
        segments(d, "prod", lengths=LENGTHS, initial=2) + segments(d, "mean", offsets=OFFSETS.int(), initial=3)
    ),
    "segment_reduce unsafe, past the end of lengths": lambda d: segments(
        d, "sum", lengths=torch.tensor([2, 3]), unsafe=True
    ),
    "segment_reduce of rows": lambda d: torch.segment_reduce(
        numbers(d, 2, 4, 3), "max", lengths=tensor(d, [1, 3], [2, 2]), axis=1
    ),
    "segment_reduce of nothing": lambda d: torch.segment_reduce(numbers(d, 0), "sum", lengths=tensor(d, 0, 0)),
    **{
        f"fractional_max_pool{n}d {t}": lambda d, n=n, t=t: pooled(d, n, t)
        for n in (2, 3)
        for t in (torch.float64, torch.float32, torch.float16, torch.bfloat16)
    },
    **{
        f"lstsq {driver} {m}x{n} rank {rank} {t}": lambda d, a=(driver, m, n, rank, t): least(d, *a)
        for driver in (None, "gels", "gelsy", "gelsd", "gelss")
        for m, n, rank in ((5, 3, 3), (3, 5, 3), (5, 3, 2), (4, 4, 4))
        for t in (torch.float64, torch.complex128)
        if driver != "gels" or rank == min(m, n)
    },
    "lstsq of vectors and nothing": lambda d: [
        x
        for s in ((4, 3), (4, 0), (0, 3))
        for x in torch.linalg.lstsq(numbers(d, 3, *s), numbers(d, 3, s[0]), driver="gelsd")
    ],
    "lstsq rcond": lambda d: tuple(
        torch.linalg.lstsq(matrix(d, 4, 3, 3), numbers(d, 4, 1, dtype=torch.float64), rcond=0.4, driver="gelss")
    ),
    "eig": lambda d: eigen(d, torch.float64),
    "eig of numbers": eigen_of_numbers,
    "eig complex": lambda d: eigen(d, torch.complex128),
    "ldl": lambda d: [
        torch.linalg.ldl_solve(*torch.linalg.ldl_factor(a + a.mT), numbers(d, 2, 4, 2, dtype=torch.float64))
        for a in [numbers(d, 2, 4, 4, dtype=torch.float64)]
    ],
    **{
        f"frexp {t}": lambda d, t=t: torch.frexp(
            tensor(
                d,
                [0.0, -0.0, 1, 6e-8, 1e-42, INF, -INF, NAN],
                [-3, 0.1, 65504, 1e-7, 5e-324, 2, 4, 8],
                dtype=torch.float64,
            )
            .to(t)
            .t()
        )
        for t in (torch.float64, torch.float32, torch.float16, torch.bfloat16)
    },
    "hash_tensor": lambda d: [
        torch.hash_tensor(numbers(d, 3, 5), 1, keepdim=True).view(torch.int64),
        torch.hash_tensor(tensor(d, 3, -5, 9)).view(torch.int64),
    ],
    "histogram": weighed,
    "histogram of one number": lambda d: torch.histogram(tensor(d, 2.0), 3),
    "histogram of halves": lambda d: torch.histogram(numbers(d, 50).half(), 4, range=(-1.0, 1.0)),
    "int_mm": lambda d: torch._int_mm(
        (numbers(d, 3, 40) * 99).to(torch.int8), (numbers(d, 5, 40) * 99).to(torch.int8).t()
    ),
    **{
        f"int8 weights {t}": lambda d, t=t: torch._weight_int8pack_mm(
            numbers(d, 4, 64).to(t), (numbers(d, 32, 64) * 30).to(torch.int8), numbers(d, 32).abs().to(t) / 16
        )
        for t in (torch.float32, torch.bfloat16, torch.float16)
    },
    "scaled_mm": lambda d: scaled(d, scale_a=torch.tensor(0.5), scale_b=torch.tensor(2.0), out_dtype=torch.float32),
    "scaled_mm in 8 bits": lambda d: scaled(
        d, scale_a=torch.tensor(0.5), scale_b=torch.tensor(0.5), scale_result=torch.tensor(2.0)
    ),
    "scaled_mm by rows": lambda d: scaled(
        d, scale_a=ROWS, scale_b=ROWS.t(), bias=torch.ones(16).bfloat16(), out_dtype=torch.bfloat16
    ),
    **{
        f"scaled_mm into {t}": lambda d, t=t: written(d, t)
        for t in (torch.float32, torch.bfloat16, torch.float16, torch.float8_e5m2)
    },
    "int_mm beyond 32 bits": lambda d: torch._int_mm(
        *(torch.full(shape, -128, dtype=torch.int8).to(d) for shape in ((4, 140000), (140000, 8)))
    ),
    **{
        f"sampled_addmm into {n} {t}": lambda d, n=n, t=t: sampled_into(d, n, t)
        for n in (3, 4, 1)
        for t in (torch.int64, torch.int32)
    },
    **{
        f"sparse.mm {r} without entries, {x}": lambda d, r=r, x=x: rows_without(d, r, x)
        for r in ("amax", "amin")
        for x in (INF, NAN)
    },
    **{
        f"lstsq {driver} rcond {r}": lambda d, a=(driver, r): ranks(d, *a)
        for driver, given in (("gelsd", (-1.0, 0.0, 1.0, 2.0, 1e-6)), ("gelss", (-1.0, 1.0, 2.0, 1e-6)))
        for r in given
    },
    **{f"multilabel {r} {n}": lambda d, r=r, n=n: margins(d, r, n) for r in ("none", "mean", "sum") for n in (1, 2)},
    **{
        f"sampled_addmm {t} {b}": lambda d, t=t, b=b: at_places(d, t, b)
        for t in (torch.float64, torch.complex64)
        for b in (False, True)
    },
    **{
        f"sparse.mm {r} {t}": lambda d, r=r, t=t: reduced_product(d, r, t)
        for r in ("sum", "mean", "amax", "amin")
        for t in (torch.float64, torch.float32)
    },
}
# No composition: on CANN these are the CPU's (linalg_lapack.cpp).
LAPACK = ("eig", "ldl")
# The CPU multiplies weights that it has rounded, and rounds twice to 8 bits, by way of bfloat16: one step of them.
LOOSE = {"int8 weights": 2e-2, "scaled_mm in 8 bits": 2**-3, "scaled_mm": 1e-4, "sampled": 1e-4, "sparse.mm": 1e-4}


def on_cpu(name: str) -> Any:
    if not OLDER or name != "scaled_mm by rows":
        return CALLS[name]("cpu")
    a = numbers("cpu", 16, 32).to(torch.float8_e4m3fn).double() * ROWS  # 2.10 has one scale for a matrix
    b = numbers("cpu", 32, 16, seed=1).to(torch.float8_e4m3fn).double() * ROWS.t()
    return (a @ b + 1).bfloat16()


@pytest.mark.parametrize("name", CALLS)
def test_it_is_the_cpus(name: str) -> None:
    tolerance = next((t for start, t in LOOSE.items() if name.startswith(start)), None)
    assert_same(CALLS[name]("npu"), on_cpu(name), tolerance, tolerance)


@pytest.mark.parametrize("name", [name for name in CALLS if name.startswith(("int", "scaled_mm"))])
def test_autocast_rounds_nothing_in_between(name: str) -> None:
    tolerance = next((t for start, t in LOOSE.items() if name.startswith(start)), None)
    with torch.autocast("npu"):
        found = CALLS[name]("npu")
    assert_same(found, on_cpu(name), tolerance, tolerance)


def refusals(x: torch.Tensor) -> dict[str, Callable[[], Any]]:
    d = x.device.type
    one = torch.ones((), device=d)
    f8 = torch.zeros(16, 16, device=d).to(torch.float8_e4m3fn)
    empty = torch.empty(0, device=d)
    i8 = torch.ones(3, 4, dtype=torch.int8, device=d)
    return {
        "nothing": lambda: torch.segment_reduce(x, "sum"),
        "reduce": lambda: torch.segment_reduce(x, "bad", lengths=tensor(d, 2, 4)),
        "lengths' sum": lambda: torch.segment_reduce(x, "sum", lengths=tensor(d, 2, 3)),
        "a negative length": lambda: torch.segment_reduce(x, "sum", lengths=tensor(d, -2, 8)),
        "descending offsets": lambda: torch.segment_reduce(x, "sum", offsets=tensor(d, 0, 4, 2, 6)),
        "lengths' type": lambda: torch.segment_reduce(x, "sum", lengths=tensor(d, 2.0, 4.0)),
        "data's type": lambda: torch.segment_reduce(x.long(), "sum", lengths=tensor(d, 2, 4)),
        "axis": lambda: torch.segment_reduce(x.view(2, 3), "sum", lengths=tensor(d, 2, 1), axis=1),
        "samples' type": lambda: F.fractional_max_pool2d(
            x.view(1, 2, 3), 1, output_size=2, _random_samples=torch.ones(1, 1, 2, device=d).half()
        ),
        "samples' shape": lambda: F.fractional_max_pool2d(
            x.view(1, 2, 3), 1, output_size=2, _random_samples=torch.ones(1, 1, 3, device=d)
        ),
        "driver": lambda: torch.linalg.lstsq(x.view(3, 2), x.view(3, 2), driver="x"),
        "rows": lambda: torch.linalg.lstsq(x.view(3, 2), x.view(2, 3)),
        "lstsq's other, longer": lambda: torch.linalg.lstsq(x.view(3, 2), x.view(1, 3, 2)),
        "lstsq's other, shorter": lambda: torch.linalg.lstsq(x.view(1, 1, 3, 2), x.view(3, 2)),
        "hash_tensor's mode": lambda: torch.hash_tensor(x, mode=1),
        "hash_tensor of complex": lambda: torch.hash_tensor(x + 0j),
        "hash_tensor of uint64": lambda: torch.hash_tensor(x.to(torch.uint64)),
        "hash_tensor of 8 bits": lambda: torch.hash_tensor(x.to(torch.float8_e4m3fn)),
        "lstsq's types": lambda: torch.linalg.lstsq(x.view(3, 2), x.view(3, 2).double()),
        "halves": lambda: torch.linalg.lstsq(x.view(3, 2).half(), x.view(3, 2).half()),
        "square": lambda: torch.linalg.eig(x.view(3, 2)),
        "not finite": lambda: torch.linalg.eig(x.view(3, 2)[:2] * NAN),
        "eig of halves": lambda: torch.linalg.eig(x[:4].view(2, 2).half()),
        "eig of integers": lambda: torch.linalg.eig(x[:4].view(2, 2).long()),
        "eig's output": lambda: torch.linalg.eigvals(x[:4].view(2, 2), out=empty),
        "frexp of integers": lambda: torch.frexp(x.long()),
        "exponent": lambda: torch.frexp(x, out=(empty, empty)),
        "mantissa": lambda: torch.frexp(x, out=(empty.double(), empty.int())),
        "bins": lambda: torch.histogram(x, 0),
        "range": lambda: torch.histogram(x, 3, range=(2.0, 1.0)),
        "range's length": lambda: torch.histogram(x, 3, range=(1.0,)),
        "no finite range": lambda: torch.histogram(x * NAN, 3),
        "bins' type": lambda: torch.histogram(x, x.long()),
        "weights' type": lambda: torch.histogram(x, x, weight=x.double()),
        "weights' shape": lambda: torch.histogram(x, x, weight=x[:3]),
        "edges' dimensions": lambda: torch.histogram(x, x.view(2, 3)),
        "histogram's output": lambda: torch.histogram(x, 3, out=(empty.double(), empty)),
        "histogram of integers": lambda: torch.histogram(x.long(), 3),
        "histogramdd": lambda: torch.histogramdd(x, 3),
        "histogramdd's bins": lambda: torch.histogramdd(x.view(2, 3), [3, 2]),
        "int_mm's sizes": lambda: torch._int_mm(i8, i8),
        "int_mm's type": lambda: torch._int_mm(i8.int(), i8.t()),
        "int8 weights": lambda: torch._weight_int8pack_mm(x[:5].view(1, 5), i8, x[:3]),
        "int8 scales": lambda: torch._weight_int8pack_mm(x[:4].view(1, 4), i8, x[:4]),
        "scales": lambda: torch._scaled_mm(f8, f8, torch.ones(16, device=d), one),
        "no matrix": lambda: torch._scaled_mm(f8[0], f8, one, one),
        "bias": lambda: torch._scaled_mm(f8, f8, one, one, bias=x),
        "target's shape": lambda: F.multilabel_margin_loss(x.view(2, 3), tensor(d, 0, 1, 2)),
        "target's type": lambda: F.multilabel_margin_loss(x.view(1, 6), x.int().view(1, 6)),
        "reduce of a product": lambda: torch.sparse.mm(x.view(2, 3).to_sparse_csr(), x.view(3, 2), "prod"),
        "gamma of integers": lambda: torch._standard_gamma(x.long()),
        "binomial's types": lambda: torch.binomial(x, x.double()),
    }


# Where 2.10 has other words, ours are 2.13's.
NEWER = {
    "int_mm's type": (RuntimeError, "int_mm_out_cpu: Expected self dtype to be int8 or uint8 but got int"),
    "scales": (ValueError, "Invalid scaling configuration."),
}


@pytest.mark.parametrize("name", refusals(torch.zeros(6)))
def test_it_is_refused_in_pytorchs_words_at_the_call(name: str) -> None:
    x = torch.arange(6.0)
    with pytest.raises(Exception) as told:
        refusals(x)[name]()
    with pytest.raises(NEWER[name][0] if OLDER and name in NEWER else told.type) as raised:
        refusals(x.npu())[name]()
    words = NEWER[name][1] if OLDER and name in NEWER else str(told.value).split("\n")[0]
    assert str(raised.value).split("\n")[0] == words
    torch.npu.synchronize()


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        ("out_dtype must match output matrix type", {"out_dtype": torch.float32, "out": torch.float16}),
        ("itensor_view_from_dense expects float/bfloat16/half/int8/fp8 tensor input", {"out_dtype": torch.float64}),
        ("mat1 and mat2 shapes cannot be multiplied (16x16 and 5x16)", {"rows": 5}),
    ],
)
def test_products_of_8_bits_are_refused_as_by_processors_with_amx(words: str, arguments: dict[str, Any]) -> None:
    """PyTorch's CPU asks oneDNN where it has AMX, and takes and says something else where it has not."""
    a, one = torch.zeros(16, 16).to(torch.float8_e4m3fn).npu(), torch.ones(()).npu()
    how = dict(arguments)
    b = a[: how.pop("rows", 16)]
    if "out" in how:
        how["out"] = torch.empty(0, dtype=how["out"]).npu()
    with pytest.raises(RuntimeError, match=re.escape(words)):
        torch._scaled_mm(a, b, one, one, **how)


def test_a_matrix_without_full_rank_is_refused_by_gels() -> None:
    with pytest.raises(torch.linalg.LinAlgError, match="input matrix does not have full rank"):
        torch.linalg.lstsq(torch.ones(4, 3).npu(), torch.ones(4, 2).npu(), driver="gels")
    for values in (NAN, INF):
        with pytest.raises(RuntimeError, match="linalg.svd: The algorithm failed to converge"):
            torch.linalg.lstsq((torch.ones(4, 3) * values).npu(), torch.ones(4, 2).npu())


@pytest.mark.fallback
def test_what_has_no_composition_is_counted_where_there_is_no_processor() -> None:
    torch_npu._C._prefer_compositions(True)
    try:
        for name in LAPACK:
            assert_same(CALLS[name]("npu"), CALLS[name]("cpu"))
        fell = set(torch.npu.fallback_counts())
    finally:
        torch_npu._C._prefer_compositions(False)
    assert fell == {f"aten::linalg_{x}" for x in ("eig", "eigvals", "ldl_factor_ex", "ldl_solve")}


def test_only_what_waits_waits() -> None:
    """A graph's capture refuses whatever waits for the device."""
    x, lengths = torch.arange(6.0).npu(), torch.tensor([2, 4]).npu()
    samples, a = torch.rand(1, 1, 2).npu(), torch.ones(3, 2).npu()
    sparse = torch.eye(3).to_sparse_csr().npu()
    calls = [
        lambda: torch.segment_reduce(x, "prod", lengths=lengths),
        lambda: F.fractional_max_pool2d(x.view(1, 2, 3), 1, output_size=2, _random_samples=samples),
        lambda: torch.frexp(x)[0],
        lambda: torch.histogram(x, 3, range=(0.0, 5.0), density=True).hist,
        lambda: torch._int_mm(x.to(torch.int8).view(2, 3), x.to(torch.int8).view(3, 2)),
        lambda: F.multilabel_margin_loss(x.view(1, 6), torch.zeros_like(x, dtype=torch.long).view(1, 6)),
        lambda: torch.sparse.mm(sparse, a, "amax"),
        lambda: torch.linalg.ldl_factor_ex(torch.eye(2, device="npu"))[0],
        lambda: torch.poisson(x),
        lambda: torch._standard_gamma(x + 1),
    ]
    for call in calls:
        call()
    for call in calls:
        torch.npu.synchronize()
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph):
            result = call()
        graph.replay()
        assert result.isfinite().all()

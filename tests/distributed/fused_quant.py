"""What ranks run for products of quantized operands that hold a collective: torch_npu.npu_all_to_all_quant_matmul etc.

Each rank makes the operands of all ranks and computes the result in float64 on the CPU. Other products: fused.py.
"""

from __future__ import annotations

import torch

import torch_npu
from tests.distributed.fused import counts_of, integers, name_of, to
from tests.distributed.programs import DEVICE
from tests.references.mx import quantized

E4M3 = torch.float8_e4m3fn


def near(what: str, got: torch.Tensor, want: torch.Tensor, dtype: torch.dtype) -> None:
    assert got.dtype == dtype and got.shape == want.shape, what
    torch.testing.assert_close(got.cpu().double(), want, rtol=1e-2, atol=1e-2, msg=lambda m: f"{what}: {m}")


def quantized_rows_and_columns(rank: int, size: int) -> None:
    """int8 weights: rows that are exchanged and then quantized; scaled rows whose columns are exchanged."""
    group = name_of()
    a = [integers(r, 2 * size, 4) for r in range(size)]
    b, column = integers(rank, 4 * size, 5, seed=1), torch.tensor([0.5, 1, 2, 0.25, 1])
    joined = torch.cat([x[2 * rank : 2 * rank + 2] for x in a], 1)
    step = joined.abs().amax(-1, True) / 127
    codes = torch.where(step > 0, joined / step, 0).round().double()
    options = {"x2_scale": column.npu(), "x1_quant_mode": 7, "x2_quant_mode": 2, "x1_quant_dtype": 1}
    for mode in (None, "aiv"):
        out, exchanged = torch_npu.npu_all_to_all_quant_matmul(
            to(a[rank], torch.float16), to(b, torch.int8), group, size, comm_mode=mode, **options
        )
        near("joined rows", out, codes @ b.double() * step * column, torch.float16)
        assert torch.equal(exchanged.cpu().float(), joined)

    a, b = ([integers(r, *s, seed=i) for r in range(size)] for i, s in enumerate([(3, 4), (4, 2 * size)]))
    row, column = torch.tensor([0.5, 2, 1]), torch.arange(1.0, 2 * size + 1)
    columns = slice(2 * rank, 2 * rank + 2)
    want = torch.cat([(p.double() @ q.double() * row[:, None] * column)[:, columns] for p, q in zip(a, b, strict=True)])
    scales = {"x1_scale": row.npu(), "x2_scale": column.npu(), "x1_quant_mode": 3, "x2_quant_mode": 2, "y_dtype": 6}
    for mode in (None, "aiv"):
        out = torch_npu.npu_quant_matmul_all_to_all(
            to(a[rank], torch.int8), to(b[rank], torch.int8), group, size, comm_mode=mode, **scales
        )
        near("split columns", out, want, torch.float32)


def exchanged_mx_operands(rank: int, size: int) -> None:
    """Elements and scales of MX blocks are exchanged together."""
    group = name_of()
    a = [quantized(2 * size, 64, kind=E4M3, seed=r) for r in range(size)]
    b, b_scale, b_values = quantized(5, 64 * size, kind=E4M3, seed=40 + rank)
    joined = torch.cat([values[2 * rank : 2 * rank + 2] for _, _, values in a], 1)
    x1, x1_scale, _ = a[rank]
    options = {"x1_scale": x1_scale.npu(), "x2_scale": b_scale.npu(), "x1_quant_mode": 6, "x2_quant_mode": 6}
    out, _ = torch_npu.npu_all_to_all_quant_matmul(x1.npu(), b.t().npu(), group, size, y_dtype=6, **options)
    near("joined rows", out, joined @ b_values.t(), torch.float32)

    b = [quantized(2 * size, 64, kind=E4M3, seed=60 + r) for r in range(size)]
    columns = slice(2 * rank, 2 * rank + 2)
    want = torch.cat([(p[2] @ q[2].t())[:, columns] for p, q in zip(a, b, strict=True)])
    options["x2_scale"] = b[rank][1].npu()
    out = torch_npu.npu_quant_matmul_all_to_all(x1.npu(), b[rank][0].t().npu(), group, size, y_dtype=6, **options)
    near("split columns", out, want, torch.float32)


def quantized_experts(rank: int, size: int) -> None:
    """npu_alltoallv_quant_gmm of MX operands, and back by npu_quant_gmm_alltoallv with one scale."""
    group, count = name_of(), 2
    sent = counts_of(size, count)
    received = [sent[r][rank * count + e] for r in range(size) for e in range(count)]
    tokens = [quantized(sum(sent[r]), 64, kind=E4M3, seed=r) for r in range(size)]
    weight, weight_scale, weight_values = quantized(count, 64, 5, kind=E4M3, axis=1, seed=90 + rank)
    rows = []
    for e in range(count):
        for r in range(size):
            begin = sum(sent[r][: rank * count + e])
            rows.append(tokens[r][2][begin : begin + sent[r][rank * count + e]])
    sizes = [sum(received[e::count]) for e in range(count)]
    want = torch.cat([p @ w for p, w in zip(torch.cat(rows).split(sizes), weight_values, strict=True)])
    x, scale, _ = tokens[rank]
    for mode in (None, "aiv"):
        out, shared, permuted = torch_npu.npu_alltoallv_quant_gmm(
            x.npu(), weight.npu(), scale.npu(), weight_scale.npu(), group, size, sent[rank], received, 15,
            gmm_x_quant_mode=6, gmm_weight_quant_mode=6, permute_out_flag=True, comm_mode=mode,
        )  # fmt: skip
        near("experts", out, want, torch.bfloat16)
        assert shared is None and permuted.shape == (sum(received), 64) and permuted.dtype == E4M3

    # Each row is multiplied with one: what comes back tells where it was.
    ones = torch.stack([torch.eye(64)] * count).to(E4M3).to(DEVICE)
    half = torch.tensor([0.5]).npu()
    for mode in (None, "aiv"):
        back, _ = torch_npu.npu_quant_gmm_alltoallv(
            permuted, ones, half, half, group, size, received, sent[rank], 15,
            gmm_x_quant_mode=1, gmm_weight_quant_mode=1, comm_mode=mode,
        )  # fmt: skip
        near("back", back, x.double() / 4, torch.bfloat16)

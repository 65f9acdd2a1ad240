"""Kernels in Triton on npu tensors, by triton-ascend's interpreter.

    TRITON_INTERPRET=1 python -m tests.clients.triton_kernels

Not a training program of clients.yaml: tests/clients/test_triton.py starts it. Prints a line of JSON: kernel -> largest
difference from PyTorch's own operator on the same device.
"""

from __future__ import annotations

import json

import torch
import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out + i, tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)


@triton.jit
def softmax(x, out, stride, columns, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * stride + i, mask=i < columns, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * columns + i, powers / tl.sum(powers, axis=0), mask=i < columns)


@triton.jit
def matmul(a, b, out, n, K: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inner = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, K, BLOCK):
        left = tl.load(a + rows[:, None] * K + start + inner[None, :])
        right = tl.load(b + (start + inner)[:, None] * n + columns[None, :])
        total += tl.dot(left, right)
    tl.store(out + rows[:, None] * n + columns[None, :], total)


@triton.jit
def count(x, bins, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(bins + tl.load(x + i, mask=i < n, other=0), 1, mask=i < n)


def difference(a: torch.Tensor, b: torch.Tensor) -> float:
    assert a.device == b.device and a.shape == b.shape
    return (a - b).abs().max().item()


def main() -> dict[str, float]:
    found = {}
    for device, dtype in (("npu:0", torch.float32), ("npu:1", torch.float16), ("npu:0", torch.int32)):
        x, y = (torch.randn(1000, device=device) * 8).to(dtype), (torch.randn(1000, device=device) * 8).to(dtype)
        out = torch.zeros(1004, device=device, dtype=dtype)
        add[(4,)](x, y, out[2:1002], 1000, BLOCK=256)
        found[f"add {device} {dtype}"] = difference(out[2:1002], x + y) + out[:2].abs().sum().item()
    x = torch.randn(5, 40, device="npu")
    out = torch.empty(5, 30, device="npu")
    softmax[(5,)](x, out, x.stride(0), 30, BLOCK=32)
    found["softmax of a view"] = difference(out, x[:, :30].softmax(1))
    a, b = torch.randn(32, 64, device="npu"), torch.randn(64, 48, device="npu")
    out = torch.empty(32, 48, device="npu")
    matmul[(2, 3)](a, b, out, 48, K=64, BLOCK=16)
    found["matmul"] = difference(out, a @ b)
    x = torch.randint(0, 8, (500,), device="npu", dtype=torch.int32)
    bins = torch.zeros(8, device="npu", dtype=torch.int32)
    count[(4,)](x, bins, 500, BLOCK=128)
    found["atomic_add"] = difference(bins, torch.bincount(x.long(), minlength=8).int())
    return found


if __name__ == "__main__":
    torch.manual_seed(0)
    print(json.dumps(main()))

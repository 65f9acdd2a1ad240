"""Sums of windows of rows, with gradients."""

from __future__ import annotations

import pytest
import torch

from tests.opapi.cases import FLOATS, NEAR, compare, rand
from tests.opapi.client import AclError


@pytest.mark.parametrize("dtype", FLOATS)
def test_windows_of_rows_and_their_gradients(npu, dtype):
    """Sequences of 7, 2 and 5 rows, windows of 4 every 2: two, none and one."""
    x, weight = rand(14, 2, 3, dtype=dtype), rand(4, 2, dtype=dtype)
    a, w = x.double().requires_grad_(), weight.double().requires_grad_()
    out = torch.stack([(a[s : s + 4] * w[:, :, None]).sum(0) for s in (0, 2, 9)])
    near = NEAR[dtype]
    sizes = {"compressBlockSize": 4, "compressStride": 2, "actSeqLenType": 0}
    inputs = {"input": x, "weight": weight, "actSeqLenOptional": [7, 9, 14], "layoutOptional": "TND"} | sizes
    compare(npu, "aclnnNsaCompress", inputs, {"output": out.detach().to(dtype)}, **near)
    gradient = rand(3, 2, 3, dtype=dtype, seed=5)
    dx, dw = torch.autograd.grad(out, (a, w), gradient.double())
    backward = {"outputGrad": gradient, "input": x, "weight": weight, "actSeqLenOptionalOptional": [7, 9, 14]} | sizes
    backward["layoutOptionalOptional"] = "TND"
    expected = {"inputGradOut": dx.to(dtype), "weightGradOut": dw.to(dtype)}
    compare(npu, "aclnnNsaCompressGrad", backward, expected, **near)
    for changed, words in (({"actSeqLenOptional": [7, 9]}, "is \\[7, 9\\]"), ({"layoutOptional": "BSND"}, "is not TND"),
                           ({"actSeqLenType": 1}, "actSeqLenType 1 is not implemented")):  # fmt: skip
        with pytest.raises(AclError, match=words):
            compare(npu, "aclnnNsaCompress", inputs | changed, {"output": out.detach().to(dtype)})

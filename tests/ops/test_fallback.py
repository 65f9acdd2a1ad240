"""Operators without an npu kernel: counted, warned of once, right, and forbidden on request."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch

from tests.core.tools import run
from tests.older import OLDER
from tests.ops.compare import check
from tools.codegen import tables
from torch_npu import _C

pytestmark = pytest.mark.fallback

# Operators of our own with a kernel for the CPU alone, whatever else gets one for the npu.
LIBRARY = torch.library.Library("fallback_tests", "DEF")
for name, schema, kernel in (
    ("i0", "(Tensor self) -> Tensor", torch.i0),
    ("i1", "(Tensor self) -> Tensor", torch.special.i1),
    ("i0_", "(Tensor(a!) self) -> Tensor(a!)", torch.Tensor.i0_),
    ("i0.out", "(Tensor self, *, Tensor(a!) out) -> Tensor(a!)", torch.i0),
    ("drawn", "(Tensor self, *, Generator? generator=None) -> Tensor", torch.poisson),
):
    LIBRARY.define(name + schema)
    LIBRARY.impl(name, kernel, "CPU")
OPS = torch.ops.fallback_tests


def falls_back(name: str) -> bool:
    """A kernel for the CPU, none of the npu's, and none that PyTorch composes."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    keys = ("PrivateUse1", *(f"Composite{kind}Autograd" for kind in ("Implicit", "Explicit")))
    keys += ("CompositeExplicitAutogradNonFunctional",)
    return has(name, "CPU") and not any(has(name, key) for key in keys)


def test_the_list_is_the_dispatchers() -> None:
    table = tables.load(Path(__file__).resolve().parents[2] / "ops" / "fallbacks.yaml")
    listed = [name for names in table.values() for name in names]
    assert len(listed) == len(set(listed))
    names = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
    if OLDER:  # some of them came later
        listed = [name for name in listed if f"aten::{name}" in names]
    assert set(listed) == {name.removeprefix("aten::") for name in names if falls_back(name)}


@pytest.mark.filterwarnings("error")
def test_what_the_list_calls_refused_is_refused() -> None:
    """With a remedy, without a warning that it runs on the CPU, and uncounted."""
    x = torch.ones(2).npu()
    torch.npu.reset_fallback_counts()
    with pytest.raises(NotImplementedError, match="^npu: aten::to_mkldnn: the layout mkldnn is the CPU's alone"):
        x.to_mkldnn()
    for call in (
        lambda: torch.quantize_per_tensor(x, 0.1, 0, torch.quint8),
        lambda: torch.quantize_per_channel(x, torch.ones(2).npu(), torch.zeros(2).npu(), 0, torch.quint8),
        lambda: torch.empty(2, dtype=torch.quint8, device="npu"),
        lambda: torch.ops.npu.npu_dtype_cast(x, torch.quint8),
    ):
        with pytest.raises(NotImplementedError, match="quantized tensors do not exist on the npu; quantize on the CPU"):
            call()
    assert torch.npu.fallback_counts() == {}


def test_what_is_not_quantized_dequantizes_to_itself() -> None:
    assert torch.ones(2).npu().dequantize().dtype == torch.float32


def test_it_is_counted_and_right() -> None:
    check(OPS.i0.default, torch.rand(4) + 1)
    check(OPS.i1, torch.rand(4) + 1)
    counts = torch.npu.fallback_counts()
    assert counts["fallback_tests::i0"] == 1 and counts["fallback_tests::i1"] == 1


def test_it_warns_once_an_operator() -> None:
    x = torch.rand(3).npu()
    _C._reset_fallback_counts()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        torch._masked_softmax(x, torch.zeros(3, dtype=torch.bool, device="npu"), 0, 2)
        torch._masked_softmax(x, torch.zeros(3, dtype=torch.bool, device="npu"), 0, 2)
    assert len([w for w in seen if "_masked_softmax" in str(w.message)]) == 1


def test_it_can_be_forbidden() -> None:
    text = """
        import torch
        library = torch.library.Library("fallback_tests", "DEF")
        library.define("i0(Tensor self) -> Tensor")
        library.impl("i0", torch.i0, "CPU")
        try:
            torch.ops.fallback_tests.i0(torch.rand(3).npu())
        except NotImplementedError as error:
            print(error)
    """
    assert "fallback_tests::i0" in run(text, imports=True, TORCH_NPU_FALLBACK_CPU_DISABLE="1").stdout
    done = run(text, check=False, imports=True, TORCH_NPU_FALLBACK_CPU_DISABLE="yes")
    assert "TORCH_NPU_FALLBACK_CPU_DISABLE=yes is not valid: it must be 0 or 1" in done.stderr


def test_the_switch_is_read_once() -> None:
    text = """
        import os, torch
        x = torch.ones(3).npu()
        library = torch.library.Library("fallback_tests", "DEF")
        library.define("i0(Tensor self) -> Tensor")
        library.impl("i0", torch.i0, "CPU")
        i0 = torch.ops.fallback_tests.i0
        i0(x)
        os.environ["TORCH_NPU_FALLBACK_CPU_DISABLE"] = "1"
        print(torch.equal(i0(x).cpu(), i0(x.cpu())), torch.npu.fallback_counts())
    """
    done = run(text, imports=True, TORCH_NPU_FALLBACK_CPU_DISABLE=None)
    assert done.stdout.strip() == "True {'fallback_tests::i0': 2}"


def test_written_arguments_are_copied_back() -> None:
    check(OPS.i0_, torch.rand(3) + 1)
    check(lambda x, out: OPS.i0(x, out=out), torch.rand(3) + 1, torch.empty(0))
    check(lambda x, out: OPS.i0(x, out=out), (torch.rand(4, 3) + 1).t(), torch.empty(3, 4))


def test_a_view_that_is_written() -> None:
    def write(x: torch.Tensor) -> torch.Tensor:
        OPS.i0_(x[1:].t())
        return x

    check(write, torch.rand(3, 2) + 1)


def test_lists_and_optional_tensors() -> None:
    check(torch.linalg.multi_dot, [torch.rand(2, 3), torch.rand(3, 4), torch.rand(4, 2)])
    check(lambda a, b: torch._foreach_add([a, b], [b, a]), torch.arange(3), torch.arange(3))
    check(torch.histogram, torch.rand(10), 4)


def test_results_with_several_tensors() -> None:
    check(torch.mode, torch.tensor([[1, 1, 2], [3, 4, 4]]))
    values, places = torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64)
    check(lambda x, *out: torch.mode(x, 1, out=out), torch.tensor([[1, 1, 2], [3, 4, 4]]), values, places)
    check(torch.linalg.ldl_factor, torch.eye(3) * 2)


def test_a_random_operator_obeys_the_seed() -> None:
    rate = torch.full((100,), 4.0).npu()
    torch.manual_seed(5)
    a = OPS.drawn(rate)
    torch.manual_seed(5)
    assert torch.equal(a, OPS.drawn(rate)) and not torch.equal(a, OPS.drawn(rate))


def test_a_generator_of_another_device_is_refused() -> None:
    with pytest.raises(RuntimeError, match="Expected a 'npu' device type for generator but found 'cpu'"):
        OPS.drawn(torch.ones(3).npu(), generator=torch.Generator())


def test_autograd_through_a_fallback() -> None:
    x = (torch.rand(3) + 1).requires_grad_()
    y = x.detach().npu().requires_grad_()
    for leaf in (x, y):
        none = torch.zeros(3, dtype=torch.bool, device=leaf.device)
        torch._masked_softmax(leaf, none, 0, 2).square().sum().backward()
    torch.testing.assert_close(y.grad.cpu(), x.grad)
    assert torch.npu.fallback_counts() == {"aten::_masked_softmax": 1, "aten::_masked_softmax_backward": 1}


def solvable(*sizes: int, dtype: torch.dtype = torch.complex64) -> torch.Tensor:
    torch.manual_seed(1)
    return torch.randn(*sizes, dtype=dtype) + 3 * torch.eye(sizes[-1], dtype=dtype)


COMPLEX = {
    "cholesky": lambda a: torch.linalg.cholesky(a @ a.mH),
    "qr": lambda a: torch.linalg.qr(a)[1].abs(),
    "lu": lambda a: torch.linalg.lu(a)[2],
    "lu_factor": lambda a: torch.linalg.lu_factor(a)[0],
    "solve": lambda a: torch.linalg.solve(a, a.mH @ a),
    "solve_triangular": lambda a: torch.linalg.solve_triangular(a.mH, a, upper=True),
    "inv": torch.linalg.inv,
    "eigh": lambda a: torch.linalg.eigh(a + a.mH)[0],
}


@pytest.mark.parametrize("name", COMPLEX)
def test_gradients_of_complex_operators(name: str) -> None:
    grads = []
    for device in ("cpu", "npu"):
        a = solvable(3, 3).to(device).requires_grad_()
        result = COMPLEX[name](a)
        weights = torch.arange(1, 1 + result.numel()).reshape(result.shape)
        result.backward(weights.to(result))
        grads.append(a.grad.cpu())
    torch.testing.assert_close(grads[1], grads[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("meaning", ["conjugated", "negated", "both", "strided conjugation"])
def test_lazy_conjugation_and_negation_come_along(meaning: str) -> None:
    a = solvable(3, 3)
    lazy = {
        "conjugated": lambda x: x.conj(),
        "negated": lambda x: torch._neg_view(x),
        "both": lambda x: torch._neg_view(x).conj(),
        "strided conjugation": lambda x: torch.cat([x, x], 1)[:, ::2].conj(),
    }[meaning]
    for call in (
        lambda x: torch.linalg.solve_triangular(x, torch.eye(3, dtype=x.dtype, device=x.device), upper=True),
        lambda x: torch.linalg.inv(x),
        lambda x: torch.linalg.solve(x, x),
    ):
        got, want = call(lazy(a.npu())), call(lazy(a))
        torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-4)


def test_a_lazily_conjugated_output_is_written() -> None:
    a, out = solvable(3, 3), torch.zeros(3, 3, dtype=torch.complex64)
    for device in ("cpu", "npu"):
        memory = out.to(device, copy=True)
        torch.linalg.solve_triangular(a.to(device), a.to(device), upper=True, out=memory.conj())
        if device == "cpu":
            expected = memory
    torch.testing.assert_close(memory.cpu(), expected)


def test_the_order_of_dimensions_is_kept() -> None:
    x = torch.rand(4, 6, 5)
    for view in (lambda t: t.permute(2, 0, 1)[..., ::2], lambda t: t[:1].expand(4, 6, 5), lambda t: t.transpose(0, 2)):
        got, want = OPS.i0.default(view(x.npu())), OPS.i0.default(view(x))
        torch.testing.assert_close(got.cpu(), want, check_stride=True)


@pytest.mark.parametrize("gap", ["columns", "rows", "permuted"])
def test_gradients_of_kernels_that_look_at_strides(gap: str) -> None:
    """PyTorch's backward of det reads a matrix or its transpose, by whether the kernel saw a contiguous one."""
    torch.manual_seed(0)
    values = torch.randn(2, 1, 4, 4, dtype=torch.float64)
    lay = {
        "columns": lambda t: t.repeat_interleave(2, -1)[..., ::2],
        "rows": lambda t: torch.cat([t, t], -1)[..., :4],
        "permuted": lambda t: t.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0),
    }[gap]
    tau = torch.rand(2, 1, 4, dtype=torch.float64)
    for call in (torch.linalg.det, torch.logdet, lambda t: torch.linalg.householder_product(t, tau.to(t.device))):
        gradients = []
        for device in ("cpu", "npu"):
            x = lay(values.to(device)).requires_grad_()
            result = call(x).nan_to_num()
            weights = torch.linspace(1, 2, result.numel(), dtype=torch.float64).view(result.shape)
            gradients.append(torch.autograd.grad(result, x, weights.to(device))[0].cpu())
        torch.testing.assert_close(gradients[1], gradients[0])


def test_outputs_that_are_not_contiguous() -> None:
    """ATen's lu_unpack writes past the end of an output whose batches do not lie one after another."""
    lu, pivots = torch.rand(2, 3, 4, 4), torch.ones(2, 3, 4, dtype=torch.int32)
    want = torch.lu_unpack(lu, pivots)
    outs = [torch.zeros(4, 4, 3, 2, device="npu").permute(3, 2, 1, 0) for _ in want]
    torch.lu_unpack(lu.npu(), pivots.npu(), out=tuple(outs))
    for got, expected in zip(outs, want, strict=True):
        assert got.stride() == (1, 2, 6, 24)
        torch.testing.assert_close(got.cpu(), expected)


def test_an_output_that_shares_memory_with_an_input() -> None:
    x = torch.arange(1.0, 10.0, device="npu")
    for call in (torch.nextafter, torch.hypot, torch.ldexp, lambda a, b, out: torch.special.i0e(a, out=out)):
        with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor"):
            call(x[:8], x[1:], out=x[1:])
            torch.npu.synchronize()
    assert torch.equal(x.cpu(), torch.arange(1.0, 10.0))
    apart = torch.arange(1.0, 10.0, device="npu")
    torch.hypot(apart[:3], apart[3:6], out=apart[6:])
    torch.testing.assert_close(apart.cpu(), torch.tensor([1, 2, 3, 4, 5, 6, 17**0.5, 29**0.5, 45**0.5]))

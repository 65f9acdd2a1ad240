"""torch_npu.npu_* as names: there without a device, with docstrings, refused on the CPU, traceable."""

from __future__ import annotations

import pytest
import torch
import torch.autograd.forward_ad as fw

import torch_npu
from tests.core import tools


def test_names_are_the_operators():
    from torch_npu import npu_fusion_attention, npu_rms_norm, npu_rotary_mul, npu_swiglu

    assert npu_swiglu is torch.ops.npu.npu_swiglu
    assert {"npu_fusion_attention", "npu_rotary_mul"} <= set(dir(torch_npu))
    for operator in (npu_fusion_attention, npu_rms_norm, npu_rotary_mul, npu_swiglu):
        assert "gradient" in operator.__doc__ and operator.__name__ in operator.__doc__
    with pytest.raises(AttributeError, match="no attribute 'npu_nothing'"):
        torch_npu.npu_nothing  # noqa: B018


def test_importing_makes_no_operator_and_names_need_no_device():
    code = (
        "import sys, torch, torch_npu; assert 'torch_npu._operator_docs' not in sys.modules;"
        "from torch_npu import npu_swiglu; assert not torch.npu.is_initialized()"
    )
    tools.run(code)


def test_cpu_tensors_are_refused_by_name():
    with pytest.raises(NotImplementedError, match=r"npu_swiglu runs on the npu only.*\.npu\(\)"):
        torch_npu.npu_swiglu(torch.randn(4))


def test_second_derivatives_are_refused():
    x = torch.randn(4, 8).npu().requires_grad_()
    (g,) = torch.autograd.grad(torch_npu.npu_swiglu(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="derivative for npu::npu_swiglu_backward is not implemented"):
        g.sum().backward()


def normed(x):
    return torch_npu.npu_rms_norm(x, torch.ones(4).npu())[0]


def attended(x):
    return torch_npu.npu_fusion_attention(x, x, x, 2, "BNSD")[0]


def grouped(x):
    return torch_npu.npu_dynamic_quant(x)[1]


@pytest.mark.parametrize("records", [False, True])
@pytest.mark.parametrize("function, size, name", [
    (torch_npu.npu_swiglu, (4,), "npu_swiglu"), (normed, (2, 4), "npu_rms_norm"),
    (attended, (1, 2, 3, 4), "npu_fusion_attention"), (grouped, (2, 4), "npu_dynamic_quant"),
])  # fmt: skip
def test_forward_mode_is_refused(function, size, name, records):
    """Not zero, which a result without tangent would say; also where no gradient is recorded."""
    x, tangent = torch.randn(size).npu().requires_grad_(records), torch.randn(size).npu()
    with fw.dual_level(), pytest.raises(NotImplementedError, match=rf"forward AD with (npu::)?{name}"):
        function(fw.make_dual(x, tangent))
    with fw.dual_level(), torch.no_grad(), pytest.raises(NotImplementedError, match=name):
        function(fw.make_dual(x, tangent))


def test_forward_mode_of_functions_is_refused():
    x = torch.ones(4).npu()
    with pytest.raises(NotImplementedError, match="forward AD with npu_swiglu.*jacrev"):
        torch.func.jacfwd(torch_npu.npu_swiglu)(x)
    with pytest.raises(NotImplementedError, match="forward AD with npu_swiglu"):
        torch.func.jvp(torch_npu.npu_swiglu, (x,), (x,))
    assert torch.func.jacrev(torch_npu.npu_swiglu)(x).count_nonzero().item() > 0


def test_a_tangent_of_any_operand_is_refused():
    """Of one that is given by its name, too, and of a list."""
    x, gamma = torch.randn(2, 4).npu(), torch.ones(4).npu()
    with fw.dual_level(), pytest.raises(NotImplementedError, match="forward AD with npu_rms_norm"):
        torch_npu.npu_rms_norm(x, fw.make_dual(gamma, gamma))
    q = torch.randn(1, 2, 3, 4).npu()
    with fw.dual_level(), pytest.raises(NotImplementedError, match="forward AD with npu_fusion_attention"):
        torch_npu.npu_fusion_attention(q, q, q, 2, "BNSD", sink=fw.make_dual(gamma[:2], gamma[:2]))


def test_compiled_functions_equal_eager_ones():
    def f(x, gamma, cos, sin):
        y = torch_npu.npu_rotary_mul(torch_npu.npu_rms_norm(x, gamma)[0], cos, sin)
        out = torch_npu.npu_fusion_attention(y, y, y, 2, "BNSD", scale=0.5)[0]
        return torch_npu.npu_swiglu(out).sum()

    args = [
        t.npu().requires_grad_()
        for t in (torch.randn(2, 2, 3, 8), torch.randn(8), torch.randn(1, 1, 3, 8), torch.randn(1, 1, 3, 8))
    ]
    expected = torch.autograd.grad(f(*args), args)
    got = torch.autograd.grad(torch.compile(f, backend="aot_eager", fullgraph=True)(*args), args)
    for g, e in zip(got, expected, strict=True):
        torch.testing.assert_close(g, e)

"""Judges that need operands and no formula, over the sample calls of samples.yaml: torch.library.opcheck, compiled
calls against eager ones, gradients against differences of values and in 16 bits against 32. The judge by a formula is
in the files of the families; the vendor's plugin on the same samples is in tests/conformance/test_kernels.py.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tests.conftest import ROOT
from tests.npu_ops import samples
from tools.codegen import tables

TABLE = samples.load()
FIRST = [f"{name} 0" for name in TABLE]
# Calls that opcheck takes beside an operator's first: other arguments decide how they are traced.
MORE = ["npu_chunk_gated_delta_rule 5", "npu_lightning_indexer 4", "npu_quant_matmul 5"]
MORE += ["npu_moe_token_permute_with_routing_map 5", "npu_recurrent_gated_delta_rule 4", "npu_top_k_top_p_sample 5"]
CHECKS = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
# Of a wide gradient: what rounding the operands and each layer's results to 16 bits may move.
HALF = {torch.float16: 1e-2, torch.bfloat16: 8e-2}


@functools.cache
def known(judge: str) -> dict[str, str]:
    """Sample, or operator for all of its samples, of judged.yaml → what the failure says."""
    table = tables.load(ROOT / "tests/npu_ops/judged.yaml")[judge]
    return {name: row["says"] for row in table.values() for name in row["of"]}


def refusal(judge: str, sample: str) -> str | None:
    return known(judge).get(sample, known(judge).get(sample.partition(" ")[0]))


def unwritten(sample: str) -> bool:
    return sample in tables.load(ROOT / "tests/npu_ops/judged.yaml")["unwritten"]


@contextlib.contextmanager
def judged(judge: str, sample: str) -> Iterator[None]:
    """What is in judged.yaml has to fail, and for the reason that it has there; an entry that does not is stale."""
    says = refusal(judge, sample)
    if says is None:
        yield
        return
    try:
        yield
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        assert re.search(says, text), f"judged.yaml, {judge}: {sample} fails with {text!r}, which does not say {says!r}"
    else:
        pytest.fail(f"judged.yaml, {judge}: {sample} is stale, it does not fail any more; take it out")


@functools.cache
def differentiable() -> list[str]:
    """The first sample of each operator that has a gradient: by its row, or by those it is composed of."""
    rows = {row["func"].partition("(")[0]: row for row in tables.load(ROOT / "ops" / "npu.yaml")}
    return [f"{name} 0" for name in TABLE if "grad" in rows[name] or "composite" in rows[name]]


@functools.cache
def without_gradient() -> dict[str, list[str]]:
    """Of each operator the operands of which a call that asks for a gradient is refused."""
    rows = {row["func"].partition("(")[0]: row.get("grad", {}) for row in tables.load(ROOT / "ops" / "npu.yaml")}
    return {name: [operand for operand, rule in grad.items() if rule == "refused"] for name, grad in rows.items()}


def prepared(sample: str, change: Any = lambda t: t) -> tuple[Any, dict[str, Any]]:
    name, _, index = sample.partition(" ")
    overload = samples.operator(name)
    return overload, samples.each(samples.operands(name, int(index), overload._schema), lambda t: change(t).npu())


def test_every_operator_has_a_sample_or_a_reason() -> None:
    names = {row["func"].partition("(")[0] for row in tables.load(ROOT / "ops" / "npu.yaml")}
    without = set(samples.reasons())
    assert names - set(TABLE) - without == set(), "neither a row of samples.yaml nor a reason in without_sample.yaml"
    assert without & set(TABLE) == set() and (without | set(TABLE)) - names == set()


def test_what_is_not_judged_is_a_sample() -> None:
    names = set(TABLE) | {f"{name} {i}" for name, rows in TABLE.items() for i in range(len(rows))}
    judges = tables.load(ROOT / "tests/npu_ops/judged.yaml")
    unknown = {judge: set(known(judge)) - names for judge in judges if judge != "unwritten"}
    assert unknown == {judge: set() for judge in unknown} and set(judges.get("unwritten")) <= names


def promised(results: Any) -> list[Any]:
    """What the meta kernel says of results: of tensors sizes, types and strides."""
    leaves = torch.utils._pytree.tree_leaves(results)
    return [(t.shape, t.dtype, t.stride()) if isinstance(t, torch.Tensor) else type(t) for t in leaves]


@pytest.mark.parametrize("name", TABLE)
def test_results_are_what_meta_promises(name: str) -> None:
    for index in range(len(TABLE[name])):
        sample = f"{name} {index}"
        overload, given = prepared(sample)
        sketched = samples.each(given, lambda t: t.to("meta"))
        results = overload(**given)
        with judged("meta", sample):
            assert promised(results) == promised(overload(**sketched)), sample
    torch.npu.synchronize()


@pytest.mark.full
@pytest.mark.parametrize("sample", FIRST + MORE)
def test_opcheck(sample: str) -> None:
    """Operands of which a gradient is judged require one, so that the trace of it is checked, too."""
    overload, given = prepared(sample)
    first = sample.partition(" ")[0] + " 0"
    if first in differentiable() and not refusal("gradcheck", first) and not refusal("traced gradient", first):
        given = samples.each(given, lambda t: t.requires_grad_(t.is_floating_point() and t.dtype.itemsize > 1))
        constant = [n for n in without_gradient()[sample.partition(" ")[0]] if given.get(n) is not None]
        given |= {n: given[n].detach() for n in constant}
    # Values that nothing has written are compared with none.
    checks = CHECKS[:2] if unwritten(sample) else CHECKS
    with judged("opcheck", sample):
        torch.library.opcheck(overload, (), given, test_utils=checks)


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(known("traced gradient")))
def test_what_no_gradient_is_traced_of(name: str) -> None:
    overload, given = prepared(f"{name} 0")
    given = samples.each(given, lambda t: t.requires_grad_(t.is_floating_point() and t.dtype.itemsize > 1))
    with judged("traced gradient", f"{name} 0"):
        torch.library.opcheck(overload, (), given, test_utils=CHECKS)


def same(a: Any, b: Any) -> bool:
    if not isinstance(a, torch.Tensor):
        return a == b
    return promised(a) == promised(b) and bool(((a == b) | ((a != a) & (b != b))).all())


@pytest.mark.full
@pytest.mark.parametrize("sample", FIRST)
def test_compiled_calls_equal_eager_ones(sample: str) -> None:
    torch._dynamo.reset()
    overload, given = prepared(sample)
    _, also = prepared(sample)

    def function(given: dict[str, Any]) -> Any:
        return overload(**given)

    torch.npu.manual_seed(3)
    expected = function(given)
    torch.npu.manual_seed(3)
    with judged("compile", sample):
        got = torch.compile(function, backend="aot_eager", fullgraph=True)(also)
        if unwritten(sample):
            assert promised(got) == promised(expected)
            return
        pairs = zip(*(torch.utils._pytree.tree_leaves(v) for v in ((got, also), (expected, given))), strict=True)
        assert [i for i, (a, b) in enumerate(pairs) if not same(a, b)] == []


class Function:
    """An operator as a function of its floating-point operands alone, its results those that have a gradient."""

    def __init__(self, sample: str, dtype: torch.dtype) -> None:
        self.overload, given = prepared(sample, lambda t: t.to(dtype) if t.is_floating_point() else t)
        self.leaves, self.tree = torch.utils._pytree.tree_flatten(given)
        constant = [given.get(n) for n in without_gradient()[sample.partition(" ")[0]]]
        asked = [not any(t is c for c in constant) for t in self.leaves]
        tensors = enumerate(self.leaves)
        self.places = [i for i, t in tensors if isinstance(t, torch.Tensor) and t.dtype == dtype and asked[i]]

    @property
    def operands(self) -> list[torch.Tensor]:
        return [self.leaves[i].detach().clone().requires_grad_() for i in self.places]

    def __call__(self, *operands: torch.Tensor) -> tuple[torch.Tensor, ...]:
        leaves = list(self.leaves)
        for i, t in zip(self.places, operands, strict=True):
            leaves[i] = t
        torch.npu.manual_seed(3)
        results = self.overload(**torch.utils._pytree.tree_unflatten(leaves, self.tree))
        return tuple(
            r for r in torch.utils._pytree.tree_leaves(results) if isinstance(r, torch.Tensor) and r.requires_grad
        )

    def gradients(self) -> list[torch.Tensor | None]:
        """Of all results, weighed by numbers that are the same in each precision."""
        operands = self.operands
        results = self(*operands)
        generator = torch.Generator().manual_seed(5)
        weights = [torch.randn(r.shape, generator=generator).to(r.dtype).npu() for r in results]
        return list(torch.autograd.grad(results, operands, weights, allow_unused=True))


@pytest.mark.full
@pytest.mark.parametrize("sample", differentiable())
def test_gradients_are_differences_of_values(sample: str) -> None:
    """In fp64; of an operator that judged.yaml says refuses it in fp32, where steps are large, and what they leave
    decides how exact it can be.
    """
    dtype = torch.float32 if refusal("float64", sample) else torch.float64
    if dtype == torch.float32:
        with judged("float64", sample):
            wide = Function(sample, torch.float64)
            wide(*wide.operands)
    step, limit = (1e-6, 1e-4) if dtype == torch.float64 else (1e-2, 2e-2)
    with judged("gradcheck", sample):
        function = Function(sample, dtype)
        operands = function.operands
        assert operands and function(*operands), "no result has a gradient"
        assert torch.autograd.gradcheck(
            function, operands, eps=step, atol=limit, rtol=limit, nondet_tol=limit, check_undefined_grad=False
        )


@pytest.mark.full
@pytest.mark.parametrize("dtype", HALF, ids=lambda t: str(t)[6:])
@pytest.mark.parametrize("sample", differentiable())
def test_gradients_in_16_bits_are_those_in_32(sample: str, dtype: torch.dtype) -> None:
    with judged("half", sample):
        narrow = Function(sample, dtype)
        wide = Function(sample, torch.float32)
        # The wide function begins with what the narrow one was given.
        for i, j in zip(wide.places, narrow.places, strict=True):
            wide.leaves[i] = narrow.leaves[j].float()
        pairs = list(zip(narrow.gradients(), wide.gradients(), strict=True))
        assert any(got is not None for got, _ in pairs), "no operand has a gradient"
        for got, expected in pairs:
            assert (got is None) == (expected is None)
            if got is not None:
                scale = max(1.0, expected.abs().max().item()) if expected.numel() else 1.0
                far = ((got.float() - expected).abs() / (expected.abs() + scale)).nan_to_num(nan=torch.inf)
                assert far.max().item() <= HALF[dtype] if far.numel() else True, "a gradient is far off"

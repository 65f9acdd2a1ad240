"""The NPU's own operators under autocast: `autocast:` of ops/npu.yaml. Every sample as it would be called with operands
converted by hand, mixed types converted or refused at the call, and a block of a model against float64 on the CPU.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import torch_npu
from tests.npu_ops import samples
from tests.npu_ops.test_samples import prepared, same, unwritten

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools" / "codegen"))
import npu  # noqa: E402
import npu_autocast  # noqa: E402

ROWS = {row.schema.full: row for row in npu.rows()}
TABLE = samples.load()
HALF = [torch.bfloat16, torch.float16]
CONVERTED = (torch.float32, torch.float16, torch.bfloat16)
leaves = torch.utils._pytree.tree_leaves


def rule_of(name: str) -> npu_autocast.Rule | None:
    return npu_autocast.rule(ROWS[name])


def converted(name: str, given: dict[str, Any], half: torch.dtype) -> dict[str, Any]:
    """What the table says of the operands, written again."""
    rule = rule_of(name)
    if rule is None:
        return given
    kind, operands, beside = rule
    types = {t.dtype for key in operands for t in leaves(given.get(key)) if isinstance(t, torch.Tensor)}
    said = [k for k, v in given.items() if k.endswith("dtype") and v is not None]
    if said or not types <= set(CONVERTED):
        return given
    to = torch.float32 if kind == "widest" and torch.float32 in types else half
    to = next(iter(types)) if kind == "widest" and len(types) == 1 else to
    taken = {*operands, *(k for k in beside if given[k].dtype != torch.float32)}
    return {k: samples.each(v, lambda t: t.to(to)) if k in taken else v for k, v in given.items()}


def called(overload: Any, given: dict[str, Any], half: torch.dtype | None) -> Any:
    """The results, or what refuses the call."""
    torch.npu.manual_seed(3)
    try:
        with torch.autocast("npu", dtype=half or torch.float16, enabled=half is not None):
            results = overload(**given)
    except NotImplementedError as error:
        return [str(error)]
    torch.npu.synchronize()
    return leaves(results)


@pytest.mark.parametrize("half", HALF, ids=str)
def test_every_sample_is_the_call_with_converted_operands(half: torch.dtype) -> None:
    """Bit for bit; compositions follow PyTorch's own lists inside and are only run."""
    wrong, refused = [], []
    for name, rows in TABLE.items():
        for index in range(len(rows)):
            sample = f"{name} {index}"
            overload, given = prepared(sample)
            results = called(overload, given, half)
            if unwritten(sample) or (ROWS[name].composite and rule_of(name) is None):
                continue
            _, again = prepared(sample)
            expected = called(overload, converted(name, again, half), None)
            if len(results) != len(expected) or not all(map(same, results, expected)):
                wrong.append(sample)
            if any(isinstance(r, str) for r in results):
                refused.append(sample)
    assert wrong == []
    assert refused == []


def mixed(given: dict[str, Any], odd: str, alone: torch.dtype, others: torch.dtype) -> dict[str, Any]:
    to = {key: alone if key == odd else others for key in given}
    return {k: samples.each(v, lambda t, k=k: t.to(to[k]) if t.dtype in CONVERTED else t) for k, v in given.items()}


def test_mixed_types_are_converted_or_refused_at_the_call() -> None:
    """One operand of float32 among those of bfloat16, and the other way round, each of each operator in turn."""
    late, nameless, refused = [], [], []
    half = torch.bfloat16
    for name in TABLE:
        overload, given = prepared(f"{name} 0")
        floating = [
            key
            for key, value in given.items()
            if any(isinstance(t, torch.Tensor) and t.dtype in CONVERTED for t in leaves(value))
        ]
        given = {key: value for key, value in given.items() if not key.endswith("dtype")}
        kind, named, _ = rule_of(name) or ("", [], [])
        pairs = [(odd, *types) for odd in floating for types in ((torch.float32, half), (half, torch.float32))]
        for odd, *types in pairs if len(floating) > 1 else []:
            try:
                with torch.autocast("npu", dtype=half):
                    overload(**mixed(given, odd, *types))
            except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
                if name.partition(".")[0].strip("_") not in str(error):
                    nameless.append(f"{name} {odd}: {error}")
                if kind == "lower" and odd in named:
                    refused.append(f"{name} {odd}: {error}")
                continue
            try:
                torch.npu.synchronize()
            except RuntimeError as error:
                late.append(f"{name} {odd}: {error}")
    assert (late, nameless, refused) == ([], [], [])


def test_every_mixture_of_types_is_taken_where_there_is_a_rule() -> None:
    """Of all floating operands of each such operator, named or not: what must have one type is converted together."""
    refused = []
    for name in filter(rule_of, TABLE):
        overload, given = prepared(f"{name} 0")
        given = {key: value for key, value in given.items() if not key.endswith("dtype")}
        floating = [
            k for k, v in given.items() if {t.dtype for t in leaves(v) if isinstance(t, torch.Tensor)} & {*CONVERTED}
        ]
        if not {t.dtype for k in rule_of(name).names for t in leaves(given.get(k)) if isinstance(t, torch.Tensor)} <= {
            *CONVERTED
        }:
            continue
        every = list(itertools.product(CONVERTED, repeat=len(floating))) if len(floating) < 5 else []
        every = every or [
            [a if k == odd else b for k in floating]
            for odd in floating
            for a, b in itertools.permutations(CONVERTED, 2)
        ]
        for types in every:
            to = dict(zip(floating, types, strict=True))
            cast = {
                k: samples.each(v, lambda t, to=to[k]: t.to(to) if t.dtype in CONVERTED else t) if k in to else v
                for k, v in given.items()
            }
            try:
                with torch.autocast("npu", dtype=torch.bfloat16):
                    overload(**cast)
                torch.npu.synchronize()
            except (RuntimeError, ValueError, TypeError) as error:
                refused.append(f"{name} {to}: {error}")
    assert refused == []


def test_what_is_not_converted() -> None:
    """Quantized operands, float64, and every call outside of autocast; help() says which operands are converted."""
    x, w = torch.randn(2, 4, 16).npu(), torch.randn(2, 4, 16).npu()
    attention = lambda q, k: torch_npu.npu_fusion_attention(q, k, k, 2, "BSH")[0]
    with torch.autocast("npu", dtype=torch.bfloat16):
        assert attention(x, w).dtype == torch.bfloat16
        assert attention(x.half(), w).dtype == torch.bfloat16
        assert attention(x.double(), w.double()).dtype == torch.float64
        with pytest.raises(
            RuntimeError, match="have the types torch.float64, torch.float32 and torch.float32; they must be the same"
        ):
            attention(x.double(), w)
        with torch.autocast("npu", enabled=False):
            assert attention(x, w).dtype == torch.float32
    assert attention(x, w).dtype == torch.float32
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert attention(x, w).dtype == torch.float32
    told = " ".join(torch_npu.npu_fusion_attention.__doc__.split())
    assert "Under autocast query, key, value and pse, as given, are converted to its type" in told
    told = " ".join(torch_npu.npu_add_rms_norm.__doc__.split())
    assert "Under autocast x1 and x2, as given, are converted to one type where they differ" in told
    assert "Then gamma is converted to that type, if not float32." in told
    x, gamma = torch.randn(2, 8).npu().bfloat16(), torch.ones(8).npu()
    with torch.autocast("npu", dtype=torch.bfloat16):
        assert torch_npu.npu_add_rms_norm(x, x, gamma)[0].dtype == torch.bfloat16


class Grouped(torch.autograd.Function):
    """A product without a derivative, and a program's backward for it, which meets what forward was given."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(w, ends)
        return torch_npu.npu_grouped_matmul([x], [w], group_list=ends, split_item=3, group_type=0)[0]

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple:
        w, ends = ctx.saved_tensors
        turned = w.transpose(1, 2)
        return (
            torch_npu.npu_grouped_matmul([gradient], [turned], group_list=ends, split_item=3, group_type=0)[0],
            None,
            None,
        )


@pytest.mark.parametrize("half", HALF)
def test_an_operator_without_a_derivative_is_left_alone(half: torch.dtype) -> None:
    x, w, ends = torch.randn(4, 8).npu().requires_grad_(), torch.randn(2, 8, 3).npu(), torch.tensor([1, 4]).npu()
    with torch.autocast("npu", dtype=half):
        out = Grouped.apply(x, w, ends)
        out.sum().backward()
    assert out.dtype == torch.float32
    rows = [w[0].sum(1), *[w[1].sum(1)] * 3]
    torch.testing.assert_close(x.grad, torch.stack(rows))


SIZES = {"batch": 2, "steps": 6, "heads": 2, "width": 16}


class Block(torch.nn.Module):
    """A layer as LLaMA has it, with normalized keys that stay float32, by functions that it is given."""

    def __init__(self, operators: Any) -> None:
        super().__init__()
        self.operators, wide = operators, SIZES["heads"] * SIZES["width"]
        self.qkv, self.out = torch.nn.Linear(wide, 3 * wide, bias=False), torch.nn.Linear(wide, wide, bias=False)
        self.up, self.down = torch.nn.Linear(wide, 4 * wide, bias=False), torch.nn.Linear(2 * wide, wide, bias=False)
        self.first, self.second = (torch.nn.Parameter(torch.ones(wide)) for _ in range(2))
        self.of_keys = torch.nn.Parameter(torch.ones(SIZES["width"]))

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        norm, turn, attend, gate = self.operators
        shape = (SIZES["batch"], SIZES["steps"], SIZES["heads"], SIZES["width"])
        q, k, v = (t.reshape(shape) for t in self.qkv(norm(x, self.first)).chunk(3, -1))
        k = norm(k.to(x.dtype), self.of_keys)
        x = x + self.out(attend(turn(q, cos, sin), turn(k, cos, sin), v).reshape(x.shape))
        return x + self.down(gate(self.up(norm(x, self.second))))


def ours() -> tuple[Any, ...]:
    mask = torch.ones(SIZES["steps"], SIZES["steps"], dtype=torch.bool).triu(1).npu()
    scale = SIZES["width"] ** -0.5
    return (
        lambda x, g: torch_npu.npu_rms_norm(x, g, 1e-6)[0],
        torch_npu.npu_rotary_mul,
        lambda q, k, v: torch_npu.npu_fusion_attention(q, k, v, SIZES["heads"], "BSND", atten_mask=mask, scale=scale)[
            0
        ],
        torch_npu.npu_swiglu,
    )


def theirs() -> tuple[Any, ...]:
    def turn(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat((-b, a), -1) * sin

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores = torch.einsum("bsnd,btnd->bnst", q, k) * SIZES["width"] ** -0.5
        hidden = torch.ones(SIZES["steps"], SIZES["steps"], dtype=torch.bool).triu(1)
        return torch.einsum("bnst,btnd->bsnd", scores.masked_fill(hidden, -torch.inf).softmax(-1), v)

    def gate(x: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, -1)
        return torch.nn.functional.silu(a) * b

    return lambda x, g: x * (x.square().mean(-1, True) + 1e-6).rsqrt() * g, turn, attend, gate


def trained(block: Block, device: str, half: torch.dtype | None, scaler: Any = None) -> tuple[list[float], list[Any]]:
    wide, generator = SIZES["heads"] * SIZES["width"], torch.Generator().manual_seed(1)
    x, goal = (torch.randn(SIZES["batch"], SIZES["steps"], wide, generator=generator) for _ in range(2))
    angles = torch.arange(SIZES["steps"])[:, None] * 0.3 ** torch.arange(SIZES["width"] // 2)
    turns = [f(torch.cat((angles, angles), -1))[None, :, None] for f in (torch.cos, torch.sin)]
    dtype = next(block.parameters()).dtype
    x, goal, cos, sin = (t.to(device, dtype) for t in (x, goal, *turns))
    optimizer, losses = torch.optim.SGD(block.parameters(), lr=0.5), []
    for _ in range(4):
        optimizer.zero_grad()
        with torch.autocast(device, dtype=half, enabled=half is not None):
            loss = torch.nn.functional.mse_loss(block(x, cos, sin), goal)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses, [p.grad.double().cpu() for p in block.parameters()]


@pytest.mark.parametrize("half", HALF, ids=str)
def test_a_block_trains_as_on_the_cpu(half: torch.dtype) -> None:
    torch.manual_seed(0)
    reference = Block(theirs()).double()
    block = Block(ours()).npu()
    block.load_state_dict(reference.state_dict())
    expected, wanted = trained(reference, "cpu", None, torch.amp.GradScaler("cpu", enabled=False))
    losses, gradients = trained(
        block, "npu", half, torch.amp.GradScaler("npu", init_scale=256.0, enabled=half == torch.float16)
    )
    assert expected[-1] < 0.9 * expected[0]
    limit = 2e-2 if half == torch.bfloat16 else 4e-3
    torch.testing.assert_close(torch.tensor(losses), torch.tensor(expected), rtol=limit, atol=0)
    for got, e in zip(gradients, wanted, strict=True):
        assert got.isfinite().all() and (got - e).norm() <= 4 * limit * e.norm()


def test_a_traced_region_converts_as_an_eager_one() -> None:
    q, k, v = (torch.randn(1, 2, 4, 8).npu().requires_grad_() for _ in range(3))

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        with torch.autocast("npu", dtype=torch.bfloat16):
            return torch_npu.npu_fusion_attention(q.half(), k, v, 2, "BNSD", scale=0.5)[0]

    torch._dynamo.reset()
    compiled = torch.compile(attend, backend="aot_eager", fullgraph=True)
    for found, expected in zip(
        *((f(q, k, v), *torch.autograd.grad(f(q, k, v).float().sum(), (q, k, v))) for f in (compiled, attend)),
        strict=True,
    ):
        assert found.dtype == expected.dtype and torch.equal(found, expected)
    assert attend(q, k, v).dtype == torch.bfloat16

"""Seeded faults are found, at their line; what is right is not reported; what cannot be compared is counted."""

from __future__ import annotations

import csv
import inspect

import pytest
import torch

import torch_npu
from torch_npu.utils.compare import Compare
from torch_npu.utils.compare import operators as reasons


def quiet(**options) -> Compare:
    return Compare(report=False, **options)


def here(offset: int = 0) -> str:
    return f"test_compare.py:{inspect.currentframe().f_back.f_lineno + offset}"


def numbers(*shape: int) -> torch.Tensor:
    return torch.linspace(-1.0, 2.0, torch.Size(shape).numel()).reshape(shape)


def on_the_cpu(function):
    """A kernel for the npu that computes on the CPU."""
    return lambda *args, **options: function(*(a.cpu() if isinstance(a, torch.Tensor) else a for a in args)).npu()


def test_training_that_is_right_has_no_deviation():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten(),
                                torch.nn.Linear(144, 3)).npu()  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters())
    with quiet() as found:
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            with torch.autocast("npu", dtype=dtype, enabled=dtype != torch.float32):
                loss = torch.nn.functional.cross_entropy(model(numbers(2, 1, 8, 8).npu()), torch.tensor([0, 2]).npu())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    assert found.first is None and found.deviated == []
    assert found.compared > 100 and found.compared + 3 == found.calls
    assert found.skipped == {reasons.UNSET: {"aten.empty.memory_format": 3}}  # of batch normalization
    assert found.slowdown > 1 and 0 < found.overhead < found.seconds


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy_which_is_the_npus_own_is_compared(dtype, reduction):
    x, y = numbers(6, 5).to(dtype), torch.tensor([0, 4, 2, -100, 1, 3])
    for options in ({}, {"weight": numbers(5).abs().to(dtype)}, {"label_smoothing": 0.2}, {"ignore_index": 2}):
        on = {k: v.npu() if isinstance(v, torch.Tensor) else v for k, v in options.items()} | {"reduction": reduction}
        with quiet() as found:
            given, labels = x.npu().requires_grad_(), y.clamp(min=2 if "ignore_index" in options else -100).npu()
            torch.nn.functional.cross_entropy(given, labels, **on).sum().backward()
        seen = {row.operator for row in found.rows.values()}
        assert {f"npu.npu_cross_entropy_loss{form}.default" for form in ("", "_backward")} <= seen
        assert found.first is None and found.skipped == {}, (options, found)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_wrong_operator_is_found_at_its_line(replaced, dtype):
    replaced("sin", on_the_cpu(lambda t: t.sin() * 1.1))
    x = numbers(50).npu().to(dtype)
    with quiet() as found:
        x.cos()
        y = x.sin()
        line = here(-1)
        (y * 2).exp()
    assert [row.operator for row in found.deviated] == ["aten.sin.default"]
    row = found.first
    assert row is found.worst and row.line.endswith(line) and (row.calls, row.deviated) == (1, 1)
    assert row.relative == pytest.approx(0.1, rel=0.1) and row.error > 1
    assert row.found == pytest.approx(row.expected * 1.1, rel=0.01)
    assert row.first == 2 and row.kind == f"{str(dtype)[6:]}[50]"


def test_a_wrong_gradient_is_found_at_the_line_of_its_forward(replaced):
    replaced("threshold_backward", on_the_cpu(lambda g, x, t: g * (x > t) * 1.001))
    x = numbers(10).npu().requires_grad_()
    with quiet() as found:
        y = x.relu()
        line = here(-1)
        loss = y.square().sum()
        loss.backward()
    assert [row.operator for row in found.deviated] == ["aten.threshold_backward.default"]
    assert found.first.line.endswith(f"{line} (backward)")


def test_small_gradients_are_not_hidden_by_an_absolute_tolerance(replaced):
    replaced("neg", on_the_cpu(lambda t: t * -1.01))
    x = numbers(10).npu() * 1e-9
    with quiet() as found:
        x.neg()
    assert found.first.operator == "aten.neg.default" and found.first.absolute < 1e-10


def test_the_first_and_the_worst_are_told_apart(replaced):
    replaced("sin", on_the_cpu(lambda t: t.sin() * 1.01))
    replaced("cos", on_the_cpu(lambda t: t.cos() * 1.5))
    x = numbers(10).npu()
    with quiet() as found:
        x.sin(), x.cos(), x.sin()
    assert (found.first.operator, found.worst.operator) == ("aten.sin.default", "aten.cos.default")
    assert (found.first.calls, found.first.deviated) == (2, 2)


def test_a_wrong_write_in_place_is_found(replaced):
    replaced("add_.Tensor", lambda t, other, alpha=1: t.copy_(t.cpu() + other.cpu() * alpha * 2))
    x = numbers(10).npu()
    with quiet() as found:
        x.add_(torch.ones(10).npu())
    assert "aten.add_.Tensor" in [row.operator for row in found.deviated]
    assert torch.equal(x.cpu(), numbers(10) + 2), "the program goes on with what the npu gave"


def test_writes_in_place_are_compared_with_what_was_there_before():
    x, out = numbers(10).npu(), torch.zeros(10).npu()
    with quiet() as found:
        x.add_(x)
        x[2:5].mul_(3)
        torch.sin(x, out=out)
        torch._foreach_add_([x, out], 1.0)
    assert found.first is None and found.compared == 4


def test_a_wrong_statistic_of_a_batch_normalization_is_found(replaced):
    def wrong(x, weight, bias, mean, var, training, momentum, eps):
        made = torch.native_batch_norm(*(t.cpu() for t in (x, weight, bias)), None, None, training, momentum, eps)
        mean.zero_()
        return tuple(t.npu() for t in made)

    replaced("native_batch_norm", wrong)
    norm = torch.nn.BatchNorm1d(4).npu()
    with quiet() as found:
        norm(numbers(8, 4).npu())
    assert found.first.operator == "aten.native_batch_norm.default"


def test_a_sum_that_forgets_an_element_is_found_and_another_order_is_not(replaced):
    x = (torch.rand(4096, generator=torch.Generator().manual_seed(1)) - 0.5).npu()
    replaced("sum", on_the_cpu(lambda t, **_: t.flip(0).reshape(64, 64).sum(1).sum()))
    with quiet() as found:
        x.sum()
    assert found.compared == 1 and found.first is None
    replaced("sum", on_the_cpu(lambda t, **_: t[1:].sum()))
    with quiet() as found:
        x.sum()
    assert found.first.operator == "aten.sum.default"


def test_an_error_above_1_that_is_right_says_by_which_rule(replaced):
    replaced("tan", on_the_cpu(lambda t: t.tan().nextafter(torch.tensor(9e9))))
    replaced("sum", on_the_cpu(lambda t, **_: t.double().sum().float() + 3e-5))
    x = torch.linspace(0.1, 1.5, 50, dtype=torch.float32).npu()
    cancels = torch.tensor([1e3, 1.0, -1e3, -1.0]).npu()
    with quiet(rtol={"float32": 1e-8}) as found:
        x.tan()
        cancels.sum()
        x.cos()
    why = {row.operator: (row.error > 1, row.deviated, row.why.partition(":")[0]) for row in found.rows.values()}
    assert why["aten.tan.default"] == (True, 0, "right by rule 2")
    assert why["aten.sum.default"] == (True, 0, "right by rule 3")


def test_an_infinite_input_excuses_nothing(replaced):
    """One rounding moves no infinity: what an input of -inf (a mask that is added) makes is judged as ever."""
    replaced("_softmax", on_the_cpu(lambda t, *_: t.softmax(-1) * 1.5))
    scores = numbers(4, 8)
    scores[:, ::2] = float("-inf")
    with quiet() as found:
        scores.npu().softmax(-1)
    assert found.first.operator == "aten._softmax.default"


def test_an_attention_whose_scores_are_over_the_limit_is_not_compared():
    q = numbers(1, 2, 64, 8).npu()
    for limit, compared in ((4 * 2 * 64 * 64, True), (4 * 2 * 64 * 64 - 1, False)):
        with quiet(limit=limit) as found:
            torch.nn.functional.scaled_dot_product_attention(q, q, q)
        assert any("fusion_attention" in row.operator for row in found.rows.values()) == compared


def test_infinities_of_a_half_type_are_right_and_wrong_ones_are_not(replaced):
    x = torch.tensor([60000.0, 1.0], dtype=torch.float16).npu()
    with quiet() as found:
        x * 2
    assert found.first is None
    replaced("exp", on_the_cpu(lambda t: t.exp() + torch.tensor([0, float("nan")])))
    with quiet() as found:
        torch.zeros(2).npu().exp()
    assert found.first.error == float("inf") and found.first.expected == 1


def test_integers_are_equal_or_wrong(replaced):
    replaced("argmax", on_the_cpu(lambda t, *_: t.argmax() - 1))
    with quiet() as found:
        numbers(10).npu().argmax()
    assert (found.first.found, found.first.expected) == (8, 9)


# The operator, its function, and which of its results a sign or phase belongs to: (columns, rows).
FACTORS = {
    "_linalg_eigh": (lambda a: torch.linalg.eigh(a + a.mH), 1, None),
    "linalg_eig": (torch.linalg.eig, 1, None),
    "linalg_qr": (torch.linalg.qr, 0, 1),
    "_linalg_svd": (torch.linalg.svd, 0, 2),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
@pytest.mark.parametrize("operator", FACTORS)
def test_signs_of_factors_are_free_and_only_together(replaced, operator, dtype):
    function, columns, rows = FACTORS[operator]
    signs = torch.tensor([1, -1, 1, -1, -1]) if dtype == torch.float32 else torch.polar(torch.ones(5), numbers(5))

    def turned(both: bool, size: float = 1.0):
        def kernel(*args, **options):
            given = (a.cpu() if isinstance(a, torch.Tensor) else a for a in args)
            made = list(getattr(torch.ops.aten, operator)(*given))
            made[columns] = made[columns] * signs * size
            if rows is not None and both:
                made[rows] = made[rows] * signs.conj_physical().unsqueeze(-1)
            return tuple(each.npu() for each in made)

        return kernel

    a = torch.randn(2, 5, 5, dtype=dtype, generator=torch.Generator().manual_seed(3)).npu()
    with quiet() as found:
        function(a)
    assert found.first is None
    for kernel, deviates in ((turned(True), False), (turned(False), rows is not None), (turned(True, 1.01), True)):
        replaced(operator, kernel)
        with quiet() as found:
            function(a)
        assert [row.operator for row in found.deviated] == [f"aten.{operator}.default"] * deviates


def test_factors_that_were_not_asked_for_or_are_empty():
    a = numbers(3, 4).npu()
    with quiet() as found:
        torch.linalg.qr(a, "r")
        torch.linalg.qr(a[:0])
        torch.linalg.qr(a, "complete")
        torch.linalg.svdvals(a)
        torch.linalg.svd(a)
        torch.linalg.eigvalsh(a[:, :3])
    assert found.first is None and found.compared == 6


def test_a_wrong_shape_is_found(replaced):
    replaced("cumsum", on_the_cpu(lambda t, dim: t.cumsum(dim)[1:]))
    with quiet() as found:
        numbers(10).npu().cumsum(0)
    assert found.first.why == "shape [9], on the CPU [10]"


def test_what_cannot_be_compared_is_counted_with_its_reason():
    x = numbers(2, 8).npu()
    with quiet(limit=1000) as found:
        torch.nn.functional.dropout(x)
        torch.rand(3, device="npu")
        torch.empty(3, device="npu")
        torch_npu.npu_swiglu(x)
        torch.zeros(300, device="npu")
        x.t()  # a view: not a call with a value
    assert found.skipped == {
        reasons.RANDOM: {"aten.native_dropout.default": 1, "aten.rand.default": 1},
        reasons.UNSET: {"aten.empty.memory_format": 1},
        reasons.NO_TWIN: {"npu.npu_swiglu.default": 1},
        reasons.TOO_LARGE: {"aten.zeros.default": 1},
    }
    assert (found.calls, found.compared) == (5, 0)


def test_an_operator_that_fails_on_the_cpu_is_not_said_to_be_missing_there():
    """Reason by reason: a type it lacks, and any other mistake with its exception."""
    with torch.library._scoped_library("compared", "FRAGMENT") as library:
        library.define("odd(Tensor x) -> Tensor")
        library.impl("odd", torch.clone, "PrivateUse1")
        x = torch.ones(2).npu()
        with quiet() as found:
            torch.ops.compared.odd(x)
        assert found.skipped == {reasons.NO_TWIN: {"compared.odd.default": 1}}
        library.impl("odd", lambda x: [][0], "CPU")
        with quiet() as found:
            torch.ops.compared.odd(x)
        assert found.skipped == {"the CPU failed to compute it, with IndexError": {"compared.odd.default": 1}}


def test_a_captured_call_is_counted_and_the_capture_goes_on():
    x, graph = torch.ones(4).npu(), torch.npu.NPUGraph()
    with quiet() as found:
        with torch.npu.graph(graph):
            y = x + 1
        graph.replay()
    assert y.tolist() == [2.0] * 4 and found.skipped == {reasons.CAPTURED: {"aten.add.Tensor": 1}}


@pytest.mark.filterwarnings("ignore:Sparse CSR", "ignore:The PyTorch API of nested")
def test_sparse_and_nested_tensors_are_counted_and_the_program_goes_on():
    x = torch.ones(3, 3).npu()
    parts = [torch.ones(2), torch.ones(3)]
    with quiet() as found:
        for sparse in (torch.eye(3).npu().to_sparse(), torch.eye(3).npu().to_sparse_csr()):
            product = sparse @ x
        nested = torch.nested.nested_tensor(parts).npu() * 2
        jagged = torch.nested.nested_tensor(parts, layout=torch.jagged).npu() * 2
    assert product.tolist() == x.tolist() and nested.unbind()[1].tolist() == [2.0] * 3 == jagged.unbind()[1].tolist()
    assert set(found.skipped) == {reasons.LAYOUT} and found.first is None
    counted = found.skipped[reasons.LAYOUT]
    assert counted["aten._to_sparse.default"] == counted["aten._to_sparse_csr.default"] == 1  # a dense one is given
    assert counted["aten.mul.Tensor"] == 1 and sum(counted.values()) == found.calls - found.compared
    assert ("aten.mul.Tensor" in [row.operator for row in found.rows.values()]) and found.compared > 2


def test_operators_on_the_cpu_are_left_alone():
    with quiet() as found:
        torch.ones(3) + 1
    assert found.calls == 0


def test_results_that_only_the_device_itself_reads_are_not_compared():
    x, table = numbers(50).npu().requires_grad_(), numbers(6, 4).npu().requires_grad_()
    with quiet() as found:
        torch.nn.functional.logsigmoid(x).sum().backward()
        torch.nn.functional.embedding_bag(torch.tensor([[1, 2], [4, 5]]).npu(), table).sum().backward()
    assert found.first is None
    names = {row.operator for row in found.rows.values()}
    assert {"aten.log_sigmoid_forward.default", "aten.log_sigmoid_backward.default"} < names


def test_gradients_of_zeros_without_memory():
    x = numbers(3).npu().requires_grad_()
    with quiet() as found:
        x.sgn().abs().sum().backward()
    assert x.grad.tolist() == [0, 0, 0] and found.first is None


def test_a_tolerance_of_ones_own(replaced):
    replaced("sin", on_the_cpu(lambda t: t.sin() * 1.0005))
    x = numbers(10).npu()
    for rtol, count in (({}, 1), ({torch.float32: 1e-3}, 0), ({"float32": 1e-3}, 0)):
        with quiet(rtol=rtol) as found:
            x.sin()
        assert len(found.deviated) == count


def test_the_report_prints_a_table_and_writes_a_csv_and_a_page(replaced, tmp_path, capsys):
    replaced("sin", on_the_cpu(lambda t: t.sin() + 1))
    with Compare(tmp_path / "new") as found:
        numbers(3).npu().cos().sin()
        torch.rand(2, device="npu")
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("compare: 3 of 4 calls on the npu were compared with the CPU, 1 deviated; ")
    assert "times the time without" in said[0] and said[1].startswith("  first: aten.sin.default at ")
    assert said[-1] == "  not compared: 1 calls, random numbers differ between devices: aten.rand.default 1"
    rows = list(csv.DictReader((tmp_path / "new" / "compare.csv").open(newline="")))
    assert [row["deviated"] for row in rows] == ["1", "0", "0"]
    assert float(rows[0]["error"]) == found.worst.error and rows[0]["operator"] == "aten.sin.default"
    page = (tmp_path / "new" / "compare.html").read_text()
    assert page.count('<tr class="bad">') == 1 and "aten.rand.default 1" in page and "http" not in page


def test_bad_use_is_an_error_that_names_it(tmp_path):
    with pytest.raises(ValueError, match="there is no tolerance of 'float31'; the types are float64"):
        Compare(rtol={"float31": 1.0})
    with pytest.raises(ValueError, match="the tolerance of float16 is a number from 0 on, not -1"):
        Compare(rtol={"float16": -1})
    with pytest.raises(ValueError, match="limit is a number of bytes from 1 on, not 0"):
        Compare(limit=0)
    with quiet():
        with pytest.raises(RuntimeError, match="there is a comparison around this one"):
            quiet().__enter__()
    context = quiet()
    with context:
        pass
    with pytest.raises(RuntimeError, match="was used before"):
        context.__enter__()
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        Compare(tmp_path / "file").__enter__()


def test_an_error_of_the_program_passes_and_the_mode_ends():
    with pytest.raises(RuntimeError, match="size"):
        with quiet() as found:
            torch.ones(2).npu() + torch.ones(3).npu()
    torch.ones(2).npu() + 1
    assert [row.operator for row in found.rows.values()] == ["aten._to_copy.default"]

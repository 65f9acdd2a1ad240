"""How one form of an operator is judged, with operators that are wrong on purpose; the CPU is the device."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch

from tests.upstream import errors, forms, operators, verdict
from tests.upstream.cases import database
from tests.upstream.compare import Mismatch
from tests.upstream.forms import Arguments, Form
from tests.upstream.verdict import NoReference

OP = SimpleNamespace(name="sample", decorators=())
ARGUMENTS = (torch.zeros(3), (), {})


def wrong_on_the_device(draws: bool) -> Callable[[Arguments], torch.Tensor]:
    """Right at each call but the second, which is the device's; whatever the seed is."""
    calls = iter((0, 1))

    def run(arguments: Arguments) -> torch.Tensor:
        if draws:
            torch.rand(1)
        return arguments[0] + next(calls, 0)

    return run


def test_a_sample_that_draws_is_random_where_another_sample_is():
    operators.judge_form(OP, "forward", Form(wrong_on_the_device(draws=True), ARGUMENTS), "cpu", lambda: True)
    for draws, elsewhere in ((True, False), (False, True), (False, False)):
        form = Form(wrong_on_the_device(draws), ARGUMENTS)
        with pytest.raises(Mismatch, match="element 0"):
            operators.judge_form(OP, "forward", form, "cpu", lambda e=elsewhere: e)


def test_operators_whose_samples_are_random():
    assert operators.some_sample_is_random(database("op")["nn.functional.fractional_max_pool2d"], torch.float32)
    for dtype in (torch.float32, torch.float64):  # in float64 a few seeds give one sign
        assert operators.some_sample_is_random(database("op")["pca_lowrank"], dtype)
    assert not operators.some_sample_is_random(database("op")["tril"], torch.float32)


def test_an_unsafe_form_is_run_on_the_device_alone():
    runs = []

    def run(arguments: Arguments) -> torch.Tensor:
        runs.append(arguments[0])
        return arguments[0] + 1

    reference = (lambda arguments: arguments[0] + 1, ARGUMENTS)
    operators.judge_form(OP, "out permuted", Form(run, ARGUMENTS, reference, unsafe=True), "cpu")
    assert len(runs) == 1
    wrong = (lambda arguments: arguments[0] + 2, ARGUMENTS)
    with pytest.raises(Mismatch, match="element 0"):
        operators.judge_form(OP, "out permuted", Form(run, ARGUMENTS, wrong, unsafe=True), "cpu")


def test_triangles_are_written_into_permuted_outputs_on_the_device_alone():
    for name, unsafe in (("tril", True), ("triu", True), ("linalg.lu", True), ("lu_unpack", True), ("sin", False)):
        op = database("op")[name]
        sample = next(iter(op.sample_inputs("cpu", torch.float32)))
        plain = (sample.input, sample.args, sample.kwargs)
        found = forms.basic(op, sample, plain, plain, by_storage=False)
        assert found["out permuted"].unsafe == unsafe
        assert not found["out"].unsafe and not found["out offset"].unsafe


def test_only_what_the_cpu_refuses_says_nothing_of_randomness(monkeypatch):
    monkeypatch.setattr(operators.forms, "forward", lambda op: lambda arguments: arguments[0].absent)
    with pytest.raises(NoReference, match="absent"):
        operators.some_sample_is_random(database("op")["tril"], torch.float32)
    monkeypatch.setattr(operators.forms, "forward", lambda op: lambda arguments: torch.zeros(2) @ torch.zeros(3))
    assert not operators.some_sample_is_random(database("op")["tril"], torch.float32)


@pytest.mark.parametrize("error", [NotImplementedError, torch.OutOfMemoryError, torch.AcceleratorError])
def test_a_kernel_that_fails_refuses_nothing(error: type[Exception]):
    """All of them are RuntimeErrors, as what the CPU refuses with."""
    raises: list[Exception] = []

    def op(value: torch.Tensor) -> None:
        raise raises.pop(0)

    def judged(actual: Exception) -> None:
        raises[:] = [RuntimeError("mat1 and mat2 cannot be multiplied"), actual]
        sample = SimpleNamespace(input=torch.zeros(3), args=(), kwargs={})
        errors.judge(op, SimpleNamespace(sample_input=sample, error_type=RuntimeError), "cpu")

    judged(RuntimeError("mat1 and mat2 cannot be multiplied"))
    with pytest.raises(Mismatch, match=rf"{error.__name__} \(no\) instead of RuntimeError"):
        judged(error("no"))
    form = Form(lambda arguments: op(arguments[0]), ARGUMENTS)
    raises[:] = [error("no")]
    with pytest.raises(NotImplementedError if error is NotImplementedError else Mismatch, match="no"):
        operators.refused(form, ARGUMENTS, RuntimeError("it overlaps"))


def test_an_error_asks_for_a_sign_of_life_whatever_comes_after_it():
    def failing(error: Exception) -> Callable[[], None]:
        def sample() -> None:
            raise error

        return sample

    seen = verdict.Verdict()
    seen.judge("one", failing(NotImplementedError("no kernel")))
    assert not seen.unhealthy
    seen.judge("two", failing(torch.AcceleratorError("a kernel failed")))
    seen.judge("three", failing(NotImplementedError("no kernel")))
    seen.judge("four", lambda: None)
    assert seen.unhealthy and seen.samples == {"unsupported": 2, "error": 1, "right": 1}


def test_an_operator_that_the_database_seeds_draws():
    op = database("op")["nn.functional.fractional_max_pool3d"]
    sample = next(iter(op.sample_inputs("cpu", torch.float64)))
    assert verdict.draws(lambda: op(sample.input, *sample.args, **sample.kwargs))
    assert not verdict.draws(lambda: sample.input + 1)

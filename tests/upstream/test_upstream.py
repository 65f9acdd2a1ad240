"""PyTorch's databases on npu:0: all right but for what exceptions.yaml names. More samples and forms in `full`."""

from __future__ import annotations

import pytest

from tests.upstream import run
from tests.upstream.cases import KINDS, select
from tests.upstream.exceptions import Exceptions


def judge(
    samples: int, forms: tuple[str, ...], capsys, kinds: tuple[str, ...] = KINDS, dtypes: str = run.DTYPES
) -> run.Summary:
    cases = list(select(list(kinds), dtypes.split(",")))
    options = {"device": "npu", "plugin": "torch_npu", "samples": samples, "forms": forms}
    with capsys.disabled():
        print()
        summary = run.judge(cases, options)
        print(*summary.lines(), sep="\n")
    return summary


@pytest.mark.timeout(1500)
def test_one_sample_of_everything_is_right(capsys):
    summary = judge(1, ("forward", "gradient"), capsys)
    assert summary.unexpected(Exceptions()) == []


@pytest.mark.timeout(900)
def test_layouts_and_refusals_are_right_in_one_type(capsys):
    summary = judge(1, ("views", "strides", "errors"), capsys, kinds=("op",), dtypes="float32")
    assert summary.unexpected(Exceptions()) == []


@pytest.mark.full
@pytest.mark.timeout(14400)
def test_three_samples_in_every_form_are_right(capsys):
    summary = judge(3, run.FORMS, capsys)
    exceptions = Exceptions()
    assert summary.unexpected(exceptions) == []
    assert exceptions.stale() == []

"""PyTorch's databases on npu:0: all right but for what exceptions.yaml names. More samples and forms in `full`."""

from __future__ import annotations

import pytest

from tests.upstream import run
from tests.upstream.cases import KINDS, database, select
from tests.upstream.compiled import BACKENDS
from tests.upstream.exceptions import Exceptions

# Entries of the databases, and of those the ones that nothing is judged of: the CPU has no such type, or refuses all.
ENTRIES = {"op": 702, "module": 114, "optimizer": 15}
EVERY = 10**6  # samples: as many as the databases have
FIVE = "float32,float16,complex64,int64,bool"  # each kind of number once; the full run has all of run.DTYPES
LEFT_OUT = {
    "nn.functional.batch_norm.without_cudnn",
    "torch._scaled_mm",
    "torch._scaled_mm_v2",
    "torch.ops.aten._efficient_attention_forward",
    "torch.ops.aten._flash_attention_forward",
    "jiterator_2inputs_2outputs",
    "jiterator_4inputs_with_extra_args",
    "jiterator_binary",
    "jiterator_binary_return_by_ref",
    "jiterator_unary",
}
NOT_IN_FLOAT32 = {
    *("bitwise_not", "bitwise_left_shift", "bitwise_right_shift", "bitwise_and", "bitwise_or", "bitwise_xor"),
    *("__rand__", "__ror__", "__rxor__", "gcd", "lcm", "bincount", "unravel_index", "nn.functional.one_hot"),
    *("view_as_real", "imag", "istft", "nn.functional.silu.complex", "triu_indices", "tril_indices"),
}


def judge(
    samples: int, forms: tuple[str, ...], capsys, kinds: tuple[str, ...] = KINDS, dtypes: str = run.DTYPES
) -> run.Summary:
    cases = list(select(list(kinds), dtypes.split(",")))
    options = {"device": "npu", "plugin": "torch_npu", "samples": samples, "forms": forms}
    with capsys.disabled():
        print()
        summary = run.judge(cases, options, timeout=300 if samples == 1 else 1800)
        print(*summary.lines(), sep="\n")
    return summary


def is_whole(summary: run.Summary, right: dict[str, int], left_out: set[str] = LEFT_OUT) -> None:
    """Nothing dropped out or ran on the CPU: all entries but those named were judged, so many samples are right."""
    assert {kind: summary.fallbacks(kind) for kind in right} == {kind: {} for kind in right}
    for kind, least in right.items():
        assert len(database(kind)) == ENTRIES[kind], kind
        absent = set(database(kind)) - set(summary.entries(kind))
        assert absent <= left_out, (kind, sorted(absent - left_out))
        results = (summary.results[case] for case in summary.cases(kind, *run.SHOWN))
        found = sum(result["samples"].get("right", 0) for result in results)
        assert found >= least, (kind, found)


@pytest.mark.timeout(1500)
def test_one_sample_of_everything_is_right(capsys):
    summary = judge(1, ("forward", "gradient"), capsys, dtypes=FIVE)
    is_whole(summary, {"op": 3700, "module": 235, "optimizer": 375})
    assert summary.unexpected(Exceptions()) == []


@pytest.mark.timeout(900)
def test_layouts_and_refusals_are_right_in_one_type(capsys):
    summary = judge(1, ("views", "strides", "errors"), capsys, kinds=("op",), dtypes="float32")
    is_whole(summary, {"op": 5400}, LEFT_OUT | NOT_IN_FLOAT32)
    assert summary.unexpected(Exceptions()) == []


# One backend shows that the form is judged; what Inductor compiles has a room of its own.
@pytest.mark.parametrize(
    "backend", [b if b == "aot_eager" else pytest.param(b, marks=pytest.mark.full) for b in BACKENDS]
)
@pytest.mark.timeout(900)
def test_a_few_operators_are_right_compiled(backend, capsys):
    cases = list(select(["op"], ["float32"], "^(add|softmax|index_select|sort)$"))
    with capsys.disabled():
        options = {"device": "npu", "plugin": "torch_npu", "samples": 1, "forms": (backend,)}
        summary = run.judge(cases, options, 2, 300)
    found = [summary.results[case]["samples"] for case in summary.cases("op", *run.SHOWN)]
    assert len(found) == 4 and all(set(one) == {"right"} and one["right"] >= 2 for one in found), found
    assert summary.unexpected(Exceptions()) == []


@pytest.mark.full
@pytest.mark.timeout(14400)
def test_every_sample_three_in_every_form_and_one_compiled_in_every_layout_and_type_are_right(capsys):
    exceptions = Exceptions()
    every = judge(EVERY, ("forward", "gradient"), capsys)
    is_whole(every, {"op": 100_000, "module": 470, "optimizer": 750})
    assert every.unexpected(exceptions) == []
    three = judge(3, tuple(form for form in run.FORMS if form not in BACKENDS), capsys)
    is_whole(three, {"op": 158_000, "module": 1300, "optimizer": 750})
    assert three.unexpected(exceptions) == []
    for forms, dtypes in ((("inductor", "views"), "float32"), (("inductor",), run.DTYPES)):
        compiled = judge(1, forms, capsys, kinds=("op",), dtypes=dtypes)
        assert compiled.unexpected(exceptions) == []
    assert exceptions.stale() == []

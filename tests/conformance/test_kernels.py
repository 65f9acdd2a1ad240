"""Both plugins on the same kernels: the NPU's own operators called through the vendor's wheel and through ours, with
the same operands, return the same bits. kernels.yaml says which do not, why, and what of them is compared all the same;
kernels_910b3.yaml, what is otherwise on the other chip.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.conformance import client, compared, kernels
from tests.conformance.compared import known, known_there, partly, reason
from tests.conftest import ROOT
from tools.codegen import tables

CHIP, OTHER = "Ascend950", "Ascend910B3"
SAMPLES = compared.samples()


def vendors(vendor: Path, folder: Path, wanted: list[str], chip: str = CHIP) -> dict[str, dict[str, Any]]:
    """Each sample's outcome. A process that dies or ends early is followed by another that begins with the next; fewer
    do without the wheel's task queue, where an error is told by the call.
    """
    left = list(wanted)
    while left:
        done = client.run(
            vendor, "-m", "tests.conformance.kernels", str(folder), *left, ANYCEND_SOC=chip, TASK_QUEUE_ENABLE="0"
        )
        missing = [sample for sample in left if not kernels.place(folder, sample).exists()]
        if missing and done.returncode:
            error = f"died with {done.returncode}: {done.stderr.strip()[-300:]}"
            torch.save({"results": (), "changed": {}, "error": error}, kernels.place(folder, missing[0]))
            missing = missing[1:]
        assert len(missing) < len(left), done.stderr[-2000:]
        left = missing
    return {sample: torch.load(kernels.place(folder, sample)) for sample in wanted}


def differences(theirs: dict[str, dict[str, Any]]) -> dict[str, str]:
    found = {}
    for sample, other in theirs.items():
        own = kernels.outcome(sample)
        if own["error"]:
            found[sample] = f"ours: {own['error']}"
        elif other["error"]:
            found[sample] = f"vendor: {other['error'].splitlines()[0]}"
        elif len(own["results"]) != len(other["results"]):
            found[sample] = f"{len(own['results'])} results, vendor {len(other['results'])}"
        else:
            pairs = list(enumerate(zip(own["results"], other["results"], strict=True)))
            wrong = [f"result {i}: {short(a)} != {short(b)}" for i, (a, b) in pairs if not kernels.same(a, b)]
            if not kernels.same(tuple(own["changed"].items()), tuple(other["changed"].items())):
                wrong.append(f"changed {list(own['changed'])} != {list(other['changed'])}")
            if wrong:
                found[sample] = "; ".join(wrong)
    return found


def leaves(value: Any) -> list[Any]:
    return [leaf for v in value for leaf in leaves(v)] if isinstance(value, (tuple, list)) else [value]


def close(a: Any, b: Any) -> bool:
    """Four roundings of the largest."""
    if kernels.same(a, b):
        return True
    if not isinstance(b, torch.Tensor) or (a.dtype, a.shape) != (b.dtype, b.shape):
        return False
    wide = torch.complex128 if a.is_complex() else torch.float64
    off = (a.to(wide) - b.to(wide)).abs().max().item()
    return off <= 4 * torch.finfo(a.dtype).eps * max(1.0, a.to(wide).abs().max().item())


def alike(a: Any, b: Any) -> bool | None:
    """None where there are not two tensors of the same sizes."""
    both = isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a.shape == b.shape
    return kernels.same(a, b) if both else None


COMPARED: dict[str, Any] = {
    "close": close,
    "written": alike,
    "sizes": lambda a, b: (a.dtype, a.shape) == (b.dtype, b.shape),
}


def unlike(theirs: dict[str, dict[str, Any]], how: dict[str, str]) -> dict[str, str]:
    """Samples whose results are not even so; a sample of which nothing is compared, too."""
    found = {}
    for sample, other in theirs.items():
        own = kernels.outcome(sample)
        pairs = list(zip(leaves(own["results"]), leaves(other["results"]), strict=False))
        judged = [COMPARED[how[sample]](a, b) for a, b in pairs]
        if own["error"] or other["error"] or True not in judged or False in judged:
            found[sample] = f"{how[sample]}: {judged} {own['error']} {other['error']}"
    return found


def short(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return repr(value)
    return f"{value.dtype}{list(value.shape)} {value.flatten()[:6].tolist()}"


def test_samples_have_the_same_bits(vendor: Path, tmp_path: Path) -> None:
    reasons = known()
    wanted, how = [sample for sample in SAMPLES if not reason(reasons, sample)], partly()
    theirs = vendors(vendor, tmp_path, [*wanted, *how])
    found = differences({sample: theirs[sample] for sample in wanted})
    found |= unlike({sample: theirs[sample] for sample in how}, how)
    assert found == {}, "\n".join(f"{sample}: {what}" for sample, what in found.items())


def test_samples_have_the_same_bits_on_the_other_chip(vendor: Path, tmp_path: Path) -> None:
    """Those that Ascend950 says nothing of."""
    here, there = known(), known_there()
    wanted = [sample for sample in SAMPLES if reason(here, sample) and sample not in there]
    found = differences(vendors(vendor, tmp_path, wanted, OTHER))
    assert wanted and found == {}, "\n".join(f"{sample}: {what}" for sample, what in found.items())


def may_agree() -> set[str]:
    """Sums in another order: whether their last bits differ depends on the processor."""
    return {sample for sample, how in partly().items() if how == "close"}


@pytest.mark.full
def test_all_samples_on_the_other_chip(vendor: Path, tmp_path: Path) -> None:
    found = differences(vendors(vendor, tmp_path, SAMPLES, OTHER))
    expected = known_there()
    assert (set(found) - expected, expected - set(found) - may_agree()) == (set(), set()), "kernels_910b3.yaml"


@pytest.mark.full
def test_what_is_known_to_differ_does(vendor: Path, tmp_path: Path) -> None:
    reasons = known()
    wanted = [sample for sample in SAMPLES if reason(reasons, sample)]
    found = differences(vendors(vendor, tmp_path, wanted))
    assert sorted(set(wanted) - set(found) - may_agree()) == [], "kernels.yaml says that these differ, and they do not"


def test_the_tables_name_samples() -> None:
    names, there = {sample.partition(" ")[0] for sample in SAMPLES} | set(SAMPLES), compared.other_chip()
    assert set(known()) | {name for each in (there["same"], *there["differ"].values()) for name in each} <= names
    assert set(partly().values()) == set(COMPARED)


def computed() -> set[str]:
    """CANN's functions that the software NPU computes."""
    sections = tables.load(ROOT / "ops/aclnn.yaml").values()
    return {name for members in sections for name in members if name.startswith("acl")}


def test_what_the_software_npu_is_said_not_to_have_it_has_not() -> None:
    """Reads tables only: a function that a reason names, and those that the rows of its operators call."""
    rows = {row["func"].partition("(")[0]: row for row in tables.load(ROOT / "ops/npu.yaml")}
    said = re.compile(r"the software NPU has no (aclnn\w+)")
    reasons = {name: match[1] for name, reason in known().items() if (match := said.search(reason))}
    assert reasons, "no reason of kernels.yaml is of that form: this test has nothing to judge"
    assert set(reasons.values()) & computed() == set()
    for name in reasons:
        row = rows[name.partition(" ")[0]]
        calls = {row.get("aclnn")} | set(re.findall(r"ACLNN\((\w+)\)", str(row.get("call"))))
        assert calls & computed() == set(), f"{name} differs for another reason"


def test_a_difference_of_one_bit_is_seen() -> None:
    a = torch.tensor([1.0, -0.0])
    assert kernels.same((a, 3), (a.clone(), 3))
    assert not kernels.same(a, torch.tensor([1.0, 0.0])) and not kernels.same(a, a.double())

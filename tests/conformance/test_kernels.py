"""Both plugins on the same kernels: the NPU's own operators called through the vendor's wheel and through ours, with
the same operands, return the same bits. kernels.yaml says which do not, and why.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.conformance import client, kernels
from tests.conftest import ROOT
from tests.npu_ops import samples
from tools.codegen import tables

CHIP = "Ascend950"
SAMPLES = [f"{name} {i}" for name, rows in samples.load().items() for i in range(len(rows))]


def known() -> dict[str, str]:
    """Sample, or operator where it is so in all of them → why the two differ."""
    table = tables.load(Path(__file__).with_name("kernels.yaml"))
    return {name: reason for reason, names in table.items() for name in names}


def vendors(vendor: Path, folder: Path, wanted: list[str]) -> dict[str, dict[str, Any]]:
    """Each sample's outcome. A process that dies or ends early is followed by another that begins with the next."""
    left = list(wanted)
    while left:
        done = client.run(vendor, "-m", "tests.conformance.kernels", str(folder), *left, ANYCEND_SOC=CHIP)
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


def short(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return repr(value)
    return f"{value.dtype}{list(value.shape)} {value.flatten()[:6].tolist()}"


def reason(reasons: dict[str, str], sample: str) -> str | None:
    return reasons.get(sample) or reasons.get(sample.partition(" ")[0])


def test_samples_have_the_same_bits(vendor: Path, tmp_path: Path) -> None:
    reasons = known()
    wanted = [sample for sample in SAMPLES if not reason(reasons, sample)]
    found = differences(vendors(vendor, tmp_path, wanted))
    assert found == {}, "\n".join(f"{sample}: {what}" for sample, what in found.items())


@pytest.mark.full
def test_what_is_known_to_differ_does(vendor: Path, tmp_path: Path) -> None:
    reasons = known()
    wanted = [sample for sample in SAMPLES if reason(reasons, sample)]
    found = differences(vendors(vendor, tmp_path, wanted))
    assert sorted(set(wanted) - set(found)) == [], "kernels.yaml says that these differ, and they do not"
    names = {sample.partition(" ")[0] for sample in SAMPLES} | set(SAMPLES)
    assert set(reasons) <= names


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

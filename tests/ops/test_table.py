"""ops/aten.yaml against the schemas, against cann/abi/aclnn.yaml and against what the software NPU computes."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "codegen"))
import abi  # noqa: E402
import aten  # noqa: E402
import aten_row  # noqa: E402
import aten_schemas  # noqa: E402
import tables  # noqa: E402
from aten_wrapper import Wrapper  # noqa: E402

WRAPPERS = aten.wrappers()


def called(text: str) -> list[str]:
    return re.findall(r"ACLNN\((\w+)\)", text)


def hand_written() -> set[str]:
    return {
        name
        for path in (ROOT / "torch_npu/csrc/ops").glob("*.cpp")
        for name in called(path.read_text(encoding="utf-8"))
    }


def computed() -> set[str]:
    """Functions the software NPU has: leaves of ops/aclnn.yaml, whatever sections they stand in."""
    table = tables.load(ROOT / "ops/aclnn.yaml")
    names: set[str] = set()
    for key, value in table.items():
        names |= {key} if key.startswith("aclnn") else {k for k in value if k.startswith("aclnn")}
    return names


@pytest.mark.parametrize("wrapper", WRAPPERS, ids=lambda w: w.row.func)
def test_a_row_binds_every_parameter_of_its_calls(wrapper: Wrapper) -> None:
    signatures = abi.aclnn()
    calls = wrapper.calls()
    assert calls or wrapper.is_native  # that calls PyTorch's composition, which has no CANN function of its own
    for call in calls:
        for name, arguments in re.findall(r"ACLNN\((\w+)\)\((.*?)\);", call):
            depth, count = 0, 1
            for c in arguments:
                depth += (c in "({<") - (c in ")}>")
                count += c == "," and depth == 0
            assert count == len(signatures[name])


def test_rows_register_each_overload_once() -> None:
    lines = [line for w in WRAPPERS for line in w.registrations()]
    names = re.findall(r'm\.impl\("([^"]+)"', "\n".join(lines))
    folder = ROOT / "torch_npu/csrc/ops"
    block = r"TORCH_LIBRARY_IMPL\(aten, PrivateUse1, m\) \{(.*?)(?: \}$|^\})"
    for path in [*folder.glob("*.cpp"), *folder.glob("composed/*.cpp")]:
        blocks = re.findall(block, path.read_text(encoding="utf-8"), re.S | re.M)
        names += re.findall(r'm\.impl\("([^"]+)"', "\n".join(blocks))
    twice = {n for n in names if names.count(n) > 1}
    assert not twice


# Copies take any two devices, and lengths may be the CPU's; the last asks whether a tensor may take another's place.
ANY_DEVICES = {"_copy_from", "_copy_from_and_resize", "ctc_loss.IntList", "ctc_loss.Tensor"}
ANY_DEVICES |= {"_has_compatible_shallow_copy_type"}
# PyTorch's own ldexp is mul and pow, which take a number on the CPU.
ANY_DEVICES |= {"ldexp.Tensor", "ldexp.out", "ldexp_"}


def test_hand_written_operators_check_the_devices_that_pytorchs_table_says() -> None:
    wanting = {
        str(f.func.name)
        for f in aten_schemas.Schemas().functions
        if aten_schemas.wants_one_device(f)
        and (sum("Tensor" in str(a.type) for a in f.func.arguments.flat_all) > 1 or "Tensor[]" in str(f.func))
    }
    unchecked = {
        name
        for path in (ROOT / "torch_npu/csrc/ops").glob("*.cpp")
        for name in re.findall(r'm\.impl\("([\w.]+)",\s*TORCH_FN', path.read_text(encoding="utf-8"))
    }
    assert unchecked & wanting == ANY_DEVICES


def test_the_software_npu_computes_every_function_called() -> None:
    missing = {n for w in WRAPPERS for c in w.calls() for n in called(c)} | hand_written()
    missing -= computed()
    assert not missing


def test_at_least_150_distinct_aclnn_functions_are_native() -> None:
    names = {n for w in WRAPPERS for c in w.calls() for n in called(c)} | hand_written()
    assert len(names & computed()) >= 150


def test_an_unbound_parameter_names_the_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "aten.yaml"
    table.write_text("- {func: abs, aclnn: aclnnAdd, meta: Unary(self)}\n", encoding="utf-8")
    monkeypatch.setattr(aten_row, "TABLE", table)
    with pytest.raises(SystemExit, match=r"ops/aten.yaml:1: abs: nothing to give to parameter `other` of aclnnAdd"):
        aten.wrappers()[0].calls()


def test_an_unknown_key_names_the_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "aten.yaml"
    table.write_text("# head\n- {func: abs, aclnnn: aclnnAbs}\n", encoding="utf-8")
    monkeypatch.setattr(aten_row, "TABLE", table)
    with pytest.raises(SystemExit, match=r"ops/aten.yaml:2: unknown keys \['aclnnn'\]"):
        aten_row.rows()


def test_a_check_stands_before_what_is_fast() -> None:
    both = [w for w in WRAPPERS if w.row.fast and w.row.check]
    assert both
    for wrapper in both:
        texts = [wrapper.function(kind, f) for kind, f in wrapper.kinds.items() if kind != "out"]
        assert all(0 < text.index(wrapper.row.check) < text.index("plain(") for text in texts), wrapper.row.func
        assert all(text.count(wrapper.row.check) == 1 for text in texts), wrapper.row.func


def test_an_alert_that_nobody_would_ask_names_the_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "aten.yaml"
    table.write_text("- {func: neg, aclnn: aclnnNeg, fast: float, alert: true}\n", encoding="utf-8")
    monkeypatch.setattr(aten_row, "TABLE", table)
    with pytest.raises(SystemExit, match=r"ops/aten.yaml:1: neg: `alert:` would not be asked where `fast:` skips"):
        aten.wrappers()


def test_generated_files_are_written_only_if_they_change(tmp_path: Path) -> None:
    for name, text in aten.files().items():
        abi.write(tmp_path / name, text)
    before = {p: p.stat().st_mtime_ns for p in tmp_path.iterdir()}
    for name, text in aten.files().items():
        abi.write(tmp_path / name, text)
    assert {p: p.stat().st_mtime_ns for p in tmp_path.iterdir()} == before


def test_a_shard_has_at_most_100_rows() -> None:
    sizes = [sum(aten.shard_of(w) == i for w in WRAPPERS) for i in range(aten.SHARDS)]
    assert max(sizes) <= 100 and sum(sizes) == len(WRAPPERS)


def test_needed_kernels_are_native(facts: Path) -> None:
    """What ten models reach the back end with (needed_kernels_privateuse1.tsv) has an npu kernel."""
    import torch

    needed = [
        line.split("\t")[0]
        for line in (facts / "torch_npu/needed_kernels_privateuse1.tsv").read_text().splitlines()[1:]
    ]
    missing = [n for n in needed if not torch._C._dispatch_has_kernel_for_dispatch_key(n, "PrivateUse1")]
    assert not missing

"""torch.npu.init_dump, set_dump, finalize_dump: the files hold the operators' arguments and results."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy
import pytest
import torch
from torch.utils._python_dispatch import _disable_current_modes, _get_current_dispatch_mode_stack

from torch_npu.utils.compare import Compare


@pytest.fixture
def dumped(tmp_path):
    """dumped(function, **settings): the files that a call left, by operator, number, side and index."""

    def dump(function, **settings) -> dict[str, numpy.ndarray]:
        torch.npu.init_dump()
        torch.npu.set_dump(written(tmp_path, dump_op_switch="on", **settings))
        try:
            function()
        finally:
            torch.npu.finalize_dump()
        files = sorted((tmp_path / "dump").rglob("*.npy"))
        form = re.compile(r"(.+\.\d+)\.\d{16}\.((?:input|output)\.\d+)\.npy")
        assert {file.parent.name for file in files} <= {"0", "1"}
        assert all(re.fullmatch(r"\d{14}", file.parents[1].name) for file in files)
        return {".".join(form.fullmatch(file.name).groups()): numpy.load(file) for file in files}

    yield dump


def written(folder: Path, **settings) -> Path:
    file = folder / "dump.json"
    file.write_text(json.dumps({"dump": {"dump_path": str(folder / "dump"), **settings}}))
    return file


def test_arguments_and_results(dumped):
    x, y = torch.tensor([1.0, 2.0]).npu(), torch.tensor([3.0, 4.0]).npu()
    found = dumped(lambda: x.mul(y).t().sum(), dump_mode="all", dump_list=[])
    assert {name: array.tolist() for name, array in found.items()} == {
        "aten.mul.Tensor.1.input.0": [1, 2],
        "aten.mul.Tensor.1.input.1": [3, 4],
        "aten.mul.Tensor.1.output.0": [3, 8],
        "aten.sum.default.2.input.0": [3, 8],
        "aten.sum.default.2.output.0": 11,
    }


@pytest.mark.parametrize(("mode", "sides"), [("input", {"input"}), ("output", {"output"}), (None, {"output"})])
def test_one_side(dumped, mode, sides):
    x = torch.ones(2).npu()
    found = dumped(lambda: x + 1, **({"dump_mode": mode} if mode else {}))
    assert {name.split(".")[-2] for name in found} == sides


def test_an_argument_that_is_written_is_dumped_as_it_was_and_as_it_is(dumped):
    x = torch.ones(2).npu()
    found = dumped(lambda: x.add_(5), dump_mode="all")
    assert found["aten.add_.Tensor.1.input.0"].tolist() == [1, 1]
    assert found["aten.add_.Tensor.1.output.0"].tolist() == [6, 6]


@pytest.mark.filterwarnings("ignore:Sparse CSR", "ignore:The PyTorch API of nested")
def test_what_is_no_array_is_left_out_and_named_once_an_operator(dumped):
    x = torch.ones(3, 3).npu()
    parts = [torch.ones(2), torch.ones(3)]
    sparse, rows = torch.eye(3).npu().to_sparse(), torch.eye(3).npu().to_sparse_csr()
    nested = torch.nested.nested_tensor(parts).npu()
    made = {}

    def work():
        made.update(sparse=sparse @ x, again=sparse @ x, rows=rows @ x, nested=nested * 2)

    with pytest.warns(UserWarning, match="is not written") as said:
        found = dumped(work, dump_mode="all")
    assert all(made[name].tolist() == x.tolist() for name in ("sparse", "again", "rows"))
    assert made["nested"].unbind()[1].tolist() == [2, 2, 2]
    texts = [str(each.message) for each in said if "set_dump" in str(each.message)]
    nested_is_no_array = "input 0 of aten.mul.Tensor is not written: a nested tensor is no array"
    assert f"npu: set_dump: {nested_is_no_array}; this is said once an operator" in texts
    assert any("a sparse_coo tensor is no array" in text for text in texts)
    named = [text.split(" of ")[1].split(" is ")[0] for text in texts]
    assert len(named) == len(set(named))
    written = [name for name, array in found.items() if ".output." in name and array.tolist() == x.tolist()]
    assert len(written) >= 3  # of the products


def test_backward_random_numbers_and_types_that_numpy_lacks(dumped):
    x = torch.tensor([0.5, -1.5], dtype=torch.bfloat16).npu().requires_grad_()

    def work():
        x.relu().sum().backward()
        torch.rand(3, device="npu:1")

    found = dumped(work)
    assert found["aten.relu.default.1.output.0"].dtype == numpy.float32
    assert found["aten.relu.default.1.output.0"].tolist() == [0.5, 0]
    backward = [array for name, array in found.items() if name.startswith("aten.threshold_backward")]
    assert [array.tolist() for array in backward] == [[1, 0]]
    assert [array.shape for name, array in found.items() if name.startswith("aten.rand.default")] == [(3,)]


def test_zeros_without_memory_are_dumped_as_zeros(dumped):
    x = torch.ones(3).npu().requires_grad_()
    found = dumped(lambda: x.sgn().sum().backward(), dump_mode="all")
    assert x.grad.tolist() == [0, 0, 0] and len(found) > 3


def test_nothing_is_dumped_afterwards_or_of_the_cpu(dumped, tmp_path):
    assert dumped(lambda: torch.ones(3) + 1) == {}
    torch.ones(3).npu() + 1
    assert list((tmp_path / "dump").rglob("*.npy")) == []


def test_a_switch_that_is_off_is_said(tmp_path):
    torch.npu.init_dump()
    with pytest.warns(UserWarning, match='dump_op_switch is "off"'):
        torch.npu.set_dump(written(tmp_path))
    torch.npu.finalize_dump()


def test_the_order_of_calls():
    with pytest.raises(RuntimeError, match=r"set_dump needs init_dump\(\) first"):
        torch.npu.set_dump("none.json")
    with pytest.raises(RuntimeError, match=r"finalize_dump needs init_dump\(\) first"):
        torch.npu.finalize_dump()
    torch.npu.init_dump()
    with pytest.raises(RuntimeError, match="init_dump was called before"):
        torch.npu.init_dump()
    torch.npu.finalize_dump()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "no JSON"),
        ("[]", 'it has no object "dump"'),
        ('{"dump": {}}', "dump_path is missing"),
        ('{"dump": {"dump_path": "x", "dump_mode": "both"}}', 'dump_mode is "output" or "input" or "all" here'),
        ('{"dump": {"dump_path": "x", "dump_data": "stats"}}', 'dump_data is "tensor" here, not "stats"'),
        ('{"dump": {"dump_path": "x", "dump_list": [{"layer": ["a"]}]}}', "dump_list is \\[\\] here"),
        (
            '{"dump": {"dump_path": "x", "dump_step": "0"}}',
            "dump_step is not done here; there are dump_path",
        ),
    ],
)
def test_a_wrong_file_is_an_error_that_names_what_is_wrong(tmp_path, text, said):
    (tmp_path / "dump.json").write_text(text)
    torch.npu.init_dump()
    try:
        with pytest.raises(ValueError, match=said):
            torch.npu.set_dump(tmp_path / "dump.json")
        with pytest.raises(OSError):
            torch.npu.set_dump(tmp_path / "none.json")
    finally:
        torch.npu.finalize_dump()


def test_a_dump_that_ends_below_another_mode_ends(tmp_path):
    torch.npu.init_dump()
    torch.npu.set_dump(written(tmp_path, dump_op_switch="on"))
    with Compare(report=False) as found:
        torch.npu.finalize_dump()
        torch.ones(3).npu() + 1
    assert list((tmp_path / "dump").rglob("*.npy")) == [] and found.compared == 2


def test_a_dump_that_ends_while_modes_are_set_aside_ends(tmp_path):
    for _ in range(2):
        torch.npu.init_dump()
        torch.npu.set_dump(written(tmp_path, dump_op_switch="on"))
        with _disable_current_modes():
            torch.npu.finalize_dump()
        torch.ones(3).npu() + 1
    assert list((tmp_path / "dump").rglob("*.npy")) == []
    assert len(_get_current_dispatch_mode_stack()) == 1, "what is left is taken away by the next dump"
    torch.npu.init_dump()
    torch.npu.finalize_dump()
    assert _get_current_dispatch_mode_stack() == []


def test_a_full_disk_is_an_error_that_names_the_file(dumped, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(numpy, "save", full)
    with pytest.raises(
        OSError, match=r"npu: set_dump: /.*\.npy cannot be written \(No space left on device\): make room"
    ):
        dumped(lambda: torch.ones(2).npu() + 1)

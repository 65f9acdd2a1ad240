"""torchair's names (torch_npu/dynamo/torchair): programs find them, converters are kept, a graph is refused."""

from __future__ import annotations

import pytest
import torch
import torchair
from torchair import ge

import torch_npu  # noqa: F401  makes torchair known
from tests import forked


def test_it_is_found_where_nothing_else_has_the_name(tmp_path):

    assert torchair.__file__.startswith(torch_npu.__path__[0])
    (tmp_path / "torchair.py").write_text("mine = True")
    code = "import torch_npu, torchair; assert torchair.mine"
    done = forked.run(["-c", code], cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_converter_is_kept_and_given_back():
    def converter(x: ge.Tensor, *, dtype: int = ge.DataType.DT_BF16, meta_outputs: ge.TensorSpec = None):
        return ge.custom_op("Abs", inputs={"x": x}, outputs=["y"])

    operator = torch.ops.aten.abs.default
    assert torchair.register_fx_node_ge_converter(operator)(converter) is converter
    assert torchair.CONVERTERS.pop(operator) is converter


@pytest.mark.parametrize("name", ["get_npu_backend", "get_compiler", "CompilerConfig", "dynamo_export"])
def test_a_ge_graph_is_refused_by_name(name):
    with pytest.raises(NotImplementedError, match=rf"torchair\.{name} .*npugraph_ex"):
        getattr(torchair, name)()


@pytest.mark.parametrize("name", ["custom_op", "Const", "Cast", "Tensor", "TensorSpec"])
def test_a_node_is_refused_by_name(name):
    with pytest.raises(NotImplementedError, match=rf"torchair\.ge\.{name} .*npugraph_ex"):
        getattr(ge, name)(0)


def test_numbers_of_data_types_are_ges():
    wanted = {"FLOAT": 0, "FLOAT16": 1, "INT32": 3, "INT64": 9, "BOOL": 12, "BF16": 27}
    assert {name: int(ge.DataType[f"DT_{name}"]) for name in wanted} == wanted

"""The C++ border: what the vendor's graph mode binds is there, and says what operator types exist."""

from __future__ import annotations

import ctypes as C

import pytest

from tests.graph_engine.border import Refused, Session, library, message, symbol
from tests.graph_engine.test_run import relu_plus
from tools.codegen import ge, tables

BOUND = tables.load(ge.ROOT / "cann" / "abi" / "ge.yaml")


@pytest.mark.parametrize("lib", BOUND)
def test_every_symbol_is_there(lib):
    assert [name for name in BOUND[lib] if not hasattr(library(lib), name)] == []


@pytest.mark.parametrize("lib", ["fmk_parser", "ascend_protobuf"])
def test_what_is_linked_and_not_called_is_there(lib):
    assert library(lib)


def exists(kind: str) -> bool:
    function = library("graph")._ZN2ge15OperatorFactory9IsExistOpEPKc
    function.argtypes, function.restype = [C.c_char_p], C.c_bool
    return function(kind.encode())


def test_types_that_exist():
    assert all(exists(row.type) for row in ge.rows()) and not exists("Einsum") and not exists("")


def test_a_type_knows_its_inputs():
    operator, description = (C.c_uint64 * 3)(), (C.c_uint64 * 2)()
    create = symbol("_ZN2ge15OperatorFactory14CreateOperatorEPKcS2_", C.c_char_p, C.c_char_p, answer=C.c_void_p)
    create(operator, b"name", b"LayerNormV4")
    symbol("_ZN2ge10TensorDescC1Ev", answer=None)(description)
    update = symbol("_ZN2ge8Operator15UpdateInputDescEPKcRKNS_10TensorDescE", C.c_char_p, C.c_void_p)
    assert update(operator, b"gamma", description) == 0
    assert update(operator, b"delta", description) != 0 and "LayerNormV4 has no input delta" in message()


def test_a_number_that_is_taken_is_refused():
    session = Session()
    session.add(1, relu_plus(0.0))
    with pytest.raises(Refused, match="the session has a graph 1 already"):
        session.add(1, relu_plus(0.0))
    session.remove(1)
    with pytest.raises(Refused, match="the session has no graph 1"):
        session.compile(1)
    session.close()

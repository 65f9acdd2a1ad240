"""torchair.ge: what converters are written with. Numbers of data types are GE's; making a node is refused."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NoReturn

from . import refuse


class DataType(IntEnum):
    DT_FLOAT = 0
    DT_FLOAT16 = 1
    DT_INT8 = 2
    DT_INT32 = 3
    DT_UINT8 = 4
    DT_INT16 = 6
    DT_UINT16 = 7
    DT_UINT32 = 8
    DT_INT64 = 9
    DT_UINT64 = 10
    DT_DOUBLE = 11
    DT_BOOL = 12
    DT_STRING = 13
    DT_COMPLEX64 = 16
    DT_COMPLEX128 = 17
    DT_BF16 = 27
    DT_INT4 = 29


class Tensor:
    def __init__(self, *_: Any, **__: Any) -> None:
        refuse("ge.Tensor")


class TensorSpec:
    def __init__(self, *_: Any, **__: Any) -> None:
        refuse("ge.TensorSpec")


def custom_op(*_: Any, **__: Any) -> NoReturn:
    refuse("ge.custom_op")


def Const(*_: Any, **__: Any) -> NoReturn:  # noqa: N802  (the interface's spelling)
    refuse("ge.Const")


def Cast(*_: Any, **__: Any) -> NoReturn:  # noqa: N802
    refuse("ge.Cast")

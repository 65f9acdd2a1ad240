"""Sample calls with one operand deformed - another type, other sizes, no elements, none at all, on another device -, on
the device and for "meta": whether exactly one of the two refuses. What test_both.py judges, and a list of it:

    python -m tests.npu_ops.both [--words] [OPERATOR …]     print calls that one alone refuses, or both in other words

A trace runs for "meta" what the program will run on the device, so that either both take a call or neither. What it is
not: a judge of when the device refuses (deformed.py), or of what values decide: an error from the stream is none here.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.npu_ops import deformed, samples

TYPES = (
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128, torch.complex32),
    *(torch.bool, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32),
    *(torch.uint64, torch.float8_e5m2, torch.float8_e4m3fn, torch.float8_e8m0fnu),
)
ELSEWHERE = "on the CPU"


class Found(NamedTuple):
    argument: str
    how: str
    device: str | None  # what it says, None where it takes the call
    meta: str | None

    @property
    def differ(self) -> bool:
        return (self.device is None) != (self.meta is None)


def converted(t: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """With the values as far as the type has them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of imaginary parts that are dropped
        wide = t.to(torch.float32) if t.dtype.itemsize == 1 and t.is_floating_point() else t
        wide = wide.real if wide.is_complex() and not dtype.is_complex else wide
        return wide.to(torch.complex64).to(dtype) if dtype == torch.complex32 else wide.to(dtype)


def tensors(t: torch.Tensor) -> Iterator[tuple[str, Any]]:
    yield from ((f"{dtype}", converted(t, dtype)) for dtype in TYPES if dtype != t.dtype)
    yield from deformed.tensors(t)
    if t.dim() and t.shape[0]:
        yield "no elements", t.narrow(0, 0, 0)
    if t.dim() > 1 and t.shape[-1]:
        yield "no elements behind", t.narrow(-1, 0, 0)


def calls(given: dict[str, Any], schema: torch.FunctionSchema) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Argument, what is done to it, all arguments."""
    for name, value in given.items():
        if isinstance(value, torch.Tensor):
            for how, other in tensors(value):
                yield name, how, {**given, name: other}
            yield name, "none", {**given, name: None}
        elif isinstance(value, list) and value and all(isinstance(v, torch.Tensor) for v in value):
            for how, other in (("one more", [*value, value[-1]]), ("one less", value[:-1]), ("empty", [])):
                yield name, how, {**given, name: other}
            for how, other in tensors(value[0]):
                yield name, f"the first: {how}", {**given, name: [other, *value[1:]]}


def said(overload: Any, arguments: dict[str, Any], synchronize: bool = False) -> str | None:
    try:
        overload(**arguments)
        if synchronize:
            torch.npu.synchronize()
    except torch.AcceleratorError:
        deformed.quiet()
        return None
    except Exception as error:  # of any kind: PyTorch's own for "meta" may be a KeyError
        return f"{type(error).__name__}: {error}"
    return None


def compared(overload: Any, given: dict[str, Any], argument: str, how: str) -> Found:
    moved = samples.each(given, lambda t: t.npu())
    sketched = samples.each(given, lambda t: t.to("meta"))
    return Found(argument, how, said(overload, moved, synchronize=True), said(overload, sketched))


def elsewhere(overload: Any, given: dict[str, Any]) -> Iterator[Found]:
    """Each argument on the CPU while the others are on the device, which FakeTensors know and "meta" does not."""
    for name, value in given.items():
        if not any(isinstance(v, torch.Tensor) for v in (value if isinstance(value, list) else [value])):
            continue
        rest = {k: samples.each(v, lambda t: t.npu()) if k != name else v for k, v in given.items()}
        with FakeTensorMode() as mode:
            fake = samples.each(rest, mode.from_tensor)
            sketched = said(overload, fake)
        yield Found(name, ELSEWHERE, said(overload, rest, synchronize=True), sketched)


def found(name: str, index: int, only: re.Pattern[str] | None = None) -> Iterator[Found]:
    """Of a sample that both take each call with one operand changed (where `only` is found in what is done to it)."""
    overload = samples.operator(name)
    given = samples.operands(name, index, overload._schema)
    if said(overload, samples.each(given, lambda t: t.to("meta"))) is not None:
        return  # the result depends on values: judged.yaml
    for argument, how, arguments in calls(given, overload._schema):
        if only is None or only.search(how):
            yield compared(overload, arguments, argument, how)
    if only is None or only.search(ELSEWHERE):
        yield from elsewhere(overload, given)


def main() -> None:
    words = "--words" in sys.argv
    for name in [a for a in sys.argv[1:] if a != "--words"] or samples.load_once():
        for index in range(len(samples.load_once()[name])):
            for one in found(name, index):
                both = one.device is not None and one.meta is not None
                if one.differ or (words and both and one.device.split("\n")[0] != one.meta.split("\n")[0]):
                    print(name, index, *(str(v).replace("\n", " ")[:300] for v in one), sep="\t", flush=True)


if __name__ == "__main__":
    main()

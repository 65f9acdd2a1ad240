"""Every operator with a sample in float32, float16 and bfloat16, with autocast and without: FakeTensors take a call
where the device does, and promise its sizes, types and strides. By default float32 under autocast of what converts its
operands; all nine, and opcheck of the types that a sample does not have, are marked `full`. What has no sample:
without_sample.yaml.
"""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.npu_ops import samples
from tests.npu_ops.test_autocast import rule_of
from tests.npu_ops.test_samples import CHECKS, judged, prepared, promised, refusal, same, unwritten

# PyTorch's own stft, through which the trace of its gradient goes, has no 16-bit types.
UNTRACED = {"stft_backward": "Unsupported dtype"}
FLOATING = (torch.float32, torch.float16, torch.bfloat16)
TABLE = samples.load()


def as_type(name: str, dtype: torch.dtype) -> tuple[Any, dict[str, Any]]:
    """The first sample with its operands of these types in one of them."""
    return prepared(f"{name} 0", lambda t: t.to(dtype) if t.dtype in FLOATING else t)


def said(overload: Any, given: dict[str, Any], half: torch.dtype | None) -> Any:
    """What results are, or that the call is refused."""
    cast = torch.autocast("npu", dtype=half) if half else contextlib.nullcontext()
    try:
        with cast:
            found = promised(overload(**given))
    except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
        return f"{type(error).__name__}: {error}"
    return found


def refused(outcome: Any) -> bool:
    return isinstance(outcome, str)


def compared(name: str, dtype: torch.dtype, half: torch.dtype | None) -> tuple[Any, Any]:
    """What the device gives, and what FakeTensors promise."""
    overload, given = as_type(name, dtype)
    with FakeTensorMode() as mode:
        sketched = said(overload, samples.each(given, mode.from_tensor), half)
    return said(overload, given, half), sketched


def apart(name: str, types: list[tuple[torch.dtype, torch.dtype | None]]) -> dict[Any, tuple[Any, Any]]:
    """Where only one of them refuses, or they differ."""
    if refusal("meta", f"{name} 0"):
        return {}
    found = {each: compared(name, *each) for each in types}
    torch.npu.synchronize()
    return {
        each: (got, sketched)
        for each, (got, sketched) in found.items()
        if (got != sketched and not (refused(got) and refused(sketched)))
    }


@pytest.mark.parametrize("name", filter(rule_of, TABLE))
def test_fake_tensors_promise_what_autocast_gives(name: str) -> None:
    assert apart(name, [(torch.float32, torch.bfloat16)]) == {}


@pytest.mark.full
@pytest.mark.parametrize("name", TABLE)
def test_fake_tensors_promise_what_the_device_gives(name: str) -> None:
    assert apart(name, list(itertools.product(FLOATING, (None, torch.float16, torch.bfloat16)))) == {}


@pytest.mark.full
@pytest.mark.parametrize("dtype", FLOATING, ids=lambda t: str(t)[6:])
@pytest.mark.parametrize("name", TABLE)
def test_opcheck(name: str, dtype: torch.dtype) -> None:
    """Of what the device takes in this type, where the sample is of another; gradients are in test_samples.py."""
    overload, given = as_type(name, dtype)
    own = prepared(f"{name} 0")[1]
    if all(map(same, *(torch.utils._pytree.tree_leaves(v) for v in (given, own)))):
        return
    if refused(said(overload, as_type(name, dtype)[1], None)):
        return
    checks = CHECKS[:2] if unwritten(f"{name} 0") else CHECKS
    half = name in UNTRACED and dtype != torch.float32
    with pytest.raises(Exception, match=UNTRACED[name]) if half else judged("opcheck", f"{name} 0"):
        torch.library.opcheck(overload, (), given, test_utils=checks)

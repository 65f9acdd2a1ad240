"""Switches and options of torch.npu: each reaches CANN, or says that it cannot."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.core.tools import LIBRARY, run


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    yield
    torch.npu.matmul.allow_hf32, torch.npu.conv.allow_hf32 = False, True
    torch.use_deterministic_algorithms(False)


def test_options_of_the_compiler_reach_cann() -> None:
    torch.npu.set_option({"ACL_PRECISION_MODE": "must_keep_origin_dtype"})
    compiler = ctypes.CDLL(str(LIBRARY.with_name("libacl_op_compiler.so")))
    value = ctypes.create_string_buffer(64)
    assert compiler.aclGetCompileopt(0, value, ctypes.c_size_t(64)) == 0
    assert value.value == b"must_keep_origin_dtype"


def test_a_value_that_the_compiler_does_not_know_is_refused() -> None:
    with pytest.raises(RuntimeError, match='ACL_PRECISION_MODE is one of .*, not "origin"'):
        torch.npu.set_option({"ACL_PRECISION_MODE": "origin"})


def test_switches_by_option() -> None:
    torch.npu.set_option({"ALLOW_MATMUL_HF32": "enable", "ALLOW_CONV_HF32": "disable", "deterministic": "enable"})
    assert torch.npu.matmul.allow_hf32 and not torch.npu.conv.allow_hf32
    assert torch.are_deterministic_algorithms_enabled()


def test_an_option_that_does_not_exist_is_refused_and_sets_nothing() -> None:
    with pytest.raises(ValueError, match="there is no option 'ACL_PRECISON_MODE'; there are"):
        torch.npu.set_option({"ALLOW_MATMUL_HF32": "enable", "ACL_PRECISON_MODE": "x"})
    assert not torch.npu.matmul.allow_hf32
    with pytest.raises(ValueError, match="'enable' or 'disable'"):
        torch.npu.set_option({"deterministic": True})
    with pytest.raises(TypeError, match="dict"):
        torch.npu.set_option([])


def test_what_has_no_effect_says_so() -> None:
    with pytest.raises(ValueError, match="always ND"):
        torch.npu.set_option({"MM_BMM_ND_ENABLE": "disable"})
    with pytest.warns(UserWarning, match="never compiled online"):
        torch.npu.set_option({"jitCompile": "enable"})
    with pytest.warns(UserWarning, match="always ND"):
        torch.npu.config.allow_internal_format = True
    torch.npu.config.allow_internal_format = False


def test_hf32_is_a_cube_math_type(tmp_path: Path) -> None:
    text = """
        import torch
        x = torch.eye(2).npu()
        x @ x
        torch.npu.matmul.allow_hf32 = True
        x @ x
        torch.npu.synchronize()
    """
    run(text, ANYCEND_CALL_LOG=str(tmp_path / "calls"))
    calls = [line for line in (tmp_path / "calls").read_text().splitlines() if "aclnnMm" in line]
    keep, hf32 = calls
    assert keep != hf32


def test_cann_is_told_of_deterministic_algorithms() -> None:
    runtime = ctypes.CDLL(str(LIBRARY))

    def told() -> int:
        torch.ones(2, device="npu").add_(1)
        value = ctypes.c_int64(-1)
        assert runtime.aclrtGetSysParamOpt(0, ctypes.byref(value)) == 0
        return value.value

    torch.use_deterministic_algorithms(True)
    assert told() == 1
    torch.use_deterministic_algorithms(False)
    assert told() == 0

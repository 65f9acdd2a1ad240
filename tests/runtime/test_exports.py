"""Every symbol of the table is exported, every stub says its own name, settings that clients ask for at import."""

from __future__ import annotations

import ctypes as C

import pytest

from tests.runtime.acl import Raw, library_folder, table
from tools.abi import status

LIBRARIES = sorted({row["lib"] for row in table().values()})


def test_the_libraries_export_what_the_table_says(acl):
    if not (library_folder() / "libnnopbase.so").exists() or not (library_folder() / "libhccl.so").exists():
        pytest.skip("this build has only the runtime's libraries")
    assert status.differences(library_folder()) == []


@pytest.mark.parametrize("lib", [lib for lib in LIBRARIES if lib not in ("nnopbase", "hccl")])
def test_every_symbol_can_be_looked_up(acl, lib):
    library = C.CDLL(str(library_folder() / f"lib{lib}.so"))
    missing = [name for name, row in table().items() if row["lib"] == lib and not hasattr(library, name)]
    assert missing == []


@pytest.mark.parametrize(
    ("lib", "symbol", "code"),
    [
        ("ascendcl", "aclmdlLoadFromFile", 200006),
        ("acl_op_compiler", "aclGenGraphAndDumpForOp", 200006),
        ("lcal", "LcclAllReduce", -1),
    ],
)
def test_a_stub_fails_with_its_name(acl, lib, symbol, code):
    got = getattr(C.CDLL(str(library_folder() / f"lib{lib}.so")), symbol)()
    assert got == code
    assert acl.message() == f"{symbol} (lib{lib}.so) is not supported by the software NPU"


def test_the_status_command_counts_every_symbol(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["status.py"])
    status.main()
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert sum(int(n) + int(s) for _, n, s in rows) == len(list(status.symbols()))


def test_just_in_time_compilation_is_off(acl):
    compiler = Raw(name="libacl_op_compiler.so")
    value = C.create_string_buffer(16)
    assert compiler.aclGetCompileoptSize(10) == len("disable") + 1
    assert compiler.aclGetCompileopt(10, value, 16) == 0
    assert value.value == b"disable"
    assert compiler.aclGetCompileopt(10, value, 3) == 100000


def test_system_parameters_are_found_through_the_compiler_library(acl):
    assert hasattr(C.CDLL(str(library_folder() / "libacl_op_compiler.so")), "aclrtCtxSetSysParamOpt")


def test_bounded_strings(acl):
    library = C.CDLL(str(library_folder() / "libascendcl.so"))
    text = C.create_string_buffer(8)
    assert library.snprintf_s(text, C.c_size_t(8), C.c_size_t(7), b"%s", b"seven77") == 7
    assert library.snprintf_s(text, C.c_size_t(8), C.c_size_t(9), b"%s", b"too long") == -1
    assert text.value == b""

"""Every symbol of the table is exported, every stub says its own name, settings that clients ask for at import."""

from __future__ import annotations

import ctypes as C
import struct

import pytest

from tests.runtime.acl import ROOT, Raw, library_folder, table
from tools.abi import status
from tools.codegen import tables


def other_tables() -> list[dict[str, dict]]:
    return [tables.load(ROOT / "cann" / "abi" / name) for name in ("hccl.yaml", "dcmi.yaml", "mspti.yaml")]


LIBRARIES = sorted({row["lib"] for row in table().values()})


def test_the_libraries_export_what_the_table_says(acl):
    if not (library_folder() / "libnnopbase.so").exists() or not (library_folder() / "libhccl.so").exists():
        pytest.skip("this build has only the runtime's libraries")
    assert status.differences(library_folder()) == []


def test_a_section_among_the_symbols_is_none(tmp_path):
    """Libraries of aarch64 have some. The file: its header, names, symbols, sections."""
    names, symbol = b"\0one\0\0\0\0", struct.Struct("<IBBH16x")
    symbols = symbol.pack(0, 0, 0, 0) + symbol.pack(0, 3, 0, 1) + symbol.pack(1, 0x12, 0, 1)
    of_symbols, end = 64 + len(names), 64 + len(names) + len(symbols)
    header = b"\x7fELF\2\1".ljust(0x28, b"\0") + struct.pack("<Q10xHHxx", end, 64, 3)
    sections = (
        (0, 0, 0, 0),
        (3, 64, len(names), 0),
        (11, of_symbols, len(symbols), 1),
    )
    packed = (struct.pack("<4xI16xQQI20x", *section) for section in sections)
    (tmp_path / "lib.so").write_bytes(header + names + symbols + b"".join(packed))
    assert status.exported(tmp_path / "lib.so") == {"one"}


@pytest.mark.parametrize("lib", [lib for lib in LIBRARIES if lib not in ("nnopbase", "hccl")])
def test_every_symbol_can_be_looked_up(acl, lib):
    library = C.CDLL(str(library_folder() / f"lib{lib}.so"))
    missing = [name for name, row in table().items() if row["lib"] == lib and not hasattr(library, name)]
    assert missing == []


# What a stub answers: its type's documented failure. A type that is no status answers "none".
FAILURES = {
    "aclError": 200006, "aclnnStatus": 561000, "HcclResult": 5, "msptiResult": 999, "AmlStatus": 200006, "int": -1,
    "int32_t": -1, "uint32_t": 0xFFFFFFFF, "aclDataType": -1, "aclFormat": -1, "acltdtTensorType": -1,
    "aclprofSubscribeOpFlag": 255,
}  # fmt: skip
FAILURES_OF_LIBRARY = {"dcmi": -8255, "ascend_hal": 0xFFFE, "runtime": 207000}
NONE = {"bool", "size_t", "uint64_t", "aclFloat16", "float", "mstxRangeId", "mstxDomainHandle_t", "mstxMemHeapHandle_t",
        "aclrtAllocatorDesc", "aclrtBinary"}  # fmt: skip
STUBS = [
    (row["lib"], name, row["ret"].strip())
    for rows in (table(), *other_tables())
    for name, row in rows.items()
    if row["soft"] == "stub"
]
REASONS = {name: row["why"] for rows in (table(), *other_tables()) for name, row in rows.items() if "why" in row}


@pytest.mark.parametrize("lib", sorted({lib for lib, _, _ in STUBS}))
def test_every_stub_fails_with_its_name(acl, lib):
    path = library_folder() / f"lib{lib}.so"
    if not path.exists():
        pytest.skip(f"this build has no {path.name}")
    library, wrong = C.CDLL(str(path)), []
    for name, ret in [(name, ret) for of, name, ret in STUBS if of == lib]:
        function = getattr(library, name)
        function.restype = C.c_float if ret == "float" else C.c_longlong
        got = function()
        if "*" in ret or ret in NONE:
            expected = 0
        elif ret in ("int", "int32_t"):
            expected = FAILURES_OF_LIBRARY.get(lib, -1)
        else:
            expected = None if ret == "void" else FAILURES[ret]
        said = acl.message()
        if (expected is not None and got != expected) or said != message_of(name, lib):
            wrong.append((name, ret, got, said))
    assert wrong == []


def message_of(symbol: str, lib: str) -> str:
    why = f": {REASONS[symbol]}" if symbol in REASONS else ""
    return f"{symbol} (lib{lib}.so) is not supported by the software NPU{why}"


def test_a_stub_whose_row_has_a_reason_says_it(acl):
    assert Raw(name="libmsprofiler.so").aclprofModelSubscribe(1, None) == 200006
    assert acl.message().endswith("none runs here; aclprofStart records the operators")


LOADS = "aclrtBinaryLoad aclrtBinaryLoadFromFile aclrtBinaryLoadFromData aclopCreateKernel rtDevBinaryRegister"


@pytest.mark.parametrize("name", LOADS.split())
def test_a_device_binary_is_refused_by_that_name_with_what_to_do(acl, name):
    assert getattr(Raw(name=f"lib{table()[name]['lib']}.so").library, name)() != 0
    said = acl.message()
    assert f"{name} (lib" in said and "a device binary (.o, .npubin, .bin) never runs here" in said
    assert "compile the kernel's source with the software NPU's bisheng" in said


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

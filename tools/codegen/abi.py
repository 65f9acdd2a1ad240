"""Generate C from cann/abi: declarations, stubs, and the plugin's symbol table.

    python tools/codegen/abi.py OUT_DIR

writes into OUT_DIR (the build tree; nothing generated is committed):
  include/acl/enums.h           every enumeration and constant
  include/{acl,hccl,dcmi,mspti}/api.h  one declaration for each symbol whose types are declared
  include/aclnn/api.h           two declarations for each aclnn operator
  include/aclnn/written.h       which parameters each aclnn operator writes
  stubs/<library>.cpp           a body for each symbol the software NPU does not implement
  include/cann_loader_table.inc rows the plugin resolves at load (marked `plugin: required` or `optional`)
  include/cann_later_table.inc  rows it resolves when somebody first needs one of them (`plugin: later`)
  include/cann_mspti_table.inc  libmspti's and mstx's, which it resolves when it profiles
  include/cann_status_names.inc every status code with its name, for messages
Files are rewritten only if their text changes.
"""

from __future__ import annotations

import functools
import re
import sys
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))
import tables  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
ABI = ROOT / "cann" / "abi"
C_TYPES = {
    "void",
    "char",
    "int",
    "bool",
    "float",
    "double",
    "size_t",
    "const",
    "unsigned",
    "long",
    "struct",
    "va_list",
    "int8_t",
    "int16_t",
    "int32_t",
    "int64_t",
    "uint8_t",
    "uint16_t",
    "uint32_t",
    "uint64_t",
}


class Symbol(NamedTuple):
    """One row of acl.yaml, hccl.yaml, dcmi.yaml or mspti.yaml."""

    name: str
    lib: str
    ret: str
    args: str
    soft: str  # "native": implemented by the software NPU; "stub": generated body
    plugin: str | None  # "required" or "optional": the plugin's loader resolves it; "later": at its first use
    why: str | None  # of a stub: why there is no more of it, and what to use instead
    header: str | None = None  # "none": of a type that its one file has; cann/include knows neither


class Param(NamedTuple):
    """One parameter of an aclnn operator."""

    type: str
    name: str
    way: str  # in, out, inout
    optional: bool


def load(name: str) -> dict:
    return tables.load(ABI / name)


def symbols(name: str) -> list[Symbol]:
    return [
        Symbol(k, v["lib"], v["ret"], v["args"], v["soft"], v.get("plugin"), v.get("why"), v.get("header"))
        for k, v in load(name).items()
    ]


def parse_param(text: str) -> Param:
    m = re.fullmatch(r"(?:(out|inout) )?(.*?[ *])(\w+)(\??)", text.strip())
    if not m:
        raise SystemExit(f"cann/abi/aclnn.yaml: cannot read parameter {text!r}")
    return Param(m.group(2).strip(), m.group(3), m.group(1) or "in", bool(m.group(4)))


@functools.cache
def aclnn() -> dict[str, list[Param]]:
    """Operator name -> its ordered parameters, without workspaceSize and executor."""
    return {op: [parse_param(p) for p in sig.split(";") if p.strip()] for op, sig in load("aclnn.yaml").items()}


def normal(name: str) -> str:
    """A parameter's name as it is compared with those of ATen and of ops/npu.yaml."""
    return re.sub(r"(optional|ref)$", "", name.lower().replace("_", "")) or name.lower()


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def enums_header() -> str:
    out = ["// Generated from cann/abi/enums.yaml.", "#pragma once", ""]
    for name, values in load("enums.yaml").items():
        pairs = ",\n".join(f"  {k} = {v}" for k, v in values.items())
        if name in ("constants", "aclnnStatus"):
            out += [
                f"enum {{\n{pairs}\n}};"
                if name != "constants"
                else "\n".join(f"#define {k} {v}" for k, v in values.items()),
                "",
            ]
        else:
            out += [f"typedef enum {name} {{\n{pairs}\n}} {name};", ""]
    return "\n".join(out)


def declared_types() -> set[str]:
    names = set(C_TYPES) | {n for n in load("enums.yaml") if n != "constants"}
    for header in (ROOT / "cann" / "include").rglob("*.h"):
        text = header.read_text(encoding="utf-8")
        names |= set(re.findall(r"typedef\s+(?:struct|union|enum)\s+\w+\s+(\w+)\s*;", text))
        names |= set(re.findall(r"\}\s*(\w+)\s*;", text))
        names |= set(re.findall(r"typedef\s+[\w\s*]+?(\w+)\s*;", text))
        names |= set(re.findall(r"typedef\s+\w+\s*\**\s*\(\*(\w+)\)", text))
    return names


def spelled(ret: str, name: str, args: str) -> str:
    return f"{ret} {name}({args or 'void'})"


def types_of(symbol: Symbol) -> set[str]:
    found = set(re.findall(r"\w+", symbol.ret))
    for part in filter(None, (p.strip() for p in symbol.args.split(","))):
        words = re.findall(r"[A-Za-z_]\w*", part)
        named = len(words) > 1 and words[-1] not in C_TYPES and not part.endswith("*") and words[-2:-1] != ["const"]
        found |= set(words[:-1] if named else words)
    return found


def declarable(symbol: Symbol, types: set[str]) -> bool:
    return types_of(symbol) <= types and "..." not in symbol.args


def api_header(rows: list[Symbol], source: str, include: str, types: set[str]) -> str:
    out = [
        f"// Generated from cann/abi/{source}: one declaration a symbol.",
        "#pragma once",
        f'#include "{include}"',
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
    ]
    for s in rows:
        if declarable(s, types):
            out.append(spelled(s.ret, s.name, s.args) + ";")
        elif s.soft == "native" and "..." not in s.args and s.header != "none":
            raise SystemExit(
                f"cann/abi/{source}: {s.name} is native but cann/include lacks {sorted(types_of(s) - types)}"
            )
    return "\n".join(out + ["#ifdef __cplusplus", "}", "#endif", ""])


def aclnn_header(ops: dict[str, list[Param]]) -> str:
    out = [
        "// Generated from cann/abi/aclnn.yaml: both phases of each operator.",
        "#pragma once",
        '#include "acl/types.h"',
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
    ]
    for op, params in ops.items():
        args = ", ".join(f"{p.type} {p.name}" for p in params)
        out.append(
            f"aclnnStatus {op}GetWorkspaceSize({args}{', ' if args else ''}"
            "uint64_t* workspaceSize, aclOpExecutor** executor);"
        )
        out.append(
            f"aclnnStatus {op}(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);"
        )
    return "\n".join(out + ["#ifdef __cplusplus", "}", "#endif", ""])


# What a stub answers, by its return type: the type's own failure, or the value that stands for "none".
STUB_ANSWERS = {
    "aclError": 200006,  # ACL_ERROR_FEATURE_UNSUPPORTED
    "aclnnStatus": 561000,  # ACLNN_ERR_INNER
    "HcclResult": 5,  # HCCL_E_NOT_SUPPORT
    "msptiResult": 999,  # MSPTI_ERROR_INNER
    "AmlStatus": 200006,  # the library reports aclError's codes; 0 is a device without fault
    "int": -1,
    "int32_t": -1,
    "uint32_t": 0xFFFFFFFF,  # aclrtGet*FromExceptionInfo: no such information
    "aclDataType": -1,  # ACL_DT_UNDEFINED
    "aclFormat": -1,  # ACL_FORMAT_UNDEFINED
    "acltdtTensorType": -1,  # ACL_TENSOR_DATA_UNDEFINED
    "aclprofSubscribeOpFlag": 255,  # ACL_SUBSCRIBE_NONE
    "bool": 0,
    "size_t": 0,
    "uint64_t": 0,
    "aclFloat16": 0,
    "mstxRangeId": 0,  # no range
    "mstxDomainHandle_t": 0,
    "mstxMemHeapHandle_t": 0,
    "aclrtAllocatorDesc": 0,
    "aclrtBinary": 0,
}
# Where a library's int is a status of its own.
STUB_STATUS_OF_LIBRARY = {
    "dcmi": -8255,  # DCMI_ERR_CODE_NOT_SUPPORT
    "ascend_hal": 0xFFFE,  # DRV_ERROR_NOT_SUPPORT
    "runtime": 207000,  # ACL_ERROR_RT_FEATURE_NOT_SUPPORT
}


def stub_answer(symbol: Symbol) -> int:
    if symbol.ret in ("int", "int32_t") and symbol.lib in STUB_STATUS_OF_LIBRARY:
        return STUB_STATUS_OF_LIBRARY[symbol.lib]
    if symbol.ret not in STUB_ANSWERS:
        raise SystemExit(f"cann/abi: {symbol.name} is a stub, and which {symbol.ret} says so is not in STUB_ANSWERS")
    return STUB_ANSWERS[symbol.ret]


def written_header(ops: dict[str, list[Param]]) -> str:
    """A bit for each parameter that phase two writes, by position: in C, `const` does not tell."""
    out = [
        "// Generated from cann/abi/aclnn.yaml: which parameters of an operator are written, as bits by position.",
        "#pragma once",
        "#include <cstdint>",
        "",
        "namespace aclnn_written {",
    ]
    for op, params in ops.items():
        bits = sum(1 << i for i, p in enumerate(params) if p.way != "in")
        out.append(f"inline constexpr uint64_t {op} = {bits:#x};")
    return "\n".join(out + ["}  // namespace aclnn_written", ""])


def stubs(rows: list[Symbol], lib: str) -> str:
    """Bodies for unimplemented symbols. They take no declared arguments: a C caller's are ignored."""
    out = [
        f"// Generated from cann/abi: what lib{lib}.so lacks. Each body names itself in the error message.",
        '#include "softnpu/runtime/stub.h"',
        "",
        'extern "C" {',
    ]
    for s in rows:
        if s.lib != lib or s.soft != "stub":
            continue
        code = STUB_ANSWERS["aclError"] if s.ret == "aclError" else 0
        why = f', "{s.why}"' if s.why else ""
        mark = f'softnpu::report_stub("{s.name}", "lib{lib}.so"{f", {code}" if code or why else ""}{why});'
        ret = s.ret
        if ret == "void":
            body = f"SOFTNPU_STUB void {s.name}() {{ {mark} }}"
        elif "*" in ret:
            body = f"SOFTNPU_STUB void* {s.name}() {{ {mark} return nullptr; }}"
        elif ret in ("float", "double"):
            body = f"SOFTNPU_STUB {ret} {s.name}() {{ {mark} return 0; }}"
        else:
            body = f"SOFTNPU_STUB long {s.name}() {{ {mark} return {stub_answer(s)}; }}"
        out.append(body)
    return "\n".join(out + ["}", ""])


def loader_table(rows: list[Symbol]) -> str:
    out = ["// Generated from cann/abi: X(symbol, library, required)"]
    out += [
        f'X({s.name}, "{s.lib}", {"true" if s.plugin == "required" else "false"})'
        for s in rows
        if s.plugin in ("required", "optional")
    ]
    return "\n".join(out) + "\n"


def later_table(rows: list[Symbol]) -> str:
    out = ["// Generated from cann/abi: X(symbol, library)"]
    out += [f'X({s.name}, "{s.lib}")' for s in rows if s.plugin == "later"]
    return "\n".join(out) + "\n"


def status_names() -> str:
    """X(name) once a value, the first name where several share one."""
    tables = load("enums.yaml")
    names = [k for k in tables["constants"] if k.startswith("ACL_ERROR_")] + list(tables["aclnnStatus"])
    values = {**tables["constants"], **tables["aclnnStatus"]}
    first = {values[name]: name for name in reversed(names)}
    return "// Generated from cann/abi/enums.yaml: X(status code)\n" + "".join(
        f"X({name})\n" for name in first.values()
    )


def main() -> None:
    out = Path(sys.argv[1])
    acl_rows, hccl_rows, types = symbols("acl.yaml"), symbols("hccl.yaml"), declared_types()
    write(out / "include/acl/enums.h", enums_header())
    write(out / "include/acl/api.h", api_header(acl_rows, "acl.yaml", "acl/types.h", types))
    write(out / "include/hccl/api.h", api_header(hccl_rows, "hccl.yaml", "hccl/types.h", types))
    dcmi_rows = symbols("dcmi.yaml")
    write(out / "include/dcmi/api.h", api_header(dcmi_rows, "dcmi.yaml", "dcmi/types.h", types))
    mspti_rows = symbols("mspti.yaml")
    write(out / "include/mspti/api.h", api_header(mspti_rows, "mspti.yaml", "mspti/types.h", types))
    write(out / "include/aclnn/api.h", aclnn_header(aclnn()))
    write(out / "include/aclnn/written.h", written_header(aclnn()))
    write(
        out / "include/cann_loader_table.inc",
        loader_table([s for s in acl_rows if s.lib != "ms_tools_ext"] + hccl_rows),
    )
    write(
        out / "include/cann_mspti_table.inc",
        loader_table(mspti_rows + [s for s in acl_rows if s.lib == "ms_tools_ext"]),
    )
    write(out / "include/cann_later_table.inc", later_table(acl_rows + hccl_rows))
    write(out / "include/cann_status_names.inc", status_names())
    rows = acl_rows + hccl_rows + dcmi_rows + mspti_rows
    for lib in sorted({s.lib for s in rows}):
        write(out / f"stubs/{lib}.cpp", stubs(rows, lib))


if __name__ == "__main__":
    main()

"""--tiling-data=<header>: the structs that an operator package's host side describes, as kernels read them.

The host's header has BEGIN_TILING_DATA_DEF(T), TILING_DATA_FIELD_DEF(type, name), ..._ARR(type, length, name),
..._STRUCT(T, name), END_TILING_DATA_DEF; and REGISTER_TILING_DATA_CLASS(Op, T), by which GET_TILING_DATA in the kernel
`op` knows T. What it is not: the host side itself (set_<name>, SaveToBuffer), which kernels do not see.
"""

from __future__ import annotations

import re
from pathlib import Path

from text import SourceError, blanked, closing, line_of, read

_STRUCT = re.compile(r"\bBEGIN_TILING_DATA_DEF\s*\(\s*(\w+)\s*\)(.*?)\bEND_TILING_DATA_DEF\b", re.DOTALL)
_FIELD = re.compile(r"\bTILING_DATA_FIELD_DEF(|_ARR|_STRUCT)\s*\(")
_BRANCH = re.compile(r"^[ \t]*#[ \t]*if", re.MULTILINE)
_NONE = "::AscendC::detail::NoTiling"
CHOSEN = "ascendc_tiling_of_the_kernels"  # what bisheng puts the type in place of, when it has seen the kernels
BEFORE = f"#undef ASCENDC_TILING_DEFAULT\n#define ASCENDC_TILING_DEFAULT {CHOSEN}\n"  # global_tensor.h
_REGISTERED = re.compile(r"\bREGISTER_TILING_DATA_CLASS\s*\(\s*(\w+)\s*,\s*(\w+)\s*\)")


def snake(operator: str) -> str:
    """BEVPoolV2Grad: bev_pool_v2_grad."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", operator).lower()


def arguments(code: str) -> list[str]:
    """As the preprocessor has them: between the commas that stand in no parentheses."""
    parts, depth = [""], 0
    for c in code:
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [" ".join(part.split()) for part in parts]


def structs(path: str) -> str:
    """The header's structs as C++."""
    code = blanked(read(path))
    text = ""
    for struct in _STRUCT.finditer(code):
        text += f"struct {struct.group(1)} {{ "
        body = struct.group(2)
        if branch := _BRANCH.search(body):
            line = line_of(code, struct.start(2) + branch.start())
            raise SourceError(
                path, line, f"{struct.group(1)} has an #if, which kernels do not see: make it two structs"
            )
        for field in _FIELD.finditer(body):
            given = arguments(body[field.end() : closing(body, field.end() - 1)])
            if len(given) != (3 if field.group(1) == "_ARR" else 2):
                line = line_of(code, struct.start(2) + field.start())
                raise SourceError(path, line, f"{field.group()}{', '.join(given)}) is no field of a tiling")
            text += f"{given[0]} {given[-1]}{f'[{given[1]}]' if len(given) == 3 else ''}; "
        text += "}; "
    return text


def chosen(paths: list[str], kernels: set[str]) -> str:
    """The type that GET_TILING_DATA of these kernels has: that of the last header that registers one."""
    last = _NONE
    for path in paths:
        registered = _REGISTERED.findall(blanked(read(path)))
        types = {struct for operator, struct in registered if snake(operator) in kernels}
        if len(types) > 1:
            raise SourceError(
                path, 1, f"kernels of one file have several tilings ({', '.join(sorted(types))}): "
                "use GET_TILING_DATA_WITH_STRUCT, or a file for each"
            )  # fmt: skip
        last = next(iter(types), last)
    return last


def is_read(code: str, kernel: str) -> bool:
    """Whether the kernel's body has GET_TILING_DATA in no inner braces, under no #if and behind no return or jump: then
    each launch reads it."""
    for head in re.finditer(rf"\b{kernel}\s*\(", code):
        end = closing(code, head.end() - 1)
        if end < 0 or not (opened := re.match(r"\)\s*\{", code[end:])):
            continue
        start = end + opened.end()
        body = whole = code[start : max(start, closing(code, start - 1))]
        while (plain := re.sub(r"\{[^{}]*\}", lambda inner: " " * len(inner[0]), body)) != body:
            body = plain
        if _BRANCH.search(body) or not (got := re.search(r"\bGET_TILING_DATA\w*\s*\(", body)):
            return False
        return not re.search(r"\b(?:return|goto|throw)\b", whole[: got.start()])
    return False


def registered(files: list[Path]) -> dict[str, list[Path]]:
    """By operator: the host's files that describe its tiling."""
    found: dict[str, list[Path]] = {}
    for file in files:
        text = read(file)
        if _STRUCT.search(text):
            for operator, _ in _REGISTERED.findall(blanked(text)):
                if file not in found.setdefault(operator, []):
                    found[operator].append(file)
    return found

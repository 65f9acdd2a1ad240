"""The kernels of a source: extern "C" __global__ __aicore__ void k(...), and what is generated for each: aclrtlaunch_k.

A macro that makes kernels (one for each type) gives one for each of its uses in the file.

What it is not: a parser of C++. What is generated for a kernel stands behind it: an #if around the kernel counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from text import SourceError, blanked, closing, line_of, split

_KERNEL = re.compile(
    r'extern\s+"C"\s+(?=(?:[A-Za-z_]\w*\s+|__attribute__\s*\(\(.*?\)\)\s*)*?__global__)([^;{(]*?)\b(\w+)\s*\('
)
_GLOBAL = re.compile(r"\b__global__\b([^;{}()]*(?:\([^()]*\)[^;{}()]*)*?)\b(?!__mix__\b|__attribute__\b)(\w+)\s*\(")
_TYPE = re.compile(r"\bKERNEL_TASK_TYPE_DEFAULT\s*\(\s*(\w+)\s*\)")
_ATTRIBUTES = {
    r"__mix__\s*\(\s*1\s*,\s*2\s*\)": "KERNEL_TYPE_MIX_AIC_1_2",
    r"__mix__\s*\(\s*1\s*,\s*1\s*\)": "KERNEL_TYPE_MIX_AIC_1_1",
    r"__mix__\s*\(\s*1\s*,\s*0\s*\)": "KERNEL_TYPE_MIX_AIC_1_0",
    r"__cube__": "KERNEL_TYPE_AIC_ONLY",
    r"__vector__": "KERNEL_TYPE_AIV_ONLY",
}
# KernelMetaType of macros.h, without that of chips whose cores are both in one.
KERNEL_TYPES = ("KERNEL_TYPE_AIV_ONLY", "KERNEL_TYPE_AIC_ONLY", "KERNEL_TYPE_MIX_AIV_1_0", "KERNEL_TYPE_MIX_AIC_1_0",
                "KERNEL_TYPE_MIX_AIC_1_1", "KERNEL_TYPE_MIX_AIC_1_2")  # fmt: skip
_CUBE = re.compile(r"\b(?:Mmad|LoadData|Fixpipe|REGIST_MATMUL_OBJ|MatmulType)\b")
_OBJECT = re.compile(r"\bREGIST_MATMUL_OBJ\b")
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)\(([\w\s,]*)\)((?:[^\n]*\\\n)*[^\n]*)", re.MULTILINE)
_CONDITION = re.compile(r"[ \t]*#[ \t]*(if|ifdef|ifndef|elif|elifdef|elifndef|else|endif)\b")
_WORDS = re.compile(r"\b(?:__gm__|__restrict__|__restrict|restrict)\b")


# Functions of the C library's that a kernel may be called like: extern "C" twice does not compile, two overloads do.
_C_LIBRARY = frozenset(
    "abs acos acosh asin asinh atan atanh cbrt ceil cos cosh div erf erfc exp exp2 expm1 fabs floor fma fmax fmin fmod "
    "hypot index lgamma log log10 log1p log2 pow random remainder remove rename round scalb sin sinh sqrt tan tanh "
    "tgamma trunc".split()
)
UNSTATED = "::AscendC::detail::kUnstated"


@dataclass
class Kernel:
    name: str
    types: list[str]  # as the kernel has them
    names: list[str]
    at: int = 0  # where it ends; of a macro's: where its use ends

    def host_types(self) -> list[str]:
        """Global memory is a void* on the host's side."""
        plain = [" ".join(_WORDS.sub(" ", t).split()) for t in self.types]
        return ["void*" if t == "GM_ADDR" or "__gm__" in raw else t for t, raw in zip(plain, self.types, strict=True)]

    def parameters(self) -> str:
        return "".join(f", {t} {n}" for t, n in zip(self.host_types(), self.names, strict=True))

    def header(self) -> str:
        """aclrtlaunch_<kernel>.h."""
        guard = f"ACLRTLAUNCH_{self.name}_H"
        return (
            f"// Puts so many blocks of {self.name} on a stream; an aclError.\n#ifndef {guard}\n#define {guard}\n"
            '#include <stdint.h>\n#include "acl/acl.h"\n\n'
            "#ifndef ACLRT_LAUNCH_KERNEL\n#define ACLRT_LAUNCH_KERNEL(kernel) aclrtlaunch_##kernel\n#endif\n\n"
            '#ifdef __cplusplus\nextern "C"\n#endif\n'
            f"uint32_t aclrtlaunch_{self.name}(uint32_t, aclrtStream{self.parameters()});\n#endif\n"
        )

    def definition(self, types: dict[str, str]) -> str:
        given = "".join(
            f", ({' '.join(t.split())}){n}" if host == "void*" else f", {n}"
            for t, host, n in zip(self.types, self.host_types(), self.names, strict=True)
        )
        return (
            f'extern "C" __attribute__((visibility("default"))) uint32_t aclrtlaunch_{self.name}'
            f"(uint32_t ascendc_blocks, void* ascendc_stream{self.parameters()}) {{\n"
            f'  return ::AscendC::detail::launch("{self.name}", {types.get(self.name, UNSTATED)}, ascendc_blocks, '
            f"ascendc_stream, "
            f"{self.name}{given});\n}}\n"
        )


def stated(source: str) -> dict[str, str]:
    """Which cores kernels say that they run on: by KERNEL_TASK_TYPE_DEFAULT in the body, or by an attribute.

    One that says nothing and has REGIST_MATMUL_OBJ in its body runs on both kinds, as the vendor's compiler decides.
    """
    code = blanked("\n".join([without_macros(source), *expansions(source).values()]))
    types: dict[str, str] = {}
    for match in _GLOBAL.finditer(code):
        end = closing(code, match.end() - 1)
        start = code.find("{", end)
        if end < 0 or start < 0 or code[end + 1 : start].strip():
            continue  # a declaration
        line = code[code.rfind("\n", 0, match.start()) + 1 : match.end()]
        for pattern, kind in _ATTRIBUTES.items():
            if re.search(pattern, line):
                types[match.group(2)] = kind
        if said := _TYPE.search(code, start, closing(code, start)):
            types[match.group(2)] = said.group(1)
        elif _OBJECT.search(code, start, closing(code, start)):
            types.setdefault(match.group(2), "KERNEL_TYPE_MIX_AIC_1_2")
    return types


def overloads(source: str) -> str:
    """Without extern "C" before kernels that the C library has a function of the same name as."""

    def plain(match: re.Match) -> str:
        text = match.group()
        return re.sub(r'^extern\s+"C"', "", text) if match.group(2) in _C_LIBRARY else text

    return _KERNEL.sub(plain, source)


def has_cube(source: str) -> bool:
    return _CUBE.search(blanked(source)) is not None


def _macros(code: str) -> list[re.Match]:
    return [m for m in _MACRO.finditer(code) if "__global__" in m.group(3)]


def without_macros(source: str) -> str:
    """Blanks in place of macros that make kernels."""
    for m in _macros(blanked(source, strings=False)):
        source = source[: m.start()] + re.sub(r"[^\n]", " ", m.group()) + source[m.end() :]
    return source


def expansions(source: str) -> dict[int, str]:
    """Of each use of a macro that makes kernels: where it ends, and what it stands for."""
    found: dict[int, str] = {}
    code = blanked(source, strings=False)
    rest = blanked(without_macros(source), strings=False)
    for macro in _macros(code):
        names = [name.strip() for name in macro.group(2).split(",")]
        for use in re.finditer(rf"\b{macro.group(1)}\s*\(", rest):
            end = closing(rest, use.end() - 1)
            given = split(rest[use.end() : end], rest[use.end() : end])
            if end < 0 or len(given) != len(names):
                continue
            text = macro.group(3).replace("\\\n", "\n")
            for name, value in zip(names, given, strict=True):
                text = re.sub(rf"\b{name}\b", value.replace("\\", r"\\"), text)
            found[end + 1] = re.sub(r"\s*##\s*", "", text)
    return found


def with_launches(source: str, found: list[Kernel], types: dict[str, str]) -> str:
    """With aclrtlaunch_k behind each kernel k, or use of a macro that makes one, in its line."""
    for kernel in sorted(found, key=lambda k: -k.at):
        apart = " " if kernel.at < len(source) else "\n"  # a comment may end the file
        source = f"{source[: kernel.at]}{apart}{' '.join(kernel.definition(types).split())}{source[kernel.at :]}"
    return source


def find(source: str, path: str) -> list[Kernel]:
    """Kernels that are defined, in order; then those of macros. Branches of an #if may have one of a name each."""
    code = blanked(without_macros(source), strings=False)
    kernels = _find(code, path)
    for at, text in expansions(source).items():
        for kernel in _find(text, path, line_of(code, at)):
            kernel.at = at
            kernels.append(kernel)
    return list({(kernel.name, kernel.at): kernel for kernel in kernels}.values())


def _end(code: str, opening: int) -> int:
    """Behind the bracket that closes the one at `opening`, by the first branch of each #if inside; else the end."""
    depth, skipped, lines = 0, 0, []
    for line in code[opening:].splitlines(keepends=True):
        word = directive.group(1) if (directive := _CONDITION.match(line)) else ""
        depth += word.startswith("if")
        if word.startswith("el") and depth and not skipped:
            skipped = depth
        lines.append(re.sub(r"[^\n]", " ", line) if skipped or word else line)
        if word == "endif":
            skipped = 0 if skipped == depth else skipped
            depth = max(depth - 1, 0)
    end = closing("".join(lines), 0)
    return opening + end + 1 if end >= 0 else len(code)


def _find(code: str, path: str, line: int | None = None) -> list[Kernel]:
    kernels: list[Kernel] = []
    bare = blanked(code)  # a string may have brackets
    for match in _KERNEL.finditer(code):
        if "__global__" not in match.group(1):
            continue
        opening = match.end() - 1
        end = closing(code, opening)
        body = re.compile(r"\s*\{").match(code, end + 1) if end >= 0 else None
        if body is None:
            continue  # a declaration
        kernel = Kernel(match.group(2), [], [], _end(bare, body.end() - 1))
        inside = code[opening + 1 : end]
        for number, parameter in enumerate(split(inside, inside)):
            if parameter == "void":
                continue
            named = re.fullmatch(r"(.*?[\s*&>])(\w+)", parameter, re.DOTALL)
            if named is None:
                raise SourceError(
                    path,
                    line or line_of(code, opening),
                    f"{kernel.name}: parameter {number} ({parameter}) has no name; give it one",
                )
            if "&" in named.group(1):
                raise SourceError(
                    path,
                    line or line_of(code, opening),
                    f"{kernel.name}: parameter {named.group(2)} is a reference, which no launch can pass",
                )
            kernel.types.append(named.group(1).strip())
            kernel.names.append(named.group(2))
        kernels.append(kernel)
    return kernels

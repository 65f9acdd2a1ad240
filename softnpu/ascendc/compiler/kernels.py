"""The kernels of a source: __global__ functions, which cores they run on, and what is generated for each that is
extern "C" (aclrtlaunch_k). What it is not: the edits of the source (bodies.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from declarator import Parameter, is_name, parameters, specialized
from text import blanked, closing, is_expression, opening, split
from unit import Scope, Unit, plain

# KernelMetaType of macros.h, without that of chips whose cores are both in one.
KERNEL_TYPES = ("KERNEL_TYPE_AIV_ONLY", "KERNEL_TYPE_AIC_ONLY", "KERNEL_TYPE_MIX_AIV_1_0", "KERNEL_TYPE_MIX_AIC_1_0",
                "KERNEL_TYPE_MIX_AIC_1_1", "KERNEL_TYPE_MIX_AIC_1_2")  # fmt: skip
_RATIOS = {"0_1": "KERNEL_TYPE_AIV_ONLY", "1_0": "KERNEL_TYPE_AIC_ONLY"}
# launch.h: which cores a kernel runs on that says nothing of it; and in a source that uses the cube, where it may mean
# either kind.
UNSTATED, EITHER = "::AscendC::detail::kUnstated", "::AscendC::detail::kEither"
# Words that macros.h leaves for this file (ASCENDC_WORDS); the compiler does not see them.
NUMBERS = r"\s*\((?:[^()]|\([^()]*\))*\)"
_MIX = rf"__mix__{NUMBERS}"
WORD = re.compile(rf"\b(?:__global__|__cube__|__vector__|{_MIX})")
RATIO = re.compile(rf"\b(?:bisheng\s*::|using\s+bisheng\s*:(?!:))\s*core_ratio{NUMBERS}")  # the same as an attribute
_STATES = re.compile(r"::AscendC::detail::state_type\s*\(")  # KERNEL_TASK_TYPE_DEFAULT
_REGISTERS = re.compile(r"::AscendC::detail::regist_matmul\b")  # REGIST_MATMUL_OBJ
_CUBE = re.compile(r"\b(?:Mmad|LoadData|Fixpipe|REGIST_MATMUL_OBJ|MatmulType)\b")
_QUALIFIED = re.compile(r"\b(?:const|volatile)\b")
_TRY = re.compile(r"\btry\s*$")
_NOEXCEPT = re.compile(r"\s*\b(?:noexcept\b\s*(\()?|throw\s*\(\s*\))")
_QUALIFIER = re.compile(r"\b\w+\s*::\s*(?:\w+\s*::\s*)*$")
_GLOBAL = re.compile(r"\b__global__\b")
_TOKEN = re.compile(r"\s*([A-Za-z_]\w*|[^\s\w])")
_IN_BRACKETS = re.compile(r"\s*([A-Za-z_]\w*)\s*\)\s*\(")  # void (k)(
_CATCH = re.compile(r"\s*\bcatch\s*\(")
LINKED = re.compile(r'\bextern\s+("C")')
# What g++ knows as functions of C though no header declares them.
_BUILT_IN = frozenset("isfinite isinf isnan isnormal isunordered signbit".split())
_BUILT_IN |= frozenset("isgreater isgreaterequal isless islessequal islessgreater".split())


@dataclass
class Kernel:
    """A definition, or a declaration alone. Only a definition that is extern "C" has types and names: of the others no
    aclrtlaunch_k is made."""

    name: str
    scope: Scope
    begin: int  # of the declaration
    end: int  # behind the body, or behind the ; of what is declared alone
    linked: bool  # extern "C"
    types: list[str]  # of its parameters, as the kernel has them
    names: list[str]
    stated: str = ""  # a KernelMetaType, where the kernel says it; command.py fills in what the others get
    defined: bool = True
    word: int = -1  # the place of __global__
    body: int = -1  # the place of its {, or of the ; of what is declared alone
    keeps: str = ""  # whether it is noexcept, as an expression: then its errors are kept until it has returned
    overloads: bool = False  # it has the name of a C function: extern "C" twice does not compile, two overloads do
    handlers: int = -1  # the place of the try that its body begins with
    bracket: int = -1  # the place of the ( of its parameters
    behind: int = -1  # behind their )
    parameters: list[Parameter] = field(default_factory=list)

    def host_types(self) -> list[str]:
        """Global memory, and a kernel has no other pointers, is a void* on the host's side."""
        plainly = [(t, _QUALIFIED.sub("", t).strip()) for t in self.types]
        return ["void*" if bare.endswith("*") or bare == "GM_ADDR" else t for t, bare in plainly]

    def header(self) -> str:
        """aclrtlaunch_<kernel>.h."""
        guard = f"ACLRTLAUNCH_{self.name}_H"
        parameters = "".join(f", {t} {n}" for t, n in zip(self.host_types(), self.names, strict=True))
        return (
            f"// Puts so many blocks of {self.name} on a stream; an aclError.\n#ifndef {guard}\n#define {guard}\n"
            '#include <stdint.h>\n#include "acl/acl.h"\n\n'
            "#ifndef ACLRT_LAUNCH_KERNEL\n#define ACLRT_LAUNCH_KERNEL(kernel) aclrtlaunch_##kernel\n#endif\n\n"
            '#ifdef __cplusplus\nextern "C"\n#endif\n'
            f"uint32_t aclrtlaunch_{self.name}(uint32_t, aclrtStream{parameters});\n#endif\n"
        )

    def definition(self) -> str:
        """aclrtlaunch_<kernel>, in one line."""
        parameters, given = "", ""
        called = f"static_cast<void (*)({', '.join(self.types)})>({self.name})"  # there may be others of that name
        for number, (own, host) in enumerate(zip(self.types, self.host_types(), strict=True)):
            parameters += f", {host} ascendc_{number}"
            given += f", ({own})ascendc_{number}" if host == "void*" else f", ascendc_{number}"
        return (
            f'extern "C" __attribute__((weak, visibility("protected"))) uint32_t aclrtlaunch_{self.name}'
            f"(uint32_t ascendc_blocks, void* ascendc_stream{parameters}) {{ return ::AscendC::detail::launch("
            f'"{self.name}", {self.stated}, ascendc_blocks, ascendc_stream, {called}{given}); }}'
        )


def has_cube(unit: Unit) -> bool:
    """Whether the source itself, as it is compiled, names the cube. Its headers do not count: they may have what it
    does not use."""
    return any(unit.place(word.start())[0] == unit.path for word in _CUBE.finditer(unit.code))


def names_cube(source: str) -> bool:
    """The same of a source that was not preprocessed."""
    return _CUBE.search(blanked(source)) is not None


def find(unit: Unit) -> list[Kernel]:
    """The kernels that are defined, in order."""
    return [kernel for kernel in named(unit) if kernel.defined]


def named(unit: Unit) -> list[Kernel]:
    """The kernels that are defined or declared alone, in order: another source may define the latter."""
    return [kernel for word in _GLOBAL.finditer(unit.code) if (kernel := _kernel(unit, word.start()))]


def _named(code: str, at: int) -> tuple[re.Match, int] | None:
    """The function's name, and the place of the ( that follows it or its template arguments."""
    while token := _TOKEN.match(code, at):
        word, at = token.group(1), token.end()
        if word in ";={})":
            return None
        if word == "(" and (inner := _IN_BRACKETS.match(code, at)):
            return inner, inner.end() - 1
        if word in "([":
            at = closing(code, at - 1) + 1
            if at == 0:
                return None
            continue
        behind = specialized(code, at)
        if (bracket := _TOKEN.match(code, behind)) and bracket.group(1) == "(" and is_name(word) and word != "__mix__":
            return token, bracket.start(1)
        at = behind
    return None


def _begin(code: str, at: int) -> int:
    """Of the declaration in which `at` stands."""
    while at > 0 and code[at - 1] not in ";{([":
        if code[at - 1] in ")]}":
            first = opening(code, at - 1)
            if first < 0 or code[at - 1] == "}" and not is_expression(code, first, at - 1):
                return at
            at = first
        else:
            at -= 1
    return at


def _kernel(unit: Unit, word: int) -> Kernel | None:
    code = unit.code
    named, bracket = _named(code, word) or (None, 0)
    if named is None:
        return None
    begin, end = _begin(code, word), closing(code, bracket)
    body = _body(code, end + 1) if end > 0 else len(code)
    defined = code.startswith("{", body)
    behind = closing(code, body) + 1 if defined else body + 1
    while defined and (caught := _CATCH.match(code, behind)):  # behind a body that begins with try
        behind = closing(code, code.index("{", closing(code, caught.end() - 1))) + 1
    scope, linkage = unit.scope(begin)
    qualifier = _QUALIFIER.search(code, begin, named.start(1))
    around = tuple(re.findall(r"\w+", qualifier.group())) if qualifier else ()
    scope = unit.namespace(scope, around) or scope + around
    head = code[begin : named.start(1)]
    linked = linkage or LINKED.search(head) is not None
    kernel = Kernel(named.group(1), scope, begin, behind, linked, [], [], defined=defined, word=word)
    kernel.stated = _attributed(unit, begin, named.start(1))
    if said := _STATES.search(code, body, behind):
        kernel.stated = _said(unit, body, said)
    elif _REGISTERS.search(code, body, behind) and not kernel.stated:
        kernel.stated = "KERNEL_TYPE_MIX_AIC_1_2"  # as the vendor's compiler decides
    kernel.body = body
    if keeps := _NOEXCEPT.match(code, end + 1, body):
        kernel.keeps = plain(unit.text[keeps.start(1) : closing(code, keeps.start(1)) + 1]) if keeps[1] else "true"
    if tries := _TRY.search(code, end, body):
        kernel.handlers = tries.start()
    kernel.overloads = linked and (kernel.name in _BUILT_IN or unit.declares(kernel.name))
    kernel.bracket, kernel.behind = bracket, end + 1
    kernel.parameters = _parameters(unit, kernel, end)
    if linked and defined:
        _host_parameters(kernel, unit)
    return kernel


def _attributed(unit: Unit, begin: int, end: int) -> str:
    """The type that stands before the name."""
    stated = ""
    for word in WORD.finditer(unit.code, begin, end):
        if word.group() in ("__cube__", "__vector__"):
            stated = "KERNEL_TYPE_AIC_ONLY" if word.group() == "__cube__" else "KERNEL_TYPE_AIV_ONLY"
        elif word.group() != "__global__":
            stated = "KERNEL_TYPE_MIX_AIC_" + "_".join(re.findall(r"\d+", word.group()))
            if stated not in KERNEL_TYPES:
                raise unit.error(
                    word.start(),
                    f"{plain(word.group())}: a block has a cube core and 0, 1 or 2 vector cores: __mix__(1, 2)",
                )
    for word in RATIO.finditer(unit.attributed_code, begin, end):
        numbers = re.findall(r"\d+", word.group())
        stated = _RATIOS.get("_".join(numbers), "KERNEL_TYPE_MIX_AIC_" + "_".join(numbers))
        if stated not in KERNEL_TYPES:
            said = (
                f"{plain(word.group())}: the cube and the vector cores of a block are (1, 2), (1, 1), (1, 0) or (0, 1)"
            )
            raise unit.error(word.start(), said)
    return stated


def _said(unit: Unit, body: int, said: re.Match) -> str:
    """What KERNEL_TASK_TYPE_DEFAULT was given; launches must be able to say it, too."""
    start, end = said.end(), closing(unit.code, said.end() - 1)
    given = plain(split(unit.code[start:end], unit.bare(start, end))[0])
    if (name := given.rpartition("::")[2].strip()) in KERNEL_TYPES:
        return name
    for name in re.findall(r"\b[A-Za-z_]\w*", given):
        if re.search(rf"\b(?!return\b)\w+\s+{name}\s*[={{]", unit.code[body : said.start()]):
            raise unit.error(
                said.start(),
                f"KERNEL_TASK_TYPE_DEFAULT({given}): {name} is declared in the kernel's body, where launches do not "
                "see it: write the type itself, as KERNEL_TYPE_MIX_AIC_1_2, or declare it outside",
            )
    return given


def _body(code: str, at: int) -> int:
    """The place of the { or ; behind a function's parameters: noexcept, ->, requires and try may be between them."""
    while at < len(code) and code[at] not in ";=":
        behind = closing(code, at) + 1 if code[at] in "([{" else at + 1
        if behind == 0:
            return len(code)
        if code[at] == "{" and not is_expression(code, at, behind - 1):
            return at
        at = behind
    return at


def _parameters(unit: Unit, kernel: Kernel, end: int) -> list[Parameter]:
    """What stands between the brackets of a function; nothing of one that is declared alone in a way of its own."""
    found = parameters(unit.code, kernel.bracket + 1, end) if end > 0 else []
    if found is None and not kernel.defined:
        return []
    if found is None:
        text = plain(unit.text[kernel.bracket + 1 : end])
        said = f"{kernel.name}({text}): bisheng cannot read these parameters; give their types names (using)"
        raise unit.error(kernel.bracket, said)
    if any(parameter.any_number for parameter in found):
        said = f"{kernel.name}: a kernel has no ... of C; a pack of a template can be launched: A... a"
        raise unit.error(kernel.bracket, said)
    return found


def _host_parameters(kernel: Kernel, unit: Unit) -> None:
    for number, parameter in enumerate(kernel.parameters):
        text = unit.bare(parameter.begin, parameter.end)
        if not parameter.name:
            said = f"{kernel.name}: parameter {number} ({plain(text)}) has no name; give it one"
            raise unit.error(kernel.bracket, said)
        kind = plain(parameter.type(text))
        if "&" in kind:
            said = f"{kernel.name}: parameter {parameter.name} is a reference, which no launch can pass"
            raise unit.error(kernel.bracket, said)
        kernel.types.append(kind)
        kernel.names.append(parameter.name)

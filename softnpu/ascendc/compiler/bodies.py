"""What becomes of the kernels in a source: the body of each is a lambda, which launches keep and cores run; behind each
that is extern "C" stands its aclrtlaunch_k, so that what its types mean there counts; the words that are no C++ go out.
"""

from __future__ import annotations

import re

from declarator import uses
from kernels import LINKED, NUMBERS, RATIO, WORD, Kernel
from text import blanked, closing
from unit import Unit, plain

_BLOCK_LOCAL = re.compile(r"\[\s*\[[^\[\]]*\b(block_local)\b[^\[\]]*\]\s*\]")
_ATTRIBUTES = re.compile(rf"(?:\s*\[\s*\[[^\[\]]*\]\s*\]|\s*\balignas{NUMBERS})*")
_BEGINS = re.compile(r"(?:[;{}>]|\b(?:static|inline|extern|const|constinit)|^)\s*$")
# A launch means the kernel of its own library, whatever was loaded before it: the C library has a poll.
_BOUND = '__attribute__((visibility("protected")))'
_OF_CODE = re.compile(r"\b_*(?:target|optimize|no_sanitize[a-z_]*?)_*\b(?:\s*\([^()]*\))?")
# g++ does not inline what jumps by the address of a label, nor what returns twice.
_ALONE = re.compile(r"\bgoto\s*\*|\b(?:_*(?:sig)?setjmp|vfork|getcontext|__builtin_(?:set|long)jmp)\s*\(")
_FUNCTION = re.compile(r"\b(?:__func__|__FUNCTION__)\b")
_BY_CORE = re.compile(r"\bif\s+(constexpr)\s*(?=\()")


def _lambda(unit: Unit, kernel: Kernel) -> tuple[str, str, str, str]:
    """What kernel() of launch.h is given: the lambda's parameters' types and texts; the kernel's own; its noexcept.
    The kernel's own parameters get other names: what warns of two things of one name (-Wshadow) is content, and a
    parameter may have the name of its type."""
    taken, types, given, keeps = [], [], "", kernel.keeps
    for number, parameter in enumerate(p for p in kernel.parameters if p.name):
        new, old = f"ascendc_p{number}", parameter.name
        taken.append(plain(unit.text[parameter.begin : parameter.end]))
        for at in (parameter.at, *uses(unit.code, parameter, kernel.body if kernel.handlers < 0 else kernel.handlers)):
            unit.replace(at, at + len(old), new)
        types.append(f"decltype({new}){'...' * parameter.pack}")
        given += f", {new}{'...' * parameter.pack}"
        keeps = re.sub(rf"(?<![\w.:$]){old}(?![\w$])", new, keeps)
    return f"::AscendC::detail::Given<{', '.join(types)}>{{}}", ", ".join(taken), given, keeps


def _of_code(unit: Unit, kernels: list[Kernel]) -> str:
    """Attributes that say how g++ compiles the body, at any declaration of the kernel."""
    found = {}
    for kernel in kernels:
        for start, end in unit.attributes:
            if kernel.begin <= start < kernel.bracket or kernel.behind <= start < kernel.body:
                text = unit.text[start:end]
                found |= dict.fromkeys(text[m.start() : m.end()] for m in _OF_CODE.finditer(blanked(text)))
    return f"__attribute__(({', '.join(found)}))" if found else ""


def launched(unit: Unit, named: list[Kernel], auto_sync: bool, debugged: bool) -> None:
    """Edits the unit: the body of each kernel becomes a lambda, which kernel() of launch.h is given with the arguments,
    the kernel's cores and whether the chip's compiler inserts flags;
    aclrtlaunch_k goes behind each kernel k that is extern "C"."""
    found = [kernel for kernel in named if kernel.defined]
    for kernel in found:
        digraph = unit.text.startswith("<%", kernel.body)
        types, taken, given, keeps = _lambda(unit, kernel)
        told = "0" if auto_sync else "::AscendC::detail::kNoAutoSync"
        if keeps:
            told += f" | ({keeps} ? ::AscendC::detail::kKeeps : 0)"
        attributes = _of_code(unit, [k for k in named if (k.scope, k.name) == (kernel.scope, kernel.name)])
        if not (debugged or attributes or _ALONE.search(unit.code, kernel.body, kernel.end)):
            attributes = "__attribute__((always_inline))"
        call = f'kernel("{kernel.name}", {kernel.stated}, {told}, {types}, []({taken}) {attributes} -> void {{'
        if kernel.handlers >= 0:
            unit.replace(kernel.handlers, kernel.handlers, f"{{ ::AscendC::detail::{call}")
            unit.replace(kernel.end, kernel.end, f" }}{given}); }}")
        else:
            inside = kernel.body + (2 if digraph else 1)
            unit.replace(inside, inside, f" ::AscendC::detail::{call}")
            unit.replace((end := closing(unit.code, kernel.body)), end, f" }}{given});")
        for word in _FUNCTION.finditer(unit.code, kernel.body, kernel.end):
            unit.replace(*word.span(), f'"{kernel.name}"')
        if not kernel.linked:
            continue
        unit.generate(kernel.end, kernel.definition())
    for local in _BLOCK_LOCAL.finditer(unit.attributed_code):  # a block keeps its thread until it ends
        if not _BEGINS.search(unit.code[: local.start()]):
            raise unit.error(local.start(), "[[block_local]] is written before the type: [[block_local]] int g")
        unit.replace(*local.span(1), "")
        behind = _ATTRIBUTES.match(unit.attributed_code, local.end()).end()
        unit.replace(behind, behind, " thread_local")
    for ratio in RATIO.finditer(unit.attributed_code):
        unit.replace(*ratio.span(), "")
    for asked in _BY_CORE.finditer(unit.code):  # one compilation is for both kinds of cores
        if re.search(r"\bg_coreType\b", unit.code[asked.end() : closing(unit.code, asked.end())]):
            unit.replace(*asked.span(1), "")
    for kernel in (k for k in named if k.linked and k.overloads):
        said = LINKED.search(unit.code, kernel.begin, kernel.word)
        at = said.span(1) if said else (kernel.begin, kernel.begin)
        unit.replace(*at, '"C++"' if said else ' extern "C++" ')
    own = {(*k.scope, k.name) for k in named if _own_linkage(unit, k)}
    bound = {k.word for k in found if (*k.scope, k.name) not in own and unit.namespaced(k.begin)}
    for word in WORD.finditer(unit.code):
        unit.replace(word.start(), word.end(), _BOUND if word.start() in bound else "")


def _own_linkage(unit: Unit, kernel: Kernel) -> bool:
    brace = unit.code.find("{", kernel.word, kernel.end)
    end = kernel.end if brace < 0 else brace
    return re.search(r"\bstatic\b", unit.code[kernel.begin : end]) is not None or unit.attributed(
        "visibility", kernel.begin, end
    )

"""The compiler's errors once more, in words: of names that AscendC has and the software NPU has not, that are misspelt,
or that the package's build would have given.

The names are those of refuse.py, of ascendc/refused.h, and what else the headers declare. What it is not: a judge of
code that compiles; names of the kernels' own are theirs, and only what the compiler does not find is spoken of.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path

import refuse
from text import blanked

_COLOURS = re.compile(r"\x1b\[[0-9;]*[mK]|\x1b\]8;[^\x07\x1b]*(?:\x07|\x1b\\)")
_Q = r"[‘'](?:::)?(?:AscendC::)?"
_UNKNOWN = [
    re.compile(pattern)
    for pattern in (
        rf"error: {_Q}(\w+)[’'] (?:was not declared|has not been declared|does not name a|is not a member of)",
        rf"error: {_Q}(\w+)[’'] in namespace [‘']\S+[’'] does not name a",
        rf"error: there are no arguments to {_Q}(\w+)[’'] that depend on a template parameter",
        r"error: [‘'](?:const )?(?:class|struct) AscendC::\w+.*[’'] has no member named [‘'](\w+)[’']",
    )
]
# g++ reads k<<<8, nullptr, stream>>>(x) as shifts and comparisons.
_LAUNCH = re.compile(
    r"^(\S[^\n]*?):(\d+):\d+: error: expected primary-expression before [‘']<[’'] token\n[^\n]*<<<", re.MULTILINE
)
_IN_SIMT = re.compile(r"(?:is not a member of|has not been declared in) [‘']AscendC::Simt[’']")
_FOREIGN = re.compile(r"is not a member of [‘'](?!::|AscendC\b)|has not been declared in [‘'](?!::|AscendC\b)")
_MISSING = re.compile(r"^(\S[^\n]*?):(\d+):\d+: fatal error: ([^\s:]+): No such file", re.MULTILINE)
_LAUNCHED = re.compile(r"(?:.*/)?aclrtlaunch_(\w+)\.h")
_REFUSED = re.compile(r"^ASCENDC_REFUSED(?:_\w+)?\((\w+), (\"[^\"]*\"|\w+)\)", re.MULTILINE)
_WHY = re.compile(r"^#define (ASCENDC_\w+) (\"[^\"]*\")", re.MULTILINE)
_API = re.compile(r"[A-Z]|asc_|__")  # how names of AscendC begin; x and tmp are the kernel's own
_PAGE = "(anycend docs ascendc)"


def refused(headers: Path) -> dict[str, str]:
    """Of ascendc/refused.h: what the software NPU does not have, by name."""
    text = (headers / "ascendc" / "refused.h").read_text(encoding="utf-8")
    whys = dict(_WHY.findall(text))
    return {name: whys.get(why, why).strip('"') for name, why in _REFUSED.findall(text)}


def known(headers: Path) -> set[str]:
    """What headers name that begins as names of the API do, without what is in Simt and Reg alone."""
    found: set[str] = set()
    for header in headers.rglob("*.h"):
        if header.name not in ("refused.h", "reg.h", "simt.h"):
            found |= set(
                re.findall(r"\b(?:[A-Z]\w{2,}|asc_\w+|__\w+__)\b", blanked(header.read_text(encoding="utf-8")))
            )
    return {name for name in found if not name.startswith("ASCENDC")}


def listed(reasons: dict[str, list[str]], form: str) -> list[str]:
    return [form.format(names=", ".join(names), why=why) for why, names in reasons.items()]


def sentences(errors: str, headers: str, kernels: bool = True, architecture: int = 2201) -> list[str]:
    """About the compiler's errors. Of names that are nowhere only where `kernels` were compiled."""
    there = (refuse.REGISTERS, refuse.THREADS) if architecture == 3510 else ()
    plain = _COLOURS.sub("", errors)
    lines = [line for line in plain.splitlines() if " error: " in line]
    said = "\n".join(lines)
    reasons: dict[str, list[str]] = {}
    for name, why in (refuse.WORDS | refuse.INSIDE).items():
        if re.search(rf"\b{name}\b", said):
            reasons.setdefault(why, []).append(name)
    missing: list[str] = []
    for file, number, header in _MISSING.findall(plain):
        if why := refuse.header(header):
            missing.append(f'{file}:{number}: "{header}" is refused: it is for {why}')
        elif kernel := _LAUNCHED.fullmatch(header):
            missing.append(
                f'{file}:{number}: "{header}" is written by bisheng --launch-headers=<folder> when the source of the '
                f"kernel {kernel.group(1)} is compiled: compile that one before, and give -I<folder> {_PAGE}"
            )
    told = {name for names in reasons.values() for name in names}
    absent: dict[str, list[str]] = {}
    elsewhere: list[str] = []
    unknown: list[str] = []
    # A form of it that the header's refusal does not catch: the compiler speaks of templates and calls.
    for name, why in refused(Path(headers)).items():
        if re.search(rf"\bAscendC::{name}\b", plain) and any(
            re.search(rf"\b{name}\b", line) and "static assertion" not in line for line in lines
        ):
            absent.setdefault(why, []).append(name)
            told.add(name)
    for line in lines:
        found = next((match for pattern in _UNKNOWN if (match := pattern.search(line))), None)
        if found is None or _FOREIGN.search(line) or (name := found.group(1)) in told:
            continue
        told.add(name)
        if _IN_SIMT.search(line) and f"Simt::{name}" in refuse.ABSENT:
            name = f"Simt::{name}"
        if refuse.ABSENT.get(name) in there:
            elsewhere.append(name)
        elif name in refuse.ABSENT:
            absent.setdefault(refuse.ABSENT[name], []).append(name)
        elif "AscendC" in line or _API.match(name):
            unknown.append(name)
    result = missing + [
        f"{file}:{line}: a launch (<<<>>>) is rewritten in AscendC sources alone, *.asc and what follows -x asc "
        f"{_PAGE}: give -x asc before the source"
        for file, line in dict(_LAUNCH.findall(plain)).items()
    ]
    result += listed(reasons, "{names}: refused, for {why}")
    result += listed(absent, f"{{names}}: the software NPU has no {{why}} {_PAGE}")
    if elsewhere:
        result.append(
            f"{', '.join(elsewhere)}: declared for this chip, in AscendC or its namespaces MicroAPI (Reg), Simt {_PAGE}"
        )
    return result + (nowhere(unknown, Path(headers)) if kernels and unknown else [])


def nearest(name: str, names: set[str]) -> list[str]:
    """All that are as near as the nearest, in the order of the alphabet."""
    close = difflib.get_close_matches(name, names, len(names), 0.8)
    ratios = {other: difflib.SequenceMatcher(None, other, name).ratio() for other in close}
    return sorted(other for other in close if ratios[other] == ratios[close[0]])


def nowhere(unknown: list[str], headers: Path) -> list[str]:
    """Of names that neither the source nor the API has."""
    names, near, types, there, rest = known(headers), [], [], [], []
    for name in unknown:
        if re.match(r"(?:ORIG_)?DTYPE_\w+$", name):
            types.append(name)
        elif name in names:
            there.append(name)
        elif close := nearest(name, names):
            near.append(
                f"{name}: AscendC has {', '.join(close)} here: misspelt, or a name that is not declared {_PAGE}"
            )
        else:
            rest.append(name)
    if types:
        near.append(
            f"{', '.join(types)}: the type of an operator's input or output, which its package's build knows: "
            f"-D{types[0]}=float, or opp_build (anycend docs operator_packages)"
        )
    if there:
        near.append(
            f"{', '.join(there)}: AscendC has this name, and it is not declared in that place: kernel_operator.h must "
            f"come before, and a macro of the source or -D may have changed what it declares {_PAGE}"
        )
    if rest:
        what = "misspelt, not included, or a part of AscendC that the software NPU does not have"
        near.append(f"{', '.join(rest)}: {what} {_PAGE}")
    return near

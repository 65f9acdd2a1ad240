"""k<<<blocks, l2ctrl, stream>>>(args) becomes C++: ::AscendC::detail::Launch{"k", blocks, l2ctrl, stream}(k)(args);
a kernel that states its type (kernels.stated) has it there, too.

Lines stay where they are. What it is not: a check of the arguments; the compiler sees the call.
"""

from __future__ import annotations

import re

from text import SourceError, blanked, line_of, split


def _callee(code: str, end: int) -> int:
    """Where the expression before `end` begins: a::b::k<...>."""
    i = end
    while i and code[i - 1].isspace():
        i -= 1
    if i and code[i - 1] == ">":
        depth = 0
        while i:
            i -= 1
            depth += {">": 1, "<": -1}.get(code[i], 0)
            if depth == 0:
                break
    name = re.search(r"(?:(?:::)?[A-Za-z_]\w*(?:\s*::\s*[A-Za-z_]\w*)*)\s*$", code[:i])
    return name.start() if name else -1


def launches(source: str, path: str, types: dict[str, str]) -> str:
    code = blanked(source)
    out, done = [], 0
    for match in re.finditer(r"<<<", code):
        at = match.start()
        if at < done:
            continue
        line = line_of(code, at)
        start, end, depth = _callee(code, at), at + 3, 0
        while end < len(code) and not (depth == 0 and code.startswith(">>>", end)):
            depth += {"(": 1, ")": -1, "[": 1, "]": -1, "{": 1, "}": -1}.get(code[end], 0)
            if code[end] == ";" or depth < 0:
                end = len(code)
                break
            end += 1
        if start < done or end >= len(code):
            raise SourceError(path, line, "<<< begins a launch that has no kernel before it, or no >>> after it")
        given = split(code[at + 3 : end], source[at + 3 : end])
        if len(given) != 3:
            raise SourceError(
                path, line, f"a launch is k<<<blocks, l2ctrl, stream>>>(...), and this one has {len(given)} arguments"
            )
        if not code[end + 3 :].lstrip().startswith("("):
            raise SourceError(path, line, "the kernel's arguments are missing after >>>")
        kernel = " ".join(source[start:at].split())
        lines = "\n" * source.count("\n", start, end + 3)
        name = re.sub(r"<.*", "", kernel).split("::")[-1].strip()
        out.append(source[done:start])
        blocks, l2ctrl, stream = given
        launch = f'::AscendC::detail::Launch{{"{name}", static_cast<uint32_t>({blocks}), {l2ctrl}, {stream}'
        if name in types:
            launch += f", {types[name]}"
        out.append(f"{launch}}}({kernel}){lines}")
        done = end + 3
    return "".join([*out, source[done:]])

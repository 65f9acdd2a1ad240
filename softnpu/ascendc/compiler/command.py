"""The command line of `bisheng`: AscendC sources are rewritten and compiled by g++; all else goes to g++ as it is.

AscendC sources are *.asc, and what follows -x asc (-x cce). ANYCEND_CXX names another compiler. Options of its own
(options.py):
    --npu-arch=dav-2201        the architecture; also --cce-aicore-arch=dav-c220-vec, --npu-soc=Ascend910B3
    --launch-headers=<folder>  writes aclrtlaunch_<kernel>.h for each kernel, and compiles as well
    --tiling-data=<header>     an operator package's kernel: the structs of its host side's header (tiling.py)
    --tiling-key=<number>      what TILING_KEY_IS compares with
    --kernel-type=<type>       which cores kernels run on that do not say it themselves
    --cce-auto-sync=off        ANYCEND_CHECK=kernel wants flags between the scalar unit and the others, too
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import explain
import kernels
import refuse
import rewrite
import scratch
import tiling
from options import ARCHITECTURES, HELP, Line, OptionError
from text import SourceError, blanked, read, write

CXX = ["-std=c++20", "-ffp-contract=off", "-Wno-unknown-pragmas"]
# Constants of the source's own, which the C library has macros for; the chip's compiler has none of these.
_LIMIT = re.compile(r"\b(?:constexpr|const)\b[^;=(){}]*\b((?:U?INT|U?LONG|U?SHRT|FLT|DBL)_(?:MAX|MIN))\s*=")


def translate(path: str, headers: str | None = None, tilings: Sequence[str] = (), kind: str | None = None) -> str:
    """What g++ compiles instead of the source."""
    source = read(path)
    refuse.check(source, path)
    types = kernels.stated(source)
    found = kernels.find(source, path)
    if kind:
        types = dict.fromkeys((kernel.name for kernel in found), kind) | types
    if headers is not None:
        Path(headers).mkdir(parents=True, exist_ok=True)
        for kernel in found:
            write(Path(headers, f"aclrtlaunch_{kernel.name}.h"), kernel.header())
    text = kernels.with_launches(source, found, types)
    head = "#define ASCENDC_SOURCE_HAS_CUBE\n" if kernels.has_cube(source) else ""
    if limits := dict.fromkeys(_LIMIT.findall(blanked(source))):
        head += '#include "kernel_operator.h"\n' + "".join(f"#undef {name}\n" for name in limits)
    if tilings:
        names = {kernel.name for kernel in found}
        structs = "\n".join(tiling.structs(t, names) for t in tilings)
        head += f'#include "kernel_operator.h"\n#include "lib/matmul_intf.h"\n{structs}\n'
    name = os.path.abspath(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'{head}#line 1 "{name}"\n{rewrite.launches(kernels.overloads(text), path, types)}'


def own_help() -> str:
    """Of options that g++ does not know, one a line; g++'s own help follows it."""
    rows = [(f"{name}={value}", meaning) for name, (value, meaning) in HELP.items()]
    rows += [("-x asc", "what follows is AscendC, as *.asc are; -x c++ for host code"),
             ("ANYCEND_CXX", "in the environment: another compiler than g++")]  # fmt: skip
    lines = "".join(f"  {option:<38}{meaning}\n" for option, meaning in rows)
    return (
        f"bisheng of the software NPU (docs/ascendc.md). Options of its own:\n{lines}All others are the compiler's:\n\n"
    )


def escaped(path: str) -> str:
    """As g++ writes a file's name into a rule of make's."""
    return re.sub(r"([\s#])", r"\\\1", path).replace("$", "$$")


def main(arguments: list[str], root: str) -> int:
    try:
        line = Line(arguments)
    except OptionError as error:
        print(f"bisheng: {error}", file=sys.stderr)
        return 1
    compiler = os.environ.get("ANYCEND_CXX", "g++")
    libraries, headers = os.path.join(root, "lib64"), os.path.join(root, "ascendc", "include")
    with scratch.folder("bisheng.") as folder:
        inputs: list[str] = []
        sources: dict[str, str] = {}
        for number, path in enumerate(line.sources):
            try:
                text = translate(path, line.headers, line.tilings, line.cores())
            except SourceError as error:
                print(f"bisheng: {error}", file=sys.stderr)
                return 1
            except OSError as error:
                print(f"bisheng: {error.filename or path}: {error.strerror}", file=sys.stderr)
                return 1
            place = Path(folder, str(number))
            place.mkdir()
            translated = place / (Path(path).stem + ".cpp")
            write(translated, text)
            sources[escaped(str(translated))] = " ".join(map(escaped, [path, *line.tilings]))
            inputs += ["-iquote", os.path.dirname(os.path.abspath(path)), str(translated)]
        if line.asks_help:
            sys.stdout.write(own_help())
            sys.stdout.flush()
        command = [compiler, *CXX, *line.optimization(), "-fPIC", *line.macros()]
        command += ["-I", headers, "-I", os.path.join(root, "include")]
        # Objects of several sources keep their sources' names, since the copies have them, too.
        command += inputs + line.passed
        if line.links:
            command += [
                f"-L{libraries}",
                "-lsoftnpu_ascendc",
                "-lascendcl",
                "-Xlinker",
                "-rpath",
                "-Xlinker",
                libraries,
            ]
        if sys.stderr.isatty():
            command.append("-fdiagnostics-color=always")
        try:
            rules = line.rules()
            printed = subprocess.PIPE if line.depends and rules is None else None
            done = subprocess.run(
                command,
                check=False,
                stdout=printed,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                env={**os.environ, "TMPDIR": str(folder)},  # what g++ puts aside goes with the rest
            )
        except FileNotFoundError:
            print(
                f"bisheng: {compiler}: no such compiler; install g++, or name another in ANYCEND_CXX", file=sys.stderr
            )
            return 1
    if line.depends:  # what is rebuilt depends on the source, and not on what g++ was given instead
        text = read(rules) if rules and rules.is_file() else done.stdout or ""
        for copy, source in sources.items():
            text = text.replace(copy, source)
        if rules is None:
            sys.stdout.write(text)
        elif rules.is_file():
            write(rules, text)
    sys.stderr.write(done.stderr)
    number = ARCHITECTURES[line.architecture]
    for sentence in explain.sentences(done.stderr, headers, bool(line.sources), number) if done.returncode else ():
        print(f"bisheng: {sentence}", file=sys.stderr)
    return done.returncode

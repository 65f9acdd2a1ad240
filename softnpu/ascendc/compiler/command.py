"""The command line of `bisheng`: AscendC sources are rewritten and compiled by g++; all else goes to g++ as it is.

AscendC sources are *.asc, and what follows -x asc (-x cce). ANYCEND_CXX names another compiler. Options of its own:
options.py. Each source goes through g++'s preprocessor, so that macros, #if and headers count (unit.py); in what it
leaves kernels and launches are found and rewritten; g++ compiles the result.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import bodies
import explain
import kernels
import refuse
import rewrite
import scratch
import tiling
from options import ARCHITECTURES, HELP, Line, OptionError
from text import SourceError, blanked, read, write
from unit import Unit

CXX = ["-std=c++20", "-ffp-contract=off", "-Wno-unknown-pragmas"]
# Constants of the source's own, which the C library has macros for; the chip's compiler has none of these.
_LIMIT = re.compile(r"\b(?:constexpr|const)\b[^;=(){}]*\b((?:U?INT|U?LONG|U?SHRT|FLT|DBL)_(?:MAX|MIN))\s*=")


def own_help() -> str:
    """The options that g++ does not know, one a line; g++'s own help follows."""
    rows = [(f"{name}={value}", meaning) for name, (value, meaning) in HELP.items()]
    rows += [("-x asc", "what follows is AscendC, as *.asc are; -x c++ for host code"),
             ("ANYCEND_CXX", "in the environment: another compiler than g++")]  # fmt: skip
    lines = "".join(f"  {option:<38}{meaning}\n" for option, meaning in rows)
    title = "bisheng of the software NPU (anycend docs ascendc). Options of its own:"
    return f"{title}\n{lines}All others are the compiler's:\n\n"


def escaped(path: str) -> str:
    """As g++ writes a file's name into a rule of make's."""
    return re.sub(r"([\s#])", r"\\\1", path).replace("$", "$$")


class Failed(Exception):
    """g++ failed, with this exit code; Compiler.errors has its words."""


class Compiler:
    """g++, and what it said of errors and warnings."""

    def __init__(self, line: Line, root: str, folder: Path):
        self.name = os.environ.get("ANYCEND_CXX") or "g++"
        self.command = [self.name] if shutil.which(self.name) else shlex.split(self.name)  # also: ccache g++
        self.headers = os.path.join(root, "ascendc", "include")
        self.flags = [*CXX, *line.optimization(), "-fPIC", *line.macros(), "-I", self.headers]
        self.flags += ["-I", os.path.join(root, "include")]
        self.flags += ["-fdiagnostics-color=always"] if sys.stderr.isatty() else []
        self.environment = {**os.environ, "TMPDIR": str(folder)}  # what g++ puts aside goes with the rest
        self.errors = ""

    def run(self, *arguments: str, printed: bool = False) -> str:
        """What it printed, if that is asked for."""
        done = subprocess.run([*self.command, *arguments], check=False, env=self.environment, stderr=subprocess.PIPE,
                              stdout=subprocess.PIPE if printed else None)  # fmt: skip
        self.errors += done.stderr.decode("utf-8", "replace")
        if done.returncode:
            raise Failed(done.returncode)
        return (done.stdout or b"").decode("utf-8", "surrogateescape")  # bytes of a source stay as they are


class Source:
    """An AscendC source on its way to g++."""

    def __init__(self, path: str, line: Line, compiler: Compiler, folder: Path):
        self.path, self.line, self.compiler, self.folder = path, line, compiler, folder
        head = ""
        if limits := dict.fromkeys(_LIMIT.findall(blanked(read(path)))):
            head += '#include "kernel_operator.h"\n' + "".join(f"#undef {name}\n" for name in limits)
        if line.tilings:
            structs = "\n".join(map(tiling.structs, line.tilings))
            head += f'#include "kernel_operator.h"\n#include "lib/matmul_intf.h"\n{structs}\n{tiling.BEFORE}'
        self.before = folder / "before.h"  # what the source is compiled behind
        write(self.before, head)

    def given(self) -> list[str]:
        before = ["-include", str(self.before)] if self.before.stat().st_size else []
        return ["-DASCENDC_WORDS", *before, "-x", "c++", self.path]

    def unit(self, *rules: str) -> Unit:
        """As the preprocessor leaves it."""
        # A header that was compiled before is named in the result, not read (-fpch-preprocess).
        arguments = [*self.compiler.flags, "-E", "-fpch-preprocess", *self.line.preprocessing(), *rules, *self.given()]
        return Unit(self.compiler.run(*arguments, printed=True), self.path, self.compiler.headers)

    def translated(self, *rules: str) -> Path:
        """What g++ compiles instead."""
        try:
            unit = self.unit(*rules)
        except Failed:
            self.tell_those_that_wait()
            raise
        refuse.includes(unit)
        refuse.words(unit)
        named = kernels.named(unit)
        found = [kernel for kernel in named if kernel.defined]
        unstated = kernels.EITHER if kernels.has_cube(unit) else kernels.UNSTATED
        declared = {(*k.scope, k.name): k.stated for k in named if k.stated and not k.defined}
        for k in named:
            cores = self.line.cores() if k.defined else None
            k.stated = k.stated or declared.get((*k.scope, k.name)) or cores or unstated
        if self.line.headers is not None:
            Path(self.line.headers).mkdir(parents=True, exist_ok=True)
            for kernel in (k for k in found if k.linked):
                write(Path(self.line.headers, f"aclrtlaunch_{kernel.name}.h"), kernel.header())
        if self.line.tilings:
            unit.name(tiling.CHOSEN, tiling.chosen(self.line.tilings, {kernel.name for kernel in found}))
        bodies.launched(unit, named, self.line.auto_sync, self.line.debugged())
        rewrite.launches(unit, named, unstated)
        # Objects of several sources keep their sources' names, since these have them, too.
        translated = self.folder / (Path(self.path).stem + ".ii")
        write(translated, unit.result())
        return translated

    def tell_those_that_wait(self) -> None:
        """Writes launch headers that are an #error with the compiler's first one: host code that is built beside the
        source, or after it, then stops with the cause, not with a missing header."""
        why = re.search(r"^\S.*\berror: .*$", self.compiler.errors, re.MULTILINE)
        if self.line.headers is None or why is None:
            return
        Path(self.line.headers).mkdir(parents=True, exist_ok=True)
        for kernel in kernels.find(Unit(read(self.path), self.path, self.compiler.headers)):
            write(Path(self.line.headers, f"aclrtlaunch_{kernel.name}.h"), f"#error {why.group()}\n")

    def rules(self, text: str) -> str:
        """Rules of make that g++ wrote: they depend on the tilings instead of on what stands before."""
        before = escaped(str(self.before))
        text = re.sub(rf"^{re.escape(before)}:\n", "", text, flags=re.MULTILINE)  # of -MP
        return text.replace(before, " ".join(map(escaped, self.line.tilings)))


def out(text: str) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
    sys.stdout.buffer.flush()


def sources(line: Line, compiler: Compiler, folder: Path) -> Iterator[Source]:
    for number, path in enumerate(line.sources):
        place = folder / str(number)
        place.mkdir()
        yield Source(path, line, compiler, place)


def rules(line: Line, compiler: Compiler, folder: Path) -> None:
    """-M and -MM: rules of make alone."""
    for source in sources(line, compiler, folder):
        to = line.rules(source.path)
        text = compiler.run(*compiler.flags, *line.passed, *source.given(), printed=to is None)
        if to is None:
            out(source.rules(text))
        else:
            write(to, source.rules(read(to)))


def asked(line: Line, compiler: Compiler, folder: Path) -> None:
    """--version, -###, -E -dM and the like: nothing is compiled, so nothing is rewritten."""
    for source in sources(line, compiler, folder):
        compiler.run(*compiler.flags, *line.passed, *source.given())


def compiled(line: Line, compiler: Compiler, root: str, folder: Path) -> None:
    inputs: list[str] = []
    depends: dict[Path, str] = {}
    for source in sources(line, compiler, folder):
        made = source.folder / "rules.d"
        inputs.append(str(source.translated(*(line.making(source.path, made) if line.depends else ()))))
        if line.depends:
            to = line.rules(source.path)
            depends[to] = depends.get(to, "") + source.rules(read(made))
    if "-E" in line.passed and inputs:
        text, output = "".join(map(read, inputs)), line.values("-o")
        if "-P" in line.passed:
            bare = [a for a in line.passed if a in ("-C", "-CC")]
            text = "".join(
                compiler.run("-E", "-P", "-fpreprocessed", *bare, "-x", "c++", i, printed=True) for i in inputs
            )
        write(output[-1], text) if output else out(text)
    else:
        command = [*compiler.flags, *inputs, *line.passed]
        if line.links:
            libraries = os.path.join(root, "lib64")
            command += [f"-L{libraries}", "-lsoftnpu_ascendc", "-lascendcl"]
            command += ["-Xlinker", "-rpath", "-Xlinker", libraries]
        compiler.run(*command)
    for to, text in depends.items():
        write(to, text)


def kernels_of(arguments: list[str], root: str, folder: Path) -> list[kernels.Kernel]:
    """The kernels that the one source of a command line defines. SourceError, also with the compiler's words."""
    line = Line(arguments)
    compiler = Compiler(line, root, folder)
    try:
        (source,) = sources(line, compiler, folder)
        return kernels.find(source.unit())
    except Failed:
        raise SourceError(line.sources[0], 1, compiler.errors.strip()) from None


def main(arguments: list[str], root: str) -> int:
    try:
        line = Line(arguments)
    except OptionError as error:
        print(f"bisheng: {error}", file=sys.stderr)
        return 1
    said, code = "", 0
    with scratch.folder("bisheng.") as folder:
        compiler = Compiler(line, root, folder)
        try:
            if line.asks_help:
                sys.stdout.write(own_help())
                sys.stdout.flush()
            if line.sources and line.only_rules():
                rules(line, compiler, folder)
            elif line.sources and line.asks():
                asked(line, compiler, folder)
            else:
                compiled(line, compiler, root, folder)
        except Failed as failed:
            code = failed.args[0]
        except SourceError as error:
            said = str(error)
        except OSError as error:
            said = f"{error.filename}: {error.strerror}"
            if error.filename == compiler.command[0]:
                said = f"{error.filename}: no such compiler; install g++, or name another in ANYCEND_CXX"
    sys.stderr.write(compiler.errors)
    number = ARCHITECTURES[line.architecture]
    told = explain.sentences(compiler.errors, compiler.headers, bool(line.sources), number) if code else []
    for sentence in [said] if said else told:
        print(f"bisheng: {sentence}", file=sys.stderr)
    return 1 if said else code

"""The command line of `bisheng`: AscendC sources are rewritten and compiled by g++; all else goes to g++ as it is.

AscendC sources are *.asc, and what follows -x asc (-x cce). ANYCEND_CXX names another compiler. Options of its own:
    --npu-arch=dav-2201        the architecture; also --cce-aicore-arch=dav-c220-vec
    --launch-headers=<folder>  writes aclrtlaunch_<kernel>.h for each kernel, and compiles as well
    --tiling-data=<header>     an operator package's kernel: the structs of its host side's header (tiling.py)
    --tiling-key=<number>      what TILING_KEY_IS compares with
    --kernel-type=<type>       which cores kernels run on that do not say it themselves
    --cce-auto-sync=off        ANYCEND_CHECK=kernel wants flags between the scalar unit and the others, too
Left out, because they steer the vendor's code generation: -mllvm <word>, other --cce-*.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import kernels
import refuse
import rewrite
import tiling
from text import SourceError, blanked, read, write

ARCHITECTURES = {
    "dav-2201": 2201,
    "dav-c220": 2201,
    "dav-c220-vec": 2201,
    "dav-3510": 3510,
    "dav-c310": 3510,
    "dav-1001": 1001,
    "dav-c100": 1001,
}
CXX = ["-std=c++20", "-ffp-contract=off", "-Wno-unknown-pragmas"]
# Constants of the source's own, which the C library has macros for; the chip's compiler has none of these.
_LIMIT = re.compile(r"\b(?:constexpr|const)\b[^;=(){}]*\b((?:U?INT|U?LONG|U?SHRT|FLT|DBL)_(?:MAX|MIN))\s*=")
_TAKES_VALUE = {
    "-o",
    "-I",
    "-L",
    "-D",
    "-U",
    "-include",
    "-isystem",
    "-iquote",
    "-MF",
    "-MT",
    "-MQ",
    "-Xlinker",
    "-Wl",
    "-l",
}


class Line:
    """The command line, sorted."""

    def __init__(self, arguments: list[str]):
        self.passed: list[str] = []
        self.sources: list[str] = []
        self.architecture = 2201
        self.headers: str | None = None
        self.tilings: list[str] = []
        self.kernel_type: str | None = None
        self.links = True
        self.depends = False
        language, rest = None, iter(arguments)
        for a in rest:
            if a == "-x":
                language = next(rest, "")
                if language not in ("asc", "cce"):
                    self.passed += ["-x", language]
            elif a in ("-xasc", "-xcce"):
                language = a[2:]
            elif a.startswith(("--npu-arch=", "--cce-aicore-arch=")):
                name = a.split("=", 1)[1]
                if name not in ARCHITECTURES:
                    raise SystemExit(f"bisheng: {a}: no such architecture here; known are {', '.join(ARCHITECTURES)}")
                self.architecture = ARCHITECTURES[name]
            elif a.startswith("--launch-headers="):
                self.headers = a.split("=", 1)[1]
            elif a.startswith("--tiling-data="):
                self.tilings.append(a.split("=", 1)[1])
            elif a.startswith("--kernel-type="):
                self.kernel_type = a.split("=", 1)[1]
            elif a.startswith("--tiling-key="):
                self.passed.append(f"-DASCENDC_TILING_KEY={a.split('=', 1)[1]}")
            elif a == "-mllvm":
                next(rest, None)
            elif a == "--cce-auto-sync=off":
                self.passed.append("-DASCENDC_AUTO_SYNC=0")
            elif a.startswith("--cce-"):
                continue
            elif a.startswith("-std="):
                if not re.search(r"(2[0-9a-d]|[2]x)$", a):
                    continue  # the headers need C++20
                self.passed.append(a)
            elif a in _TAKES_VALUE:
                self.passed += [a, next(rest, "")]
            elif a.startswith(("-MF", "-MT", "-MQ")) or (a.startswith("-o") and len(a) > 2):
                joined = 2 if a.startswith("-o") else 3
                self.passed += [a[:joined], a[joined:]]
            elif not a.startswith("-") and (a.endswith(".asc") or (language in ("asc", "cce") and _is_source(a))):
                self.sources.append(a)
            else:
                self.passed.append(a)
            if a in ("-c", "-S", "-E", "-fsyntax-only", "-M", "-MM"):
                self.links = False
            self.depends = self.depends or a in ("-M", "-MM", "-MD", "-MMD")

    def values(self, option: str) -> list[str]:
        return [value for a, value in zip(self.passed, self.passed[1:], strict=False) if a == option]

    def rules(self) -> Path | None:
        """The file of make's rules that g++ writes (-MF, or beside the output); none if it prints them."""
        named, output = self.values("-MF"), self.values("-o")
        if not self.depends or not self.sources or not (named or output or {"-MD", "-MMD"} & set(self.passed)):
            return None
        if named:
            return Path(named[-1])
        if {"-M", "-MM"} & set(self.passed):
            return Path(output[-1])
        return Path(output[-1] if output else Path(self.sources[0]).name).with_suffix(".d")

    def optimization(self) -> list[str]:
        level = [a for a in self.passed if re.fullmatch(r"-O\w*", a)]
        flags = [] if level else ["-O3"]
        if level and level[-1] in ("-O2", "-O3", "-Ofast"):
            flags += ["-ftree-vectorize", "-fvect-cost-model=dynamic"]
        if not any(a.startswith(("-march=", "-mtune=")) for a in self.passed) and not (
            level and level[-1] in ("-O0", "-O1")
        ):
            flags.append("-march=native")
        return flags


def _is_source(name: str) -> bool:
    return Path(name).suffix in (".cpp", ".cc", ".cxx", ".c", ".cce", ".h", ".hpp")


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
    definitions = "".join(k.definition(types) for k in found)
    head = "#define ASCENDC_SOURCE_HAS_CUBE\n" if kernels.has_cube(source) else ""
    if limits := dict.fromkeys(_LIMIT.findall(blanked(source))):
        head += '#include "kernel_operator.h"\n' + "".join(f"#undef {name}\n" for name in limits)
    if tilings:
        names = {kernel.name for kernel in found}
        structs = "\n".join(tiling.structs(t, names) for t in tilings)
        head += f'#include "kernel_operator.h"\n#include "lib/matmul_intf.h"\n{structs}\n'
    name = os.path.abspath(path).replace("\\", "\\\\").replace('"', '\\"')
    tail = f'\n#line 1 "{name} (aclrtlaunch)"\n{definitions}' if definitions else ""
    return f'{head}#line 1 "{name}"\n{rewrite.launches(kernels.overloads(source), path, types)}{tail}'


def escaped(path: str) -> str:
    """As g++ writes a file's name into a rule of make's."""
    return re.sub(r"([\s#])", r"\\\1", path).replace("$", "$$")


def main(arguments: list[str], root: str) -> int:
    line = Line(arguments)
    compiler = os.environ.get("ANYCEND_CXX", "g++")
    libraries = os.path.join(root, "lib64")
    with tempfile.TemporaryDirectory(prefix="bisheng.") as folder:
        inputs: list[str] = []
        sources: dict[str, str] = {}
        for number, path in enumerate(line.sources):
            try:
                text = translate(path, line.headers, line.tilings, line.kernel_type)
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
        command = [compiler, *CXX, *line.optimization(), "-fPIC", f"-D__NPU_ARCH__={line.architecture}"]
        command += ["-I", os.path.join(root, "ascendc", "include"), "-I", os.path.join(root, "include")]
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
                command, check=False, stdout=printed, stderr=subprocess.PIPE, text=True, errors="replace"
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
    for sentence in refuse.explain(done.stderr) if done.returncode else ():
        print(f"bisheng: {sentence}", file=sys.stderr)
    return done.returncode

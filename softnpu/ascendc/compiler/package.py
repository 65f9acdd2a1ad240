"""`opp_build`: a package of operators from op_host (OpDef, tiling) and op_kernel (AscendC), as msopgen lays them out.

The host's sources are compiled and asked what the operators are (host/describe.cpp). Then each kernel is compiled once
for each set of types that its operator has. aclnn<Op>GetWorkspaceSize and aclnn<Op> are written (aclnn.py) and linked
with the host's side: op_api/lib/libcust_opapi.so. What it is not: the vendor's opc; nothing made here runs on a chip.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import aclnn
import command
import kernels
import parents
import scratch
import tiling
from aclnn import BuildError, Operator
from text import SourceError, blanked, read, write

# The names under which host sides include what host/host.h has.
HEADERS = [
    "register/op_def.h",
    "register/op_def_factory.h",
    "register/op_def_registry.h",
    "register/op_impl_registry.h",
    "register/tilingdata_base.h",
    "tiling/tiling_api.h",
    "tiling/platform/platform_ascendc.h",
    "lib/matrix/matmul/tiling.h",
    "exe_graph/runtime/infer_datatype_context.h",
    "exe_graph/runtime/infer_shape_context.h",
    "exe_graph/runtime/runtime_attrs.h",
    "exe_graph/runtime/shape.h",
    "exe_graph/runtime/storage_shape.h",
    "exe_graph/runtime/tiling_context.h",
    "exe_graph/runtime/tiling_parse_context.h",
    "graph/ge_error_codes.h",
    "graph/operator.h",
    "graph/types.h",
    "graph/utils/type_utils.h",
    "platform/platform_info.h",
    "platform/platform_infos_def.h",
]
# By the beginning of --soc: the architecture, and the folders of a project that are for it alone.
CHIPS = {
    "ascend910b": ("dav-2201", "arch22"),
    "ascend910_93": ("dav-2201", "arch22"),
    "ascend950": ("dav-3510", "arch35"),
}
VERSION = "custom_opp_compiler_version=anycend\n"  # version.info: the folder is a package that was made here
LIBRARY = Path("op_api") / "lib" / "libcust_opapi.so"
MARK = b"ascendc_opp_enter"  # what that library of ours looks up in a kernel's, and no other does (host/package.h)
TOLD = "@opp_build "  # begins describe.cpp's lines, beside what the definitions may print
_ADDED = re.compile(r"\bOP_ADD\s*\(\s*(\w+)")
_ARCHITECTURE = re.compile(r"arch\d+")


class Build:
    def __init__(self, asked: argparse.Namespace, root: str, place: Path):
        self.asked, self.root, self.scratch = asked, Path(root), place
        self.architecture, self.own = CHIPS[asked.soc]
        self.wanted = set(filter(None, asked.only.split(",")))
        self.folders = [Path(f).resolve() for f in asked.project]
        for given, folder in zip(asked.project, self.folders, strict=True):
            if not folder.is_dir():
                raise BuildError(f"{given}: there is no such folder")
        self.out = Path(asked.output).resolve()
        if ":" in str(self.out):  # what ASCEND_CUSTOM_OPP_PATH and LD_LIBRARY_PATH list stands between colons
            raise BuildError(f"-o {asked.output}: a package's path can have no colon: choose another folder")
        if (library := self.out / LIBRARY).is_file() and MARK not in library.read_bytes():
            raise BuildError(
                f"{library} is not of opp_build, and would be replaced: choose another folder, or remove it"
            )
        self.other_names: dict[str, str] = {}  # by operator: of a kernel that is taken for its, what it is called
        self.warned: set[str] = set()
        self.stage = place / "package"  # the old package stays whole until the new one is
        names = place / "names"
        for name in HEADERS:
            (names / name).parent.mkdir(parents=True, exist_ok=True)
            write(names / name, '#pragma once\n#include "host.h"\n')
        beside = [*asked.include, *map(str, self.folders), str(names), str(self.root / "ascendc" / "host")]
        self.host_flags = [f"-I{folder}" for folder in beside] + asked.define
        # An installed package has the kernels' files in one folder: each finds the others' headers.
        inner = dict.fromkeys(f.parent for suffix in (".h", ".hpp") for f in self.files("op_kernel", suffix))
        self.beside, self.inner = [*map(Path, asked.include), *self.folders], list(inner)

    def files(self, kind: str, suffix: str) -> list[Path]:
        """Those below folders op_host or op_kernel (for "" all), without another chip's.

        One in a folder of this chip's own (arch35) stands for the one of its name beside that folder.
        """
        found, chips, places = [], {}, {}
        for folder in self.folders:
            for f in sorted(folder.rglob(f"*{suffix}")):
                below = f.relative_to(folder).parts[:-1]  # what is above the project says nothing of it
                if kind in ("", folder.name, *below) and f.is_file():
                    found.append(f)
                    chips[f] = {p for p in below if _ARCHITECTURE.fullmatch(p)}
                    places[f] = folder.joinpath(*(p for p in below if not _ARCHITECTURE.fullmatch(p)), f.name)
        special = {places[f] for f in found if chips[f] == {self.own}}
        return [f for f in found if chips[f] <= {self.own} and (chips[f] or f not in special)]

    def bisheng(self, *arguments: str | Path) -> None:
        command = [sys.executable, str(self.root / "bin" / "bisheng"), f"--npu-arch={self.architecture}", "-w"]
        done = subprocess.run(
            [*command, *self.asked.optimize, *map(str, arguments)],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
        )
        if done.returncode:
            raise BuildError(done.stderr.strip())

    def host(self) -> list[Path]:
        sources = self.files("op_host", ".cpp")
        if not sources:
            raise BuildError(f"{', '.join(map(str, self.folders))}: there is no source in a folder op_host")
        added = {f: set(_ADDED.findall(read(f))) for f in sources}
        self.definitions = {operator: f for f, types in added.items() for operator in types}
        if self.wanted:  # the folders that define them
            folders = {f.parent for f, types in added.items() if any({t, tiling.snake(t)} & self.wanted for t in types)}
            sources = [f for f in sources if f.parent in folders] or sources

        def compiled(source: Path) -> Path | BuildError:
            target = self.scratch / f"host_{sources.index(source)}.o"
            try:
                self.bisheng("-c", *self.host_flags, source, "-o", target)
            except BuildError as error:
                return error
            return target

        return self.without_failures(self.each(compiled, sources), "sources of the host's side")

    def each(self, work: Callable, items) -> list:
        with ThreadPoolExecutor(self.asked.jobs) as pool:
            try:
                return list(pool.map(work, items))
            except scratch.Stopped:
                pool.shutdown(cancel_futures=True)
                raise

    def describe(self, objects: list[Path]) -> list[Operator]:
        program = self.scratch / "describe"
        flags = [f"-I{self.root / 'ascendc' / 'host'}"]
        self.bisheng(*flags, self.root / "ascendc" / "host" / "describe.cpp", *objects, "-o", program)
        done = subprocess.run([program], capture_output=True, encoding="utf-8", errors="replace")
        if done.returncode:
            why = done.stderr.strip() or f"the program that prints them ended with {done.returncode}"
            raise BuildError(f"the definitions of the operators cannot be read: {why}")
        told = [line.removeprefix(TOLD) for line in done.stdout.split("\n") if line.startswith(TOLD)]
        all_of_it = [Operator.of(json.loads(line), self.asked.soc) for line in told]
        wanted = self.wanted
        if unknown := wanted - {name for op in all_of_it for name in (op.type, op.name, op.file)}:
            raise BuildError(f"--only: there is no operator {', '.join(sorted(unknown))}")
        return [op for op in all_of_it if not wanted or {op.type, op.name, op.file} & wanted]

    def source(self, op: Operator) -> Path:
        found = [f for f in self.kernel_sources if f.stem == op.file]
        if not found:
            raise BuildError(f"{op.type}: there is no op_kernel/{op.file}.cpp")
        if len(found) > 1 and op.type in self.definitions:  # the one that lies as its definition does
            definition = self.definitions[op.type].parts
            found = parents.nearest(found, Path(*("op_kernel" if p == "op_host" else p for p in definition)))
        if len(found) > 1:
            raise BuildError(f"{op.type}: which is its kernel, {' or '.join(map(str, found))}? Rename one")
        return found[0]

    def kernel(self, op: Operator, source: Path, flags: list[str], folder: Path) -> str:
        """The kernel's name in the source, with these flags."""
        folder.mkdir()
        given = [f"--npu-arch={self.architecture}", *flags, "-c", "-x", "asc", str(source)]
        known = [k for k in command.kernels_of(given, str(self.root), folder) if k.linked]
        wanted = len(op.inputs) + len(op.outputs) + 2
        names = [op.kernel] if op.kernel else [op.name, op.file]  # several operators may have one file
        for name in [*names, *(k.name for k in known if len(known) == 1)]:
            for kernel in (k for k in known if k.name == name):
                if name not in names:
                    self.other_names[op.type] = f"op_kernel/{source.name} has no kernel {names[0]}, but {name}"
                if len(kernel.names) != wanted:
                    raise BuildError(
                        f"{op.type}: the kernel {kernel.name} has {len(kernel.names)} parameters, and inputs, outputs, "
                        f"workspace and tiling are {wanted}"
                    )
                if said := op.other_order(kernel.names):
                    self.warn(f"{op.type}: the kernel {kernel.name} has its parameters in another order: {said}")
                return kernel.name
        others = f", but {', '.join(k.name for k in known)}" if known else ""
        raise BuildError(f'{op.type}: {source} has no kernel extern "C" {" or ".join(dict.fromkeys(names))}{others}')

    def warn(self, text: str) -> None:
        """Once: an operator's kernel is compiled for each set of types."""
        if text not in self.warned:
            self.warned.add(text)
            print(f"opp_build: warning: {text}", file=sys.stderr)

    def variant(self, op: Operator, number: int) -> str:
        """Compiled; where it lies in the package."""
        source = self.source(op)
        place = f"op_impl/ai_core/tbe/kernel/{self.asked.soc}/{op.name}/{op.name}_{number}.so"
        library = self.stage / place
        library.parent.mkdir(parents=True, exist_ok=True)
        # Its own operator's folders go first, and of these the chip's own.
        inner = sorted(self.inner, key=lambda f: (-parents.near(f, source), _ARCHITECTURE.fullmatch(f.name) is None))
        ups = self.parents.flags(source, inner, self.scratch / f"{op.name}_{number}_parents")
        flags = [f"-I{folder}" for folder in self.beside] + ups + [f"-I{folder}" for folder in inner]
        flags += [*self.asked.define, *op.macros(number), "--tiling-key=::AscendC::detail::core().tiling_key"]
        headers = self.tilings.get(op.type, [])  # of several that say the same, the one beside the kernel
        near = [
            h
            for h in headers
            if any(p.with_name("op_kernel") in source.parents for p in h.parents if p.name == "op_host")
        ]
        flags += [f"--tiling-data={header}" for header in near[:1] or headers[:1]]
        if kernels.names_cube(read(source)):
            flags.append("--kernel-type=KERNEL_TYPE_MIX_AIC_1_2")
        entry = self.scratch / f"{op.name}_{number}_entry.cpp"
        kernel = self.kernel(op, source, flags, self.scratch / f"{op.name}_{number}_kernels")
        op.reads_tiling = tiling.is_read(blanked(read(source)), kernel)
        write(entry, aclnn.entry(op, kernel))
        flags += ["-shared", "-fvisibility=hidden", "-fno-gnu-unique", "-Wl,-Bsymbolic"]
        self.bisheng(*flags, entry, "-x", "asc", source, "-o", library)
        return place

    def operator(self, op: Operator) -> tuple[Operator, list[str]] | BuildError:
        try:
            op.check(self.asked.soc)
            return op, [self.variant(op, i) for i in range(len(op.combinations()))]
        except (BuildError, SourceError) as error:
            return BuildError(f"{self.tiling_of(op, str(error))}{error}")

    def tiling_of(self, op: Operator, said: str) -> str:
        """Of an operator whose kernel has another name, or asks for a tiling that no header gives it."""
        if op.type in self.other_names:
            return f"{op.type}: {self.other_names[op.type]}\n"
        if "GET_TILING_DATA" not in said or op.type in self.tilings:
            return ""
        known = f", but one for {', '.join(self.tilings)}" if self.tilings else ""
        return (
            f"{op.type}: op_host has no REGISTER_TILING_DATA_CLASS({op.type}, <class>){known}: it says what the "
            "kernel's GET_TILING_DATA reads\n"
        )

    def without_failures(self, built: list, what: str) -> list:
        failed = [e for e in built if isinstance(e, BuildError)]
        for error in failed:
            print(f"opp_build: {error}", file=sys.stderr)
        if failed and not self.asked.keep_going:
            raise BuildError(f"{len(failed)} of {len(built)} {what} cannot be built; --keep-going leaves them out")
        return [b for b in built if not isinstance(b, BuildError)]

    def without_clashes(self, operators: list[Operator]) -> None:
        """No two have one file or one function."""
        owners: dict[str, str] = {}
        for op in operators:
            for name in (op.name, *op.functions()):
                if (other := owners.setdefault(name, op.type)) != op.type:
                    raise BuildError(f"{op.type} and {other}: both would have {name} in the package: rename one")

    def run(self) -> None:
        objects = self.host()
        operators = self.describe(objects)
        self.without_clashes(operators)
        self.kernel_sources = self.files("op_kernel", ".cpp")
        headers = self.files("", ".h") + self.files("", ".hpp")
        self.parents = parents.Parents(self.kernel_sources, headers, self.beside)
        self.tilings = tiling.registered(self.files("op_host", ".h") + self.files("op_host", ".cpp"))
        built = self.each(self.operator, operators)
        made = self.without_failures(built, "operators")
        if not made:
            why = "" if operators else ": no source of op_host has OP_ADD(<class>), which registers one"
            raise BuildError(f"there is no operator that can be built{why}")
        out = self.stage
        for folder in ("op_api/lib", "op_api/include", "bin"):
            (out / folder).mkdir(parents=True, exist_ok=True)
        source = self.scratch / "functions.cpp"
        write(source, aclnn.functions(made))
        for op, _ in made:
            write(out / "op_api" / "include" / f"aclnn_{op.name}.h", op.header())
        library = out / LIBRARY
        linked = ["-shared", f"-L{self.root / 'lib64'}", "-lopapi", "-lnnopbase", "-ldl", "-Wl,-Bsymbolic"]
        host = f"-I{self.root / 'ascendc' / 'host'}"
        self.bisheng("-fvisibility=hidden", "-fno-gnu-unique", host, source, *objects, *linked, "-o", library)
        write(out / "version.info", VERSION)
        write(out / "bin" / "set_env.bash", environment(self.out))
        install(out, self.out)
        print(f"opp_build: {len(made)} operators in {self.asked.output}")


def install(made: Path, package: Path) -> None:
    """Moves what was made to where the package lies, and takes away what an earlier build of other operators left.

    A package has one libcust_opapi.so, so that nothing of an earlier one has a use. Files of others stay.
    """
    version = package / "version.info"
    ours = version.is_file() and read(version) == VERSION
    files = [f.relative_to(made) for f in sorted(made.rglob("*")) if f.is_file()]
    for file in files:
        target = package / file
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(f".{target.name}.new")  # a program that runs keeps the library that it has
        shutil.move(made / file, beside)
        beside.replace(target)
    if not ours:
        return
    for pattern in ("op_impl/ai_core/tbe/kernel/*/*/*.so", "op_api/include/aclnn_*.h"):
        for old in list(package.glob(pattern)):
            if old.relative_to(package) not in files:
                old.unlink()
                for folder in (old.parent, old.parent.parent):
                    if not any(folder.iterdir()):
                        folder.rmdir()


def environment(package: Path) -> str:
    """For bash, with any path, and where the variables are not set (set -u)."""
    lists = {"ASCEND_CUSTOM_OPP_PATH": package, "LD_LIBRARY_PATH": package / "op_api" / "lib"}
    return "".join(f'export {name}={shlex.quote(str(first))}"${{{name}:+:${name}}}"\n' for name, first in lists.items())


def at_least_one(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is no number from 1 on")
    return int(text)


def arguments(given: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "opp_build", description="Builds a package of custom operators for the software NPU."
    )
    parser.add_argument("project", nargs="+", help="a folder with op_host and op_kernel, or with folders of such")
    parser.add_argument("-o", "--output", required=True, help="the package: what ASCEND_CUSTOM_OPP_PATH is to name")
    parser.add_argument("--soc", default="ascend910b", choices=CHIPS)
    parser.add_argument("--only", default="", help="operators, by type or by kernel's file, separated by commas")
    parser.add_argument("--keep-going", action="store_true", help="leave out operators that cannot be built")
    parser.add_argument("-j", "--jobs", type=at_least_one, default=os.cpu_count())
    parser.add_argument("-I", "--include", action="append", default=[], help="a folder of headers, of both sides")
    both = "-D<macro>[=<value>] and -U<macro> of both sides"
    parser.epilog = f"Passed on to the compiler: {both}, -O<level> (else -O3), -g, -fsanitize=<what>."
    known, rest = parser.parse_known_args(given)
    known.define = [a for a in rest if re.match("-[DU].", a)]
    known.optimize = [a for a in rest if a.startswith(("-O", "-g", "-fsanitize"))]
    if other := [a for a in rest if a not in known.define + known.optimize]:
        parser.error(f"unknown: {' '.join(other)}")
    return known


def main(given: list[str], root: str) -> int:
    with scratch.folder("opp_build.") as folder:
        try:
            Build(arguments(given), root, folder).run()
        except (BuildError, SourceError, OSError) as error:
            print(f"opp_build: {error}", file=sys.stderr)
            return 1
    return 0

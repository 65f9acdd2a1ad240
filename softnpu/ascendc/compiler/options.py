"""The command line of `bisheng`, sorted: options of its own, AscendC sources, and what goes to g++ as it is.

What is not understood of the vendor's options is refused here with the option, its value and what is allowed. Left out,
because they steer the vendor's code generation: -mllvm <word>, --sanitizer, other --cce-*; and the word that begins
options of the host's side alone (-forward-options-to-host-compiler), since here both sides are compiled as one.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from kernels import KERNEL_TYPES

ARCHITECTURES = {
    "dav-2201": 2201,
    "dav-c220": 2201,
    "dav-c220-vec": 2201,
    "dav-c220-cube": 2201,
    "dav-3510": 3510,
    "dav-c310": 3510,
    "dav-c310-vec": 3510,
    "dav-c310-cube": 3510,
    "dav-1001": 1001,
    "dav-c100": 1001,
}
CORES = {"vec": "KERNEL_TYPE_AIV_ONLY", "cube": "KERNEL_TYPE_AIC_ONLY"}
CHIPS = {  # --npu-soc
    r"ascend910b": "dav-2201",  # the family, as AddConfig has it; the chip Ascend910B is of the first one
    r"(?i:Ascend910B\d[\w-]*|Ascend910_93\w*)": "dav-2201",
    r"(?i:Ascend950\w*)": "dav-3510",
    r"(?i:Ascend910(?:A|B|ProA|ProB|PremiumA)?)": "dav-1001",
}
EXAMPLES = {  # of values
    "--npu-arch": f"<one of {', '.join(ARCHITECTURES)}>",
    "--cce-aicore-arch": f"<one of {', '.join(ARCHITECTURES)}>",
    "--npu-soc": "Ascend910B3",
    "--launch-headers": "<folder>",
    "--tiling-data": "<op_host/..._tiling.h>",
    "--tiling-key": "<number>",
    "--kernel-type": f"<one of {', '.join(KERNEL_TYPES)}>",
}
HELP = {  # a value, and what the option says; --help
    "--npu-arch": ("dav-2201", "the architecture: dav-2201 (A2, A3; the default), dav-3510 (950), dav-1001 (910A)"),
    "--npu-soc": ("Ascend910B3", "the architecture by a chip's name"),
    "--cce-aicore-arch": ("dav-c220-vec", "the architecture, and which cores kernels run on"),
    "--launch-headers": ("<folder>", "writes aclrtlaunch_<kernel>.h there"),
    "--tiling-data": ("<header>", "the structs of an operator's tiling from its host side"),
    "--tiling-key": ("<number>", "what TILING_KEY_IS compares with"),
    "--kernel-type": ("KERNEL_TYPE_AIV_ONLY", "which cores kernels run on that do not say it"),
    "--cce-auto-sync": ("off", "the kernel checker wants flags that the chip's compiler would insert"),
}
REFUSED = {
    "--run-mode": "kernels run on the software NPU's streams alone: leave it out",
    "--enable-simt": "the software NPU has no kernels of SIMT alone: with --npu-arch=dav-3510 a kernel of blocks calls "
    "SIMT functions (VF_CALL, asc_vf_call), which need no option (anycend docs ascendc)",
    "-lib": "libraries of kernels are shared ones, or objects: -c and ar, or ascendc_library(<target> STATIC ...)",
}
REFUSED["--cce-build-static-lib"] = REFUSED["-lib"]
LONG = {  # what GCC has two names for: the value follows, or stands behind an =
    "--assemble": "-S",
    "--comments": "-C",
    "--compile": "-c",
    "--define-macro": "-D",
    "--dependencies": "-M",
    "--imacros": "-imacros",
    "--include": "-include",
    "--include-directory": "-I",
    "--language": "-x",
    "--no-line-commands": "-P",
    "--output": "-o",
    "--preprocess": "-E",
    "--shared": "-shared",
    "--undefine-macro": "-U",
    "--user-dependencies": "-MM",
    "--write-dependencies": "-MD",
    "--write-user-dependencies": "-MMD",
}
_OLDER = re.compile(r"(?:c|gnu)\+\+(?:98|03|0x|11|1y|14|1z|17)")
_KEY = re.compile(r"(?:\d+|0[xX][0-9a-fA-F]+)[uUlL]*|::AscendC::[\w:().]+")
_TAKES_VALUE = {
    "-o",
    "-I",
    "-L",
    "-D",
    "-U",
    "-include",
    "-isystem",
    "-iquote",
    "-imacros",
    "-idirafter",
    "-isysroot",
    "-iprefix",
    "--param",
    "-B",
    "-z",
    "-u",
    "-T",
    "-Xpreprocessor",
    "-Xassembler",
    "-aux-info",
    "-wrapper",
    "-A",
    "-e",
    "-iwithprefix",
    "-iwithprefixbefore",
    "--sysroot",
    "-dumpbase",
    "-dumpbase-ext",
    "-dumpdir",
    "-MF",
    "-MT",
    "-MQ",
    "-Xlinker",
    "-l",
}
_INCLUDES = (
    "-A",
    "-iwithprefix",
    "-iwithprefixbefore",
    "--sysroot",
    "--param",
    "-B",
    "-isysroot",
    "-iprefix",
    "-Xpreprocessor",
    "-I",
    "-D",
    "-U",
    "-include",
    "-imacros",
    "-isystem",
    "-iquote",
    "-idirafter",
)
_LATER = (
    "-c",
    "-C",
    "-d",
    "-S",
    "-E",
    "-P",
    "-M",
    "-l",
    "-L",
    "-Wl,",
    "-shared",
    "-static",
    "-fsyntax-only",
    "-save-temps",
)
_WITH_TEXT = ("-C", "-CC", "-dD", "-dI", "-dN", "-dU")  # of -E: what it leaves beside the code
_ALONE = ("--help", "--version", "--target-help", "-dumpm", "-dumpv", "-dumpf", "-dumps", "-print", "--print", "-###")
_ASKS = (*_ALONE, "-v")


class OptionError(Exception):
    """A sentence about an option."""


def expanded(arguments: list[str], within: tuple[str, ...] = ()) -> list[str]:
    """With what a file has in place of @file, as g++ reads it; where there is no such file, it is a name."""
    result: list[str] = []
    for a in arguments:
        if a.startswith("@") and Path(a[1:]).is_file():
            if a in within:
                raise OptionError(f"{a}: the file names itself")
            text = Path(a[1:]).read_text(encoding="utf-8", errors="surrogateescape")
            try:
                words = shlex.split(text)
            except ValueError as error:
                raise OptionError(f"{a}: {error}".lower()) from None
            if "\0" in text:
                raise OptionError(f"{a}: the file is no text: it has a byte 0")
            result += expanded(words, (*within, a))
        else:
            name, joined, value = a.partition("=")
            result += [LONG.get(name, name), value] if joined and name in LONG else [LONG.get(a, a)]
    return result


class Line:
    """The command line, sorted."""

    def __init__(self, arguments: list[str]):
        self.passed: list[str] = []
        self.sources: list[str] = []
        self.inputs = 0  # files that g++ is given, and what it finds out about them itself
        self.architecture = "dav-2201"
        self.headers: str | None = None
        self.tilings: list[str] = []
        self.kernel_type: str | None = None
        self.auto_sync = True
        self.links = True
        self.depends = False
        chip = None
        own = {
            "--npu-arch": self._architecture,
            "--cce-aicore-arch": self._architecture,
            "--npu-soc": lambda a, value: None,
            "--launch-headers": self._headers,
            "--tiling-data": lambda a, value: self.tilings.append(value),
            "--tiling-key": self._tiling_key,
            "--kernel-type": self._kernel_type,
        }
        arguments = expanded(arguments)
        language, rest = None, iter(arguments)
        for a in rest:
            name, joined, value = a.partition("=")
            if name in own:
                if not joined or not value:
                    following = next(rest, "") if not joined else ""
                    raise OptionError(f"{a} {following}".strip() + f": the value follows an =: {name}={EXAMPLES[name]}")
                own[name](a, value)
                chip = value if name == "--npu-soc" else chip
            elif name in REFUSED:
                raise OptionError(f"{a}: {REFUSED[name]}")
            elif a == "-x":
                language = self._language(next(rest, ""))
            elif a.startswith("-x"):
                language = self._language(a[2:])
            elif a == "--cce-aicore-lang":  # the vendor's other way to say -x cce
                language = "cce"
            elif a == "-help":
                self.passed.append("--help")
            elif a == "-mllvm":
                next(rest, None)
            elif name == "--cce-auto-sync":
                if value not in ("", "on", "off"):
                    raise OptionError(f"{a}: it is on or off")
                self.auto_sync = value != "off"
            elif a in ("--sanitizer", "-forward-options-to-host-compiler") or a.startswith("--cce-"):
                continue
            elif name in ("-std", "--std"):
                value = value if joined else self._value(a, rest)
                if not _OLDER.fullmatch(value):  # the headers need C++20
                    self.passed.append(f"-std={value}")
            elif a in _TAKES_VALUE:
                self.passed += [a, self._value(a, rest)]
            elif a.startswith(("-MF", "-MT", "-MQ")) or (a.startswith("-o") and len(a) > 2):
                at = 2 if a.startswith("-o") else 3
                self.passed += [a[:at], a[at:]]
            elif a == "-" and language in ("asc", "cce"):
                raise OptionError("-: a source is a file, and standard input is none: save it as kernel.asc")
            elif not a.startswith("-") and (a.endswith(".asc") or (language in ("asc", "cce") and _is_source(a))):
                self.sources.append(a)
            else:
                self.passed.append(a)
                self.inputs += a == "-" or not a.startswith("-")
            if a in ("-c", "-S", "-E", "-fsyntax-only", "-M", "-MM"):
                self.links = False
            self.depends = self.depends or a in ("-M", "-MM", "-MD", "-MMD")
        if self.sources:  # their errors are exceptions
            self.passed = [a for a in self.passed if a != "-fno-exceptions"]
        if chip is not None:
            of_chip = _of_chip(chip)  # refused where there is no such chip, though the other option counts
            if not any(a.startswith(("--npu-arch=", "--cce-aicore-arch=")) for a in arguments):
                self.architecture = of_chip
        if not self.sources and not self.inputs:
            self.links = False
            if not any(a.startswith(_ASKS) for a in self.passed):
                raise OptionError(
                    "no input files: bisheng -x asc --npu-arch=dav-2201 -shared -fPIC kernel.asc -o libkernel.so "
                    "makes a library (anycend docs ascendc)"
                )

    def _architecture(self, a: str, value: str) -> None:
        if value not in ARCHITECTURES:
            raise OptionError(f"{a}: no such architecture here; known are {', '.join(ARCHITECTURES)}")
        self.architecture = value

    def _headers(self, _: str, value: str) -> None:
        self.headers = value

    def _tiling_key(self, a: str, value: str) -> None:
        if not _KEY.fullmatch(value):
            raise OptionError(f"{a}: a key is a number from 0 on")
        self.passed.append(f"-DASCENDC_TILING_KEY={value}")

    def _kernel_type(self, a: str, value: str) -> None:
        if value not in KERNEL_TYPES:
            raise OptionError(f"{a}: no such type of kernels; known are {', '.join(KERNEL_TYPES)}")
        self.kernel_type = value

    def _language(self, language: str) -> str:
        if not language:
            raise OptionError("-x: the language is missing: -x asc")
        if language == "aicpu":
            raise OptionError(
                "-x aicpu: the software NPU has no AI CPU whose kernels it could run; host code is -x c++"
            )
        if language not in ("asc", "cce"):
            self.passed += ["-x", language]
        elif "-x" in self.passed:  # what is no source follows
            self.passed += ["-x", "none"]
        return language

    @staticmethod
    def _value(option: str, rest) -> str:
        value = next(rest, None)
        if value is None:
            raise OptionError(f"{option}: its value is missing")
        return value

    def cores(self) -> str | None:
        """Which cores kernels run on that do not say it themselves: --kernel-type, or the architecture's last word."""
        return self.kernel_type or CORES.get(self.architecture.rpartition("-")[2])

    @property
    def asks_help(self) -> bool:
        return "--help" in self.passed

    def macros(self) -> list[str]:
        """What kernels ask of the architecture, and of the core where the option names one."""
        cube = ["-DASCENDC_CUBE_CORE"] if self.architecture.endswith("-cube") else []
        return [f"-D__NPU_ARCH__={ARCHITECTURES[self.architecture]}", *cube]

    def values(self, option: str) -> list[str]:
        return [value for a, value in zip(self.passed, self.passed[1:], strict=False) if a == option]

    def only_rules(self) -> bool:
        """Rules of make are all that is asked for."""
        return bool({"-M", "-MM"} & set(self.passed))

    def asks(self) -> bool:
        """Nothing is compiled: the compiler tells of itself, of what it would do, or (-E -dM) of macros."""
        return {"-E", "-dM"} <= set(self.passed) or any(a.startswith(_ALONE) for a in self.passed)

    def rules(self, source: str) -> Path | None:
        """The file for a source's rules of make (-MF, or beside the output); none if they are printed."""
        named, output = self.values("-MF"), self.values("-o")
        if named:
            return Path(named[-1])
        if self.only_rules():
            return Path(output[-1]) if output else None
        return Path(output[-1] if output else Path(source).name).with_suffix(".d")

    def making(self, source: str, file: Path) -> list[str]:
        """For the preprocessor: rules into this file, for the target that they would have."""
        every = "-MD" if "-MD" in self.passed else "-MMD"
        others = [a for a in self.passed if a in ("-MP", "-MG")]
        told = [v for a, b in zip(self.passed, self.passed[1:], strict=False) if a in ("-MT", "-MQ") for v in (a, b)]
        output = self.values("-o")
        return [
            every,
            "-MF",
            str(file),
            *others,
            *(told or ["-MQ", output[-1] if output else f"{Path(source).stem}.o"]),
        ]

    def preprocessing(self) -> list[str]:
        """What the preprocessor is given: no outputs, libraries, rules, nor other files."""
        result: list[str] = []
        rest = iter(self.passed)
        for a in rest:
            if a in _TAKES_VALUE or a == "-x":
                value = next(rest, "")
                result += [a, value] if a in _INCLUDES else []
            elif "-E" in self.passed and a in _WITH_TEXT:
                result.append(a)
            elif a.startswith("-") and a != "-" and not a.startswith(_LATER):
                result.append(a)
        return result

    def level(self) -> str:
        return next((a for a in reversed(self.passed) if re.fullmatch(r"-O\w*", a)), "")

    def debugged(self) -> bool:
        """A debugger shows what functions were given."""
        return self.level() in ("-O0", "-Og")

    def optimization(self) -> list[str]:
        level = self.level()
        flags = [] if level else ["-O3"]
        if level in ("-O2", "-O3", "-Ofast"):
            flags += ["-ftree-vectorize", "-fvect-cost-model=dynamic"]
        if not any(a.startswith(("-march=", "-mtune=")) for a in self.passed) and level not in ("-O0", "-O1"):
            flags.append("-march=native")
        # A path on which g++ sees a division by 0 goes on, as on the chip, and does not end the process.
        return [*flags, "-fno-isolate-erroneous-paths-dereference"]


def _is_source(name: str) -> bool:
    return Path(name).suffix in (".cpp", ".cc", ".cxx", ".c", ".cce", ".h", ".hpp")


def _of_chip(chip: str) -> str:
    for pattern, architecture in CHIPS.items():
        if re.fullmatch(pattern, chip):
            return architecture
    raise OptionError(
        f"--npu-soc={chip}: no such chip here; known are those of ANYCEND_SOC (anycend docs env), such as Ascend910B3, "
        "Ascend910_9391, Ascend950PR_9599, Ascend910A"
    )

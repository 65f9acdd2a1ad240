"""What is easily mistaken for something else in a source, in its headers and on the command line of `bisheng`."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ascendc.kit import BISHENG, GCC, bisheng

MACROS = (BISHENG.parent.parent / "ascendc" / "include" / "ascendc" / "macros.h").as_posix()
K = "__global__ __aicore__ void k(GM_ADDR x) {}\n"
# Each has one kernel k that is extern "C"; the API's headers are not wanted for that.
SOURCES = {
    "a brace on the next line": f'extern "C"\n        {{\n{K}}}\n',
    "attributes of a namespace": f'namespace a __attribute__((visibility("default"))) {{\nextern "C" {{{K}}}}}\n',
    "an inline namespace": f'inline namespace b {{\nnamespace c::inline d {{\nextern "C" {K}}}\n}}\n',
    "digraphs": 'extern "C" __global__ __aicore__ void k(GM_ADDR x) <% %>\n',
    "a pragma": f'#pragma region it\'s {{\nextern "C" {K}',
    "characters": f"int f(char c) {{ switch (c) case'{{': return u8'{{' == c; return 0; }}\nextern \"C\" {K}",
    "macros that -g3 keeps": f'#define OPEN {{\n#define LAUNCH <<<b, nullptr, s>>>\nextern "C" {K}',
    "a raw string with a line marker": f'char t[] = R"-(\n# 12 "x.h"\nint f() {{)-";\nextern "C" {{\n{K}}}\n',
    "digraphs of brackets": f'int a<:1:>;\nextern "C" {K}',
    "numbers with signs between digits": f"int a = 1'0 + sizeof('{{');\nextern \"C\" {K}",
    "words behind": 'extern "C" __global__ auto k(GM_ADDR x [[maybe_unused]]) noexcept(true) -> void {}\n',
}


@pytest.mark.parametrize("what", SOURCES)
def test_the_kernel_is_found(tmp_path, what):
    (tmp_path / "k.asc").write_text(f'#include "{MACROS}"\n{SOURCES[what]}')
    done = bisheng("-E", "-g3", tmp_path / "k.asc")
    assert done.returncode == 0, done.stderr
    found = re.findall(
        r"uint32_t aclrtlaunch_k\(uint32_t ascendc_blocks, void\* ascendc_stream, void\* ascendc_0\)", done.stdout
    )
    assert len(found) == 1


TOLD = f"""#include "{MACROS}"
#define MINE 12
const char* text = R"(one

# 1 "two"
)";  // a comment
extern "C" {K}"""
SAID = {
    "-E -dM": ("#define MINE 12", "int aclrtlaunch_k("),
    "-E -dD": ("#define MINE 12", "no such text"),
    "-E -P": ('text = R"(one\n\n# 1 "two"\n)"', "a comment"),
    "-E -P -C": ("// a comment", "no such text"),
    "--preprocess": ("aclrtlaunch_k", "#define MINE"),
    "-M": ("k.o: ", "aclrtlaunch_k"),
    "-### -MMD": ("", "aclrtlaunch_k"),
    "--version -c": ("Free Software Foundation", "aclrtlaunch_k"),
    "-print-file-name=libc.so.6": ("libc.so.6", "aclrtlaunch_k"),
}


@pytest.mark.parametrize("given", [*SAID, "-E -dM -o made", "-E -P -o made"])
def test_what_only_prints(tmp_path, monkeypatch, given):
    """Also into a file; macros alone are those of the source, and what makes nothing is asked once."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.asc").write_text(TOLD)
    done = bisheng(*given.split(), "k.asc", env={"ANYCEND_CXX": GCC})
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "made").read_text() if "made" in given else done.stdout
    there, absent = SAID[given.removesuffix(" -o made")]
    assert there in text and absent not in text
    assert not given.startswith("--version") or text.count("Free Software Foundation") == 1
    if "-dM" in given:
        assert all(line.startswith("#") for line in text.splitlines())


def test_long_names_of_options_and_languages_after_each_other(tmp_path):
    (tmp_path / "k.h").write_text("int included = VALUE;\n")
    (tmp_path / "k.cpp").write_text('#include "macros.h"\n__global__ void k();\n')
    (tmp_path / "host.cpp").write_text("int __global__;\n")
    given = ["--define-macro", "VALUE=3", "--include=k.h", "--include-directory", Path(MACROS).parent, f"-I{tmp_path}"]
    given += ["--std", "gnu++20", "--compile", "-x", "asc", tmp_path / "k.cpp", "--output", tmp_path / "k.o"]
    done = bisheng("-O0", *given, env={"ANYCEND_CXX": GCC})
    assert done.returncode == 0, done.stderr
    names = subprocess.run(["nm", tmp_path / "k.o"], capture_output=True, text=True, check=True).stdout
    assert " included\n" in names
    given = ["-shared", "-x", "c++", tmp_path / "host.cpp", "-xasc", tmp_path / "k.cpp", tmp_path / "k.o", "-xc++"]
    given += [tmp_path / "host.cpp", f"-I{Path(MACROS).parent}", "-o", tmp_path / "k.so"]
    done = bisheng("-O0", *given, env={"ANYCEND_CXX": GCC})
    assert "multiple definition of `__global__'" in done.stderr and "k.o: file not recognized" not in done.stderr


def test_what_if_leaves_out_does_not_count(tmp_path):
    """A header that is refused, and the use of the cube."""
    text = f'#include "{MACROS}"\n#if 0\n#include "lib/hccl/hccl.h"\nMmad();\n#endif\n'
    (tmp_path / "k.asc").write_text(f'{text}extern "C" {K}')
    done = bisheng("-E", tmp_path / "k.asc", env={"ANYCEND_CXX": GCC})
    assert done.returncode == 0 and 'launch("k", ::AscendC::detail::kUnstated' in done.stdout, done.stderr
    (tmp_path / "k.asc").write_text(f'{text}#define USE(f) Mma##f()\nvoid f() {{ USE(d); }}\nextern "C" {K}')
    done = bisheng("-E", tmp_path / "k.asc", env={"ANYCEND_CXX": GCC})
    assert done.returncode == 0 and 'launch("k", ::AscendC::detail::kEither' in done.stdout, done.stderr


def test_a_refused_header_that_is_there(tmp_path):
    (tmp_path / "catlass").mkdir()
    (tmp_path / "catlass" / "arch.hpp").write_text("")
    (tmp_path / "k.asc").write_text('\n\n#include "catlass/arch.hpp"\n')
    done = bisheng("-E", tmp_path / "k.asc", env={"ANYCEND_CXX": GCC})
    assert done.returncode == 1
    assert 'k.asc:3: "catlass/arch.hpp" is refused: it is for tensor templates (catlass)' in done.stderr


def test_a_kernel_of_another_source_runs_on_the_cores_that_its_declaration_says(tmp_path):
    text = f'#include "{MACROS}"\n__global__ __cube__ void far();\n__global__ __vector__ void near();\n'
    text += "__global__ void near() {}\nvoid f(void* s) { far<<<1, nullptr, s>>>(); near<<<1, nullptr, s>>>(); }\n"
    (tmp_path / "k.asc").write_text(text + f"void g(void* s) {{ k<<<1{' + 1' * 3000}, nullptr, s>>>(); }}\n")
    done = bisheng("-E", tmp_path / "k.asc", env={"ANYCEND_CXX": f"env {GCC}"})
    assert done.returncode == 0, done.stderr
    assert 'launching("far", KERNEL_TYPE_AIC_ONLY, 1, nullptr, s)' in done.stdout
    assert 'detail::kernel("near", KERNEL_TYPE_AIV_ONLY, 0, ' in done.stdout


def test_a_launch_header_says_why_it_is_none(tmp_path):
    """To what is built beside the source or after it; where nobody has asked for it, bisheng says how it comes."""
    (tmp_path / "k.asc").write_text(f'#include "{MACROS}"\n#include "inner.h"\nextern "C" {K}')
    done = bisheng(f"--launch-headers={tmp_path}/made", "-c", tmp_path / "k.asc", env={"ANYCEND_CXX": GCC})
    assert done.returncode == 1
    (tmp_path / "host.cpp").write_text('#include "aclrtlaunch_k.h"\n')
    host = [GCC, "-fsyntax-only", f"-I{tmp_path}/made", tmp_path / "host.cpp"]
    said = subprocess.run(host, capture_output=True, text=True).stderr
    assert "k.asc:2:10: fatal error: inner.h: No such file" in said, said
    done = bisheng("-fsyntax-only", "-x", "asc", tmp_path / "host.cpp", env={"ANYCEND_CXX": GCC})
    assert 'host.cpp:1: "aclrtlaunch_k.h" is written by bisheng --launch-headers=<folder> when the' in done.stderr


@pytest.mark.parametrize("wrong", range(5))
def test_an_error_in_a_launch_has_its_line(tmp_path, wrong):
    names = ["k", "8", "nullptr", "s", "x"]
    names[wrong] = "unknown"
    callee, blocks, control, stream, argument = names
    text = f"void f(void* s, GM_ADDR x) {{\n  {callee}\n  <<<{blocks},\n{control},\n{stream}>>>\n({argument});\n}}\n"
    (tmp_path / "k.asc").write_text(f'#include "kernel_operator.h"\nextern "C" {K}{text}')
    done = bisheng("-O0", "-fsyntax-only", tmp_path / "k.asc")
    assert re.findall(r"k\.asc:(\d+):\d+: error: ‘?'?(unknown)", done.stderr) == [(str(4 + wrong), "unknown")]


def test_bytes_and_blanks_of_strings_stay(tmp_path):
    """Also where no locale is set."""
    text = 'void f(void* s) { k<<<L("a    b"), nullptr, s>>>(); }\nconst char* t = "\u5b57'.encode() + b'\xe9";\n'
    (tmp_path / "k.asc").write_bytes(text)
    command = [BISHENG, "-E", tmp_path / "k.asc"]
    done = subprocess.run(
        command,
        capture_output=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"},
    )
    assert b'L("a    b")' in done.stdout and b'"\xe5\xad\x97\xe9"' in done.stdout


def test_bytes_stay_where_the_locale_has_another_encoding(tmp_path):
    if shutil.which("localedef") is None:
        pytest.skip("there is no localedef")
    made = ["localedef", "-i", "de_DE", "-f", "ISO-8859-1", tmp_path / "de_DE"]
    done = subprocess.run(made, capture_output=True, text=True)
    if not (tmp_path / "de_DE" / "LC_CTYPE").is_file():
        pytest.skip(f"localedef makes no locale: {done.stderr.strip()}")
    (tmp_path / "\u00fc.h").write_text("int inner;\n", encoding="utf-8")
    (tmp_path / "k.asc").write_bytes('#include "\u00fc.h"\nconst char* t = "\u5b57'.encode() + b'\xe9";\nint a = b;\n')
    environment = {"PATH": "/usr/bin:/bin", "LOCPATH": str(tmp_path), "LC_ALL": "de_DE", "PYTHONUTF8": "0"}
    command = [sys.executable, BISHENG, "-E", tmp_path / "k.asc"]
    done = subprocess.run(command, capture_output=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert b'"\xe5\xad\x97\xe9"' in done.stdout and b"\xc3\xbc.h" in done.stdout
    command[2:3] = ["-fsyntax-only"]
    done = subprocess.run(command, capture_output=True, env=environment)
    assert done.returncode == 1 and b"k.asc:3:" in done.stderr and b"Traceback" not in done.stderr


def test_options_of_a_file_and_options_whose_value_follows(tmp_path):
    (tmp_path / "options").write_text(f'-DUSE=1 -I "{tmp_path}"')
    (tmp_path / "inner.h").write_text("int inner;\n")
    (tmp_path / "k.asc").write_text('#include "inner.h"\n#ifdef USE\nint mine;\n#endif\n')
    made = tmp_path / "k.o"
    done = bisheng(
        f"@{tmp_path}/options", "--param", "max-inline-insns-single=200", "-O0", "-c", tmp_path / "k.asc", "-o", made
    )
    assert done.returncode == 0, done.stderr
    names = subprocess.run(["nm", made], capture_output=True, text=True, check=True).stdout
    assert {"mine", "inner"} <= set(names.split())


def test_a_kernel_of_a_header_of_the_systems_and_of_two_sources(tmp_path):
    folder = tmp_path / "system"
    folder.mkdir()
    (folder / "shared.h").write_text(f'#include "{MACROS}"\nextern "C" inline {K}')
    for name in "ab":
        (tmp_path / f"{name}.asc").write_text('#include "kernel_operator.h"\n#include "shared.h"\n')
    library = tmp_path / "libk.so"
    done = bisheng("-O0", "-shared", "-isystem", folder, tmp_path / "a.asc", tmp_path / "b.asc", "-o", library)
    assert done.returncode == 0, done.stderr
    names = subprocess.run(["nm", "-D", library], capture_output=True, text=True, check=True).stdout
    assert " W aclrtlaunch_k\n" in names


def test_a_source_with_a_tiling_is_preprocessed_once(tmp_path):
    (tmp_path / "k.asc").write_text('extern "C" __global__ void k() { ASCENDC_TILING_DEFAULT all; }\n')
    (tmp_path / "t.h").write_text("BEGIN_TILING_DATA_DEF(T) END_TILING_DATA_DEF\nREGISTER_TILING_DATA_CLASS(K, T)\n")
    (tmp_path / "g++").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/log\nexec {GCC} "$@"\n')
    (tmp_path / "g++").chmod(0o755)
    compiler = {"ANYCEND_CXX": str(tmp_path / "g++")}
    done = bisheng("-E", f"--tiling-data={tmp_path}/t.h", tmp_path / "k.asc", env=compiler)
    assert done.returncode == 0 and " T all; " in done.stdout, done.stderr
    assert len((tmp_path / "log").read_text().splitlines()) == 1


def test_rules_of_make_beside_the_preprocessed_source(tmp_path):
    (tmp_path / "k.asc").write_text('#include "inner.h"\n')
    (tmp_path / "inner.h").write_text("")
    (tmp_path / "t.h").write_text("")
    rules = tmp_path / "k.d"
    done = bisheng("-E", "-MMD", "-MP", "-MF", rules, f"--tiling-data={tmp_path}/t.h", tmp_path / "k.asc")
    assert done.returncode == 0, done.stderr
    assert "t.h" in rules.read_text() and "\n:" not in rules.read_text() and "bisheng." not in rules.read_text()

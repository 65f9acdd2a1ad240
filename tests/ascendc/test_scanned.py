"""What is easily mistaken for something else in a source, in its headers and on the command line of `bisheng`."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.ascendc.kit import BISHENG, bisheng

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


def test_bytes_and_blanks_of_strings_stay(tmp_path):
    """Also where the locale has another encoding than UTF-8."""
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


def test_rules_of_make_beside_the_preprocessed_source(tmp_path):
    (tmp_path / "k.asc").write_text('#include "inner.h"\n')
    (tmp_path / "inner.h").write_text("")
    (tmp_path / "t.h").write_text("")
    rules = tmp_path / "k.d"
    done = bisheng("-E", "-MMD", "-MP", "-MF", rules, f"--tiling-data={tmp_path}/t.h", tmp_path / "k.asc")
    assert done.returncode == 0, done.stderr
    assert "t.h" in rules.read_text() and "\n:" not in rules.read_text() and "bisheng." not in rules.read_text()

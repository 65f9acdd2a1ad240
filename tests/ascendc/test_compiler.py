"""`bisheng`: what it rewrites, what it generates, what it refuses by name. softnpu/ascendc/compiler."""

from __future__ import annotations

import ctypes as C
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from tests.ascendc.kit import BISHENG, KERNELS, SCRATCH, Kernels, bisheng
from tests.runtime.acl import library_folder, run

HEAD = '#include "kernel_operator.h"\nusing namespace AscendC;\n'


def compile_text(folder: Path, text: str, *flags: str):
    source = folder / "k.asc"
    source.write_text(text)
    return bisheng("-fsyntax-only", "-O0", *flags, source)


REFUSED = {
    '#include "lib/hccl/hccl.h"\n': '"lib/hccl/hccl.h" is refused: it is for communication inside kernels',
    '#include "simt_api/asc_fp16.h"\n': '"simt_api/asc_fp16.h" is refused: it is for SIMT functions on numbers of 16',
    "MatmulCallBackFunc f;": "MatmulCallBackFunc is refused: it is for callbacks of the Matmul object",
    "void f() { k<<<8, s>>>(x); }": "a launch is k<<<blocks, l2ctrl, stream>>>(...), and this one has 2 arguments",
    "void f() { k<<<8, nullptr, s>>>; }": "the kernel's arguments are missing after >>>",
    "void f() { <<<8, nullptr, s>>>(); }": "<<< begins a launch that has no kernel before it",
    'extern "C" __global__ __aicore__ void k(GM_ADDR) {}': "k: parameter 0 (GM_ADDR) has no name; give it one",
    'extern "C" __global__ __aicore__ void k(int& x) {}': "k: parameter x is a reference, which no launch can pass",
}


@pytest.mark.parametrize("text", REFUSED)
def test_refused_by_name_and_line(tmp_path, text):
    done = compile_text(tmp_path, HEAD + text)
    assert done.returncode == 1
    assert f"k.asc:3: {REFUSED[text]}" in done.stderr


def test_words_in_comments_and_strings_are_no_code(tmp_path):
    done = compile_text(
        tmp_path,
        HEAD
        + '// ICPU_RUN_KF k<<<1>>>\n/* int4b_t */ const char* s = "ICPU_RUN_KF <<<";\nint x = 1 << 2;\n'
        + "// on \\\nk<<<1, 2>>>\n",
    )
    assert done.returncode == 0, done.stderr


FUNCTIONS = """
extern "C" __global__ __aicore__ void k(GM_ADDR p) {
  LocalTensor<float> t;
  LocalTensor<int8_t> bytes;
  MmadWithSparse(t, t, t, 1);
  Pad(t, t, t);
  DropOut(t, t);
  GetHcclContext<0>();
  Add(bytes, bytes, bytes, 32);
  Scatter(t, t, t.ReinterpretCast<uint32_t>(), 0, 8);
  Cast(bytes, t, RoundMode::CAST_RINT, 8);
  auto nibbles = bytes.ReinterpretCast<int4b_t>();
  DataCopy(nibbles, nibbles, 64);
  nibbles.GetValue(0);
  GlobalTensor<int4b_t>().SetGlobalBuffer(nullptr);
  Add(nibbles, nibbles, nibbles, 64);
  TQue<TPosition::CO2, 1> queue;
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AICORE);
}
"""


def test_functions_and_types_are_refused_by_name(tmp_path):
    done = compile_text(tmp_path, HEAD + FUNCTIONS)
    assert done.returncode == 1
    for sentence in (
        "MmadWithSparse: the software NPU has no such form of the cube's instructions",
        "Pad: the software NPU has no such high-level function",
        "DropOut: the software NPU has no such high-level function",
        "GetHcclContext: the software NPU has no communication inside kernels",
        "Add takes half, float, int16_t, int32_t",
        "Scatter: the chips of this architecture do not have it; dav-3510 has",
        "Cast: from float to float, half, bfloat16_t, int16_t, int32_t, int64_t",
        "DataCopy takes no int4b_t: copy pairs of them as int8_t, and ReinterpretCast<int4b_t> the tensor",
        "GetValue: numbers of 4 bits have no address of their own: ReinterpretCast<int8_t> reaches a pair of them",
        "GlobalTensor takes no int4b_t: pairs of such numbers are copied as int8_t",
        "TQue: the software NPU has the positions VECIN, VECCALC, VECOUT, A1",
        "KERNEL_TYPE_AICORE: the chips of this architecture have no such cores",
    ):
        assert sentence in done.stderr, sentence


INSIDE = """
#pragma once
#if 0
void callee() { threadIdx; }
#endif
struct Tiling { Mc2InitTiling init; Mc2CcTiling one; };
inline int last() { return HCCL_MAX_RANK_NUM; }
"""


def test_what_a_header_of_the_source_uses_is_refused_by_name(tmp_path):
    """In one sentence a reason, after the compiler's errors with their lines; what #if leaves out is no reason."""
    (tmp_path / "inner.h").write_text(INSIDE)
    done = compile_text(tmp_path, HEAD + '#include "inner.h"\n')
    assert done.returncode == 1 and "inner.h:6:" in done.stderr
    sentence = "bisheng: Mc2InitTiling, Mc2CcTiling, HCCL_MAX_RANK_NUM: refused, for communication inside kernels"
    assert [line for line in done.stderr.splitlines() if line.startswith("bisheng")] == [sentence]
    (tmp_path / "inner.h").write_text('#include "catlass/arch/arch.hpp"\n')
    done = compile_text(tmp_path, HEAD + '#include "inner.h"\n')
    assert 'inner.h:1: "catlass/arch/arch.hpp" is refused: it is for tensor templates (catlass)' in done.stderr


def test_errors_of_the_compiler_have_the_sources_lines(tmp_path):
    done = compile_text(
        tmp_path, HEAD + 'extern "C" void f(void* s) {\n  missing<<<1,\n    nullptr, s>>>(1);\n  wrong;\n}\n'
    )
    assert done.returncode == 1
    assert "k.asc:4:" in done.stderr and "k.asc:6:" in done.stderr


def test_a_missing_file_and_a_missing_compiler(tmp_path):
    assert "none.asc: No such file or directory" in bisheng(tmp_path / "none.asc").stderr
    (tmp_path / "k.asc").write_text(HEAD)
    done = bisheng("-c", tmp_path / "k.asc", env={"ANYCEND_CXX": "no-such-g++"})
    assert (
        done.returncode == 1
        and "no-such-g++: no such compiler; install g++, or name another in ANYCEND_CXX" in done.stderr
    )


HOST = """
#include "aclrtlaunch_twice.h"
extern "C" uint32_t go(aclrtStream stream, void* x, uint32_t n) { return ACLRT_LAUNCH_KERNEL(twice)(2, stream, x, n); }
"""
KERNEL = """
extern "C" __global__ __aicore__ void twice(__gm__ uint8_t* x, uint32_t n) {
  TPipe pipe;
  TBuf<> buffer;
  pipe.InitBuffer(buffer, n * sizeof(float));
  GlobalTensor<float> g;
  g.SetGlobalBuffer((__gm__ float*)x + n * GetBlockIdx());
  auto t = buffer.Get<float>();
  DataCopy(t, g, n);
  PipeBarrier<PIPE_ALL>();
  Add(t, t, t, n);
  PipeBarrier<PIPE_ALL>();
  DataCopy(g, t, n);
}
"""


UNTILED = """
extern "C" __global__ __aicore__ void untiled(GM_ADDR x, GM_ADDR tiling) {
  GET_TILING_DATA(sizes, tiling);
}
"""


def test_a_tiling_whose_type_nobody_says_is_refused_with_the_remedies(tmp_path):
    done = compile_text(tmp_path, HEAD + UNTILED)
    assert done.returncode == 1 and "k.asc:5:" in done.stderr
    assert done.stderr.count("error:") == 1
    assert (
        "GET_TILING_DATA: the type of the tiling is missing: give bisheng --tiling-data=<op_host/..._tiling.h>, "
        "write REGISTER_TILING_DEFAULT(<struct>) in the kernel, or take GET_TILING_DATA_WITH_STRUCT" in done.stderr
    )
    (tmp_path / "t.h").write_text(
        "BEGIN_TILING_DATA_DEF(T) TILING_DATA_FIELD_DEF(int, n) END_TILING_DATA_DEF\n"
        "REGISTER_TILING_DATA_CLASS(Untiled, T)"
    )
    done = compile_text(tmp_path, HEAD + UNTILED, f"--tiling-data={tmp_path}/t.h")
    assert done.returncode == 0, done.stderr
    (tmp_path / "t.h").write_text("BEGIN_TILING_DATA_DEF(T) END_TILING_DATA_DEF\nREGISTER_TILING_DATA_CLASS(Other, T)")
    done = compile_text(tmp_path, HEAD + UNTILED, f"--tiling-data={tmp_path}/t.h")
    assert done.returncode == 1 and "GET_TILING_DATA: the type of the tiling is missing" in done.stderr


TILED = """
namespace { constexpr int32_t INT_MAX = 2147483647; }
struct Sizes { uint32_t n, more; };
extern "C" __global__ __aicore__ void tiled(GM_ADDR x, GM_ADDR tiling, uint32_t blockDim, uint32_t stream) {
  REGISTER_TILING_DEFAULT(Sizes);
  GET_TILING_DATA(sizes, tiling);
  GET_TILING_DATA_WITH_STRUCT(Sizes, again, tiling);
  GlobalTensor<uint32_t> g;
  g.SetGlobalBuffer((__gm__ uint32_t*)x);
  static_assert(min(1, 2) + max(1u, 3u) == 4 && INT_MAX > 0);
  g.SetValue(0, sizes.n * 1000 + again.more * 100 + blockDim * 10 + stream);
}
"""


def test_tiling_from_memory_in_a_file_with_a_byte_order_mark(tmp_path, device):
    """The kernel's parameters have the names that its launch function would give to its own."""
    text = HEAD.replace("kernel_operator.h", "kernel_operator_intf.h") + TILED
    (tmp_path / "k.asc").write_text(text, encoding="utf-8-sig")
    done = bisheng("-O0", "-shared", f"--launch-headers={tmp_path}", tmp_path / "k.asc", "-o", tmp_path / "libk.so")
    assert done.returncode == 0, done.stderr
    kernels = Kernels(tmp_path / "libk.so", device)
    x, _ = kernels.launch("tiled", 1, np.zeros(1, np.uint32), np.array([4, 3], np.uint32), scalars=(2, 1))
    assert x[0] == 4321


def assert_doubles(library: Path, device, factor: int = 2) -> None:
    x = np.arange(128, dtype=np.float32)
    pointer = device.put(x)
    assert C.CDLL(str(library)).go(C.c_void_p(device.stream), C.c_void_p(pointer), 64) == 0
    assert device.finish() == ""
    np.testing.assert_array_equal(device.get(pointer, x), x * factor)
    device.acl.aclrtFree(pointer)


def test_a_launch_header_for_a_host_file_of_its_own(tmp_path, device):
    """The kernel's object, and a host file that plain g++ compiles, in one library."""
    (tmp_path / "k.cpp").write_text(HEAD + KERNEL)
    (tmp_path / "host.cpp").write_text(HOST)
    done = bisheng("-x", "asc", "-O0", "-c", f"--launch-headers={tmp_path}", tmp_path / "k.cpp", "-o", tmp_path / "k.o")
    assert done.returncode == 0, done.stderr
    includes = ["-I", str(tmp_path), "-I", str(BISHENG.parent.parent / "include")]
    subprocess.run(
        [shutil.which("g++"), "-fPIC", "-c", *includes, tmp_path / "host.cpp", "-o", tmp_path / "host.o"], check=True
    )
    done = bisheng("-shared", tmp_path / "k.o", tmp_path / "host.o", "-o", tmp_path / "libtwice.so")
    assert done.returncode == 0, done.stderr
    assert_doubles(tmp_path / "libtwice.so", device)


CMAKE = """
cmake_minimum_required(VERSION 3.16)
project(twice CXX)
include(${{ROOT}}/compiler/tikcpp/ascendc_kernel_cmake/ascendc.cmake)
ascendc_library(kernels {kind} k.cpp other/k.cpp)
add_library(host SHARED host.cpp)
target_link_libraries(host PRIVATE kernels)
"""


def built_by_cmake(folder: Path, kind: str, kernel: str = KERNEL) -> Path:
    """A library whose function `go` launches the kernel of an ascendc_library."""
    cmake = shutil.which("cmake")
    if cmake is None:
        pytest.skip("there is no cmake")
    (folder / "k.cpp").write_text(HEAD + kernel)
    (folder / "inner.h").write_text("Add(t, t, t, n)")
    (folder / "other").mkdir()
    (folder / "other" / "k.cpp").write_text(HEAD + KERNEL.replace("twice", "doubled"))
    (folder / "host.cpp").write_text(HOST)
    (folder / "CMakeLists.txt").write_text(CMAKE.format(kind=kind))
    build = folder / "build"
    root = BISHENG.parent.parent
    configure = [cmake, "-S", folder, "-B", build, f"-DROOT={root}", "-DCMAKE_POSITION_INDEPENDENT_CODE=ON"]
    for command in (configure, [cmake, "--build", build]):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    return build / "libhost.so"


@functools.cache
def library_of_cmake(kind: str) -> Path:
    """Of the plain kernel, once a process: tests/conformance/test_extension.py launches it, too."""
    return built_by_cmake(Path(tempfile.mkdtemp(dir=SCRATCH.name)), kind)


@pytest.mark.parametrize("kind", ["SHARED", pytest.param("STATIC", marks=pytest.mark.full)])
def test_a_library_of_kernels_in_cmake(device, kind):
    assert_doubles(library_of_cmake(kind), device)


def cmake_build(folder: Path) -> None:
    done = subprocess.run([shutil.which("cmake"), "--build", folder / "build"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.full
@pytest.mark.parametrize("generator", ["Ninja", "Unix Makefiles"])
def test_a_library_of_kernels_is_built_again_when_a_header_changes(tmp_path, monkeypatch, generator):
    """Also when what changes is a kernel's parameters, which aclrtlaunch_<kernel>.h and so the host's side follow."""
    monkeypatch.setenv("CMAKE_GENERATOR", generator)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if shutil.which("ninja" if generator == "Ninja" else "make") is None:
        pytest.skip(f"there is nothing for {generator}")
    folder = tmp_path / "a folder"
    folder.mkdir()
    kernel = KERNEL.replace("Add(t, t, t, n)", '#include "inner.h"\n')
    built = built_by_cmake(folder, "SHARED", kernel)

    def times(factor: int) -> None:  # in a process of its own, which has no library of that name yet
        names = "from tests.ascendc.kit import Device\nfrom tests.ascendc.test_compiler import assert_doubles\n"
        run(f"{names}assert_doubles({str(built)!r}, Device(), {factor})")

    times(2)
    objects = sorted((folder / "build").rglob("*.o"))
    before = [o.stat().st_mtime_ns for o in objects]
    cmake_build(folder)
    assert [o.stat().st_mtime_ns for o in objects] == before  # nothing changed
    (folder / "inner.h").write_text("Muls(t, t, 4.0f, n)")
    cmake_build(folder)
    times(4)
    (folder / "k.cpp").write_text(HEAD + kernel.replace("uint32_t n) {", "double all) {\n  const uint32_t n = all;"))
    cmake_build(folder)
    times(4)


def test_rules_of_make_name_the_source(tmp_path):
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "inner.h").write_text("")
    (tmp_path / "a b" / "k.asc").write_text('#include "inner.h"\n')
    done = bisheng("-MM", tmp_path / "a b" / "k.asc")
    source, header = (str(tmp_path / "a b" / name).replace(" ", "\\ ") for name in ("k.asc", "inner.h"))
    assert done.stdout.replace("\\\n", "").split(maxsplit=1)[0] == "k.o:" and "bisheng." not in done.stdout
    assert source in done.stdout and header in done.stdout
    bisheng("-MMD", "-c", tmp_path / "a b" / "k.asc", "-o", tmp_path / "k.o")
    bisheng("-MMD", f"-MF{tmp_path}/joined.d", "-c", tmp_path / "a b" / "k.asc", f"-o{tmp_path}/k.o")
    for name in ("k.d", "joined.d"):
        rules = (tmp_path / name).read_text()
        assert source in rules and header in rules and "bisheng." not in rules
    bisheng("-MD", "-shared", tmp_path / "k.o", "-o", tmp_path / "k.so")  # as flags of compiling, given again to link


ON_950 = """
from pathlib import Path
import numpy as np
from tests.ascendc.kit import Call, Device, Kernels
device = Device()
print(Kernels(Path({old!r}), device).launch("chain", 1, np.ones(8, "i4"), check=False))
offsets = np.random.default_rng(1).permutation(64).astype(np.uint32)
a, wanted = np.arange(64, dtype="f4"), np.zeros(72, "f4")
wanted[offsets + 8] = a
d, call = np.zeros(72, "f4"), Call(mode=32, count=64)
got = Kernels(Path({new!r}), device).instruction("Scatter_float", d, a, offsets * 4, call)
np.testing.assert_array_equal(got, wanted)
print("scattered")
"""


def test_another_chip(compiled, tmp_path):
    """A kernel of another architecture is refused; one of the 950's has Scatter."""
    new = tmp_path / "libnew.so"
    done = bisheng("-x", "asc", "-O0", "-shared", "--npu-arch=dav-3510", KERNELS / "convert.asc", "-o", new)
    assert done.returncode == 0, done.stderr
    old = compiled("copies").library._name
    out = run(ON_950.format(old=old, new=str(new)), ANYCEND_SOC="Ascend950").stdout
    assert "chain: compiled for dav-2201, and Ascend950PR_9599 is dav-3510: compile with --npu-arch=dav-3510" in out
    assert "scattered" in out


def test_the_library_of_the_runtime_shows_only_its_own_functions():
    names = subprocess.run(
        ["nm", "-D", "--defined-only", library_folder() / "libsoftnpu_ascendc.so"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert {line.split()[-1] for line in names.splitlines()} == {
        f"softnpuAscendc{name}"
        for name in (
            "Launch",
            "Meet",
            "Signal",
            "Await",
            "Arrive",
            "ThisThread",
            "LockAtomics",
            "UnlockAtomics",
            "LockUses",
            "UnlockUses",
            "UseGlobal",
            "Hear",
            "Tell",
            "Owned",
            "GetChip",
            "Array",
            "GiveWay",
            "Message",
            "Recent",
        )
    }

"""The command line of `bisheng`: the vendor's documented options, and sentences about what is not understood."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.ascendc.kit import BISHENG, bisheng

ARCHITECTURES = "dav-2201, dav-c220, dav-c220-vec, dav-c220-cube, dav-3510"
TYPES = "KERNEL_TYPE_AIV_ONLY, KERNEL_TYPE_AIC_ONLY, KERNEL_TYPE_MIX_AIV_1_0"
REFUSED = {
    "": "no input files: bisheng -x asc --npu-arch=dav-2201 -shared -fPIC kernel.asc -o libkernel.so makes a library",
    "-O2 -shared": "no input files: ",
    "--npu-arch=dav-1 k.asc": f"--npu-arch=dav-1: no such architecture here; known are {ARCHITECTURES}",
    "--cce-aicore-arch=foo k.asc": f"--cce-aicore-arch=foo: no such architecture here; known are {ARCHITECTURES}",
    "--npu-arch dav-2201 k.asc": f"--npu-arch dav-2201: the value follows an =: --npu-arch=<one of {ARCHITECTURES}",
    "--npu-arch= k.asc": "--npu-arch=: the value follows an =: --npu-arch=<one of dav-2201",
    "k.asc --tiling-key": "--tiling-key: the value follows an =: --tiling-key=<number>",
    "--tiling-key=first k.asc": "--tiling-key=first: a key is a number from 0 on",
    "--kernel-type=foo k.asc": f"--kernel-type=foo: no such type of kernels; known are {TYPES}",
    "--kernel-type KERNEL_TYPE_AIC_ONLY k.asc": "--kernel-type KERNEL_TYPE_AIC_ONLY: the value follows an =: --kern",
    "--npu-soc=Ascend911 k.asc": "--npu-soc=Ascend911: no such chip here; known are those of ANYCEND_SOC",
    "--npu-soc=Ascend911 --npu-arch=dav-2201 k.asc": "--npu-soc=Ascend911: no such chip here; known are those of",
    "--cce-auto-sync=maybe k.asc": "--cce-auto-sync=maybe: it is on or off",
    "--run-mode=sim k.asc": "--run-mode=sim: kernels run on the software NPU's streams alone: leave it out",
    "--enable-simt k.asc": "--enable-simt: the software NPU has no kernels of SIMT alone: with --npu-arch=dav-3510 a",
    "-lib k.asc": "-lib: libraries of kernels are shared ones, or objects: -c and ar, or ascendc_library(",
    "--cce-build-static-lib k.asc": "--cce-build-static-lib: libraries of kernels are shared ones",
    "-x aicpu k.cpp": "-x aicpu: the software NPU has no AI CPU",
    "k.cpp -x": "-x: the language is missing: -x asc",
    "k.asc -o": "-o: its value is missing",
    "-x asc -c -": "-: a source is a file, and standard input is none: save it as kernel.asc",
}


@pytest.mark.parametrize("given", REFUSED)
def test_what_is_refused_names_option_value_and_what_is_allowed(given):
    done = bisheng(*given.split(), env={"ANYCEND_CXX": "false"})
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"bisheng: {REFUSED[given]}") and done.stderr.count("\n") == 1, done.stderr


ASKED = """#if __NPU_ARCH__ == 2201 && defined(__DAV_C220_CUBE__)
cube_2201
#elif __NPU_ARCH__ == 2201 && defined(__DAV_C220_VEC__)
vector_2201
#else
other __NPU_ARCH__
#endif
"""
KERNEL = 'extern "C" __global__ __aicore__ void k(GM_ADDR x) {}\n'
TAKEN = {
    "--npu-arch=dav-2201": ("vector_2201", "::AscendC::detail::kUnstated"),
    "--cce-aicore-arch=dav-c220-vec": ("vector_2201", "KERNEL_TYPE_AIV_ONLY"),
    "--cce-aicore-arch=dav-c220-cube": ("cube_2201", "KERNEL_TYPE_AIC_ONLY"),
    "--cce-aicore-arch=dav-c220-cube --kernel-type=KERNEL_TYPE_MIX_AIC_1_2": ("cube_2201", "KERNEL_TYPE_MIX_AIC_1_2"),
    "--npu-soc=Ascend910B3": ("vector_2201", "::AscendC::detail::kUnstated"),
    "--npu-soc=Ascend910_9391": ("vector_2201", "::AscendC::detail::kUnstated"),
    "--npu-soc=Ascend950PR_9599": ("other 3510", "::AscendC::detail::kUnstated"),
    "--npu-soc=ascend910b1": ("vector_2201", "::AscendC::detail::kUnstated"),
    "--npu-soc=ascend910b": ("vector_2201", "::AscendC::detail::kUnstated"),
    "--npu-soc=Ascend910A": ("other 1001", "::AscendC::detail::kUnstated"),
    "--npu-soc=Ascend910A --npu-arch=dav-3510": ("other 3510", "::AscendC::detail::kUnstated"),
}


@pytest.mark.parametrize("given", TAKEN)
def test_architectures_and_the_cores_that_they_mean(tmp_path, given):
    """As the compiler is given it, without the API's headers: what kernels ask of it, and the launch that is made."""
    macros = (BISHENG.parent.parent / "ascendc" / "include" / "ascendc" / "macros.h").as_posix()
    (tmp_path / "k.asc").write_text(f'#include "{macros}"\n{ASKED}{KERNEL}')
    done = bisheng("-E", *given.split(), tmp_path / "k.asc")
    assert done.returncode == 0, done.stderr
    text = " ".join(re.sub(r"^#.*$", "", done.stdout, flags=re.MULTILINE).split())
    asked, cores = TAKEN[given]
    assert asked in text and f'launch("k", {cores},' in text, text[-600:]


def test_options_that_mean_nothing_here_are_left_out(tmp_path):
    """A C++ standard before that of the headers, in the vendor's two dashes, too; what steers its code generation."""
    (tmp_path / "k.asc").write_text("static_assert(__cplusplus >= 202002L && __cpp_exceptions);\n")
    for given in ("-std=c++17", "--std=c++17", "-std=gnu++14", "--sanitizer", "--cce-auto-sync", "--cce-auto-sync=on",
                  "-mllvm -cce-aicore-stack-size=0x8000", "--cce-auto-sync-log=log", "--cce-aicore-lang",
                  "-forward-options-to-host-compiler", "-fno-exceptions"):  # fmt: skip
        done = bisheng("-fsyntax-only", *given.split(), tmp_path / "k.asc")
        assert (done.returncode, done.stderr) == (0, ""), given
    done = bisheng("-fsyntax-only", "-std=c++71", tmp_path / "k.asc")
    assert done.returncode == 1 and "-std=c++71" in done.stderr


@pytest.mark.parametrize(
    "text, said",
    [("-O0 @{0}", "the file names itself"), ("'k.asc", "no closing quotation"), ("k\0.asc", "the file is no text")],
)
def test_a_file_of_options_that_is_none_is_named(tmp_path, text, said):
    (tmp_path / "o").write_text(text.format(tmp_path / "o"))
    done = bisheng(f"@{tmp_path}/o", env={"ANYCEND_CXX": "false"})
    assert (done.returncode, done.stdout) == (1, "") and done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"bisheng: @{tmp_path}/o: {said}"), done.stderr


def test_the_types_of_kernels_are_those_of_the_header():
    text = (BISHENG.parent.parent / "ascendc" / "include" / "ascendc" / "macros.h").read_text()
    declared = re.search(r"enum KernelMetaType \{(.*?)\}", text, re.DOTALL).group(1).replace(",", " ").split()
    done = bisheng("--kernel-type=", "k.asc")
    assert re.findall(r"KERNEL_TYPE_\w+", done.stderr) == [n for n in declared if n != "KERNEL_TYPE_AICORE"]


def test_help_begins_with_the_options_of_its_own():
    for given in ("--help", "-help"):
        text = bisheng(given, env={}).stdout
        own, of_gcc = text.split("\n\n", 1)
        for option in ("--npu-arch=", "--npu-soc=", "--launch-headers=", "--tiling-data=", "--tiling-key=", "-x asc"):
            assert option in own, text[:2000]
        assert "Usage: " in of_gcc
    done = subprocess.run([BISHENG.with_name("opp_build"), "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    for option in ("-D", "-U", "-O", "-g", "-I", "-fsanitize"):
        assert f"{option}" in done.stdout, done.stdout


def test_what_asks_the_compiler_alone_reaches_it():
    for given in ("--version", "--help", "-help", "-dumpmachine"):
        done = bisheng(given, env={})
        assert done.returncode == 0 and done.stdout, done.stderr

"""What CMakeLists.txt say of a library of kernels besides sources. compiler/ascendc.cmake; more in test_compiler.py."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.ascendc.kit import BISHENG

CMAKE_VALUES = """
cmake_minimum_required(VERSION 3.16)
project(values CXX)
set(SOC_VERSION Ascend950PR_9589 CACHE STRING "the chip")
include(${ROOT}/compiler/tikcpp/ascendc_kernel_cmake/ascendc.cmake)
ascendc_library(kernels STATIC k.cpp)
ascendc_include_directories(kernels PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/far "a folder")
ascendc_compile_definitions(kernels PRIVATE -DPLAIN FACTOR=3 $<$<CONFIG:none>:NONE> $<$<NOT:$<CONFIG:none>>:LAST=6>)
ascendc_compile_options(kernels PRIVATE -O0 "SHELL:-include stddef.h" -forward-options-to-host-compiler -DHOST)
"""
VALUES = """
#include "far.h"
#include "near.h"
static_assert(__NPU_ARCH__ == 3510 && FACTOR * NEAR * FAR == LAST);
#if !defined(PLAIN) || !defined(HOST) || defined(NONE)
#error definitions
#endif
"""


def test_folders_definitions_options_and_the_chip_of_a_library_in_cmake(tmp_path):
    """The functions come after the library, in a CMakeLists.txt that sets the chip as public ones do."""
    cmake = shutil.which("cmake")
    if cmake is None:
        pytest.skip("there is no cmake")
    for folder, text in (("far", "#define FAR 2\n"), ("a folder", "#define NEAR 1\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / ("far.h" if folder == "far" else "near.h")).write_text(text)
    (tmp_path / "k.cpp").write_text(VALUES)
    (tmp_path / "CMakeLists.txt").write_text(CMAKE_VALUES)
    configure = [cmake, "-S", tmp_path, "-B", tmp_path / "build", f"-DROOT={BISHENG.parent.parent}"]
    for command in (configure, [cmake, "--build", tmp_path / "build"]):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    for call, sentence in {
        "ascendc_compile_options(other PRIVATE -g)": "ascendc_compile_options(other): there is no such library of",
        "ascendc_compile_definitions(kernels X=1)": "ascendc_compile_definitions(kernels X=1): the second argument is",
    }.items():
        (tmp_path / "CMakeLists.txt").write_text(CMAKE_VALUES + call)
        done = subprocess.run(configure, capture_output=True, text=True)
        assert done.returncode != 0 and sentence in " ".join(done.stderr.split()), done.stderr

"""Compiles kernels with the software NPU's `bisheng` and runs them on a stream. The oracle is oracle.py."""

from __future__ import annotations

import ctypes as C
import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from tests.runtime.acl import Acl, library_folder

KERNELS = Path(__file__).parent / "kernels"
BISHENG = library_folder().parent / "bin" / "bisheng"

# Compiling is most of these tests' time, and -O0 halves it; tests/ascendc/test_flow.py compiles as users do.
FLAGS = ["-O0", "-Wall", "-Wextra", "-Werror", "-shared"]
SCRATCH = tempfile.TemporaryDirectory(prefix="anycend-ascendc-")  # what is made once a process


class Call(C.Structure):
    """What common.h calls Call."""

    _fields_ = [
        ("form", C.c_int32),
        ("count", C.c_int32),
        ("mask", C.c_uint64 * 2),
        ("repeats", C.c_int32),
        ("dst_blk", C.c_int32),
        ("a_blk", C.c_int32),
        ("b_blk", C.c_int32),
        ("dst_rep", C.c_int32),
        ("a_rep", C.c_int32),
        ("b_rep", C.c_int32),
        ("scalar", C.c_float),
        ("mode", C.c_int32),
        ("dst_bytes", C.c_uint32),
        ("a_bytes", C.c_uint32),
        ("b_bytes", C.c_uint32),
    ]


GCC = os.environ.get("ANYCEND_CXX", "g++")
ROOM = BISHENG.resolve().parent.parent / "ascendc"
CHIP = "--npu-arch=dav-3510"  # the one beside the usual whose header is compiled once, too


@functools.cache
def compiler(*flags: str) -> str:
    """A g++ that has kernel_operator.h compiled already, at -O0 and with these flags: for sources that include it first
    and themselves. With flags that mean another header, g++ reads the header as ever.
    """
    folder = Path(tempfile.mkdtemp(dir=SCRATCH.name))
    precompile(folder, "include/kernel_operator.h", "-DASCENDC_WORDS", *flags)
    return script(folder, f'exec {GCC} -iquote "{folder}" "$@"')


@functools.cache
def package_compiler() -> str:
    """The same for opp_build: the kernels' header with a key, and the host side's before each source of that side."""
    kernels = compiler("--tiling-key=::AscendC::detail::core().tiling_key")
    folder = Path(tempfile.mkdtemp(dir=SCRATCH.name))
    precompile(folder, "host/host.h", f"-I{ROOM / 'host'}")
    host = f'case "$*" in *-I{ROOM}/host*) set -- -include "{folder}/host.h" "$@" ;; esac\n'
    return script(folder, f'{host}exec "{kernels}" "$@"')


def precompile(folder: Path, path: str, *flags: str) -> None:
    header = folder / Path(path).name
    header.write_text(f'#include "{ROOM / path}"\n')
    # With warnings, which are not given of headers where kernels are compiled.
    made = ["-O0", "-Wall", "-Wextra", "-Werror", "-c", *flags, "-x", "c++-header", header]
    made += ["-o", folder / f"{header.name}.gch"]
    done = bisheng(*made, env={"ANYCEND_CXX": GCC})
    assert done.returncode == 0, done.stderr


def script(folder: Path, text: str) -> str:
    (folder / "g++").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "g++").chmod(0o755)
    return str(folder / "g++")


def bisheng(*arguments: str | Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess:
    command = [sys.executable, str(BISHENG), *map(str, arguments)]
    environment = {**os.environ, **(env or {"ANYCEND_CXX": compiler(*(a for a in arguments if a == CHIP))})}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def build(source: Path, folder: Path, *flags: str) -> Path:
    library = folder / f"lib{source.stem}.so"
    done = bisheng("-x", "asc", *FLAGS, *flags, source, "-o", library)
    assert done.returncode == 0, done.stderr
    return library


class Device:
    """Memory and a stream of device 0, with numpy arrays on the host's side."""

    def __init__(self) -> None:
        self.acl = Acl().start()
        self.stream = self.acl.stream()

    def put(self, array: np.ndarray) -> int:
        pointer = self.acl.malloc(max(array.nbytes, 1))
        if array.nbytes:
            self.acl.upload(pointer, array.tobytes())
        return pointer

    def get(self, pointer: int, like: np.ndarray) -> np.ndarray:
        return np.frombuffer(self.acl.download(pointer, like.nbytes), like.dtype).reshape(like.shape).copy()

    def finish(self) -> str:
        """Waits for the stream. The error's text; empty if there is none."""
        if self.acl.raw.aclrtSynchronizeStream(self.stream) == 0:
            return ""
        text = self.acl.message()
        self.acl.raw.aclrtDestroyStream(self.stream)
        self.stream = self.acl.stream()
        return text or "an error without a text"


class Kernels:
    """A compiled file of kernels."""

    def __init__(self, library: Path, device: Device):
        self.library = C.CDLL(str(library))
        self.device = device

    def launch(
        self, kernel: str, blocks: int, *arrays, scalars: tuple = (), check: bool = True
    ) -> list[np.ndarray] | str:
        """Runs aclrtlaunch_<kernel>; returns the arrays afterwards, or without `check` the error's text."""
        pointers = [self.device.put(a) for a in arrays]
        function = getattr(self.library, f"aclrtlaunch_{kernel}")
        code = function(C.c_uint32(blocks), C.c_void_p(self.device.stream), *map(C.c_void_p, pointers), *scalars)
        error = self.device.acl.message() if code else self.device.finish()
        after = [self.device.get(p, a) for p, a in zip(pointers, arrays, strict=True)]
        for p in pointers:
            self.device.acl.aclrtFree(p)
        if not check:
            return error
        assert error == "", error
        return after

    def instruction(self, name: str, d: np.ndarray, a: np.ndarray, b: np.ndarray, call: Call) -> np.ndarray:
        """The buffer d after the instruction, which common.h knows by name."""
        call.dst_bytes, call.a_bytes, call.b_bytes = d.nbytes, a.nbytes, b.nbytes
        pointers = [self.device.put(x) for x in (d, a, b)]
        code = self.library.run_instruction(
            name.encode(), C.c_void_p(self.device.stream), *map(C.c_void_p, pointers), C.byref(call)
        )
        assert code == 0, f"{name}: {code} {self.device.acl.message()}"
        error = self.device.finish()
        assert error == "", f"{name}: {error}"
        result = self.device.get(pointers[0], d)
        for p in pointers:
            self.device.acl.aclrtFree(p)
        return result
